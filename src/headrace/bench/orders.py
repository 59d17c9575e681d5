"""Orders of an epoch, with how random each of them is; also the one that streams of shards have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from headrace.order import RandomOrder, quasi_random_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.types import IndexArray

__all__ = ["Randomness", "buffered_order", "order_of", "randomness", "shard_order", "shuffle_buffer"]

_Item = TypeVar("_Item")


class Randomness(NamedTuple):
    """How far an order is from that of the file, in three ways.

    Attributes:
        rank_correlation: of places and samples: 1 for the order of the file, 0 for a random one.
        page_mates: share of the pairs of a batch that lie on one page.
        distance: mean distance of neighbours in the file, beside that of a random order: 0 to about 1.
    """

    rank_correlation: float
    page_mates: float
    distance: float


def randomness(order: IndexArray, pages: IndexArray, batch_size: int) -> Randomness:
    """Measure one order.

    Example:
        >>> found = randomness(np.arange(1000), np.arange(1000) // 100, 50)
        >>> found.rank_correlation, found.page_mates, round(found.distance, 3)
        (1.0, 1.0, 0.003)
    """
    correlation = float(np.corrcoef(np.arange(len(order)), order)[0, 1])
    distance = float(np.abs(np.diff(order)).mean() / (len(order) / 3))
    shares = [_mates(pages[order[start : start + batch_size]]) for start in range(0, len(order), batch_size)]
    return Randomness(round(correlation, 12), float(np.mean(shares)), distance)


def _mates(pages: IndexArray) -> float:
    count = len(pages)
    if count < 2:
        return 0.0
    _, sizes = np.unique(pages, return_counts=True)
    return float((sizes * (sizes - 1)).sum() / (count * (count - 1)))


def order_of(kind: str, pages: IndexArray, *, seed: int, pool_pages: int = 1) -> IndexArray:
    """The order that a Loader has for ``order=kind``."""
    n = len(pages)
    if kind == "sequential":
        return np.arange(n)
    if kind == "random":
        return RandomOrder(n, seed, 0).slice(0, n)
    return quasi_random_order(pages, pool_pages=pool_pages, seed=seed, epoch=0).slice(0, n)


def shard_order(n: int, shard_samples: int, seed: int) -> list[range]:
    """The samples of each shard, the shards shuffled."""
    starts = np.random.default_rng(seed).permutation(np.arange(0, n, shard_samples)).tolist()
    return [range(start, min(start + shard_samples, n)) for start in starts]


def buffered_order(n: int, *, shard_samples: int, buffer: int, seed: int) -> IndexArray:
    """Shards shuffled, and read one after the other through a buffer that gives a random one of what it holds."""
    stream = (sample for shard in shard_order(n, shard_samples, seed) for sample in shard)
    return np.fromiter(shuffle_buffer(stream, buffer, seed), np.int64, n)


def shuffle_buffer(items: Iterable[_Item], size: int, seed: int) -> Iterator[_Item]:
    """All items: as soon as the buffer is full, each new one takes the place of a random one, which is given."""
    rng = np.random.default_rng(seed)
    held: list[_Item] = []
    for item in items:
        if len(held) < size:
            held.append(item)
            continue
        place = int(rng.integers(size))
        yield held[place]
        held[place] = item
    rng.shuffle(held)
    yield from held
