"""What a writer that was killed has left beside an archive: looked for, and never touched.

Contract: whoever reads calls these; they open nothing for writing, and create, rename and delete nothing. What belongs
to a process that is alive is its business: locks tell. What belongs to nobody is an ``UnfinishedError``; ``headrace
repair`` puts it in order.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from headrace.errors import ArchiveBusyError, FormatError, UnfinishedError
from headrace.formats.barecat.names import archive_path, making_path, replace_path, shard_path, undo_path
from headrace.storage import open_for_reading

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["OddError", "await_handover", "has_content", "is_being_changed", "is_locked", "journal_failure"]

_HANDOVER_S = 10.0  # renaming is quick; a process that takes longer has a problem
_PAUSE_S = 0.01
_LOOKS = 3  # a process may come or go between two looks


class OddError(Exception):
    """Something beside an archive is not as a writer that was killed leaves it; ``file`` is its path."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{os.path.basename(file)} {problem}")
        self.file = file


def is_locked(file: PathLike) -> bool:
    """A process holds the lock of a file; one that does not exist is not made."""
    try:
        fd = open_for_reading(file, nofollow=False)
    except (OSError, FormatError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # this file system has no locks
    finally:
        os.close(fd)
    return False


def await_handover(path: str, shown: str | None = None) -> None:
    """Wait while another archive takes this name.

    Args:
        path: of the archive.
        shown: how errors name it, if otherwise.

    Raises:
        UnfinishedError: the process that did so was killed.
        ArchiveBusyError: it takes too long.
    """
    deadline = time.monotonic() + _HANDOVER_S
    while os.path.lexists(note := replace_path(path)):
        if _is_left(note, making_path(path)):
            problem = "a new archive was taking this name when its process was killed"
            raise UnfinishedError(shown or path, left=note, problem=problem)
        if time.monotonic() > deadline:
            raise ArchiveBusyError(f"{shown or path}: another archive is taking this name; try again")
        time.sleep(_PAUSE_S)


def is_being_changed(path: str, shown: str | None = None) -> bool:
    """A process that is alive overwrites files of the archive; UnfinishedError when it was killed at that."""
    old_bytes = undo_path(path)
    if not os.path.lexists(old_bytes):
        return False
    if _is_left(old_bytes, shard_path(path, 0)):
        problem = "a writer was killed while it was overwriting files of this archive"
        raise UnfinishedError(shown or path, left=old_bytes, problem=problem)
    return True


def journal_failure(index: str, ending: str, shown: str | None = None) -> ArchiveBusyError | UnfinishedError:
    """The error for changes to an index that are not in it: their writer is at work, or was killed."""
    archive = archive_path(index)
    named = archive_path(shown or index)
    if is_locked(shard_path(archive, 0)):
        return ArchiveBusyError(f"{named}: somebody else is writing to this archive; try again")
    problem = f"a writer was killed, and {os.path.basename(index + ending)} holds what it had begun"
    return UnfinishedError(named, left=index + ending, problem=problem)


def has_content(file: str) -> bool:
    """There is a file that is not empty; FormatError for what is no regular file: SQLite would open it."""
    try:
        status = os.lstat(file)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode):
        os.close(open_for_reading(file, nofollow=True))  # says what it is
    return status.st_size > 0


def _is_left(file: str, lock: str) -> bool:
    return all(os.path.lexists(file) and not is_locked(lock) for _ in range(_LOOKS))
