"""How large a sample is before it is encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.types import Sample

__all__ = ["size_of"]


def size_of(sample: Any) -> int:
    """Roughly what the values of a sample take in memory.

    Example:
        >>> size_of((b"1234", 7)), size_of({"text": "abc"})
        (4, 3)
    """
    if isinstance(sample, tuple | list | Sample):
        return sum(map(size_of, sample))
    if isinstance(sample, Mapping):
        return sum(map(size_of, sample.values()))
    if hasattr(sample, "getbands"):  # a Pillow image
        return int(sample.width * sample.height * len(sample.getbands()))
    return int(getattr(sample, "nbytes", 0)) or (len(sample) if isinstance(sample, bytes | bytearray | str) else 0)
