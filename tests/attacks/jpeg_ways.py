"""The ways in which a JPEG can be decoded, side by side."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from headrace import _native
from headrace.codecs import jpeg
from headrace.errors import ImageError
from headrace.loader.job import counts_by_name
from headrace.types import ImageSpans

LEVELS = ["scalar", "sse42", "avx2", "avx512"]
LEVELS = LEVELS[: LEVELS.index(_native.simd_level()) + 1]


class Way(NamedTuple):
    """How, at which level, with or without an index."""

    how: str
    level: str
    is_indexed: bool


class Outcome(NamedTuple):
    """Pixels, or why there are none; how often an index was rejected."""

    pixels: np.ndarray | None
    problem: str
    rejected: int = 0


@lru_cache
def threads() -> _native.ImageLoader:
    return _native.ImageLoader(1)


def make_index(data: bytes) -> bytes:
    try:
        return jpeg.index(data, tile=2)
    except ImageError:
        return b""


def load(data: bytes, shape: tuple[int, int], index: bytes, how: str, window: tuple[int, int, int, int]) -> Outcome:
    left, top, width, height = window
    out = np.zeros((1, height, width, 3), np.uint8)
    place = np.zeros(1, np.uint64)
    spans = ImageSpans(
        np.frombuffer(data, np.uint8),
        place,
        np.array([len(data)], np.uint64),
        np.zeros(1, np.uint8),
        np.array([shape[1]], np.uint32),
        np.array([shape[0]], np.uint32),
        tile_indices=(np.frombuffer(index, np.uint8), place, np.array([len(index)], np.uint64)) if index else None,
    )
    crops = np.array([[top, left, height, width]], np.int32)
    fast = how == "fast"
    options = _native.LoadOptions(
        interpolation="area" if fast else "nearest", jpeg="window" if fast else how, fast=fast
    )
    report = threads().load(spans, crops, np.zeros(1, np.uint8), out, options)
    rejected = counts_by_name(report.counts)["indices_rejected"]
    if report.failures:
        return Outcome(None, report.failures[0].detail, rejected)
    return Outcome(out[0], "", rejected)


def decode_whole(data: bytes) -> Outcome:
    try:
        return Outcome(jpeg.decode(data), "")
    except ImageError as error:
        return Outcome(None, str(error))


def disagreement(data: bytes, rng: np.random.Generator, levels: list[str] | None = None) -> str | None:
    """What two ways of decoding do not agree about, or None."""
    try:
        info = jpeg.read_info(data)
    except ImageError:
        return None if decode_whole(data).pixels is None else "decoded without a header"
    shape = (info.height, info.width)
    if info.width * info.height > 1 << 18:
        return None
    whole, index = decode_whole(data), make_index(data)
    before = _native.simd_level()
    try:
        for level in levels or LEVELS:
            _native.set_simd_level(level)
            if problem := _disagreement(data, shape, index, whole, rng, level):
                return f"{problem}; {level}"
    finally:
        _native.set_simd_level(before)
    return None


def _disagreement(
    data: bytes, shape: tuple[int, int], index: bytes, whole: Outcome, rng: np.random.Generator, level: str
) -> str | None:
    height, width = shape
    top, left = int(rng.integers(height)), int(rng.integers(width))
    part = (left, top, int(rng.integers(1, width - left + 1)), int(rng.integers(1, height - top + 1)))
    for how in ("libjpeg", "window", "slice", "fast"):
        for one in (b"", index) if index and how != "libjpeg" else (b"",):
            way = f"{how}{' by index' if one else ''}"
            found = load(data, shape, one, how, (0, 0, width, height))
            if (found.pixels is None) != (whole.pixels is None):
                return f"{way}: {found.problem or 'decoded'}, whole: {whole.problem or 'decoded'}"
            if found.rejected:
                return f"{way}: the index was rejected"
            if how == "fast" or whole.pixels is None or found.pixels is None:
                continue
            if not np.array_equal(found.pixels, whole.pixels):
                return f"{way}: other pixels"
            cut = load(data, shape, one, how, part)
            if cut.pixels is None:
                return f"{way}: {part} {cut.problem}"
            if not np.array_equal(cut.pixels, whole.pixels[top : top + part[3], left : left + part[2]]):
                return f"{way}: other pixels in {part}"
    return None
