"""Shuffled, with few pages of the file in use at a time: the order that FFCV draws, number for number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.compat.ffcv.traversal_order.base import TraversalOrder
from penstock.loader.options import find_rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.compat.ffcv.loader.loader import Loader

__all__ = ["QuasiRandom"]

_WORDS_AT_ONCE = 1 << 16


class QuasiRandom(TraversalOrder):
    """Samples in random order from a pool of ``2 * batch_size`` open pages.

    The samples inside a page stay shuffled from epoch to epoch, so an epoch depends on those drawn before it. With
    several ranks all draw the same order, and each takes every world-th sample of it.
    """

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        if not loader.memory_manager.page_to_samples:
            raise ValueError("Dataset won't benefit from QuasiRandom order, use regular Random")
        kept = set(np.asarray(self.indices).tolist())
        page_to_samples = loader.memory_manager.page_to_samples
        self.pages: list[list[int]] = [[] for _ in range(max(page_to_samples) + 1)]
        for page, samples in page_to_samples.items():
            self.pages[page] = [sample for sample in samples if sample in kept]

    def sample_order(self, epoch: int) -> Any:
        """The samples of an epoch."""
        order = _draw(self.pages, (self.seed * 912300 + epoch) & 0xFFFFFFFF, 2 * self.loader.batch_size)
        if not self.distributed:
            return order
        rank, world = find_rank(distributed=True, rank=None, world=None)
        padded = np.resize(order, math.ceil(len(order) / world) * world)  # repeats the first ones
        return padded[rank::world]


def _draw(pages: list[list[int]], seed: int, pool: int) -> npt.NDArray[np.int64]:
    """Shuffle the samples of each page in place, and draw from open pages chosen at random."""
    inside, between = _words(seed), _words(seed)
    for page in pages:
        for i in range(len(page) - 1, 0, -1):
            shift = 32 - (i + 1).bit_length()
            while (j := next(inside) >> shift) > i:
                pass
            page[i], page[j] = page[j], page[i]
    numbers = list(range(len(pages)))
    for i in range(len(numbers) - 1, 0, -1):
        j = _below(between, i + 1)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return _take(pages, [number for number in numbers if pages[number]], between, pool)


def _take(pages: list[list[int]], waiting: list[int], between: Iterator[int], pool: int) -> npt.NDArray[np.int64]:
    rest = iter(waiting)
    left = {page: len(pages[page]) for page in waiting}
    sources = {page: iter(pages[page]) for page in waiting}
    open_pages: list[int] = []
    out: list[int] = []
    for _ in range(sum(left.values())):
        while len(open_pages) < pool and (page := next(rest, -1)) >= 0:
            open_pages.append(page)
        page = open_pages[_below(between, len(open_pages))]
        out.append(next(sources[page]))
        left[page] -= 1
        if not left[page]:
            open_pages.remove(page)
    return np.array(out, np.int64)


def _below(words: Iterator[int], n: int) -> int:
    """A number below n, from the low bits of words."""
    if n == 1:
        return 0
    mask = (1 << (n - 1).bit_length()) - 1
    while (value := next(words) & mask) >= n:
        pass
    return value


def _words(seed: int) -> Iterator[int]:
    """The 32-bit words of a Mersenne twister that is seeded as numpy's old generators are."""
    generator = np.random.RandomState(seed)
    while True:
        yield from generator.randint(0, 1 << 32, _WORDS_AT_ONCE, np.uint32).tolist()
