"""When a block that is used now is needed again, learnt from how blocks were used so far.

This is for uses of which nobody says that: with an order function, and where samples are read one by one. Training uses
its blocks again and again, once in each epoch or so. So a few blocks are watched, the first that were used: how long it
took until each was used again, or how long it is not used already. The time in the middle is how long others will take,
too. It never gets shorter, and is doubled: to think that a block comes later than it does is no harm, because that is
true of all blocks of a process; they keep their order. In the first epoch, when no block was used twice, the time
grows, and what was used last is needed last. So a cache that is too small keeps a part of the blocks for good instead
of losing each just before it is used again.
"""

from __future__ import annotations

import threading
import time

__all__ = ["UseRhythm"]

_WATCHED = 64


class UseRhythm:
    """The uses of one process. Any number of threads.

    Example:
        >>> rhythm = UseRhythm()
        >>> rhythm.next_use(1, now=100.0), rhythm.next_use(2, now=110.0), rhythm.next_use(1, now=150.0)
        (100.0, 130.0, 250.0)
    """

    def __init__(self) -> None:
        self._last: dict[int, float] = {}
        self._intervals: dict[int, float] = {}
        self._period_s = 0.0
        self._lock = threading.Lock()

    def next_use(self, block_id: int, *, now: float | None = None) -> float:
        """Note a use, and say when the next one will be, by the same clock: that of ``time.time()``."""
        now = time.time() if now is None else now
        with self._lock:
            if block_id in self._last:
                self._intervals[block_id] = now - self._last[block_id]
            if block_id in self._last or len(self._last) < _WATCHED:
                self._last[block_id] = now
            times = sorted(max(self._intervals.get(one, 0.0), now - last) for one, last in self._last.items())
            self._period_s = max(self._period_s, times[len(times) // 2])
            return now + 2 * self._period_s
