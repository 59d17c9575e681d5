"""Which of several things comes next, in given proportions that hold in every beginning of the row.

Of a thing with the share w, less than one more or less than w n must be among the first n. So its item number c (from
0) must have a place from floor(c / w) on and before ceil((c + 1) / w). There is always a row that keeps to this: at
each place comes the item that is free to come and whose time ends first (Tijdeman 1980; Baruah and others 1996). Shares
that are whole numbers repeat the row after as many places as they sum to; only that much of it is kept.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from headrace._native import find_in_row, interleave, locate_in_row
from headrace.storage import room_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import IndexArray

__all__ = ["Proportions", "whole_shares"]

_FINEST = 1 << 52
_BLOCK = 64


def whole_shares(weights: Sequence[float | Fraction]) -> list[int]:
    """Weights as whole numbers without a common divisor; as exact as they are written, or to 52 bits.

    Example:
        >>> whole_shares([0.7, 0.2, 0.1]), whole_shares([2, 4])
        ([7, 2, 1], [1, 2])
    """
    exact = [Fraction(str(weight)) if isinstance(weight, float) else Fraction(weight) for weight in weights]
    scale = lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * scale) for weight in exact]
    whole = [share // gcd(*whole) for share in whole]
    if sum(whole) <= _FINEST:
        return whole
    total = sum(whole)
    return [max(1, round(Fraction(share * _FINEST, total))) if share else 0 for share in whole]


class Proportions:
    """The row, by place: what comes there, and how often it has come before. It is an Interleaving of a dataset.

    Args:
        weights: the share of each thing, not negative, one at least positive.
        length: places of the row.

    Example:
        >>> row = Proportions([0.5, 0.25, 0.25], 8)
        >>> [part.tolist() for part in row.locate(np.arange(8))], row.totals
        ([[0, 1, 0, 2, 0, 1, 0, 2], [0, 0, 1, 0, 2, 1, 3, 1]], [4, 2, 2])
        >>> row.places_of(0, np.array([3, 0])).tolist()
        [6, 0]
    """

    def __init__(self, weights: Sequence[float | Fraction], length: int) -> None:
        shares = whole_shares(weights)
        self._period = min(sum(shares), max(length, 1))
        blocks = -(-self._period // _BLOCK)
        fix = "Choose a smaller length, or weights that are small whole numbers."
        with room_for(blocks * _BLOCK * 2, "the order of a mixture", fix=fix):
            row = np.full(blocks * _BLOCK, len(shares), np.uint16)
            row[: self._period] = interleave(np.array(shares, np.uint64), self._period)
        self._row = row.reshape(blocks, _BLOCK)
        self._before = np.zeros((len(shares), blocks + 1), np.int64)  # each block
        for thing in range(len(shares)):
            np.cumsum((self._row == thing).sum(1), out=self._before[thing, 1:])
        self.totals: list[int] = self._counts(length)

    def _counts(self, end: int) -> list[int]:
        """How often each thing comes before a place."""
        rounds, place = divmod(end, self._period)
        block, within = divmod(place, _BLOCK)
        begun = self._row[block, :within] if within else self._row[:0]
        here = [int((begun == thing).sum()) for thing in range(len(self._before))]
        whole = self._before[:, -1].tolist()
        before = self._before[:, block].tolist()
        return [rounds * one + two + three for one, two, three in zip(whole, before, here, strict=True)]

    def locate(self, places: IndexArray) -> tuple[IndexArray, IndexArray]:
        """What comes at places, and how often it came before."""
        return locate_in_row(self._row, self._before, self._period, np.ascontiguousarray(places, np.int64))

    def places_of(self, thing: int, numbers: IndexArray) -> IndexArray:
        """Where a thing comes for the first time (number 0), the second, and so on."""
        return find_in_row(self._row, self._before, self._period, thing, np.ascontiguousarray(numbers, np.int64))
