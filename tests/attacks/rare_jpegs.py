"""Whole, valid JPEGs of kinds that few programs write: 12 bits a sample, lossless, hierarchical. All are grey.

The encoder is as small as it can be: quantization by 1, Huffman codes of one length, and in each block of the kinds
with a DCT a mean and one wave.
"""

from __future__ import annotations

import struct

__all__ = ["RARE"]

_SIZES = 16  # of differences: as many symbols, all with codes of five bits


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def _huffman(kind: int, symbols: list[int]) -> bytes:
    """A table in which all codes have five bits, the first being 0."""
    counts = [0] * 16
    counts[4] = len(symbols)
    return bytes([kind << 4, *counts, *symbols])


def _number(value: int) -> tuple[int, str]:
    """The size of a number, and the bits that follow it."""
    size = abs(value).bit_length()
    return size, "" if size == 0 else f"{value if value > 0 else value + (1 << size) - 1:0{size}b}"


def _packed(bits: str) -> bytes:
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8)
    return data.replace(b"\xff", b"\xff\0")


def _frame(marker: int, bits: int, side: int) -> bytes:
    return _segment(marker, struct.pack(">BHHB3B", bits, side, side, 1, 1, 0x11, 0))


def _scan(first: int, last: int, exactness: int = 0) -> bytes:
    return _segment(0xDA, bytes([1, 1, 0, first, last, exactness]))


def _tables() -> bytes:
    quantization = _segment(0xDB, bytes([0, *[1] * 64]))
    sizes = list(range(_SIZES))
    return quantization + _segment(0xC4, _huffman(0, sizes)) + _segment(0xC4, _huffman(1, [0, *sizes[1:]]))


def _blocks(count: int, top: int, *, with_dc: bool = True, with_ac: bool = True) -> bytes:
    """Blocks whose means go up and down, as far as ``top``, with a wave in each."""
    bits, before = "", 0
    for k in range(count):
        mean, wave = (top if k % 2 else -top), 40 + k
        if with_dc:
            size, rest = _number(mean - before)
            bits += f"{size:05b}{rest}"
            before = mean
        if with_ac:
            size, rest = _number(wave)
            bits += f"{size:05b}{rest}" + "00000"
    return _packed(bits)


def _sequential(frame: int, bits: int) -> bytes:
    top = 8 << (bits - 2)
    return b"\xff\xd8" + _tables() + _frame(frame, bits, 16) + _scan(0, 63) + _blocks(4, top) + b"\xff\xd9"


def _progressive(bits: int) -> bytes:
    top = 8 << (bits - 2)
    first = _scan(0, 0) + _blocks(4, top, with_ac=False)
    second = _scan(1, 63) + _blocks(4, top, with_dc=False)
    return b"\xff\xd8" + _tables() + _frame(0xC2, bits, 16) + first + second + b"\xff\xd9"


def _lossless(frame: int, bits: int) -> bytes:
    """A slope: every sample but the first is predicted from the one to its left or above."""
    text, before_row = "", 1 << (bits - 1)
    for row in range(16):
        before = before_row
        for column in range(16):
            value = ((row * 9 + column * 5 + (row * column) % 7) << bits >> 9) + (1 << (bits - 2))
            size, rest = _number(value - before)
            text += f"{size:05b}{rest}"
            before = value
            if column == 0:
                before_row = value
    table = _segment(0xC4, _huffman(0, list(range(_SIZES))))
    return b"\xff\xd8" + table + _frame(frame, bits, 16) + _scan(1, 0) + _packed(text) + b"\xff\xd9"


def _hierarchical() -> bytes:
    """A small picture, which is doubled, and differences to it that are nought."""
    small = _frame(0xC1, 8, 8) + _scan(0, 63) + _blocks(1, 200)
    expand = _segment(0xDF, bytes([0x11]))
    nought = _packed(("00000" + "00000") * 4)
    large = expand + _frame(0xC5, 8, 16) + _scan(0, 63) + nought
    return b"\xff\xd8" + _tables() + _frame(0xDE, 8, 16) + small + large + b"\xff\xd9"


RARE = {
    "8 bits": _sequential(0xC1, 8),
    "8 bits, progressive": _progressive(8),
    "12 bits": _sequential(0xC1, 12),
    "12 bits, baseline": _sequential(0xC0, 12),
    "12 bits, progressive": _progressive(12),
    "lossless, 8 bits": _lossless(0xC3, 8),
    "lossless, 12 bits": _lossless(0xC3, 12),
    "lossless, 16 bits": _lossless(0xC3, 16),
    "hierarchical": _hierarchical(),
}
"""The first two are usual ones, by the same encoder."""
