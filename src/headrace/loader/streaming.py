"""The bytes of coming steps, brought from a store ahead of use.

Contract. A ``Streaming`` is one pass through the steps of an epoch. Its thread announces to the dataset what the steps
will read, in their order: for the quasi-random order all samples of a page as soon as one of them is needed, where the
page is this rank's own, and in all other cases the samples of the step. At most ``ahead_bytes`` are announced for steps
that nobody has entered, but those of two steps in any case. Whoever works on a step enters ``step(k)``, which waits
until its bytes are here, and leaves it when it has read them; then what is used up is let go, and of the rest what no
announced step needs beyond ``ahead_bytes``. What goes wrong on the way is raised by the step that needs it. Where what
is brought is kept on the local disk, the thread also says when each part is needed again; to find that out takes a
while for many samples, so the first two steps are announced before. ``stop`` lets go of everything, also of what is on
its way, and wakes whoever waits; it does not wait for the thread, so that the garbage collector may call it. ``close``
does. The loader's belt calls ``stop`` before its threads are waited for, also when the interpreter exits.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from headrace.arrays import distinct
from headrace.errors import ClosedError
from headrace.read import AheadThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from headrace.loader.use_times import UsesOf
    from headrace.types import Announcement, Dataset, IndexArray

__all__ = ["AHEAD_BYTES", "ComingSteps", "Streaming"]

AHEAD_BYTES = 256 << 20
_LEAST_STEPS = 2
_OWN_SHARE = 0.75  # of the samples on a page; a rank with fewer brings them one step at a time


@dataclass(frozen=True, slots=True)
class ComingSteps:
    """What the steps of an epoch read.

    Args:
        dataset: as it is in this epoch.
        fields: that are read.
        samples_of: the samples of a step.
        pages: the page of each sample, where whole pages are used up in about the order in which they come.
        samples: all of the epoch; None for every sample of the dataset.
        own: gives those of this rank; None where it has all.
        next_uses: finds out when parts are needed again, if the next epoch's order is known.
    """

    dataset: Dataset
    fields: tuple[str, ...]
    samples_of: Callable[[int], IndexArray]
    pages: IndexArray | None = None
    samples: IndexArray | None = None
    own: Callable[[], IndexArray] | None = None
    next_uses: Callable[[], UsesOf] | None = None

    def parts_of(self) -> Callable[[int], Iterator[tuple[int, IndexArray, int]]]:
        """A function that gives what a step needs in parts: a number, samples that come together, how many it uses."""
        if self.pages is None:
            return self._whole_step
        pages, own_pages = self.pages, _OwnPages(self.pages, self.samples, self.own)

        def parts(step: int) -> Iterator[tuple[int, IndexArray, int]]:
            samples = self.samples_of(step)
            of_samples = pages[samples]
            is_own = own_pages.has(of_samples)
            if not is_own.all():
                yield -1 - step, samples[~is_own], int(np.count_nonzero(~is_own))  # a number that no page has
            yield from own_pages.parts(of_samples[is_own])

        return parts

    def _whole_step(self, step: int) -> Iterator[tuple[int, IndexArray, int]]:
        samples = self.samples_of(step)
        yield step, samples, len(samples)


class _OwnPages:
    """The pages of which a rank uses all or nearly all samples, and those samples.

    Args:
        pages: the page of each sample.
        samples: all of the epoch; None for every one.
        own: gives those of this rank; None where it has all.
    """

    def __init__(self, pages: IndexArray, samples: IndexArray | None, own: Callable[[], IndexArray] | None) -> None:
        mine = _distinct_samples(len(pages), samples if own is None else own())
        self._samples = mine[np.argsort(pages[mine], kind="stable")]
        of_mine = pages[self._samples]
        self._begins = np.append(0, np.flatnonzero(of_mine[1:] != of_mine[:-1]) + 1)[: len(mine)]
        self._ends = np.append(self._begins[1:], len(mine))
        self._numbers = of_mine[self._begins]
        self._is_own = np.ones(len(self._numbers), np.bool_)
        if own is not None:
            of_all = np.sort(pages if samples is None else pages[_distinct_samples(len(pages), samples)], kind="stable")
            totals = np.searchsorted(of_all, self._numbers, "right") - np.searchsorted(of_all, self._numbers)
            self._is_own = self._ends - self._begins >= _OWN_SHARE * totals

    def has(self, numbers: IndexArray) -> npt.NDArray[np.bool_]:
        """Which of some pages are the rank's own; it has samples on all of them."""
        found: npt.NDArray[np.bool_] = self._is_own[np.searchsorted(self._numbers, numbers)]
        return found

    def parts(self, numbers: IndexArray) -> Iterator[tuple[int, IndexArray, int]]:
        """For each page its number, the rank's samples on it, and how often it is named."""
        ordered = np.sort(numbers)
        pages = distinct(ordered)
        counts = np.diff(np.searchsorted(ordered, pages), append=len(ordered))
        places = np.searchsorted(self._numbers, pages)
        for page, place, count in zip(*(a.tolist() for a in (pages, places, counts)), strict=True):
            yield page, self._samples[self._begins[place] : self._ends[place]], count


def _distinct_samples(n: int, samples: IndexArray | None) -> IndexArray:
    """The samples, ascending and each once; None is all of n."""
    is_used = np.full(n, samples is None)
    if samples is not None:
        is_used[samples] = True
    return np.flatnonzero(is_used)


@dataclass(slots=True)
class _Part:
    """What comes together, and the steps that need it."""

    announced: Announcement | None
    size_bytes: int
    first_step: int
    unused: int  # samples that no step has used
    uses: dict[int, int] = field(default_factory=dict)  # samples that an announced step will use

    @property
    def is_cached(self) -> bool:
        return self.announced is not None and self.announced.is_cached


class Streaming:
    """One pass through the steps of an epoch; see the contract above.

    Args:
        coming: what they read.
        first: the first step.
        last: the step before which the epoch ends.
        ahead_bytes: how much is announced ahead.
    """

    def __init__(self, coming: ComingSteps, first: int, last: int, ahead_bytes: int = AHEAD_BYTES) -> None:
        self._coming = coming
        self._first, self._last = first, last
        self._ahead_bytes = ahead_bytes
        self._change = threading.Condition()  # guards what follows
        self._parts: dict[int, _Part] = {}
        self._announced = first  # steps below it are announced
        self._entered = first  # so is the highest one that was entered, plus 1
        self._errors: dict[int, BaseException] = {}
        self._is_stopped = False
        self._uses_of: UsesOf | None = None  # this and the next are of the thread alone
        self._untold: list[tuple[int, _Part]] = []
        self._thread = AheadThread(self, self._run, "headrace-streaming")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def stop(self) -> None:
        """Let go of everything; does not wait. Does nothing the second time."""
        with self._change:
            self._is_stopped = True
            parts, self._parts = list(self._parts.values()), {}
            self._change.notify_all()
        for part in parts:
            _let_go(part)

    def close(self) -> None:
        """The same, and wait for the thread."""
        self.stop()
        self._thread.end()

    @contextlib.contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Wait for the bytes of a step, and keep them until the end of the block."""
        with self._change:
            self._entered = max(self._entered, step + 1)
            self._change.notify_all()
            self._change.wait_for(lambda: self._announced > step or self._is_stopped)
            if error := self._errors.get(step):
                raise error
            if self._is_stopped:
                raise ClosedError("the epoch was left while its bytes were on their way")
            mine = [part for part in self._parts.values() if step in part.uses]
        try:
            for part in mine:
                if part.announced is not None:
                    part.announced.wait()
            yield None
        finally:
            self._leave(step)

    def _leave(self, step: int) -> None:
        with self._change:
            kept: dict[int, _Part] = {}
            over: list[_Part] = []
            for number, part in self._parts.items():
                part.unused -= part.uses.pop(step, 0)
                if part.uses or part.unused > 0:
                    kept[number] = part
                else:
                    over.append(part)
            too_many = self._too_many(kept)
            self._parts = kept
            self._change.notify_all()
        for part in over:
            _let_go(part, used_up=self._coming.pages is not None)
        for part in too_many:
            _let_go(part)

    def _too_many(self, parts: dict[int, _Part]) -> list[_Part]:
        """Take out parts that no announced step needs, those of the earliest steps first, when they are too many."""
        resting = sorted((part.first_step, number) for number, part in parts.items() if not part.uses)
        size = sum(parts[number].size_bytes for _, number in resting)
        taken: list[_Part] = []
        for _, number in resting:
            if size <= self._ahead_bytes:
                break
            taken.append(parts.pop(number))
            size -= taken[-1].size_bytes
        return taken

    def _run(self) -> None:
        step = self._first
        try:
            parts_of = self._coming.parts_of()
            for step in range(self._first, self._last):
                if not self._wait_for_room(step):
                    return
                for number, samples, used in parts_of(step):
                    self._announce(step, number, samples, used)
                with self._change:
                    self._announced = step + 1
                    self._change.notify_all()
                if step == min(self._first + _LEAST_STEPS, self._last) - 1:
                    self._find_next_uses()
        except BaseException as error:
            with self._change:
                failed = max(step, self._announced)  # a step that was announced may be over already
                self._errors[failed] = error
                self._announced = failed + 1
                self._change.notify_all()

    def _wait_for_room(self, step: int) -> bool:
        """False when it is time to stop."""
        with self._change:
            self._change.wait_for(lambda: self._is_stopped or self._has_room(step))
            return not self._is_stopped

    def _has_room(self, step: int) -> bool:
        if step < self._entered + _LEAST_STEPS:
            return True
        return self._ahead_bytes > sum(p.size_bytes for p in self._parts.values() if p.first_step >= self._entered)

    def _announce(self, step: int, number: int, samples: IndexArray, used: int) -> None:
        with self._change:
            known = self._parts.get(number)
            if known is not None:
                known.uses[step] = used
                return
        announced = self._coming.dataset.announce(samples, self._coming.fields)
        part = _Part(announced, 0 if announced is None else announced.size_bytes, step, len(samples), {step: used})
        self._tell_next_use(number, part)
        with self._change:
            if not self._is_stopped:
                self._parts[number] = part
                return
        _let_go(part)

    def _find_next_uses(self) -> None:
        """Begin to say when parts are needed again, with those that are announced already."""
        untold, self._untold = self._untold, []
        if self._is_stopped or self._coming.next_uses is None or not any(part.is_cached for _, part in untold):
            return
        self._uses_of = self._coming.next_uses()
        for number, part in untold:
            self._tell_next_use(number, part)

    def _tell_next_use(self, number: int, part: _Part) -> None:
        if self._uses_of is not None and part.announced is not None:
            if (uses := self._uses_of(number, part.first_step)) is not None:
                part.announced.needed_again(*uses)
        elif part.first_step < self._first + _LEAST_STEPS:
            self._untold.append((number, part))


def _let_go(part: _Part, *, used_up: bool = False) -> None:
    if part.announced is not None:
        part.announced.close(used_up=used_up)
