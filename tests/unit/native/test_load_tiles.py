"""Tile indices in a native load: which decoder was used, and wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

from headrace import _native

PIXELS = picture(2, 90, 120)
PLAIN = image_file(PIXELS, "JPEG", quality=90)
PROGRESSIVE = image_file(PIXELS, "JPEG", quality=90, progressive=True)


def _pack(parts: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = np.array([len(part) for part in parts], np.uint64)
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum(sizes) - sizes, sizes


def _load(files: list[bytes], **options: Any) -> tuple[np.ndarray, list[int]]:
    n = len(files)
    out, counts = np.empty((n, 32, 40, 3), np.uint8), np.zeros(6, np.uint64)
    failures = _native.ImageLoader(1).load(
        *_pack(files),
        np.zeros(n, np.uint8),
        np.full(n, 120, np.uint32),
        np.full(n, 90, np.uint32),
        np.tile(np.array([[11, 22, 64, 80]], np.int32), (n, 1)),
        np.zeros(n, np.uint8),
        out,
        channels_first=False,
        interpolation="area",
        counts=counts,
        **options,
    )
    assert failures == []
    return out, counts.tolist()


def test_counts_say_which_decoder_was_used() -> None:
    if _native.simd_level() != "avx512":
        pytest.skip("with narrower vectors libjpeg decodes what has no index")
    index, reason = _native.jpeg_tiles(PLAIN)
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


def test_an_index_says_what_it_belongs_to() -> None:
    index, _ = _native.jpeg_tiles(PLAIN, 4)
    assert index is not None
    info = _native.jpeg_tiles_info(index)
    assert (info.width, info.height, info.tile, info.components) == (120, 90, 4, 3)
    assert (info.jpeg_size, info.jpeg_crc32c) == (len(PLAIN), _native.crc32c(PLAIN))
    assert (info.rows, info.columns) == (6, 2)
    assert _native.jpeg_tiles(PROGRESSIVE)[0] is None
    assert "progressive" in _native.jpeg_tiles(PROGRESSIVE)[1]
    with pytest.raises(_native.NativeError):
        _native.jpeg_tiles_info(index[:40])
