"""Shuffled, with few pages of the file in use at a time: the order that FFCV draws, number for number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import quasi_random_order_ffcv
from headrace.compat.ffcv.traversal_order.base import TraversalOrder
from headrace.loader.options import find_rank

if TYPE_CHECKING:
    from headrace.compat.ffcv.loader.loader import Loader

__all__ = ["QuasiRandom"]


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
        pages: list[list[int]] = [[] for _ in range(max(page_to_samples) + 1)]
        for number, samples in page_to_samples.items():
            pages[number] = [sample for sample in samples if sample in kept]
        self.samples = np.array([sample for page in pages for sample in page], np.int64)
        self.page_starts = np.cumsum([0, *map(len, pages)], dtype=np.int64)

    def sample_order(self, epoch: int) -> Any:
        """The samples of an epoch."""
        seed = (self.seed * 912300 + epoch) & 0xFFFFFFFF
        order = quasi_random_order_ffcv(self.samples, self.page_starts, seed, 2 * self.loader.batch_size)
        if not self.distributed:
            return order
        rank, world = find_rank(distributed=True, rank=None, world=None)
        padded = np.resize(order, math.ceil(len(order) / world) * world)  # repeats the first ones
        return padded[rank::world]
