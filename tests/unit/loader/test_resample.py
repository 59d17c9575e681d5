"""The native resampling filters against Pillow's."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from headrace._native import ImageLoader, LoadOptions, set_simd_level, simd_level
from headrace.types import ImageSpans

FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def _resample(pictures, crops, flips, size, interpolation):
    base = np.concatenate([picture.reshape(-1) for picture in pictures])
    sizes = np.array([picture.size for picture in pictures], np.uint64)
    n = len(pictures)
    out = np.empty((n, *size, 3), np.uint8)
    spans = ImageSpans(
        base,
        np.cumsum(sizes) - sizes,
        sizes,
        np.ones(n, np.uint8),
        np.array([picture.shape[1] for picture in pictures], np.uint32),
        np.array([picture.shape[0] for picture in pictures], np.uint32),
    )
    options = LoadOptions(interpolation=interpolation)
    report = ImageLoader(2).load(spans, np.array(crops, np.int32), np.array(flips, np.uint8), out, options)
    assert report.failures == []
    return out


def _with_pillow(picture, crop, is_flipped, size, interpolation):
    """Both passes one by one: Pillow 13 chooses their order, all before it take columns first."""
    top, left, height, width = crop
    kind = FILTERS[interpolation]
    rows = picture.shape[0]
    narrow = Image.fromarray(picture).resize((size[1], rows), kind, box=(left, 0, left + width, rows))
    resized = narrow.resize(size[::-1], kind, box=(0, top, size[1], top + height))
    return np.asarray(resized)[:, ::-1] if is_flipped else np.asarray(resized)


def _random_crop(rng, shape):
    height, width = rng.integers(1, shape[0] + 1), rng.integers(1, shape[1] + 1)
    return rng.integers(shape[0] - height + 1), rng.integers(shape[1] - width + 1), height, width


@pytest.fixture(params=["scalar", "avx2", "avx512"])
def level(request):
    before = simd_level()
    try:
        set_simd_level(request.param)
    except ValueError:
        pytest.skip(f"this CPU has no {request.param}")
    yield request.param
    set_simd_level(before)


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("content", ["noise", "black and white", "smooth"])
@pytest.mark.parametrize("size", [(1, 1), (5, 9), (32, 24), (97, 130)])
def test_within_one_level_of_pillow(interpolation, content, size, level):
    rng = np.random.default_rng([len(interpolation), len(content), *size])
    pictures = []
    for _ in range(12):
        shape = (*rng.integers(1, 200, 2), 3)
        picture = rng.integers(0, 256, shape)
        if content == "black and white":
            picture = np.where(picture < 128, 0, 255)
        if content == "smooth":
            picture = np.cumsum(np.cumsum(picture % 3, 0), 1) // 4 % 256
        pictures.append(picture.astype(np.uint8))
    crops = [_random_crop(rng, picture.shape) for picture in pictures]
    flips = rng.integers(0, 2, len(pictures))
    out = _resample(pictures, crops, flips, size, interpolation)
    for picture, crop, flip, found in zip(pictures, crops, flips, out, strict=True):
        expected = _with_pillow(picture, crop, flip, size, interpolation)
        difference = np.abs(found.astype(int) - expected.astype(int))
        assert difference.max() <= 1, (picture.shape, crop, bool(flip))
        assert difference.size < 1000 or difference.mean() < 0.25


def test_unknown_filter():
    picture = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match="known are area, bilinear"):
        _resample([picture], [(0, 0, 4, 4)], [0], (2, 2), "cubic")
