"""What the header of a JPEG says beyond its size: sampling, quality, restart interval, what else is in it.

Only the segments before the first scan are walked, each once, and no more of them than real files have: a hostile
header costs no more than a long one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import ImageError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.types import Buffer

__all__ = ["JpegHeader", "estimate_quality", "read_header"]

_MAX_SEGMENTS = 4096
_FRAMES = frozenset((0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF))
_PROGRESSIVE, _ARITHMETIC = frozenset((0xC2, 0xC6, 0xCA, 0xCE)), frozenset(range(0xC9, 0xD0))
_START_OF_IMAGE, _END_OF_IMAGE, _START_OF_SCAN = 0xD8, 0xD9, 0xDA
_TABLES, _RESTART = 0xDB, 0xDD
_BLOCK = 8
_EXTRAS = (
    (0xE0, b"JFIF\0", "JFIF"),
    (0xE1, b"Exif\0\0", "Exif"),
    (0xE1, b"http://ns.adobe.com/xap/1.0/", "XMP"),
    (0xE2, b"ICC_PROFILE\0", "colour profile"),
    (0xE2, b"MPF\0", "further pictures (MPF)"),
    (0xED, b"Photoshop 3.0\0", "Photoshop"),
    (0xEE, b"Adobe", "Adobe"),
    (0xFE, b"", "comment"),
)
# The table for luminance of the standard's annex K, in zigzag order: most encoders scale it by their quality.
_LUMINANCE = (
    *(16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40),
    *(26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60, 57, 51),
    *(56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87),
    *(95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class JpegHeader:
    """What stands before the first scan.

    ``factors`` are the sampling factors of each component, across and down. ``quality`` is that of libjpeg whose table
    for luminance comes closest, and ``is_standard`` says that the table is exactly that one. ``restart_interval`` is a
    number of MCUs, 0 where there is none. ``extras`` names what else is in the header.
    """

    width: int
    height: int
    precision: int
    factors: tuple[tuple[int, int], ...]
    is_progressive: bool
    is_arithmetic: bool
    restart_interval: int
    quality: int | None
    is_standard: bool
    extras: tuple[str, ...]

    @property
    def mcu(self) -> tuple[int, int]:
        """Width and height in pixels of the unit that a scan of all components is made of."""
        if len(self.factors) == 1:  # then there is nothing to interleave, whatever the factors say
            return _BLOCK, _BLOCK
        return _BLOCK * max(across for across, _ in self.factors), _BLOCK * max(down for _, down in self.factors)

    @property
    def sampling(self) -> str:
        """How much of the colours is kept, such as 4:2:0."""
        if len(self.factors) == 1:
            return "grey"
        luma, *chroma = self.factors
        shares = {(luma[0] / across, luma[1] / down) for across, down in chroma[:2]}
        known: dict[tuple[float, float], str] = {
            (1, 1): "4:4:4",
            (2, 1): "4:2:2",
            (2, 2): "4:2:0",
            (1, 2): "4:4:0",
            (4, 1): "4:1:1",
            (4, 2): "4:1:0",
        }
        words = known.get(next(iter(shares))) if len(shares) == 1 else None
        return words or ", ".join(f"{across}x{down}" for across, down in self.factors)


def read_header(data: Buffer) -> JpegHeader:
    """Walk the segments of a JPEG up to its first scan.

    Raises:
        ImageError: it is no JPEG, or its header is broken.

    Example:
        >>> import numpy as np
        >>> from headrace.codecs import jpeg
        >>> header = read_header(jpeg.encode(np.zeros((20, 30, 3), np.uint8), quality=90))
        >>> header.sampling, header.quality, header.mcu, header.restart_interval
        ('4:2:0', 90, (16, 16), 0)
    """
    frame: tuple[int, bytes] | None = None
    tables: dict[int, tuple[int, ...]] = {}
    restart, extras = 0, []
    for marker, body in _segments(memoryview(data).cast("B")):
        if marker in _FRAMES and frame is None:
            frame = marker, body
        elif marker == _TABLES:
            tables |= _read_tables(body)
        elif marker == _RESTART and len(body) >= 2:
            (restart,) = struct.unpack_from(">H", body)
        else:
            extras += [name for kind, start, name in _EXTRAS if kind == marker and body.startswith(start)]
    if frame is None:
        raise ImageError("the JPEG has no frame before its first scan")
    return _header(*frame, tables, restart, tuple(dict.fromkeys(extras)))


def _header(
    marker: int, body: bytes, tables: dict[int, tuple[int, ...]], restart: int, extras: tuple[str, ...]
) -> JpegHeader:
    if len(body) < 6 or len(body) < 6 + 3 * body[5] or not body[5]:
        raise ImageError(f"the frame of the JPEG is too short: {format_count(len(body), 'byte')}")
    precision, height, width, count = struct.unpack_from(">BHHB", body)
    parts = [body[6 + 3 * i : 9 + 3 * i] for i in range(count)]
    factors = tuple((part[1] >> 4, part[1] & 15) for part in parts)
    if any(not 1 <= factor <= 4 for pair in factors for factor in pair):
        raise ImageError(f"a sampling factor of the JPEG is not 1 to 4: {factors}")
    quality, is_standard = estimate_quality(tables[parts[0][2]]) if parts[0][2] in tables else (None, False)
    return JpegHeader(
        width=width,
        height=height,
        precision=precision,
        factors=factors,
        is_progressive=marker in _PROGRESSIVE,
        is_arithmetic=marker in _ARITHMETIC,
        restart_interval=restart,
        quality=quality,
        is_standard=is_standard,
        extras=extras,
    )


def _segments(data: memoryview) -> Iterator[tuple[int, bytes]]:
    """Markers and what follows them, up to the first scan."""
    if bytes(data[:2]) != b"\xff\xd8":
        raise ImageError("this is no JPEG")
    at = 2
    for _ in range(_MAX_SEGMENTS):
        while at < len(data) and data[at] == 0xFF and bytes(data[at + 1 : at + 2]) == b"\xff":
            at += 1  # any number of them may stand before a marker
        if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] in (_START_OF_SCAN, _END_OF_IMAGE):
            return
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if size < 2:
            return
        yield marker, bytes(data[at + 4 : at + 2 + size])
        at += 2 + size


def _read_tables(body: bytes) -> dict[int, tuple[int, ...]]:
    tables, at = {}, 0
    while at < len(body):
        number, width = body[at] & 15, 2 if body[at] >> 4 else 1
        values = body[at + 1 : at + 1 + 64 * width]
        if len(values) < 64 * width:
            break
        tables[number] = struct.unpack(">64H" if width == 2 else "64B", values)
        at += 1 + 64 * width
    return tables


def estimate_quality(table: Sequence[int]) -> tuple[int, bool]:
    """The quality of libjpeg whose table for luminance is closest to one, and whether it is the same.

    Example:
        >>> estimate_quality([1] * 64)
        (100, True)
    """
    distances = [sum(abs(a - b) for a, b in zip(table, _scaled(quality), strict=True)) for quality in range(1, 101)]
    best = min(distances)
    return 100 - distances[::-1].index(best), best == 0


def _scaled(quality: int) -> list[int]:
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return [min(255, max(1, (value * percent + 50) // 100)) for value in _LUMINANCE]
