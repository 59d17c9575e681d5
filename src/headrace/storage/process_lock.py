"""A lock that one process holds, and that tells the others who it is.

Contract: the lock is an open descriptor (``flock``) of a hidden file, in which the process that holds it has written
its number. It goes with the process, also by a kill; then the file stays, and the next process takes it over. Whoever
lets go removes the file first, so a process that has waited looks whether the file that it has locked is still there.
Where the file system has no locks, nobody is kept away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import platform
import re
from typing import TYPE_CHECKING

from headrace.errors import ArchiveBusyError
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["process_lock"]

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_HOLDER_BYTES = 256
_HOLDER = re.compile(r"process \d+ on [\w.-]*", re.ASCII)


@contextlib.contextmanager
def process_lock(path: str, what: str) -> Iterator[None]:
    """Keep other processes away inside the block.

    Args:
        path: of the hidden file.
        what: is locked, for the message.

    Raises:
        ArchiveBusyError: another process holds the lock; the message says which.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), ".x.lock")
        >>> with process_lock(path, "x"):
        ...     os.path.exists(path)
        True
        >>> os.path.exists(path)
        False
    """
    fd = _locked(path, what)
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {platform.node()}".encode(), 0)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(fd)


def _locked(path: str, what: str) -> int:
    while True:
        fd = open_own(path, os.O_RDWR, create=True)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_at(fd, path):
                return fd
        except BlockingIOError:
            holder = _holder(fd)
            os.close(fd)
            raise ArchiveBusyError(
                f"{what}: {holder} is writing it. Wait until that is done, or end it; then run the command again"
            ) from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return fd
            os.close(fd)
            raise
        os.close(fd)  # whoever had the lock has removed the file; the next one is another


def _holder(fd: int) -> str:
    told = os.pread(fd, _HOLDER_BYTES, 0).decode(errors="replace")
    return told if _HOLDER.fullmatch(told) else "another process"


def _is_still_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
