"""A hidden folder in which files are made that get their places together, or not at all.

Contract: one thread. The folder lies beside the places, so that every file is moved by renaming. Who makes it holds its
lock (``flock``) for as long as it is there; the lock goes with the process, and the next writer of the same name
removes a folder whose lock is free. Renaming many files is not one step: whoever is killed in the middle of it leaves
some of them at their places. But what fails, Ctrl-C included, is taken back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import TYPE_CHECKING

from headrace.storage.leftovers import hidden_name, is_hidden, lock
from headrace.storage.remote_path import check_local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.errors import PathLike

__all__ = ["HiddenFolder"]

_OLD = ".old"


class HiddenFolder:
    """A folder for files that are not yet complete.

    Args:
        beside: a path in the folder where the files will lie; the hidden name tells of it.

    Example:
        >>> import pathlib, tempfile
        >>> home = pathlib.Path(tempfile.mkdtemp())
        >>> folder = HiddenFolder(home / "x-*.txt")
        >>> _ = pathlib.Path(folder.path, "x-0.txt").write_text("hello")
        >>> folder.hand_over([])
        >>> [file.name for file in home.iterdir()]
        ['x-0.txt']
    """

    def __init__(self, beside: PathLike) -> None:
        check_local(beside)
        self.home, name = os.path.split(os.path.abspath(beside))
        self._remove_leftovers(name)
        self._fd = -1
        self._owner = os.getpid()
        while self._fd < 0:
            self.path = os.path.join(self.home, hidden_name(name))
            os.mkdir(self.path, 0o777)
            self._fd = self._locked()

    def _locked(self) -> int:
        """The lock of the folder; -1 when somebody took it for a leftover before it was locked."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return -1
        lock(fd)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)
        return -1

    def _remove_leftovers(self, name: str) -> None:
        start = hidden_name(name)[: -len("12345678.unfinished")]
        for entry in os.listdir(self.home):
            path = os.path.join(self.home, entry)
            if is_hidden(entry) and entry.startswith(start) and os.path.isdir(path) and not os.path.islink(path):
                _remove_if_dead(path)

    def hand_over(self, replaced: Sequence[str]) -> None:
        """Move all files to their places, and remove the folder.

        Args:
            replaced: paths of what lies there and goes away.

        Raises:
            FileExistsError: there is something at a place that is not replaced.
        """
        names = sorted(os.listdir(self.path))
        old = os.path.join(self.path, _OLD)
        os.mkdir(old)
        moves = [(path, os.path.join(old, os.path.basename(path))) for path in replaced]
        moves += [(os.path.join(self.path, name), os.path.join(self.home, name)) for name in names]
        done: list[tuple[str, str]] = []
        try:
            for source, target in moves:
                if os.path.lexists(target):
                    raise FileExistsError(f"{target} exists; give force=True to replace it")
                done.append((source, target))
                os.rename(source, target)
        except BaseException:
            for source, target in reversed(done):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(target, source)
            raise
        self._sync()
        self.remove()

    def _sync(self) -> None:
        fd = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self) -> None:
        """Remove the folder and what is in it; does nothing the second time, and in a forked process."""
        if self._fd >= 0 and self._owner == os.getpid():
            fd, self._fd = self._fd, -1
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(fd)


def _remove_if_dead(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # it is gone, or not ours
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass  # somebody is writing there, or there are no locks
    finally:
        os.close(fd)
