"""Objects that a dataset in a store consists of: made as files of this machine, then uploaded together.

Contract: one thread. The files are written in a hidden folder below the usual temporary one (``TMPDIR``), which nobody
else may read. Then each is uploaded and proven; what makes the dataset visible, the object of its own name, comes last.
What fails, Ctrl-C included, is taken back: objects that this upload made are removed, and one that replaced another
stays. The folder goes in any case; what ``kill -9`` leaves of it, the next upload removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from typing import TYPE_CHECKING, Any

from headrace.storage.hidden_folder import HiddenFolder
from headrace.storage.object_store import locate
from headrace.storage.upload import Upload, failure

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from headrace.storage.remote_path import RemotePath
    from headrace.types import Progress

__all__ = ["NewObjects"]

_WRITABLE = ("s3", "gs", "az")


class NewObjects:
    """A dataset that is made here and appears in a store.

    Args:
        path: URL of the dataset; of a set, with a number or a star in its name.
        names: of all objects that belong to such a dataset, relative to the folder that it is in.
        fixed: what all of these names begin with.
        force: replace objects that there are.

    Attributes:
        path: where the dataset is to be written, with the name that it has in the store.

    Raises:
        FileExistsError: there is one, and it is not to be replaced.
        RemoteError: the store does not answer, or does not let us in.
    """

    def __init__(self, path: RemotePath, *, names: re.Pattern[str], fixed: str, force: bool) -> None:
        self.url, _, self._name = str(path).rpartition("/")
        self._names, self._fixed, self._force = names, fixed, force
        self._store, key = _store_of(path)
        self._home = key.rpartition("/")[0]
        self._check_new(self.existing())
        self._folder = HiddenFolder(os.path.join(tempfile.gettempdir(), "headrace-upload"))
        os.chmod(self._folder.path, 0o700)
        self.folder = self._folder.path
        self.path = os.path.join(self.folder, self._name)
        self.remove = self._folder.remove

    def existing(self) -> dict[str, Any]:
        """What there is in the store under such names: what obstore says of each, by name."""
        begin, found = self._key(self._fixed), {}
        try:
            for block in self._store.list(self._home or None, offset=begin[:-1] or None):
                for one in block:
                    name = one["path"].removeprefix(self._home).lstrip("/")
                    if self._names.fullmatch(name):
                        found[name] = one
                if block and block[-1]["path"] > begin and not block[-1]["path"].startswith(begin):
                    break  # stores list by name
        except Exception as error:
            raise failure(f"{self.url}/{self._name}", error) from None
        return found

    def _look_at(self, names: list[str]) -> dict[str, Any]:
        found = {}
        for name in names:
            try:
                found[name] = self._store.head(self._key(name))
            except FileNotFoundError:
                continue
            except Exception as error:
                raise failure(f"{self.url}/{name}", error) from None
        return found

    def _key(self, name: str) -> str:
        return f"{self._home}/{name}" if self._home else name

    def _check_new(self, there: dict[str, Any]) -> None:
        if there and not self._force:
            raise FileExistsError(f"{self.url}/{min(there)} exists; give force=True (--force) to replace it")

    def upload(self, progress: Progress | None = None) -> None:
        """Upload all files, and remove what they replace.

        Args:
            progress: called with parts that are done, all parts, and bytes.
        """
        files = self._files()
        there = self.existing() | self._look_at([name for name in files if not self._names.fullmatch(name)])
        self._check_new(there)
        uploads = {name: Upload(self._store, self._key(name), f"{self.url}/{name}", files[name]) for name in files}
        done: list[str] = []
        try:
            for name, upload in uploads.items():
                done.append(name)
                upload.send(None if progress is None else _Telling(list(uploads.values()), progress))
            for name in there.keys() - files.keys():
                self._delete(name)
        except BaseException as error:
            for name in reversed(done):
                if name not in there or uploads[name].is_damaged:
                    _take_back(uploads[name], error)
            raise

    def _delete(self, name: str) -> None:
        try:
            self._store.delete(self._key(name))
        except FileNotFoundError:
            pass
        except Exception as error:
            raise failure(f"{self.url}/{name}", error) from None

    def _files(self) -> dict[str, str]:
        """Paths of the files by name: what makes the dataset visible comes last."""
        found = {os.path.relpath(path, self.folder): path for path in _below(self.folder)}
        return {name: found[name] for name in sorted(found, key=lambda name: (name == self._name, name))}


class _Telling:
    """Tells how far several uploads are."""

    def __init__(self, uploads: list[Upload], progress: Progress) -> None:
        self._uploads, self._progress = uploads, progress

    def __call__(self) -> None:
        sent = sum(upload.parts_sent for upload in self._uploads)
        size = sum(min(upload.parts_sent * upload.part_bytes, upload.size_bytes) for upload in self._uploads)
        self._progress(sent, sum(upload.parts for upload in self._uploads), size)


def no_room(folder: str, problem: str) -> OSError:
    """What to say when the temporary folder is full."""
    home = os.path.dirname(folder)
    return OSError(errno.ENOSPC, f"{problem}. Make room, or set TMPDIR to a folder on a larger disk", home)


def _below(folder: str) -> Iterator[str]:
    for home, _, names in os.walk(folder):
        yield from (os.path.join(home, name) for name in names)


def _take_back(upload: Upload, error: BaseException) -> None:
    with contextlib.suppress(Exception):
        upload.remove()
    if upload.is_there:
        error.add_note(f"{upload.url} could not be removed; remove it")


def _store_of(path: RemotePath) -> tuple[Any, str]:
    """The store of a URL, for writing, and the key of the object in it."""
    if path.scheme not in _WRITABLE:
        known = ", ".join(f"{one}://" for one in _WRITABLE)
        raise ValueError(f"{path}: nothing can be written to {path.scheme}://; write to a path, or to {known}")
    store, key = locate(path)
    return store.for_writing, key
