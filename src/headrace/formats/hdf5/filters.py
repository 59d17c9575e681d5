"""What HDF5 does to the bytes of a chunk before it stores them, undone: deflate, shuffle, Fletcher's checksum.

Only these are undone here, in plain memory, with the lock of Python released while chunks are unpacked: by libdeflate
where the core has it, which takes about two thirds of the time, and by zlib otherwise. LZF and SZIP are left to
the HDF5 library, every other filter is refused: the library would look for a plug-in, which is code, to undo it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._native import inflate_into
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ALLOWED", "BY_LIBRARY", "FLETCHER", "Filter", "fletcher32", "undo"]

_DEFLATE, _SHUFFLE, FLETCHER, _SZIP, _LZF = 1, 2, 3, 4, 32000
ALLOWED = {_DEFLATE: "gzip", _SHUFFLE: "shuffle", FLETCHER: "fletcher32", _SZIP: "szip", _LZF: "lzf"}
"""Numbers and names of the filters whose chunks are read."""
BY_LIBRARY = frozenset({_SZIP, _LZF})
_BLOCK = 1 << 16
_MODULUS = 65535


class Filter(NamedTuple):
    """One step that was done when a chunk was written: its number, and the numbers that belong to it."""

    number: int
    values: tuple[int, ...]


def undo(data: npt.NDArray[np.uint8], filters: Sequence[Filter], skipped: int, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of a chunk as they were; ValueError when they cannot be.

    Args:
        data: as they are stored.
        filters: as they were done, in order; all of them are undone here.
        skipped: bits of the filters that were not done for this chunk.
        size: bytes of the chunk.
    """
    for position, step in reversed(list(enumerate(filters))):
        if skipped >> position & 1:
            continue
        if step.number == _DEFLATE:
            data = _inflate(data, size + 4 * len(filters))  # what stands before may have added a checksum
        elif step.number == FLETCHER:
            data = _checked(data)
        else:
            data = _unshuffle(data, step.values[0] if step.values else 1)
    if len(data) != size:
        raise ValueError(f"a chunk has {format_count(size, 'byte')}, and this one unpacks to {len(data)}")
    return data


def _inflate(data: npt.NDArray[np.uint8], limit: int) -> npt.NDArray[np.uint8]:
    fast = np.empty(limit, np.uint8)
    size = inflate_into(np.ascontiguousarray(data), fast)
    if size is not None:
        return fast[:size]
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, limit)
    except zlib.error as error:
        raise ValueError(f"the chunk cannot be unpacked ({error})") from None
    if not unpacker.eof and unpacker.decompress(unpacker.unconsumed_tail, 1):
        raise ValueError(f"the chunk unpacks to more than {format_count(limit, 'byte')}")
    return np.frombuffer(unpacked, np.uint8)


def _checked(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if len(data) < 4:
        raise ValueError("the chunk is too short for its checksum")
    stored = int.from_bytes(data[-4:].tobytes(), "little")
    swapped = (stored & 0x00FF00FF) << 8 | (stored & 0xFF00FF00) >> 8  # as HDF5 wrote it before 1.6.3
    right = _halves(fletcher32(data[:-4]))
    if right not in (_halves(stored), _halves(swapped)):
        raise ValueError("the chunk does not have its checksum (fletcher32): it is damaged")
    return data[:-4]


def _halves(checksum: int) -> tuple[int, int]:
    return (checksum >> 16) % _MODULUS, (checksum & 0xFFFF) % _MODULUS


def fletcher32(data: npt.NDArray[np.uint8]) -> int:
    """Fletcher's checksum of 16-bit words, the first byte of each being the high one.

    Example:
        >>> hex(fletcher32(np.frombuffer(b"abcd", np.uint8)))
        '0x2629c4c6'
    """
    first = second = 0
    even = data if len(data) % 2 == 0 else np.append(data, np.uint8(0))
    words = np.ascontiguousarray(even).view(">u2")
    for start in range(0, len(words), _BLOCK):
        part = words[start : start + _BLOCK].astype(np.uint64)
        weights = np.arange(len(part), 0, -1, dtype=np.uint64)
        second = (second + len(part) * first + int(part @ weights)) % _MODULUS
        first = (first + int(part.sum())) % _MODULUS
    return second << 16 | first


def _unshuffle(data: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    if not 1 <= width <= max(1, len(data)):
        raise ValueError(f"the chunk cannot have been shuffled by {format_count(width, 'byte')}")
    count = len(data) // width
    body = np.ascontiguousarray(data[: count * width].reshape(width, count).T).reshape(-1)
    return body if len(body) == len(data) else np.concatenate([body, data[count * width :]])
