"""Orders of one epoch: sequential, random, a subset, an array of one's own.

An order knows how many samples an epoch has and gives any slice of them, so nothing has to be replayed to resume and
nothing has to be stored but what the order itself needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from headrace.order.permutation import permute

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["ArrayOrder", "Order", "RandomOrder", "SequentialOrder", "SubsetOrder"]

_PERMUTATION = 0x6F01  # what the random words begin with, so that they never meet others


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
