"""How many workers a loader uses, and how many batches it makes ahead, where it may choose that itself.

``tune`` is a pure function: from a choice and what was seen with it comes the next choice. More workers are tried when
the consumer waits and the workers are busy; fewer when the loader is idle, for the consumer may need the cores. Each
trial is judged by the samples per second of the whole loop, taken back when it did not help, and not repeated for a
while that doubles, so that nothing flaps. Workers that are idle cost nothing, so fewer must make the loop clearly
faster, than before and than once more afterwards: a training becomes faster by itself while it warms up. More batches
are made ahead when the consumer waits now and the loader is idle then. None of it changes the batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.progress import format_count
from headrace.storage import available_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.loader.stats import LoaderStats

__all__ = ["Bounds", "Choice", "Seen", "Tuner", "tune"]

_WAITS = 0.05  # shares of the loop: the consumer waits
_HARDLY_WAITS = 0.01
_IDLE = 0.2  # the loader has time
_BUSY = 0.75  # the share of their time in which the workers work when they are what is slow
_BETTER = 1.02
_CLEARLY_BETTER = 1.05
_SPARE = 1.25  # workers are kept for bursts, beyond those that were busy
_WINDOWS = 60  # until what has failed is tried again, the first time
_MOST_WINDOWS = 1 << 16
_Sums: TypeAlias = tuple[float, float, float, float, float, float]
"""Seconds of the loop, of waiting, of idling, of the workers; samples and batches."""
_NOTHING: _Sums = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
_SHARE_OF_MEMORY = 1 / 8  # of what is free, for batches that wait


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be chosen."""

    least_workers: int
    most_workers: int
    most_ahead: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a loop was like for a while; ``busy_s`` is how long the workers worked, all of them together."""

    elapsed_s: float
    wait_s: float
    idle_s: float
    busy_s: float
    samples: int

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.samples / self.elapsed_s


@dataclass(frozen=True, slots=True)
class Choice:
    """What is in use, and what is known of other choices.

    ``before`` is the choice that a trial would go back to, with the rate that it had;
    ``fewer`` are the workers of a trial that went well so far, with its rate.
    """

    workers: int
    batches_ahead: int
    floor: int = 1  # fewer were tried, and made the loop slower
    ceiling: int = 1 << 20  # more were tried, and did not make it faster
    patience: int = _WINDOWS
    quiet: int = 0  # windows since the last change
    before: tuple[int, float] | None = None
    fewer: tuple[int, float] | None = None


def tune(choice: Choice, seen: Seen, bounds: Bounds) -> tuple[Choice, str]:
    """The next choice, and why, in words; the same one and an empty text when all is well.

    Example:
        >>> seen = Seen(elapsed_s=1.0, wait_s=0.0, idle_s=0.5, busy_s=4.0, samples=1000)
        >>> tune(Choice(workers=8, batches_ahead=3), seen, Bounds(1, 8, 3))[1]
        'workers 8 to 5: the loader was idle for 50 % of the loop'
    """
    if choice.before is not None:
        return _judge(choice, seen)
    if choice.fewer is not None:
        return _judge_fewer(choice, seen)
    wait, idle = seen.wait_s / seen.elapsed_s, seen.idle_s / seen.elapsed_s
    busy = seen.busy_s / (choice.workers * seen.elapsed_s)
    if wait > _WAITS and busy > _BUSY:
        most = min(bounds.most_workers, choice.ceiling)
        more = min(most, choice.workers + max(1, choice.workers // 4))
        if more > choice.workers:
            return _tried(choice, seen, more), _because(choice.workers, more, f"the consumer waited for {wait:.0%}")
    if wait > _HARDLY_WAITS and idle > _WAITS and choice.batches_ahead < bounds.most_ahead:
        ahead = min(2 * choice.batches_ahead, bounds.most_ahead)
        why = f"batches ahead {choice.batches_ahead} to {ahead}: the consumer waited, and the loader was idle at times"
        return replace(choice, batches_ahead=ahead, quiet=0), why
    if wait < _HARDLY_WAITS and idle > _IDLE and busy > 0:
        least = max(bounds.least_workers, choice.floor, choice.workers // 2)
        fewer = max(least, math.ceil(choice.workers * busy * _SPARE))
        if fewer < choice.workers:
            return _tried(choice, seen, fewer), _because(choice.workers, fewer, f"the loader was idle for {idle:.0%}")
    return _waited(choice), ""


def _because(old: int, new: int, why: str) -> str:
    return f"workers {old} to {new}: {why} of the loop".replace("%", " %")


def _tried(choice: Choice, seen: Seen, workers: int) -> Choice:
    return replace(choice, workers=workers, quiet=0, before=(choice.workers, seen.rate))


def _judge(choice: Choice, seen: Seen) -> tuple[Choice, str]:
    """Keep what was tried, or go back."""
    assert choice.before is not None
    old, rate = choice.before
    settled = replace(choice, before=None, quiet=0)
    back = replace(settled, workers=old, patience=min(2 * choice.patience, _MOST_WINDOWS))
    if choice.workers > old and seen.rate < rate * _BETTER:
        return replace(back, ceiling=old), f"workers {choice.workers} back to {old}: more made the loop no faster"
    if choice.workers < old and seen.rate < rate * _CLEARLY_BETTER:
        return replace(back, floor=old), f"workers {choice.workers} back to {old}: fewer made the loop no faster"
    if choice.workers < old:
        again = replace(settled, workers=old, fewer=(choice.workers, seen.rate))
        return again, f"workers {choice.workers} back to {old}: to compare once more"
    return settled, ""


def _judge_fewer(choice: Choice, seen: Seen) -> tuple[Choice, str]:
    """The loop with the old number of workers, once more: keep it, or take fewer."""
    assert choice.fewer is not None
    fewer, rate = choice.fewer
    settled = replace(choice, fewer=None, quiet=0)
    if rate < seen.rate * _CLEARLY_BETTER:
        kept = replace(settled, floor=choice.workers, patience=min(2 * choice.patience, _MOST_WINDOWS))
        return kept, f"workers stay {choice.workers}: fewer made the loop no faster"
    return replace(settled, workers=fewer), f"workers {choice.workers} to {fewer}: the loop was faster with them"


def _waited(choice: Choice) -> Choice:
    """After a while, what has failed may be tried again: the training may be another by then."""
    if choice.quiet + 1 < choice.patience:
        return replace(choice, quiet=choice.quiet + 1)
    return replace(choice, quiet=0, floor=1, ceiling=1 << 20)


def affordable_batches(batch: Iterable[Any], free_bytes: int) -> int:
    """How many batches like this one may wait without taking too much of the memory.

    Example:
        >>> affordable_batches([b"...", memoryview(bytes(1 << 20))], free_bytes=1 << 30)
        128
    """
    size_bytes = sum(int(getattr(value, "nbytes", 0)) for value in batch)
    return int(free_bytes * _SHARE_OF_MEMORY) // max(1, size_bytes)


class Tuner:
    """Looks at a loop for a second and more at a time, and lets ``tune`` choose; used by the consumer's thread alone.

    Args:
        stats: of the loader; says what was chosen.
        bounds: what may be chosen. Where there is no choice, nothing is ever changed.
        set_workers: puts a number of workers into use.
    """

    window_s = 1.0
    window_batches = 16

    def __init__(self, stats: LoaderStats, bounds: Bounds, set_workers: Callable[[int], None]) -> None:
        self.bounds = bounds
        self.choice = Choice(stats.workers, stats.batches_ahead)
        self._stats = stats
        self._set_workers = set_workers
        self._is_measured = False  # it is known how large a batch is
        self._skip = 0  # batches that were made as it was before
        self._start: _Sums | None = None  # of this loop, as far as it counts
        self._before: _Sums = _NOTHING  # what was seen in earlier loops, which may be short

    @property
    def is_free(self) -> bool:
        """There is something to choose."""
        bounds = self.bounds
        return bounds.least_workers < bounds.most_workers or self.choice.batches_ahead < bounds.most_ahead

    def begin(self) -> None:
        """A loop begins: its first batches were not made ahead."""
        if self._start is not None:
            self._before = self._seen()
        self._start, self._skip = None, self.choice.batches_ahead + 2

    def note_batch(self, batch: Iterable[Any], set_ahead: Callable[[int], None]) -> None:
        """A batch was handed out; now and then this changes what is in use."""
        if not self._is_measured:
            self._is_measured = True
            most = max(self.choice.batches_ahead, affordable_batches(batch, available_bytes()))
            self.bounds = replace(self.bounds, most_ahead=min(self.bounds.most_ahead, most))
        if self._skip:
            self._skip -= 1
            return
        if self._start is None:
            self._start = self._sums()
            return
        elapsed_s = self._before[0] + self._stats.loop_s - self._start[0]
        batches = self._before[5] + self._stats.batches - self._start[5]
        if elapsed_s < self.window_s or batches < self.window_batches:
            return
        elapsed_s, wait_s, idle_s, busy_s, samples, _ = self._seen()
        self._start, self._before = self._sums(), _NOTHING
        seen = Seen(elapsed_s, wait_s, idle_s, busy_s, int(samples))
        self._use(*tune(self.choice, seen, self.bounds), set_ahead)

    def _sums(self) -> _Sums:
        stats = self._stats
        return stats.loop_s, stats.wait_s, stats.idle_s, stats.native_s, stats.samples, stats.batches

    def _seen(self) -> _Sums:
        assert self._start is not None
        here = zip(self._before, self._sums(), self._start, strict=True)
        elapsed_s, wait_s, idle_s, busy_s, samples, batches = (before + now - start for before, now, start in here)
        return elapsed_s, wait_s, idle_s, busy_s, samples, batches

    def _use(self, choice: Choice, why: str, set_ahead: Callable[[int], None]) -> None:
        old, self.choice = self.choice, choice
        if choice.workers != old.workers:
            self._set_workers(choice.workers)
            self._stats.workers = choice.workers
        if choice.batches_ahead != old.batches_ahead:
            set_ahead(choice.batches_ahead)
            self._stats.batches_ahead = choice.batches_ahead
        if why:
            self._stats.note_change(f"after {format_count(self._stats.batches, 'batch')}, {why}")
            self.begin()
            self._before = _NOTHING
