"""Locks that keep writers apart, and names that are on the disk.

Contract: a lock is an open descriptor (``flock``) and goes when that is closed, also by a kill. If a file was replaced
while somebody waited for its lock, the one that has the name now is locked instead.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from headrace.errors import ArchiveBusyError
from headrace.formats.barecat.names import archive_status, replace_path, shard_path
from headrace.storage.regular import open_own

__all__ = ["WAIT_S", "lock_archive", "lock_file", "lock_shard", "sync_directory"]

WAIT_S = 0.2
_PAUSE_S = 0.01
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def lock_shard(path: str, shard: int = 0, *, create: bool = False, follow: bool = False) -> int:
    """Keep other writers away as long as the returned descriptor is open; ArchiveBusyError when there is one.

    Args:
        path: of the archive.
        shard: which of its files is locked.
        create: make it if it is missing.
        follow: it may be a symbolic link.
    """
    busy = f"{path}: somebody else is writing to this archive; wait until that is done, or close it"
    like = archive_status(path) if create else None
    return lock_file(shard_path(path, shard), busy, create=create, follow=follow, like=like)[0]


def lock_archive(path: str, shard: int = 0, *, create: bool = False, follow: bool = False) -> int:
    """As ``lock_shard``, and no other archive is about to take the name."""
    deadline = time.monotonic() + WAIT_S
    while True:
        fd = lock_shard(path, shard, create=create, follow=follow)
        if not os.path.lexists(replace_path(path)):
            return fd
        os.close(fd)  # another archive is about to take the name
        if time.monotonic() > deadline:
            raise ArchiveBusyError(f"{path}: another archive is taking this name; try again")
        time.sleep(_PAUSE_S)


def lock_file(
    file: str,
    busy: str,
    wait_s: float | None = None,
    *,
    create: bool = True,
    follow: bool = False,
    like: os.stat_result | None = None,
) -> tuple[int, bool]:
    """Lock a file.

    Args:
        file: what is locked.
        busy: the message when somebody else has the lock.
        wait_s: how long to wait for them; by default ``WAIT_S``.
        create: make it if it is missing.
        follow: it may be a symbolic link.
        like: whose permissions it gets if it is made.

    Returns:
        The descriptor that holds the lock, and whether it does: some file systems have no locks.
    """
    deadline = time.monotonic() + (WAIT_S if wait_s is None else wait_s)
    while True:
        fd = open_own(file, os.O_RDONLY, like=like, create=create, follow=follow)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_at(fd, file):
                return fd, True
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return fd, False  # SQLite's own locks have to do
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() > deadline:
            raise ArchiveBusyError(busy)
        time.sleep(_PAUSE_S)


def _is_still_at(fd: int, file: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(file))
    except FileNotFoundError:
        return False


def sync_directory(path: str) -> None:
    """Put the names in the directory of a file on the disk."""
    fd = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
