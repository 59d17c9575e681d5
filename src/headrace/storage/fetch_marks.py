"""Which blocks the processes of this machine fetch right now, so that each is fetched once.

Contract. Whoever is about to fetch a block takes its mark, and drops it when the block is in the cache, or could not be
fetched or stored. A mark is a lock of one byte (``fcntl``) in the table's file, far behind its data, at a place that
the id of the block gives; the kernel drops those of a process that dies. Marks only save bytes, and nothing is wrong
where one is lost, for instance because the process has closed another descriptor of the same file.

Nobody waits for the lock. Whoever finds a mark taken tries again now and then, and fetches the block as well when its
time is over: a process that was stopped, or whose network is slow, holds up no other for longer than ``Patience`` says.
Nobody waits for a mark while he holds one.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time

__all__ = ["FetchMarks", "Patience"]

_PLACES_FROM, _PLACES = 1 << 62, 1 << 61
_AHEAD_S, _URGENT_S = 5.0, 2.0
_REST_S = 30.0


class FetchMarks:
    """The marks of one process in one cache. Any number of threads; nothing waits.

    Args:
        fd: of the table's file. If it can only be read, nothing can be stored, and nobody needs a mark.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._taken: set[int] = set()  # for several files of one process, which the kernel does not keep apart
        self._lock = threading.Lock()

    def take(self, block_id: int) -> bool:
        """Take the mark of a block; False if it is taken, by whomever."""
        with self._lock:
            if block_id in self._taken:
                return False
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(block_id))
            except (BlockingIOError, PermissionError):
                return False
            except OSError:  # no locks here, so nobody can be kept from fetching it, too
                return True
            self._taken.add(block_id)
            return True

    def drop(self, block_id: int) -> None:
        """Let others fetch the block. Does nothing if it was not marked."""
        with self._lock, contextlib.suppress(OSError):
            if block_id in self._taken:
                self._taken.discard(block_id)
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _place(block_id))


class Patience:
    """How long a process waits for blocks that others fetch.

    That is 5 seconds for a block that is brought ahead of its use, and 2 for one that somebody waits for. If that was
    in vain, the process waits for nobody during the next 30 seconds: whoever was stopped may have many marks.
    """

    def __init__(self) -> None:
        self._resting_until = 0.0

    def deadline(self, is_urgent: bool) -> float:
        """Until when to wait, by ``time.monotonic()``; not later than now if it is not worth it."""
        now = time.monotonic()
        if now < self._resting_until:
            return now
        return now + (_URGENT_S if is_urgent else _AHEAD_S)

    def lose(self) -> None:
        """Somebody has waited in vain."""
        now = time.monotonic()
        if now >= self._resting_until:
            self._resting_until = now + _REST_S


def _place(block_id: int) -> int:
    return _PLACES_FROM + block_id % _PLACES
