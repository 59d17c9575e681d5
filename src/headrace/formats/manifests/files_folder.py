"""The folder beside a manifest with the files that it names.

It is written under a hidden name and gets its own when all files are in it. The writer holds the lock of the hidden
folder; one whose lock is free was left by a writer that is dead, and goes when the next one of that name starts.

A hidden file in the folder says which manifest it was written for. When that manifest is replaced, the new one has a
folder of another name, and the old folder goes once the new manifest has its name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from headrace.storage import FolderWriter
from headrace.storage.leftovers import hidden_name, is_hidden, lock

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FilesFolder", "remove_replaced"]

_OWNER = ".manifest"
_TAKEN = (FileExistsError, IsADirectoryError, NotADirectoryError)  # two samples of one name
_BAD_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)  # a name that no file can have
_MAX_NAME_BYTES = 1024


class FilesFolder:
    """A folder of new files.

    Args:
        parent: where the folder will be.
        name: what it will be called; nothing may have that name.
        manifest: name of the manifest that names its files.
    """

    def __init__(self, parent: str, name: str, manifest: str) -> None:
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"files_folder must be the name of a folder beside the manifest, got {name!r}")
        self.name = name
        self._path = os.path.join(parent, name)
        if os.path.lexists(self._path):
            raise FileExistsError(
                f"{self._path} exists, and the files of the manifest would go there; remove it, or give another name "
                "with files_folder="
            )
        _remove_leftovers(parent, {name, f"{manifest}-files"})
        self._hidden = os.path.join(parent, hidden_name(name))
        os.mkdir(self._hidden)
        self._fd = os.open(self._hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        lock(self._fd)
        self._writer = FolderWriter(self._hidden)
        self._is_named = False
        try:
            self._writer.write(_OWNER, [os.fsencode(manifest)])
        except BaseException:
            self.abort()
            raise

    def write(self, name: str, spare: str, data: bytes) -> str:
        """Write a file and give its path from the manifest on; under the spare name where the other is of no use."""
        try:
            return self._write(name, data)
        except ValueError:
            return self._write(spare, data)
        except OSError as error:
            if not isinstance(error, _TAKEN) and error.errno not in _BAD_NAME:
                raise
            return self._write(spare, data)

    def _write(self, name: str, data: bytes) -> str:
        path = f"{self.name}/{name}"
        path.encode()  # the manifest is UTF-8
        self._writer.write(name, [data])
        return path

    def commit(self) -> None:
        """Give the folder its name."""
        self._writer.close()
        os.rename(self._hidden, self._path)
        self._is_named = True
        self._close()

    def abort(self) -> None:
        """Remove the folder and all files in it, also after ``commit``."""
        self._writer.close()
        shutil.rmtree(self._path if self._is_named else self._hidden, ignore_errors=True)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def remove_replaced(parent: str, manifest: str, *, kept: str | None) -> None:
    """Remove folders that were written for a manifest of this name, but not the one that is kept."""
    for path in list(_folders_of(parent, manifest)):
        if os.path.basename(path) != kept:
            with contextlib.suppress(OSError):  # then the next writer removes it
                hidden = os.path.join(parent, hidden_name(f"{manifest}-files"))
                os.rename(path, hidden)
                shutil.rmtree(hidden, ignore_errors=True)


def _folders_of(parent: str, manifest: str) -> Iterator[str]:
    with os.scandir(parent) as entries:
        found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False) and not is_hidden(entry.name)]
    for path in found:
        with contextlib.suppress(OSError):
            fd = os.open(os.path.join(path, _OWNER), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if os.read(fd, _MAX_NAME_BYTES) == os.fsencode(manifest):
                    yield path
            finally:
                os.close(fd)


def _remove_leftovers(parent: str, names: set[str]) -> None:
    """Remove hidden folders of writers that are dead."""
    shown = {hidden_name(name).rsplit(".", 2)[0] for name in names}
    with os.scandir(parent) as entries:
        found = [entry.path for entry in entries if is_hidden(entry.name) and entry.name.rsplit(".", 2)[0] in shown]
    for path in found:
        with contextlib.suppress(OSError):  # not a folder, not ours, or somebody writes it
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(fd).st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(fd)
