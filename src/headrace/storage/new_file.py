"""A file that has no name yet.

Contract: one thread. Where the file system can do it (O_TMPFILE) the file has no name at all, so that even ``kill -9``
leaves nothing; elsewhere it has a hidden one, which ``leftovers`` removes. ``give_name`` is one step for everybody
else: they see no file, or the old one, or the new one, whole. What was written is not lost where a nameless file
cannot be given a name: it is copied.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from functools import cache
from typing import BinaryIO, cast

from headrace.storage.leftovers import hidden_name, lock, remove_leftovers_in

__all__ = ["NewFile", "copy_bytes", "kept_mode", "temporary_file"]

_COPY_CHUNK_BYTES = 8 << 20
_PRIVATE = 0o600
_USUAL = 0o666
_NO_COPY_RANGE = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM)
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)


class NewFile:
    """A file in a directory that will get a name there.

    Args:
        directory: descriptor of the directory; it stays open as long as this is used.
        name: what the file will be called, without slashes.
        is_private: only the owner may read it until ``give_name``; otherwise the umask decides.
    """

    def __init__(self, directory: int, name: str, *, is_private: bool) -> None:
        self._directory, self._name, self._mode = directory, name, _PRIVATE if is_private else _USUAL
        self._hidden: str | None = None
        self.fd = -1

    def create(self, *, is_hidden: bool = False) -> None:
        """Create the file. ``close`` must follow in any case: an interrupt may come at any moment in between.

        Args:
            is_hidden: with a hidden name from the beginning. To replace another file it needs one anyway, and to give
                it to a nameless file takes twice as long; but whoever is killed leaves it for the next writer.
        """
        if is_hidden:
            self._create_hidden(self._mode)
            return
        if hasattr(os, "O_TMPFILE") and _has_proc():  # without the second it could never get a name
            try:
                flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
                self.fd = os.open(".", flags, self._mode, dir_fd=self._directory)
                return
            except OSError:
                pass  # this file system has no nameless files; the named attempt tells what is wrong
        self._create_hidden(self._mode)

    def _create_hidden(self, mode: int) -> None:
        """Create the file under a hidden name, and lock it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        while True:
            self._hidden = hidden_name(self._name)  # before it is there, so that ``close`` knows it
            try:
                self.fd = os.open(self._hidden, flags, mode, dir_fd=self._directory)
            except FileExistsError:
                self._hidden = None  # not ours
                continue
            lock(self.fd)
            if os.fstat(self.fd).st_nlink:
                return
            self._close_fd()  # somebody took it for a leftover before it was locked

    def give_name(self, *, replace: bool, is_synced: bool = False) -> None:
        """Give the file its name; FileExistsError when there is one already that is not to be replaced.

        Args:
            replace: whatever has the name is replaced; a link itself, not what it leads to.
            is_synced: put the bytes on the disk first if they must be copied.
        """
        if self._hidden is None:
            try:
                self._link(self._name)
                return
            except FileExistsError:
                if not replace:
                    raise
            except OSError:
                self._copy_to_hidden(is_synced)
        if self._hidden is None:
            lock(self.fd)
            self._hidden = hidden_name(self._name)
            try:
                self._link(self._hidden)
            except OSError:
                self._hidden = None
                self._copy_to_hidden(is_synced)
        assert self._hidden is not None
        if replace:
            os.replace(self._hidden, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        else:
            self._rename_to_new(self._hidden)
        self._hidden = None

    def _link(self, name: str) -> None:
        # With the descriptor of a directory Python calls linkat, which follows the link in /proc; link does not.
        os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._directory, follow_symlinks=True)

    def _copy_to_hidden(self, is_synced: bool) -> None:
        nameless, self.fd = self.fd, -1
        status = os.fstat(nameless)
        try:
            self._create_hidden(_PRIVATE)
            copy_bytes(nameless, self.fd, status.st_size)
            os.fchmod(self.fd, stat.S_IMODE(status.st_mode))
            os.utime(self.fd, ns=(status.st_atime_ns, status.st_mtime_ns))
            if is_synced:
                os.fsync(self.fd)
        finally:
            os.close(nameless)

    def _rename_to_new(self, hidden: str) -> None:
        both = {"src_dir_fd": self._directory, "dst_dir_fd": self._directory}
        try:
            os.link(hidden, self._name, **both, follow_symlinks=False)
            os.unlink(hidden, dir_fd=self._directory)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            if _exists(self._directory, self._name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._name) from None
            os.rename(hidden, self._name, **both)

    def close(self) -> None:
        """Let go of the file; without a name it is gone. May be called twice."""
        self._close_fd()
        if self._hidden is not None:
            with contextlib.suppress(OSError):  # it has its name already, or was never there
                os.unlink(self._hidden, dir_fd=self._directory)
            self._hidden = None

    def _close_fd(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)


@cache
def _has_proc() -> bool:
    return os.path.isdir("/proc/self/fd")


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def kept_mode(fd: int, old: os.stat_result) -> int:
    """The permissions that a new file takes over from the one that it replaces; nobody gets more than they had.

    The new file gets the old group where that is allowed. Where it is not, its own group gets what everybody has.
    """
    mode = old.st_mode & 0o777
    if os.fstat(fd).st_gid != old.st_gid:
        try:
            os.fchown(fd, -1, old.st_gid)
        except OSError:
            mode = (mode & 0o707) | (mode & 0o070 & ((mode & 0o007) << 3))
    return mode


def copy_bytes(source: int, target: int, size: int, *, offset: int = 0, to: int = 0) -> int:
    """Copy bytes between files by descriptor; file systems that can share blocks do so. Gives how many there were."""
    done = 0
    while done < size:
        count = min(size - done, _COPY_CHUNK_BYTES)
        try:
            copied = os.copy_file_range(source, target, count, offset + done, to + done)
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
            copied = os.pwrite(target, os.pread(source, count, offset + done), to + done)
        if copied == 0:
            break
        done += copied
    return done


def temporary_file(folder: str) -> BinaryIO:
    """A file without a name in a folder, for reading and writing; it goes when it is closed."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_leftovers_in(directory, "temporary")
        new = NewFile(directory, "temporary", is_private=True)
        try:
            new.create()
            fd = os.dup(new.fd)
        finally:
            new.close()  # this also removes a hidden name
    finally:
        os.close(directory)
    return cast("BinaryIO", open(fd, "w+b"))  # the caller closes it
