"""Tile indices in a native load: which decoder was used, and wrong arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

from headrace import _native
from headrace.types import ImageSpans

PIXELS = picture(2, 90, 120)
PLAIN = image_file(PIXELS, "JPEG", quality=90)
PROGRESSIVE = image_file(PIXELS, "JPEG", quality=90, progressive=True)


def _pack(parts: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = np.array([len(part) for part in parts], np.uint64)
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum(sizes) - sizes, sizes


def _counted(counts: _native.LoadCounts) -> list[int]:
    return [
        counts.window,
        counts.window_without_tile_index,
        counts.libjpeg_by_options,
        counts.libjpeg_by_kind,
        counts.libjpeg_by_damage,
        counts.rejected_tile_indices,
    ]


def _load(files: list[bytes], tiles: Any = None, checksums: Any = None, **options: Any) -> tuple[Any, list[int]]:
    n = len(files)
    out = np.empty((n, 32, 40, 3), np.uint8)
    sides = (np.full(n, 120, np.uint32), np.full(n, 90, np.uint32))
    spans = ImageSpans(*_pack(files), np.zeros(n, np.uint8), *sides, checksums, tiles)
    crops = np.tile(np.array([[11, 22, 64, 80]], np.int32), (n, 1))
    report = _native.ImageLoader(1).load(spans, crops, np.zeros(n, np.uint8), out, _native.LoadOptions(**options))
    if checksums is None:
        assert report.failures == []
    return (out if checksums is None else report.failures), _counted(report.counts)


def test_counts_say_which_decoder_was_used() -> None:
    if _native.simd_level() != "avx512":
        pytest.skip("with narrower vectors libjpeg decodes what has no index")
    index, reason = _native.make_tile_index(PLAIN)
    assert index is not None
    assert reason == ""
    wrong = index[:-1] + bytes([index[-1] ^ 1])
    tiles = _pack([index, b"", wrong, b""])
    out, counts = _load([PLAIN, PLAIN, PLAIN, PROGRESSIVE], tiles=tiles)
    assert counts == [1, 2, 0, 1, 0, 1]
    expected, counts = _load([PLAIN, PLAIN, PLAIN, PROGRESSIVE], tiles=tiles, jpeg="libjpeg")
    assert counts == [0, 0, 4, 0, 0, 0]
    np.testing.assert_array_equal(out, expected)
    assert _load([PLAIN], fast_dct=True)[1] == [0, 0, 1, 0, 0, 0]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(_native.NativeError, match="window, slice and libjpeg"):
        _load([PLAIN], jpeg="turbo")
    with pytest.raises(_native.NativeError, match="each of 2 images"):
        _load([PLAIN, PLAIN], tiles=_pack([b""]))


def test_counts_add_up() -> None:
    counts = _native.LoadCounts()
    assert _counted(counts) == [0] * 6
    for _ in range(2):
        spans = ImageSpans(*_pack([PROGRESSIVE]), np.zeros(1, np.uint8), *np.array([[120], [90]], np.uint32))
        crops, out = np.array([[0, 0, 90, 120]], np.int32), np.empty((1, 90, 120, 3), np.uint8)
        report = _native.ImageLoader(1).load(spans, crops, np.zeros(1, np.uint8), out, _native.LoadOptions())
        counts.add(report.counts)
    assert counts.libjpeg_by_kind == 2


def test_failures_and_notes_say_what_is_wrong() -> None:
    right = _native.crc32c(PLAIN)
    failures, _ = _load([PLAIN, PLAIN, PLAIN[:300]], checksums=np.array([right, 5, _native.crc32c(PLAIN[:300])], "<u4"))
    assert [(failure.position, failure.code) for failure in failures] == [(1, "wrong_checksum"), (2, "truncated")]
    assert failures[0].detail == f"checksum 0x00000005 expected, found {right:#010x}"
    index, _ = _native.make_tile_index(PLAIN)
    assert index is not None
    spans = ImageSpans(
        *_pack([PLAIN]), np.zeros(1, np.uint8), *np.array([[120], [90]], np.uint32), None, _pack([index[:-9]])
    )
    crops, out = np.array([[11, 22, 64, 80]], np.int32), np.empty((1, 32, 40, 3), np.uint8)
    report = _native.ImageLoader(1).load(spans, crops, np.zeros(1, np.uint8), out, _native.LoadOptions())
    assert [(note.position, note.kind) for note in report.notes] == [(0, "tile_index")]
    assert report.notes[0].detail


def test_spans_of_other_types_are_told() -> None:
    good = ImageSpans(*_pack([PLAIN]), np.zeros(1, np.uint8), *np.array([[120], [90]], np.uint32))
    rest = (np.array([[0, 0, 9, 9]], np.int32), np.zeros(1, np.uint8), np.empty((1, 9, 9, 3), np.uint8))
    loader = _native.ImageLoader(1)
    for name, value in {
        "offsets": np.zeros(1, np.int32),
        "base": np.zeros((1, 1), np.uint8),
        "checksums": np.zeros(1),
    }.items():
        with pytest.raises(_native.NativeError, match=f"spans.{name} "):
            loader.load(replace(good, **{name: value}), *rest, _native.LoadOptions())
    with pytest.raises(_native.NativeError, match="three arrays"):
        loader.load(replace(good, tile_indices=(good.base,)), *rest, _native.LoadOptions())
    with pytest.raises(AttributeError):
        loader.load(good.base, *rest, _native.LoadOptions())


def test_an_index_says_what_it_belongs_to() -> None:
    index, _ = _native.make_tile_index(PLAIN, 4)
    assert index is not None
    info = _native.tile_index_info(index)
    assert (info.width, info.height, info.tile, info.components) == (120, 90, 4, 3)
    assert (info.jpeg_size, info.jpeg_crc32c) == (len(PLAIN), _native.crc32c(PLAIN))
    assert (info.rows, info.columns) == (6, 2)
    assert _native.make_tile_index(PROGRESSIVE)[0] is None
    assert "progressive" in _native.make_tile_index(PROGRESSIVE)[1]
    with pytest.raises(_native.NativeError):
        _native.tile_index_info(index[:40])
