"""Arithmetic on spans of bytes: which blocks they touch, which of them are fetched together."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Interval",
    "MergedSpans",
    "missing_parts",
    "runs_of",
    "spans_in_blocks",
    "touched_blocks",
    "touches",
    "with_interval",
]

Positions: TypeAlias = npt.NDArray[np.uint64]
Interval: TypeAlias = tuple[int, int]


def touched_blocks(offsets: Positions, sizes: Positions, block_bytes: int) -> list[int]:
    """The numbers of all blocks of which spans have a byte, ascending.

    Example:
        >>> touched_blocks(np.array([5, 90, 7], np.uint64), np.array([1, 20, 0], np.uint64), 10)
        [0, 9, 10]
    """
    numbers: list[int] = np.unique(spans_in_blocks(offsets, sizes, block_bytes)[1]).tolist()
    return numbers


def spans_in_blocks(
    offsets: Positions, sizes: Positions, block_bytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All pairs of a span and a block of which it has a byte, span after span.

    Example:
        >>> spans_in_blocks(np.array([5, 7, 90], np.uint64), np.array([1, 0, 20], np.uint64), 10)
        (array([0, 2, 2]), array([ 0,  9, 10]))
    """
    some = np.flatnonzero(sizes)
    first = (offsets[some] // block_bytes).astype(np.int64)
    last = ((offsets[some] + sizes[some] - np.uint64(1)) // block_bytes).astype(np.int64)
    if (first == last).all():
        return some, first
    counts = last - first + 1
    steps = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(counts.cumsum() - counts, counts)
    return np.repeat(some, counts), np.repeat(first, counts) + steps


def touches(offsets: Positions, sizes: Positions, block_bytes: int, numbers: list[int]) -> npt.NDArray[np.bool_]:
    """Which spans have a byte of one of these blocks, given in ascending order.

    Example:
        >>> touches(np.array([5, 90, 7], np.uint64), np.array([1, 20, 0], np.uint64), 10, [0, 10]).tolist()
        [True, True, False]
    """
    blocks = np.array(numbers, np.int64)
    first = (offsets // block_bytes).astype(np.int64)
    last = ((offsets + np.maximum(sizes, 1) - np.uint64(1)) // block_bytes).astype(np.int64)
    found: npt.NDArray[np.bool_] = (np.searchsorted(blocks, first) < np.searchsorted(blocks, last, "right")) & (
        sizes > 0
    )
    return found


def runs_of(numbers: list[int], most: int) -> list[list[int]]:
    """Ascending numbers as runs without gaps, each of at most so many.

    Example:
        >>> runs_of([1, 2, 3, 7, 8], 2)
        [[1, 2], [3], [7, 8]]
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number and len(runs[-1]) < most:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


class MergedSpans:
    """Spans that lie close together as one range each, and a buffer in which the ranges lie one after the other.

    Args:
        offsets: where the spans begin.
        sizes: of the spans.
        gap: bytes between two spans that are fetched along.

    Example:
        >>> merged = MergedSpans(np.array([100, 0, 12], np.uint64), np.array([5, 10, 8], np.uint64), 4)
        >>> merged.ranges, merged.size_bytes
        ([(0, 20), (100, 105)], 25)
        >>> merged.positions(np.array([101], np.uint64)).tolist()
        [21]
    """

    def __init__(self, offsets: Positions, sizes: Positions, gap: int) -> None:
        is_some = sizes > 0
        order = np.argsort(offsets[is_some], kind="stable")
        starts = offsets[is_some][order].astype(np.int64)
        ends = np.maximum.accumulate(starts + sizes[is_some][order].astype(np.int64))
        is_first = np.ones(len(starts), bool)
        is_first[1:] = starts[1:] > ends[:-1] + gap
        is_last = np.ones(len(starts), bool)
        is_last[:-1] = is_first[1:]
        self._starts, self._ends = starts[is_first], ends[is_last]
        lengths = self._ends - self._starts
        self._bases = lengths.cumsum() - lengths
        self.size_bytes = int(lengths.sum())

    @property
    def ranges(self) -> list[Interval]:
        """The ranges, ascending; one is as far from the next as the gap, or farther."""
        return list(zip(self._starts.tolist(), self._ends.tolist(), strict=True))

    def has(self, offsets: Positions, sizes: Positions) -> npt.NDArray[np.bool_]:
        """Which of these spans lie in the ranges; empty ones do."""
        found: npt.NDArray[np.bool_] = sizes == 0
        if len(self._starts):
            starts = offsets.astype(np.int64)
            places = np.searchsorted(self._starts, starts, "right") - 1
            found |= (places >= 0) & (starts + sizes.astype(np.int64) <= self._ends[places])
        return found

    def covers(self, offsets: Positions, sizes: Positions) -> bool:
        """All of these spans lie in the ranges."""
        return bool(np.all(self.has(offsets, sizes)))

    def positions(self, offsets: Positions) -> Positions:
        """Where in the buffer spans begin that are covered."""
        if not len(self._starts):
            return np.zeros(len(offsets), np.uint64)
        starts = offsets.astype(np.int64)
        places = np.maximum(np.searchsorted(self._starts, starts, "right") - 1, 0)
        found = self._bases[places] + starts - self._starts[places]
        clipped: Positions = np.clip(found, 0, self.size_bytes).astype(np.uint64)
        return clipped


def missing_parts(known: list[Interval], start: int, end: int) -> list[Interval]:
    """The parts of a range that lie in none of the intervals, which are ascending and apart.

    Example:
        >>> missing_parts([(2, 4), (8, 9)], 0, 10)
        [(0, 2), (4, 8), (9, 10)]
    """
    parts: list[Interval] = []
    for first, last in known:
        if last <= start or first >= end:
            continue
        if first > start:
            parts.append((start, first))
        start = max(start, last)
    return [*parts, (start, end)] if start < end else parts


def with_interval(known: list[Interval], start: int, end: int) -> list[Interval]:
    """The intervals and one more, ascending and apart.

    Example:
        >>> with_interval([(0, 2), (8, 9)], 2, 5)
        [(0, 5), (8, 9)]
    """
    merged: list[Interval] = []
    for first, last in sorted([*known, (start, end)]):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
