"""How large a sample is before it is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.types import Sample

__all__ = ["size_of"]

_COUNTED = (bytes, bytearray, str)
_SIZED = (int, float, memoryview, np.ndarray)
_ROWS = (tuple, list, Sample)


def size_of(sample: Any) -> int:
    """Roughly what the values of a sample take in memory.

    Example:
        >>> size_of((b"1234", 7)), size_of({"text": "abc"})
        (4, 3)
    """
    if isinstance(sample, _COUNTED):  # the most usual first: this is asked of every value
        return len(sample)
    if isinstance(sample, _SIZED):
        return int(getattr(sample, "nbytes", 0))
    if isinstance(sample, _ROWS):
        return sum(map(size_of, sample))
    if isinstance(sample, Mapping):
        return sum(map(size_of, sample.values()))
    if hasattr(sample, "getbands"):  # a Pillow image
        return int(sample.width * sample.height * len(sample.getbands()))
    return int(getattr(sample, "nbytes", 0))
