"""A permutation of range(n) under a key, one element at a time: no table, O(1) memory for billions of samples.

The numbers below n are written as pairs (high, low) with a and b values, a * b >= n, and go through rounds of a
Feistel network over these two moduli; each round adds a keyed hash of one half to the other, which can be undone,
so the whole is a permutation of a * b numbers. A result that is not below n goes through again (cycle walking);
a * b exceeds n by less than sqrt(n), so that is rare.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from headrace.counter_random import random_bits

__all__ = ["permute"]

_ROUNDS = 5


def permute(positions: npt.NDArray[np.int64], n: int, *, key: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Where a keyed permutation of range(n) sends each of the positions.

    Example:
        >>> sorted(permute(np.arange(10), 10, key=(1, 2)).tolist()) == list(range(10))
        True
    """
    if n < 2:
        return positions.astype(np.int64)
    a = math.isqrt(n - 1) + 1
    b = -(-n // a)
    out = _network(positions.astype(np.uint64), a, b, key)
    outside = np.flatnonzero(out >= n)
    while len(outside):
        out[outside] = _network(out[outside], a, b, key)
        outside = outside[out[outside] >= n]
    return out.astype(np.int64)


def _network(numbers: npt.NDArray[np.uint64], a: int, b: int, key: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    high, low = numbers // np.uint64(b), numbers % np.uint64(b)
    for i in range(_ROUNDS):
        high = (high + random_bits(*key, 2 * i, low) % np.uint64(a)) % np.uint64(a)
        low = (low + random_bits(*key, 2 * i + 1, high) % np.uint64(b)) % np.uint64(b)
    joined: npt.NDArray[np.uint64] = high * np.uint64(b) + low
    return joined
