"""Crops by the window decoder: the pixels of libjpeg-turbo, whatever the tiles, the level and the number of threads."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import image_file, picture

from penstock import _native
from penstock.codecs import jpeg

SHAPES = [(151, 203), (64, 48), (37, 90)]
KINDS = [{"subsampling": s, "optimize": o} for s in ("4:4:4", "4:2:2", "4:2:0") for o in (False, True)]


@cache
def _file(shape: tuple[int, int], kind: int, quality: int) -> tuple[bytes, np.ndarray]:
    data = image_file(picture(kind, *shape), "JPEG", quality=quality, **KINDS[kind])
    return data, jpeg.decode(data)


@st.composite
def _windows(draw: st.DrawFn) -> tuple[bytes, np.ndarray, tuple[int, int, int, int]]:
    shape = draw(st.sampled_from(SHAPES))
    quality = draw(st.sampled_from([1, 30, 75, 95, 100]))
    data, pixels = _file(shape, draw(st.integers(0, len(KINDS) - 1)), quality)
    height, width = draw(st.integers(1, shape[0])), draw(st.integers(1, shape[1]))
    top, left = draw(st.integers(0, shape[0] - height)), draw(st.integers(0, shape[1] - width))
    return data, pixels, (left, top, width, height)


@given(_windows(), st.integers(1, 40))
def test_a_slice_has_the_pixels_of_the_whole(case: tuple, tile: int) -> None:
    data, pixels, (left, top, width, height) = case
    cut = jpeg.slice(data, jpeg.index(data, tile=tile), (left, top, width, height))
    part = jpeg.decode(cut.data)[cut.top : cut.top + height, cut.left : cut.left + width]
    np.testing.assert_array_equal(part, pixels[top : top + height, left : left + width])


@given(
    st.lists(_windows(), min_size=1, max_size=6),
    st.integers(0, 40),
    st.sampled_from(["scalar", "avx2", "avx512"]),
    st.integers(1, 3),
)
def test_a_batch_does_not_depend_on_tiles_level_or_threads(cases: list, tile: int, level: str, threads: int) -> None:
    """The crop at its own size, so that what comes out is what was decoded."""
    before = _native.simd_level()
    for data, pixels, (left, top, width, height) in cases:
        index = jpeg.index(data, tile=tile) if tile else b""
        out = np.empty((1, height, width, 3), np.uint8)
        one = np.ones(1, np.uint64)
        try:
            _native.set_simd_level(level)
        except _native.NativeError:
            return
        try:
            failures = _native.ImageLoader(threads).load(
                np.frombuffer(data, np.uint8),
                one * 0,
                one * len(data),
                np.zeros(1, np.uint8),
                np.array([pixels.shape[1]], np.uint32),
                np.array([pixels.shape[0]], np.uint32),
                np.array([[top, left, height, width]], np.int32),
                np.zeros(1, np.uint8),
                out,
                channels_first=False,
                interpolation="area",
                tiles=(np.frombuffer(index, np.uint8), one * 0, one * len(index)),
            )
        finally:
            _native.set_simd_level(before)
        assert failures == []
        np.testing.assert_array_equal(out[0], pixels[top : top + height, left : left + width])
