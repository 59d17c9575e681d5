"""Batches of one epoch for one of several ranks.

All ranks take part in each step: step k uses the positions from k * global_batch on, and rank r takes every world-th
of them beginning with the r-th. So the ranks partition the epoch, all have the same number of steps, and after a
change of the number of ranks the same samples come in the same steps as long as the global batch stays the same.

Where the order has a pattern, every world-th place may be of the same source always: of "abab" one rank of two would
have only a. Then each rank takes neighbouring places instead, a *block*. What a pattern promises of every beginning to
less than one, it so promises of every batch to less than two, for a block is the difference of two beginnings. Which
block a rank takes is drawn anew in every step: so no rank has more of a source than the others in the long run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.counter_random import random_bits

if TYPE_CHECKING:
    from headrace.order.orders import Order
    from headrace.types import IndexArray

__all__ = ["BatchPlan"]

_FIRST_RANK = 0x6F05  # what the random words begin with, so that they never meet others


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchPlan:
    """How an epoch is cut into batches.

    Args:
        batch_size: samples in a batch of one rank.
        drop_last: leave out a last step that is not full. Otherwise its samples are shared out as evenly as
            possible, and with fewer samples than ranks some ranks get an empty batch.
        rank: which of the ranks this is.
        world: how many there are.
        in_blocks: each rank takes neighbouring places.

    Example:
        >>> import numpy as np
        >>> from headrace.order import SequentialOrder
        >>> plan = BatchPlan(batch_size=2, drop_last=True, rank=1, world=2)
        >>> plan.steps(10), plan.batch(SequentialOrder(10), 1).tolist()
        (2, [5, 7])
    """

    batch_size: int
    drop_last: bool = True
    rank: int = 0
    world: int = 1
    in_blocks: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.world < 1:
            raise ValueError(f"world must be at least 1, got {self.world}")
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank must be 0 to {self.world - 1} in a world of {self.world}, got {self.rank}")

    @property
    def global_batch(self) -> int:
        """Samples that all ranks together take in one step."""
        return self.batch_size * self.world

    def steps(self, n: int) -> int:
        """Batches in an epoch of n samples, the same on every rank."""
        return n // self.global_batch if self.drop_last else -(-n // self.global_batch)

    def batch(self, order: Order, step: int) -> IndexArray:
        """Indices of this rank's samples in one step."""
        start = step * self.global_batch
        stop = min(start + self.global_batch, len(order))
        if not self.in_blocks:
            return order.slice(start, stop)[self.rank :: self.world]
        begin = start + self._block_begin(stop - start, step)
        return order.slice(begin, begin + self.size_of(order, step))

    def samples(self, order: Order) -> IndexArray:
        """Indices of this rank's samples in the whole epoch, in their order."""
        steps = self.steps(len(order))
        if self.in_blocks:
            return np.concatenate([np.empty(0, np.int64), *(self.batch(order, step) for step in range(steps))])
        return order.slice(0, min(steps * self.global_batch, len(order)))[self.rank :: self.world]

    def _block_begin(self, count: int, step: int) -> int:
        """Where in a step of ``count`` places this rank's block is: the ranks come in a row that a drawn one begins."""
        first = int(random_bits(_FIRST_RANK, step) % np.uint64(self.world))
        size, larger = divmod(count, self.world)  # as many ranks, the lowest, have one more
        before = min(self.rank, larger) - min(first, larger) + (larger if self.rank < first else 0)
        return (self.rank - first) % self.world * size + before

    def size_of(self, order: Order, step: int) -> int:
        """Samples of this rank in one step."""
        left = min(self.global_batch, len(order) - step * self.global_batch)
        return max(0, -(-(left - self.rank) // self.world))
