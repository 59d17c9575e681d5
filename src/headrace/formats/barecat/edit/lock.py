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
from headrace.formats.barecat.names import replace_path, shard_path

__all__ = ["WAIT_S", "lock_archive", "lock_file", "lock_shard", "sync_directory"]

WAIT_S = 0.2
_PAUSE_S = 0.01
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def lock_shard(path: str, shard: int = 0) -> int:
    """Keep other writers away as long as the returned descriptor is open; ArchiveBusyError when there is one."""
    busy = f"{path}: somebody else is writing to this archive; wait until that is done, or close it"
    return lock_file(shard_path(path, shard), busy)[0]


def lock_archive(path: str, shard: int = 0) -> int:
    """As ``lock_shard``, and no other archive is about to take the name."""
    deadline = time.monotonic() + WAIT_S
    while True:
        fd = lock_shard(path, shard)
        if not os.path.lexists(replace_path(path)):
            return fd
        os.close(fd)  # another archive is about to take the name
        if time.monotonic() > deadline:
            raise ArchiveBusyError(f"{path}: another archive is taking this name; try again")
        time.sleep(_PAUSE_S)


def lock_file(file: str, busy: str, wait_s: float | None = None) -> tuple[int, bool]:
    """Lock a file, which is made if it is missing.

    Args:
        file: what is locked.
        busy: the message when somebody else has the lock.
        wait_s: how long to wait for them; by default ``WAIT_S``.

    Returns:
        The descriptor that holds the lock, and whether it does: some file systems have no locks.
    """
    deadline = time.monotonic() + (WAIT_S if wait_s is None else wait_s)
    while True:
        fd = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
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
