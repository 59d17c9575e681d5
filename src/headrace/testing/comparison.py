"""Whether two values are the same: bits of numbers, types of texts, dtypes and shapes of arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["assert_same", "is_same"]


def is_same(found: Any, expected: Any) -> bool:
    """Whether a value that was read is the one that was written.

    Arrays must have the same shape and the same numbers; their byte order may be another. A NaN is a NaN.

    Example:
        >>> is_same(np.array([1], ">i4"), np.array([1], "<i4")), is_same("a", b"a")
        (True, False)
    """
    if isinstance(expected, np.ndarray) or isinstance(found, np.ndarray):
        return _same_arrays(np.asarray(found), np.asarray(expected))
    if isinstance(expected, float) and isinstance(found, float):
        return (math.isnan(found) and math.isnan(expected)) or repr(found) == repr(expected)
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    return type(found) is type(expected) and bool(found == expected)


def _same_arrays(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    if found.shape != expected.shape or found.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        return False
    native = expected.dtype.newbyteorder("=")
    return found.astype(native).tobytes() == expected.astype(native).tobytes()


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Fail with the place and both values when they differ."""
    assert is_same(found, expected), f"{where}: {_shown(found)} came out, {_shown(expected)} went in"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}: {value.reshape(-1)[:6].tolist()}..."
    text = repr(value)
    return text if len(text) < 120 else f"{text[:100]}... ({len(text)} characters)"
