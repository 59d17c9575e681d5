"""Whole pages of a file, read ahead of use into a cache of fixed size.

Contract. A ``PageCache`` knows the file and keeps memory; a ``PageWalk`` is one pass through the steps of an epoch. Its
thread reads the pages of coming steps in the order in which they are needed, as far ahead as there is room. Whoever
works on a step enters ``walk.step(k)``, which waits until all its pages are there, and leaves it when it is done with
them; steps are entered and left in about ascending order. A page is evicted when all steps that were read for are left
and it has not been used for the longest time. A failed read is raised by the step that needs it, or by one before it
whose pages were read together with it. ``close`` ends the thread, at most after the reads that are under way; it is
called at the latest when the interpreter exits.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from headrace.arrays import distinct
from headrace.read.ahead_thread import AheadThread
from headrace.read.ranges import read_ranges
from headrace.storage import allocate_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace._native import RangeReader
    from headrace.types import IndexArray, Source

__all__ = ["PageCache", "PageWalk"]

_PAGES_AT_ONCE = 4  # in one read; enough to keep the queue of a disk full
_READS = 2  # under way at a time


class PageCache:
    """Memory for some pages of a file; walks at the same time have some each.

    Args:
        path: of the file, for errors.
        reader: reads it.
        page_size: bytes of a page.
        size_bytes: how much memory to use; at least two pages.
        file_size: where the file ends; its last page may be short.
        fallback: what reads spans that are on no page of the cache.
        allocate: makes its memory; for a GPU it is pinned.
    """

    def __init__(
        self,
        path: str,
        reader: RangeReader,
        *,
        page_size: int,
        size_bytes: int,
        file_size: int,
        fallback: Source,
        allocate: Callable[[int], npt.NDArray[np.uint8]] = allocate_pages,
    ) -> None:
        self.path = path
        self.reader = reader
        self.page_size = page_size
        self.file_size = file_size
        self.fallback = fallback
        self.slots = max(2, min(size_bytes // page_size, -(-file_size // page_size)))
        self._allocate = allocate
        self._spare: list[npt.NDArray[np.uint8]] = []

    def take_memory(self) -> npt.NDArray[np.uint8]:
        """Room for all slots, that of an earlier walk where one is over."""
        try:
            return self._spare.pop()
        except IndexError:
            return self._allocate(self.slots * self.page_size)

    def give_memory(self, memory: npt.NDArray[np.uint8]) -> None:
        """Keep memory for the next walk."""
        if not self._spare:
            self._spare.append(memory)

    def walk(self, pages_of: Callable[[int], IndexArray], first: int, last: int) -> PageWalk:
        """Begin to read the pages of the steps from ``first`` to before ``last``."""
        return PageWalk(self, pages_of, first, last)


class PageWalk:
    """One pass through the steps of an epoch; see the contract above."""

    def __init__(self, cache: PageCache, pages_of: Callable[[int], IndexArray], first: int, last: int) -> None:
        self._cache = cache
        self._pages_of = pages_of
        self._last = last
        self._memory = cache.take_memory()
        self._change = threading.Condition()  # guards what follows
        self._slot_of: dict[int, int] = {}  # by page
        self._used_by: dict[int, int] = {}  # the last step, of those read for, that uses a page
        self._free = list(range(cache.slots))
        self._coming: dict[int, int] = {}  # pages that are being read; of the walk's own thread alone
        self._ready = first  # steps below it can be entered
        self._left_before = first  # all steps below it are left
        self._left: set[int] = set()
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread = AheadThread(self, partial(self._read_all, first), "headrace-pages")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; does nothing the second time."""
        with self._change:
            is_first, self._is_closed = not self._is_closed, True
            self._change.notify_all()
        self._thread.end()
        if is_first:
            self._cache.give_memory(self._memory)

    @contextlib.contextmanager
    def step(self, step: int) -> Iterator[Source]:
        """Wait for the pages of a step, and keep them until the end of the block."""
        with self._change:
            self._change.wait_for(lambda: self._ready > step or self._is_closed or self._error is not None)
            if self._ready <= step:
                raise self._error or RuntimeError("the pages of a closed walk were asked for")
        try:
            yield _StepSource(self, step)
        finally:
            self._leave(step)

    def _leave(self, step: int) -> None:
        with self._change:
            self._left.add(step)
            while self._left_before in self._left:
                self._left.remove(self._left_before)
                self._left_before += 1
            self._change.notify_all()

    def locate(
        self, step: int, pointers: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Where spans are in the cache; spans on pages that the step does not keep there are read for themselves."""
        size = np.uint64(self._cache.page_size)
        pages = pointers // size
        is_whole = (pointers % size + sizes <= size) | (sizes == 0)
        with self._change:
            kept = {page: slot for page, slot in self._slot_of.items() if self._used_by[page] >= step}
        slots = [kept.get(page, -1) for page in pages.tolist()]
        starts = np.array(slots, np.int64)
        starts[sizes == 0] = 0
        if not is_whole.all() or (starts < 0).any():
            return self._cache.fallback.locate(pointers, sizes)
        return self._memory, starts.astype(np.uint64) * size + pointers % size

    def _read_all(self, first: int) -> None:
        under_way: deque[_Reading] = deque()
        try:
            self._read_ahead(first, under_way)
        except BaseException as error:
            with self._change:
                self._error = error
                self._change.notify_all()
        finally:
            for reading in under_way:  # the memory goes to another walk
                with contextlib.suppress(BaseException):
                    reading.wait()

    def _read_ahead(self, first: int, under_way: deque[_Reading]) -> None:
        """Ask for one read while another is under way, so that the disk does not wait for us."""
        step = first
        while step < self._last or under_way:
            if step < self._last and len(under_way) < _READS:
                begun = step
                step, wanted = self._collect(step, may_wait=not under_way)
                if step < 0:
                    return
                if step > begun:
                    self._coming.update(wanted)
                    under_way.append(_Reading(self._read, step, wanted))
                    continue
            done = under_way.popleft()
            done.wait()
            with self._change:
                for page in done.pages:
                    del self._coming[page]
                self._slot_of.update(done.pages)
                self._ready = done.until
                self._change.notify_all()

    def _collect(self, step: int, *, may_wait: bool) -> tuple[int, dict[int, int]]:
        """Find room for the pages of this step, and of the following ones as long as nobody has to be waited for.

        Returns the first step that is not served, and the pages to read with their slots; -1 when it is time to stop.
        """
        wanted: dict[int, int] = {}
        first = step
        while step < self._last:
            pages = distinct(self._pages_of(step)).tolist()
            if len(pages) > self._cache.slots:
                pages = []  # too many for the cache: the step reads its spans for itself
            with self._change:
                while not self._make_room(pages, wanted, step):
                    # Waiting now would keep steps that are read for from being entered, and so from being left.
                    if step > first or not may_wait:
                        return step, wanted
                    if self._is_closed:
                        return -1, {}
                    self._change.wait()
            step += 1
            if self._is_closed or len(wanted) >= _PAGES_AT_ONCE:
                break
        return (-1, {}) if self._is_closed else (step, wanted)

    def _make_room(self, pages: list[int], wanted: dict[int, int], step: int) -> bool:
        missing = [p for p in pages if p not in self._slot_of and p not in wanted and p not in self._coming]
        short = len(missing) - len(self._free)
        if short > 0:
            idle = [p for p in self._slot_of if self._used_by[p] < self._left_before and p not in pages]
            if len(idle) < short:
                return False
            for page in sorted(idle, key=self._used_by.__getitem__)[:short]:
                self._free.append(self._slot_of.pop(page))
                del self._used_by[page]
        for page in missing:
            wanted[page] = self._free.pop()
        for page in pages:
            self._used_by[page] = step
        return True

    def _read(self, wanted: dict[int, int]) -> None:
        cache, count = self._cache, len(wanted)
        if not count:
            return
        pointers = np.fromiter(wanted, np.uint64, count) * np.uint64(cache.page_size)
        places = np.fromiter(wanted.values(), np.uint64, count) * np.uint64(cache.page_size)
        ends = np.minimum(pointers + np.uint64(cache.page_size), np.uint64(cache.file_size))
        read_ranges(cache.path, cache.reader, pointers, ends - np.minimum(pointers, ends), self._memory, places)


class _Reading:
    """Pages that are being read, in a thread of their own, for the steps before ``until``."""

    def __init__(self, read: Callable[[dict[int, int]], None], until: int, pages: dict[int, int]) -> None:
        self.until, self.pages = until, pages
        self._read = read
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-pages", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._read(self.pages)
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Return when they are here; raises what went wrong."""
        self._thread.join()
        if self._error is not None:
            raise self._error


class _StepSource:
    """The pages of one step."""

    def __init__(self, walk: PageWalk, step: int) -> None:
        self._walk = walk
        self._step = step

    def locate(
        self, pointers: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Where spans are in memory."""
        return self._walk.locate(self._step, pointers, sizes)
