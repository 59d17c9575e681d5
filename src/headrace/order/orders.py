"""Orders of one epoch: sequential, random, quasi-random, a subset, an array of one's own.

An order knows how many samples an epoch has and gives any slice of them, so nothing has to be replayed to resume and
nothing has to be stored but what the order itself needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from headrace.counter_random import random_bits
from headrace.order.permutation import permute

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["ArrayOrder", "Order", "RandomOrder", "SequentialOrder", "SubsetOrder", "quasi_random_order"]

# What the random words of this room begin with, so that they never meet those of the ops.
_PERMUTATION, _PAGES, _SPREAD = 0x6F01, 0x6F02, 0x6F03


@runtime_checkable
class Order(Protocol):
    """The samples of one epoch, in order."""

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> IndexArray:
        """Indices of the samples at the positions from ``start`` to before ``stop``."""
        ...


@dataclass(frozen=True, slots=True)
class SequentialOrder:
    """Sample 0, 1, 2 and so on."""

    n: int

    def __len__(self) -> int:
        return self.n

    def slice(self, start: int, stop: int) -> IndexArray:
        """Indices of the samples at some positions."""
        return np.arange(start, min(stop, self.n), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RandomOrder:
    """All samples shuffled, fixed by seed and epoch; takes no memory, whatever n is.

    Example:
        >>> order = RandomOrder(1_000_000_000, seed=0, epoch=3)
        >>> len(order.slice(500_000_000, 500_000_004))
        4
    """

    n: int
    seed: int
    epoch: int

    def __len__(self) -> int:
        return self.n

    def slice(self, start: int, stop: int) -> IndexArray:
        """Indices of the samples at some positions."""
        positions = np.arange(start, min(stop, self.n), dtype=np.int64)
        return permute(positions, self.n, key=(self.seed, self.epoch, _PERMUTATION))


@dataclass(frozen=True, slots=True, eq=False)
class ArrayOrder:
    """An order that is kept as an array."""

    indices: IndexArray

    def __len__(self) -> int:
        return len(self.indices)

    def slice(self, start: int, stop: int) -> IndexArray:
        """Indices of the samples at some positions."""
        return self.indices[start:stop]


@dataclass(frozen=True, slots=True, eq=False)
class SubsetOrder:
    """An order over positions in a list of samples."""

    indices: IndexArray
    order: Order

    def __len__(self) -> int:
        return len(self.order)

    def slice(self, start: int, stop: int) -> IndexArray:
        """Indices of the samples at some positions."""
        return self.indices[self.order.slice(start, stop)]


def quasi_random_order(pages: npt.NDArray[np.integer], *, pool_pages: int, seed: int, epoch: int) -> ArrayOrder:
    """Shuffle samples so that at any time only about ``pool_pages`` pages are in use.

    Pages are shuffled; then every sample is put at the place of its page plus a random distance of at most
    ``pool_pages`` pages, and the samples are taken by place. So the samples of the page at place p come after all of
    those at p - pool_pages and before all of those at p + pool_pages: data larger than memory are read page by page.

    Args:
        pages: number of the page that each sample lies on.
        pool_pages: how many pages the samples of one page spread over; 1 shuffles pages and their samples only.
        seed: fixes the order, together with epoch.
        epoch: see seed.

    Example:
        >>> order = quasi_random_order(np.array([0, 0, 1, 1, 2, 2]), pool_pages=1, seed=0, epoch=0)
        >>> [{int(i) // 2 for i in order.slice(k, k + 2)} for k in (0, 2, 4)] in (
        ...     [[{a}, {b}, {c}] for a in range(3) for b in range(3) for c in range(3)])
        True
    """
    if pool_pages < 1:
        raise ValueError(f"pool_pages must be at least 1, got {pool_pages}")
    numbers, page_of = np.unique(pages, return_inverse=True)
    places = permute(np.arange(len(numbers)), len(numbers), key=(seed, epoch, _PAGES))
    samples = np.arange(len(pages), dtype=np.int64)
    distance = (random_bits(seed, epoch, _SPREAD, samples) >> np.uint64(32)) * np.uint64(pool_pages)
    place = (places[page_of].astype(np.uint64) << np.uint64(32)) + distance
    return ArrayOrder(np.argsort(place, kind="stable").astype(np.int64))
