"""What MXNet puts before a picture in a record: its label, or how many labels follow, and its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["HEADER", "encode_header", "split_header"]

HEADER = np.dtype([("flag", "<u4"), ("label", "<f4"), ("id", "<u8"), ("id2", "<u8")])
"""``flag`` is 0, or the number of float32 that follow and are the label."""

_ID = range(1 << 63)


def encode_header(label: float | npt.NDArray[np.float32], number: int) -> bytes:
    """The header of a record.

    Example:
        >>> len(encode_header(3.0, 0)), len(encode_header(np.zeros(2, np.float32), 0))
        (24, 32)
    """
    if number not in _ID:
        raise ValueError(f"id must be from 0 to 2**63 - 1, got {number}")
    if isinstance(label, np.ndarray):
        return np.array((label.size, 0, number, 0), HEADER).tobytes() + label.astype("<f4").tobytes()
    return np.array((0, label, number, 0), HEADER).tobytes()


def split_header(data: bytes) -> tuple[Any, int, bytes] | None:
    """Label (a number or an array), number and content of a record; None where it is too short for its header."""
    if len(data) < HEADER.itemsize:
        return None
    head = np.frombuffer(data, HEADER, 1)[0]
    count = int(head["flag"])
    end = HEADER.itemsize + 4 * count
    if end > len(data):
        return None
    label = np.frombuffer(data, "<f4", count, HEADER.itemsize) if count else float(head["label"])
    return label, int(head["id"]), data[end:]
