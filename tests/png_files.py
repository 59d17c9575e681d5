"""PNG files of every kind: Pillow writes few of them."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHANNELS", "DEPTHS", "chunk", "png_file", "with_chunk"]

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}

_PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name: bytes, content: bytes) -> bytes:
    """A chunk with its checksum."""
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png_file(
    numbers: np.ndarray,
    colour: int,
    depth: int,
    *,
    is_interlaced: bool = False,
    filters: bytes = b"\0",
    palette: bytes = b"",
    extra: bytes = b"",
    parts: int = 1,
) -> bytes:
    """A PNG of these numbers, height x width x channels; row y has the filter ``filters[y % len(filters)]``."""
    height, width, _ = numbers.shape
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(is_interlaced))
    rows = b"".join(_filtered(part, depth, filters) for part in _passes(numbers, is_interlaced))
    stream = zlib.compress(rows, 1)
    step = -(-len(stream) // parts)
    pixels = b"".join(chunk(b"IDAT", stream[at : at + step]) for at in range(0, len(stream), step))
    colours = chunk(b"PLTE", palette) if palette else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + colours + extra + pixels + chunk(b"IEND", b"")


def with_chunk(data: bytes, name: bytes, content: bytes) -> bytes:
    """The same PNG with one more chunk before its pixels."""
    at = data.index(b"IDAT") - 4
    return data[:at] + chunk(name, content) + data[at:]


def _passes(numbers: np.ndarray, is_interlaced: bool) -> Iterator[np.ndarray]:
    if not is_interlaced:
        yield numbers
        return
    for x, y, dx, dy in _PASSES:
        part = numbers[y::dy, x::dx]
        if part.size:
            yield part


def _filtered(numbers: np.ndarray, depth: int, filters: bytes) -> bytes:
    step = max(1, numbers.shape[2] * depth // 8)
    above = bytes(len(_packed(numbers[0], depth)))
    out = bytearray()
    for y, row in enumerate(numbers):
        line = _packed(row, depth)
        kind = filters[y % len(filters)]
        out.append(kind)
        out += bytes((value - _predicted(kind, line, above, i, step)) & 255 for i, value in enumerate(line))
        above = line
    return bytes(out)


def _packed(row: np.ndarray, depth: int) -> bytes:
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = np.unpackbits(row.astype(np.uint8).reshape(-1, 1), axis=1)[:, 8 - depth :]
    return np.packbits(bits.reshape(-1)).tobytes()


def _predicted(kind: int, line: bytes, above: bytes, i: int, step: int) -> int:
    left = line[i - step] if i >= step else 0
    up = above[i]
    corner = above[i - step] if i >= step else 0
    if kind == 4:
        guess = left + up - corner
        return min((left, up, corner), key=lambda value: abs(guess - value))
    return (0, left, up, (left + up) // 2)[kind]
