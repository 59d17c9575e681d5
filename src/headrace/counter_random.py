"""Random numbers as a pure function of integers: no state, the same on every machine, any number of them at once.

Each number is a hash of the words that name it, such as (seed, epoch, sample, operation, draw). The hash is a chain
of 64-bit finalizers (the one of splitmix64), so neighbouring words give unrelated numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing import Any

__all__ = ["random_bits", "random_uniform"]

Word: TypeAlias = "int | npt.NDArray[np.integer[Any]]"

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


def random_bits(*words: Word, after: npt.NDArray[np.uint64] | None = None) -> npt.NDArray[np.uint64]:
    """64 random bits for each combination of words (integers, or arrays that broadcast).

    Args:
        words: what names the numbers.
        after: the bits of the words that stand before these, when many numbers share them.

    Example:
        >>> random_bits(7, 0, np.arange(3)).tolist() == [int(random_bits(7, 0, i)) for i in range(3)]
        True
        >>> int(random_bits(3, after=random_bits(1, 2))) == int(random_bits(1, 2, 3))
        True
    """
    state = np.zeros((), np.uint64) if after is None else after
    with np.errstate(over="ignore"):
        for word in words:
            state = _finalize((state ^ _as_bits(word)) + _STEP)
    return state


def random_uniform(*words: Word, after: npt.NDArray[np.uint64] | None = None) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each combination of words, with 53 random bits."""
    numbers: npt.NDArray[np.float64] = (random_bits(*words, after=after) >> np.uint64(11)).astype(np.float64)
    return numbers * 2.0**-53


def _as_bits(word: Word) -> npt.NDArray[np.uint64]:
    if isinstance(word, np.ndarray):
        return word.astype(np.int64, copy=False).view(np.uint64) if word.dtype.kind == "i" else word.astype(np.uint64)
    return np.asarray(int(word) & _MASK, np.uint64)


def _finalize(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed
