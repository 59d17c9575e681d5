"""The quasi-random order: shuffled, but only some pages of the file are in use at a time, and each rank has its own.

The order is woven from *strands*: position p belongs to strand p % strands. The shuffled pages are dealt to the strands
in turn, and the samples of a strand move a random distance of a few pages. Rank r of a world takes the positions p with
p % world == r; where the world divides the number of strands, these are whole strands, so no other rank uses its pages.
The order knows nothing of ranks: the same samples come at the same positions whatever their number is.

Strands have the same length, and pages do not. What a strand has too much at its end goes to the ends of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.counter_random import random_bits
from headrace.order.orders import ArrayOrder
from headrace.order.permutation import permute

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["quasi_random_order"]

# What the random words begin with, so that they never meet others.
_PAGES, _SPREAD = 0x6F02, 0x6F03

_PAGES_OPEN = 2  # of a strand at a time, at least: its pages mix with each other
_PAGES_OF_A_STRAND = 4  # at least, or there are fewer strands
_MOST_STRANDS = 1 << 16
_MOST_MOVED = 1 / 8  # of all samples, to the ends of other strands; or there are fewer strands
_LARGEST_POOL = 1 << 30  # so that places fit into 64 bits; no file has as many pages


def quasi_random_order(pages: npt.NDArray[np.integer], *, pool_pages: int, seed: int, epoch: int) -> ArrayOrder:
    """Shuffle samples so that at any time only about ``pool_pages`` pages are in use, and different ones by each rank.

    Pages are shuffled and dealt to strands. In a strand, every sample is put at the place of its page plus a random
    distance of at most a strand's share of ``pool_pages``, and the samples are taken by place. So the samples of a page
    come after all of those that lie a pool before it and before all of those a pool behind it: data larger than memory
    are read page by page.

    Args:
        pages: number of the page that each sample lies on.
        pool_pages: how many pages the samples of one page spread over; 1 shuffles pages and their samples only. There
            are half as many strands, if there are pages enough.
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
    pool = min(pool_pages, _LARGEST_POOL)
    page_of, counts = _numbered(pages)
    turns = permute(np.arange(len(counts)), len(counts), key=(seed, epoch, _PAGES))
    by_turn = np.empty_like(counts)
    by_turn[turns] = counts
    strands = _strand_count(by_turn, pool)
    lengths = _lengths(by_turn, strands)
    apart = -(-len(counts) // strands) + -(-pool // strands)  # from the first place of a strand to that of the next
    starts = (turns % strands * apart + turns // strands).astype(np.uint64) << np.uint64(32)
    place = random_bits(seed, epoch, _SPREAD, np.arange(len(pages), dtype=np.int64))
    place >>= np.uint64(32)
    place *= np.uint64(pool)
    place //= np.uint64(strands)
    place += starts[page_of]
    del page_of
    return ArrayOrder(_woven(np.argsort(place, kind="stable"), lengths))


def _numbered(pages: npt.NDArray[np.integer]) -> tuple[IndexArray, IndexArray]:
    """The pages that have samples, numbered from 0 on: that of each sample, and how many samples each has."""
    _, page_of, counts = np.unique(pages, return_inverse=True, return_counts=True)
    return page_of, counts


def _strand_count(counts: IndexArray, pool: int) -> int:
    """How many strands are right for pages of so many samples, in the order in which they are dealt."""
    strands = max(1, min(pool // _PAGES_OPEN, _MOST_STRANDS))
    while strands > 1 and not _is_fair(counts, strands):
        strands //= 2
    return strands


def _is_fair(counts: IndexArray, strands: int) -> bool:
    """Every strand has some pages, and about as many samples as the others."""
    if len(counts) < strands * _PAGES_OF_A_STRAND:
        return False
    lengths = _lengths(counts, strands)
    moved = np.maximum(lengths - lengths.mean(), 0).sum()
    return bool(moved <= _MOST_MOVED * lengths.sum())


def _lengths(counts: IndexArray, strands: int) -> IndexArray:
    """Samples of the pages that each strand gets."""
    rounds = -(-len(counts) // strands)
    padded = np.zeros(rounds * strands, np.int64)
    padded[: len(counts)] = counts
    lengths: IndexArray = padded.reshape(rounds, strands).sum(axis=0)
    return lengths


def _woven(samples: IndexArray, lengths: IndexArray) -> IndexArray:
    """Take one sample of each strand in turn; ``samples`` has one strand after the other."""
    strands = len(lengths)
    if strands == 1:
        return samples
    order = np.empty_like(samples)
    own = np.split(samples, np.cumsum(lengths)[:-1])
    moved = np.concatenate([one[len(order[k::strands]) :] for k, one in enumerate(own)])
    for k, one in enumerate(own):
        places = order[k::strands]
        kept = min(len(one), len(places))
        places[:kept] = one[:kept]
        missing = len(places) - kept
        places[kept:], moved = moved[:missing], moved[missing:]
    return order
