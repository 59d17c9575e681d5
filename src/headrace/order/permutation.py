"""A permutation of range(n) under a key, one element at a time: no table, O(1) memory for billions of samples.

The numbers below n are written as pairs (high, low) with a and b values, a * b >= n, and go through rounds of a
Feistel network over these two moduli; each round adds a keyed hash of one half to the other, which can be undone,
so the whole is a permutation of a * b numbers. A result that is not below n goes through again (cycle walking);
a * b exceeds n by less than sqrt(n), so that is rare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace import _native

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["permute"]

_MASK = (1 << 64) - 1


def permute(positions: npt.NDArray[np.int64], n: int, *, key: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Where a keyed permutation of range(n) sends each of the positions.

    Example:
        >>> sorted(permute(np.arange(10), 10, key=(1, 2)).tolist()) == list(range(10))
        True
    """
    return _native.permute(np.ascontiguousarray(positions, np.int64), n, [int(word) & _MASK for word in key])
