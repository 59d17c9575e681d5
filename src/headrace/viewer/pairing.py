"""Which sample of one dataset belongs to which sample of another: by name, by name without its ending, by number.

Names of millions of samples are not kept: each becomes a number of 64 bits (Python's own hash, which nobody outside of
this process can foresee), and these numbers are sorted and looked up. Where a name occurs several times, the first one
belongs to the first one, the second to the second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.types import Dataset, IndexArray, Progress

__all__ = ["By", "Pairing", "pair_samples"]

By = Literal["name", "stem", "number"]
_BLOCK = 1 << 16
_NONE = -1


@dataclass(frozen=True)
class Pairing:
    """Samples of two datasets, row by row: all of the first in their order, then those that only the second has.

    Args:
        by: what belongs together.
        lengths: samples of each dataset.
        partners: for each sample of the first dataset that of the second, -1 for none; None: the same number.
        only_second: samples of the second that no sample of the first belongs to, ascending; None: those beyond.
    """

    by: By
    lengths: tuple[int, int]
    partners: IndexArray | None = None
    others: IndexArray | None = None

    def __len__(self) -> int:
        return self.lengths[0] + self.only_in_second

    @property
    def only_in_second(self) -> int:
        """How many samples only the second dataset has."""
        return max(0, self.lengths[1] - self.lengths[0]) if self.others is None else len(self.others)

    @cached_property
    def pairs(self) -> int:
        """How many samples have a partner."""
        if self.partners is None:
            return min(self.lengths)
        return int(np.count_nonzero(self.partners != _NONE))

    @property
    def only_in_first(self) -> int:
        """How many samples only the first dataset has."""
        return self.lengths[0] - self.pairs

    def at(self, rows: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Samples of the first and of the second dataset in rows; -1 where there is none."""
        first = np.where(rows < self.lengths[0], rows, _NONE)
        if self.partners is None:
            return first, np.where(rows < self.lengths[1], rows, _NONE)
        second = np.full(len(rows), _NONE, np.int64)
        is_first = rows < self.lengths[0]
        second[is_first] = self.partners[rows[is_first]]
        if self.others is not None:
            second[~is_first] = self.others[rows[~is_first] - self.lengths[0]]
        return first, second

    @cached_property
    def rows_only_in_first(self) -> IndexArray | range:
        """Rows without a sample of the second dataset."""
        if self.partners is None:
            return range(min(self.lengths), self.lengths[0])
        return np.flatnonzero(self.partners == _NONE)

    @property
    def rows_only_in_second(self) -> range:
        """Rows without a sample of the first dataset."""
        return range(self.lengths[0], len(self))

    def row_of(self, first: int) -> int:
        """The row of a sample of the first dataset."""
        return first

    def paired_rows(self, size: Callable[[], int]) -> Iterator[IndexArray]:
        """Rows with both samples in order, as many at a time as ``size`` says."""
        start = 0
        while start < self.lengths[0]:
            stop = min(start + max(1, size()), self.lengths[0])
            rows = np.arange(start, stop, dtype=np.int64)
            _, second = self.at(rows)
            yield rows[second != _NONE]
            start = stop


def pair_samples(a: Dataset, b: Dataset, *, by: By | None = None, progress: Progress | None = None) -> Pairing:
    """Find out what belongs together.

    Args:
        a: the first dataset.
        b: the second.
        by: ``"number"``; ``"name"``; ``"stem"``, the name without its ending (``a/1.jpg`` and ``a/1.png``). By default
            names if both have some; without endings if no name is in both.
        progress: called as the work advances, with the number of names read.

    Raises:
        ValueError: names are asked for, and one of the datasets has none.
    """
    lengths = (len(a), len(b))
    if by == "number" or (by is None and (a.keys is None or b.keys is None)):
        return Pairing("number", lengths)
    for dataset in (a, b):
        if dataset.keys is None:
            raise ValueError(f"the samples of {dataset.path} have no names; compare by number")
    told = _Told(progress, 2 * sum(lengths) if by is None else sum(lengths))
    found = _by_names(a, b, by or "name", told)
    if by is None and not found.pairs and all(lengths):
        without_endings = _by_names(a, b, "stem", told)
        found = without_endings if without_endings.pairs else found
    return found


def _by_names(a: Dataset, b: Dataset, by: By, told: _Told) -> Pairing:
    first, second = (_hashes(dataset.keys or (), by, told) for dataset in (a, b))
    order = np.argsort(second, kind="stable")
    second = second[order]
    partners = _match(first, second)
    is_found = partners != _NONE
    partners[is_found] = order[partners[is_found]]
    is_taken = np.zeros(len(second), np.bool_)
    is_taken[partners[is_found]] = True
    return Pairing(by, (len(a), len(b)), partners, np.flatnonzero(~is_taken))


def _match(first: npt.NDArray[np.int64], ascending: npt.NDArray[np.int64]) -> IndexArray:
    """For each number its place among others; the n-th of equal ones gets the n-th place, -1 where there is none."""
    partners = np.full(len(first), _NONE, np.int64)
    repeats = _repeats(first)
    for start in range(0, len(first), _BLOCK):
        wanted = first[start : start + _BLOCK]
        places = np.searchsorted(ascending, wanted, "left")
        if repeats is not None:
            places += repeats[start : start + _BLOCK]
        is_inside = places < len(ascending)
        is_inside[is_inside] = ascending[places[is_inside]] == wanted[is_inside]
        partners[start : start + _BLOCK][is_inside] = places[is_inside]
    return partners


def _repeats(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32] | None:
    """How many equal numbers stand before each; None where all are different, which is the rule."""
    order = np.argsort(numbers, kind="stable")
    is_new = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[order[1:]], numbers[order[:-1]], out=is_new[1:])
    if is_new.all():
        return None
    starts = np.flatnonzero(is_new)
    counts = np.diff(np.append(starts, len(numbers)))
    repeats = np.empty(len(numbers), np.int32)
    repeats[order] = np.arange(len(numbers)) - np.repeat(starts, counts)
    return repeats


def _hashes(names: Sequence[str], by: By, told: _Told) -> npt.NDArray[np.int64]:
    found = np.empty(len(names), np.int64)
    for start in range(0, len(names), _BLOCK):
        block: Iterable[str] = names[start : start + _BLOCK]
        if by == "stem":
            block = (os.path.splitext(name)[0] for name in block)
        found[start : start + _BLOCK] = np.fromiter(map(hash, block), np.int64)
        told.add(min(_BLOCK, len(names) - start))
    return found


class _Told:
    """Names read so far."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total, 0)
