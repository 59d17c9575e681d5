"""A folder of a store that is written to: what there is in it, small objects, uploads.

Contract: any thread, one at a time. Errors are those of ``store_errors``, in the words of somebody who writes.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

from headrace.errors import shown_url
from headrace.storage.hidden_folder import HiddenFolder
from headrace.storage.object_store import facts_of, locate
from headrace.storage.upload import Upload, failure

if TYPE_CHECKING:
    from headrace.storage.object_store import ObjectFacts
    from headrace.storage.remote_path import RemotePath

__all__ = ["ObjectFolder", "check_writable", "named_in_store", "no_room", "upload_folder"]

_WRITABLE = ("s3", "gs", "az")
_TEMPORARY = "headrace-upload"


class ObjectFolder:
    """The folder that an object lies in, or will lie in.

    Args:
        path: URL of the object; of a set, with a number or a star in its name.

    Attributes:
        url: of the folder, without a slash at its end.
        name: of the object in it.
    """

    def __init__(self, path: RemotePath) -> None:
        self.url, _, self.name = str(path).rpartition("/")
        self._store, key = _store_of(path)
        self._home = key.rpartition("/")[0]

    def key(self, name: str) -> str:
        """The key of an object of the folder."""
        return f"{self._home}/{name}" if self._home else name

    def url_of(self, name: str) -> str:
        """Its URL."""
        return f"{self.url}/{name}"

    def existing(self, names: re.Pattern[str], fixed: str) -> dict[str, ObjectFacts]:
        """The objects whose names fit, by name; ``fixed`` is what all such names begin with."""
        begin, found = self.key(fixed), {}
        try:
            for block in self._store.list(self._home or None, offset=begin[:-1] or None):
                for one in block:
                    name = one["path"].removeprefix(self._home).lstrip("/")
                    if names.fullmatch(name):
                        found[name] = facts_of(one["path"], one)
                if block and block[-1]["path"] > begin and not block[-1]["path"].startswith(begin):
                    break  # stores list by name
        except Exception as error:
            raise failure(self.url_of(self.name), error) from None
        return found

    def head(self, name: str) -> ObjectFacts | None:
        """What the store says of an object; None when there is none."""
        try:
            return facts_of(self.key(name), self._store.head(self.key(name)))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise failure(self.url_of(name), error) from None

    def read(self, name: str, most: int) -> bytes | None:
        """A small object; None when there is none."""
        facts = self.head(name)
        if facts is None:
            return None
        try:
            size = min(facts.size_bytes, most)
            return bytes(self._store.get_range(self.key(name), start=0, length=size)) if size else b""
        except FileNotFoundError:
            return None
        except Exception as error:
            raise failure(self.url_of(name), error) from None

    def put(self, name: str, data: bytes) -> None:
        """Make a small object, or replace it, in one step."""
        try:
            self._store.put(self.key(name), data, use_multipart=False)
        except Exception as error:
            raise failure(self.url_of(name), error) from None

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        try:
            self._store.delete(self.key(name))
        except FileNotFoundError:
            pass
        except Exception as error:
            raise failure(self.url_of(name), error) from None

    def upload(self, name: str, path: str) -> Upload:
        """A file of this machine that is to become an object; it is not yet sent."""
        return Upload(self._store, self.key(name), self.url_of(name), path)


def upload_folder() -> HiddenFolder:
    """A folder below the temporary one (``TMPDIR``) for files that will be uploaded, which nobody else may read."""
    folder = HiddenFolder(os.path.join(tempfile.gettempdir(), _TEMPORARY))
    os.chmod(folder.path, 0o700)
    return folder


def named_in_store(value: object, path: RemotePath) -> object:
    """A text of an error, with the folder of a URL in place of such a temporary one."""
    if not isinstance(value, str):
        return value
    hidden = re.escape(os.path.join(tempfile.gettempdir(), f".{_TEMPORARY}."))
    return re.sub(hidden + r"[0-9a-f]{8}\.unfinished", lambda _: str(path).rpartition("/")[0], value)


def no_room(problem: str) -> OSError:
    """What to say when the temporary folder is full."""
    fix = "Make room, or set TMPDIR to a folder on a larger disk"
    return OSError(errno.ENOSPC, f"{problem}. {fix}", tempfile.gettempdir())


def check_writable(path: RemotePath, advice: str) -> None:
    """ValueError for a URL of a kind that nothing can be written to."""
    if path.scheme not in _WRITABLE:
        raise ValueError(f"{shown_url(path)}: nothing can be written to {path.scheme}://; {advice}")


def _store_of(path: RemotePath) -> tuple[Any, str]:
    """The store of a URL, for writing, and the key of the object in it."""
    known = ", ".join(f"{one}://" for one in _WRITABLE)
    check_writable(path, f"write to a path, or to {known}")
    store, key = locate(path)
    return store.for_writing, key
