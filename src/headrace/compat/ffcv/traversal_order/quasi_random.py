"""Shuffled, with few pages of the file in use at a time: the order that FFCV draws, number for number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import quasi_random_order_ffcv
from headrace.compat.ffcv.traversal_order.base import TraversalOrder
from headrace.compat.passed_on import pass_on
from headrace.loader.launcher import find_rank

if TYPE_CHECKING:
    from headrace.compat.ffcv.loader.loader import Loader

__all__ = ["QuasiRandom", "generate_order_inner"]
pass_on(globals(), "DistributedSampler Sequence TYPE_CHECKING TraversalOrder njit np random")


def generate_order_inner(
    seed: int, page_to_samples_array: Any, page_sizes: Any, result: Any, buffer_size: int = 6
) -> None:
    """Fill ``result`` with the samples of all pages; a page's row has as many as ``page_sizes`` says.

    The rows are shuffled in place.
    """
    is_used = np.arange(page_to_samples_array.shape[1]) < np.asarray(page_sizes)[:, None]
    samples = np.ascontiguousarray(page_to_samples_array[is_used], np.int64)
    starts = np.concatenate([[0], np.cumsum(page_sizes)]).astype(np.int64)
    order = quasi_random_order_ffcv(samples, starts, int(seed) & 0xFFFFFFFF, buffer_size)
    page_to_samples_array[is_used] = samples
    result[:] = order[: len(result)]


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
