"""The native pixel steps against a plain statement of each in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from headrace._native import ImageLoader, LoadOptions
from headrace.types import ImageSpans

N, HEIGHT, WIDTH = 7, 33, 47
SCALE = np.array([0.25, 0.5, 2], np.float32)
BIAS = np.array([-1, 0, 3], np.float32)


def _pictures():
    return np.random.default_rng(3).integers(0, 256, (N, HEIGHT, WIDTH, 3)).astype(np.uint8)


def _load(pictures, steps, *, dtype=np.uint8, channels_first=False, flips=None):
    n, height, width, _ = pictures.shape
    sizes = np.full(n, height * width * 3, np.uint64)
    out = np.empty((n, 3, height, width) if channels_first else pictures.shape, dtype)
    is_float = dtype != np.uint8
    spans = ImageSpans(
        pictures.reshape(-1),
        np.cumsum(sizes) - sizes,
        sizes,
        np.ones(n, np.uint8),
        np.full(n, width, np.uint32),
        np.full(n, height, np.uint32),
    )
    report = ImageLoader(2).load(
        spans,
        np.tile(np.array([0, 0, height, width], np.int32), (n, 1)),
        np.zeros(n, np.uint8) if flips is None else flips,
        out,
        LoadOptions(channels_first=channels_first, scale=SCALE if is_float else None, bias=BIAS if is_float else None),
        steps,
    )
    assert report.failures == []
    return out


def _blend(image, other, ratio):
    return (ratio * image + (1 - ratio) * other).clip(0, 255).astype(image.dtype)


def _grey(image):
    red, green, blue = image[:, :, 0], image[:, :, 1], image[:, :, 2]
    return (0.2989 * red + 0.587 * green + 0.114 * blue).astype(np.uint8)


COLOURS = {
    "brightness": lambda image, factor: _blend(image, 0, factor),
    "contrast": lambda image, factor: _blend(image, _grey(image).mean(), factor),
    "saturation": lambda image, factor: _blend(image, np.repeat(_grey(image)[:, :, None], 3, 2), factor),
}


@pytest.mark.parametrize("kind", COLOURS)
def test_colours_are_those_of_ffcv(kind):
    pictures = _pictures()
    factors = np.random.default_rng(4).uniform(0, 2, (50, N, 1)).astype(np.float32)
    factors[:, 2] = np.nan
    factors[0, 0], factors[0, 1] = 0, 1
    for row in factors:
        out = _load(pictures, [(kind, row)])
        for picture, factor, found in zip(pictures, row[:, 0], out, strict=True):
            expected = picture if np.isnan(factor) else COLOURS[kind](picture, np.float64(factor))
            np.testing.assert_array_equal(found, expected)


def test_cutout_flip_and_translate():
    pictures = _pictures()
    cuts = np.tile(np.array([5, 40, 10, 20, 1, 2, 3], np.float32), (N, 1))
    cuts[1, 2] = 0
    expected = pictures.copy()
    expected[:, 5:15, 40:] = 1, 2, 3
    expected[1] = pictures[1]
    np.testing.assert_array_equal(_load(pictures, [("cutout", cuts)]), expected)

    flips = np.arange(N, dtype=np.float32)[:, None] % 2
    expected = np.where(flips[:, :, None, None] != 0, pictures[:, :, ::-1], pictures)
    np.testing.assert_array_equal(_load(pictures, [("flip", flips)]), expected)

    moves = np.tile(np.array([3, -4, 7, 8, 9], np.float32), (N, 1))
    expected = np.empty_like(pictures)
    expected[:] = 7, 8, 9
    expected[:, : HEIGHT - 3, 4:] = pictures[:, 3:, : WIDTH - 4]
    np.testing.assert_array_equal(_load(pictures, [("translate", moves)]), expected)


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_steps_come_after_the_flip_and_before_type_and_layout(dtype, channels_first):
    pictures = _pictures()
    factors = np.linspace(0.2, 1.8, N, dtype=np.float32)[:, None]
    cuts = np.tile(np.array([5, 30, 10, 20, 100, 200, 50], np.float32), (N, 1))
    flips = np.arange(N).astype(np.uint8) % 2
    steps = [("contrast", factors), ("cutout", cuts), ("brightness", factors[::-1].copy())]
    out = _load(pictures, steps, dtype=dtype, channels_first=channels_first, flips=flips)
    expected = np.where(flips[:, None, None, None] != 0, pictures[:, :, ::-1], pictures)
    for picture, first, last in zip(expected, factors[:, 0], factors[::-1, 0], strict=True):
        picture[:] = COLOURS["contrast"](picture, np.float64(first))
        picture[5:15, 30:] = 100, 200, 50
        picture[:] = COLOURS["brightness"](picture, np.float64(last))
    if dtype != np.uint8:
        expected = (expected * SCALE + BIAS).astype(dtype)
    np.testing.assert_array_equal(out, expected.transpose(0, 3, 1, 2) if channels_first else expected)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("poison", np.zeros((N, 1)), "unknown step 'poison'"),
        ("flip", np.zeros((N, 2)), "shape"),
        ("flip", np.zeros((N - 1, 1)), "shape"),
        ("brightness", np.full((N, 1), np.inf), "infinite"),
        ("cutout", np.full((N, 7), np.nan), "not finite"),
        ("translate", np.full((N, 5), 256), "colour"),
    ],
)
def test_wrong_steps_are_errors(kind, values, message):
    with pytest.raises(ValueError, match=message):
        _load(_pictures(), [(kind, values.astype(np.float32))])
