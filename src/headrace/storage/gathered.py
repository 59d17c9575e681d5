"""Spans that lie in several arrays, copied into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.storage.spans import Positions

__all__ = ["Piece", "gathered"]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some of the spans.

    Args:
        numbers: which of them.
        array: that has their bytes.
        positions: where in it they begin.
    """

    numbers: npt.NDArray[np.intp]
    array: npt.NDArray[np.uint8]
    positions: Positions


def gathered(pieces: list[Piece], sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
    """One array with all spans of the pieces, and where in it each span begins; others have size 0.

    Example:
        >>> first = Piece(np.array([1]), np.frombuffer(b"abcd", np.uint8), np.array([2], np.uint64))
        >>> second = Piece(np.array([0]), np.frombuffer(b"efgh", np.uint8), np.array([0], np.uint64))
        >>> array, begins = gathered([first, second], np.array([3, 2], np.uint64))
        >>> array.tobytes(), begins.tolist()
        (b'efgcd', [0, 3])
    """
    ends = np.cumsum(sizes)
    begins = ends - sizes
    array = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for piece in pieces:
        spans = (begins[piece.numbers], ends[piece.numbers], piece.positions)
        for begin, end, position in zip(*(one.tolist() for one in spans), strict=True):
            array[begin:end] = piece.array[position : position + end - begin]
    return array, begins
