"""When the steps of this epoch and of the next one come, for a cache that lets go of what is needed last.

The cache compares times of the clock, also with those of other processes. But it is the order that must be right: a
step never has a later time than one that comes after it, in whatever epoch, or the cache would keep the wrong blocks.
The speed of training is not known ahead, and changes, for instance when the second epoch comes from the cache. So the
times of an epoch are fixed when the one before it begins, by twice the time that the last epoch took, and not changed;
those of the next epoch begin where they end, and are squeezed if that is too late. A time that is later than the truth
is no harm, because that is so for all blocks of the loader; a time that is over would be, because it says that the
block was not used when it should have been.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from headrace.types import BlockTimes

if TYPE_CHECKING:
    from headrace.order import Order
    from headrace.types import IndexArray

__all__ = ["StepTimes", "UseTimes", "UsesOf", "uses_of_pages"]

UsesOf: TypeAlias = Callable[[int, int], tuple[float, float | BlockTimes] | None]
"""For the number of a part and its first step: when it is used, and when next; None if nobody knows."""

_FIRST_STEP_S = 1.0  # as long as nothing is known
_MARGIN = 2.0
_SQUEEZED = 0.25


@dataclass(frozen=True, slots=True)
class StepTimes:
    """When the steps of an epoch come, by ``time.time()``."""

    start: float
    end: float
    steps: int

    def of(self, step: int) -> float:
        """When a step comes."""
        return self.start + (self.end - self.start) * step / max(1, self.steps)


class UseTimes:
    """Times of the steps of one loader, epoch after epoch. One thread begins epochs.

    Example:
        >>> times = UseTimes()
        >>> now, then = times.begin(0, steps=100, clock=5000.0)
        >>> now.of(99) < then.of(0), then.of(50)
        (True, 5300.0)
        >>> times.begin(1, steps=100, clock=5150.0)[0] is then
        True
    """

    def __init__(self) -> None:
        self._epoch, self._began = -1, 0.0
        self._next: StepTimes | None = None

    def begin(self, epoch: int, steps: int, *, clock: float | None = None) -> tuple[StepTimes, StepTimes]:
        """An epoch begins now; gives its times, and those of the next one."""
        clock = time.time() if clock is None else clock
        if self._next is not None and epoch == self._epoch + 1:
            now, length_s = self._next, _MARGIN * (clock - self._began)
        else:
            length_s = _MARGIN * _FIRST_STEP_S * max(1, steps)
            now = StepTimes(clock, clock + length_s, steps)
        start = max(now.end, clock + length_s)
        self._next = StepTimes(start, max(start + _SQUEEZED * length_s, clock + 2 * length_s), steps)
        self._epoch, self._began = epoch, clock
        return now, self._next


def uses_of_pages(order: Order, pages: IndexArray, global_batch: int, now: StepTimes, then: StepTimes) -> UsesOf:
    """When pages are used, and when again.

    Args:
        order: of the next epoch.
        pages: the page of each sample.
        global_batch: samples of a step.
        now: times of this epoch.
        then: times of the next one.
    """
    numbers, places = np.unique(pages[order.slice(0, len(order))], return_index=True)

    def uses_of(page: int, step: int) -> tuple[float, float] | None:
        found = int(np.searchsorted(numbers, page))
        if found == len(numbers) or numbers[found] != page:
            return None
        return now.of(step), then.of(int(places[found]) // global_batch)

    return uses_of
