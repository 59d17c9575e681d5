"""Orders of datasets whose sources come in a pattern: each source is shuffled by itself, at the places that it has.

So what the pattern promises of every beginning, such as the proportions of a mixture, holds in every order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headrace.arrays import distinct
from headrace.counter_random import random_bits
from headrace.order.orders import Order, RandomOrder
from headrace.order.quasi_random import quasi_random_order

if TYPE_CHECKING:
    from headrace.types import IndexArray, Interleaving

__all__ = ["InterleavedOrder", "shuffled_order"]

_SOURCE = 0x6F04  # what the random words begin with, so that they never meet others


@dataclass(frozen=True, slots=True, eq=False)
class InterleavedOrder:
    """The pattern of a dataset, with an order for the places of each source."""

    interleaving: Interleaving
    orders: tuple[Order, ...]

    def __len__(self) -> int:
        return sum(self.interleaving.totals)

    def slice(self, start: int, stop: int) -> IndexArray:
        """Indices of the samples at some positions."""
        positions = np.arange(start, min(stop, len(self)), dtype=np.int64)
        sources, numbers = self.interleaving.locate(positions)
        indices = np.empty(len(positions), np.int64)
        for source in distinct(sources).tolist():
            here = sources == source
            own = numbers[here]  # in a row, for the positions are
            chosen = self.orders[source].slice(int(own[0]), int(own[-1]) + 1)
            indices[here] = self.interleaving.places_of(source, chosen)
        return indices


def shuffled_order(
    n: int,
    pages: IndexArray | None = None,
    *,
    seed: int,
    epoch: int,
    pool_pages: int = 1,
    interleaving: Interleaving | None = None,
) -> Order:
    """The random order of n samples, or the quasi-random one where pages are given; in a pattern if there is one.

    The sources of a pattern share ``pool_pages`` by how many places they have; each has one page at least.
    """
    if interleaving is None:
        if pages is None:
            return RandomOrder(n, seed, epoch)
        return quasi_random_order(pages, pool_pages=pool_pages, seed=seed, epoch=epoch)
    orders = []
    for source, total in enumerate(interleaving.totals):
        own_seed = int(random_bits(seed, _SOURCE, source))
        places = None if pages is None else interleaving.places_of(source, np.arange(total, dtype=np.int64))
        own_pages = None if pages is None else pages[places]
        pool = max(1, round(pool_pages * total / max(1, n)))
        orders.append(shuffled_order(total, own_pages, seed=own_seed, epoch=epoch, pool_pages=pool))
    return InterleavedOrder(interleaving, tuple(orders))
