"""The native pixel steps against a plain statement of each in numpy."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from headrace._native import ImageLoader, LoadOptions, set_simd_level, simd_level, step_kinds
from headrace.counter_random import _finalize
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


# -- against Pillow, or a plain statement where it has none -------------------------------------------------------


@pytest.fixture(params=["scalar", "avx2", "avx512"])
def level(request):
    """Each instruction set that this machine has."""
    before = simd_level()
    set_simd_level(request.param)  # or the best one below it
    yield request.param
    set_simd_level(before)


def _each(kind, rows, pictures=None):
    """The pictures after a step, each with its own row of values."""
    return _load(_pictures() if pictures is None else pictures, [(kind, np.array(rows, np.float32).reshape(N, -1))])


def _smooth_pictures():
    """Few values in each channel, and one that is flat: what histograms are interesting for."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    pictures = np.stack([np.stack([40 + y + k, 90 + (x + k) // 4, 7 * k + 0 * x], axis=-1) for k in range(N)])
    pictures[3] = pictures[3] // 40
    return pictures.astype(np.uint8)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("make", [_pictures, _smooth_pictures])
def test_levels_change_as_in_pillow(make):
    pictures = make()
    images = [Image.fromarray(picture) for picture in pictures]
    bits = [8, 7, 5, 4, 2, 1, 3]
    for found, image, kept in zip(_each("posterize", bits, pictures), images, bits, strict=True):
        np.testing.assert_array_equal(found, ImageOps.posterize(image, kept))
    np.testing.assert_array_equal(_each("posterize", [0] * N, pictures), 0)
    thresholds = [0, 255, 256, 128, 127.5, 1, 200]
    for found, image, threshold in zip(_each("solarize", thresholds, pictures), images, thresholds, strict=True):
        np.testing.assert_array_equal(found, ImageOps.solarize(image, threshold))
    for kind, function in (("autocontrast", ImageOps.autocontrast), ("equalize", ImageOps.equalize)):
        for found, image in zip(_each(kind, [1] * N, pictures), images, strict=True):
            np.testing.assert_array_equal(found, function(image))
        np.testing.assert_array_equal(_each(kind, [0] * N, pictures), pictures)


@pytest.mark.usefixtures("level")
def test_colours_are_close_to_those_of_pillow():
    """Pillow rounds grey and the mean, and computes in float32: at most so many levels for factors up to 2."""
    pictures, factors = _pictures(), [0, 0.1, 0.5, 0.9, 1.3, 1.9, 2]
    for kind, enhance, most in (
        ("brightness", ImageEnhance.Brightness, 1),
        ("contrast", ImageEnhance.Contrast, 2),
        ("saturation", ImageEnhance.Color, 2),
        ("sharpness", ImageEnhance.Sharpness, 1),
    ):
        for found, picture, factor in zip(_each(kind, factors), pictures, factors, strict=True):
            expected = np.asarray(enhance(Image.fromarray(picture)).enhance(factor))
            assert abs(found.astype(int) - expected).max() <= most, (kind, factor)


@pytest.mark.usefixtures("level")
def test_sharpness_by_its_formula():
    pictures, factors = _pictures(), np.array([0, 0.1, 0.5, 0.9, 1.3, 1.9, np.nan], np.float32)
    for found, picture, factor in zip(_each("sharpness", factors), pictures, factors, strict=True):
        wide = picture.astype(int)
        sums = sum(wide[1 + dy : HEIGHT - 1 + dy, 1 + dx : WIDTH - 1 + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1))
        smooth = np.rint((sums + 4 * wide[1:-1, 1:-1]) / 13).astype(np.float32)
        expected = picture.copy()
        if not np.isnan(factor):
            blend = factor * picture[1:-1, 1:-1].astype(np.float32) + (np.float32(1) - factor) * smooth
            expected[1:-1, 1:-1] = blend.clip(0, 255).astype(np.uint8)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("level")
def test_affine_is_pillows_to_the_last_pixel():
    pictures = _pictures()
    rows = [
        [1, 0.3, 0, 0, 1, 0],
        [1, 0, 0, -0.7, 1, 0],
        [0.8, -0.6, 20.5, 0.6, 0.8, -9.25],
        [-1, 0.01, 47, 0, -1, 33],
        [0, 1, 0, 1, 0, 0],
        [0.25, 0, 3.1, 0.001, 4, -20],
        [2.5, 0.75, -60, -0.4, 1.9, 300],
    ]
    values = [[*row, 9, 8, 250] for row in rows]
    for found, picture, row in zip(_each("affine", values), pictures, np.array(rows, np.float32), strict=True):
        data = row.astype(float).tolist()
        image = Image.fromarray(picture)
        way = Image.Transform.AFFINE
        expected = image.transform(image.size, way, data, Image.Resampling.NEAREST, fillcolor=(9, 8, 250))
        np.testing.assert_array_equal(found, expected)
    values[2][0] = np.nan
    np.testing.assert_array_equal(_each("affine", values)[2], pictures[2])


@pytest.mark.usefixtures("level")
def test_turns_and_vertical_flips():
    square = np.ascontiguousarray(_pictures()[:, :, :HEIGHT])
    turns = [0, 1, 2, 3, 1, 3, 2]
    for found, picture, quarters in zip(_each("turn", turns, square), square, turns, strict=True):
        np.testing.assert_array_equal(found, np.rot90(picture, quarters))
    half = [0, 2, 2, 0, 2, 0, 0]
    for found, picture, quarters in zip(_each("turn", half), _pictures(), half, strict=True):
        np.testing.assert_array_equal(found, np.rot90(picture, quarters))
    flips = [0, 1, 0, 1, 0, 1, 1]
    for found, picture, is_flipped in zip(_each("vertical_flip", flips), _pictures(), flips, strict=True):
        np.testing.assert_array_equal(found, picture[::-1] if is_flipped else picture)


def _turned_hue(pixel, turn):
    hue, saturation, value = colorsys.rgb_to_hsv(*(pixel / 255).tolist())
    return [255 * part for part in colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)]


@pytest.mark.usefixtures("level")
def test_hue_turns_as_colorsys_says():
    """At most the rounding of float32 away from the exact value, that is from the nearest whole number by a hair."""
    pictures, turns = _pictures()[:, ::4, ::3].copy(), np.array([0, 0.1, -0.1, 0.5, -0.5, 0.25, np.nan], np.float32)
    found = _each("hue", turns, pictures)
    np.testing.assert_array_equal(found[0], pictures[0])
    np.testing.assert_array_equal(found[6], pictures[6])
    for after, before, turn in zip(found[:6], pictures, turns.tolist(), strict=False):
        expected = np.array([_turned_hue(pixel, turn) for pixel in before.reshape(-1, 3)])
        assert abs(after.reshape(-1, 3) - expected).max() < 0.501


def test_hue_keeps_grey_and_the_corners_of_the_cube():
    corners = np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)], np.uint8)
    greys = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    pictures = np.tile(np.concatenate([corners, greys])[None, None], (N, 1, 1, 1))
    found = _each("hue", [1 / 3] * N, pictures)
    np.testing.assert_array_equal(found[0, 0, :8], corners[:, [2, 0, 1]])  # red becomes green
    np.testing.assert_array_equal(found[0, 0, 8:], greys)


def _blurred(picture, sigma, taps):
    half = taps // 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    weights /= weights.sum()
    padded = np.pad(picture.astype(float), ((half, half), (half, half), (0, 0)), mode="reflect")
    down = sum(weight * padded[k : k + picture.shape[0]] for k, weight in enumerate(weights))
    return sum(weight * down[:, k : k + picture.shape[1]] for k, weight in enumerate(weights))


@pytest.mark.usefixtures("level")
def test_blur_is_a_gaussian_with_mirrored_edges():
    """At most the rounding of float32 away from the exact value, that is from the nearest whole number by a hair."""
    rows = [[0.1, 3], [0.5, 5], [1.0, 9], [2.0, 23], [8.0, 31], [2.0, 1], [np.nan, 9]]
    for found, picture, (sigma, taps) in zip(_each("blur", rows), _pictures(), rows, strict=True):
        expected = picture if np.isnan(sigma) else _blurred(picture, np.float32(sigma).item(), taps)
        assert abs(found - expected).max() < 0.501


def test_blur_of_pictures_smaller_than_the_kernel():
    for height, width in ((1, 1), (1, 7), (4, 2)):
        pictures = np.ascontiguousarray(_pictures()[:, :height, :width])
        found = _each("blur", [[3, 15]] * N, pictures)
        for after, picture in zip(found, pictures, strict=True):
            assert abs(after - _blurred(picture, 3, 15)).max() < 0.501


def test_noise_fills_its_part_with_bytes_of_its_seed():
    values = [[5, 40, 10, 20, 1, k] for k in range(N)]
    found = _each("noise", values)
    changed = (found != _pictures()).any(axis=3)
    assert not changed[:, :5].any()
    assert not changed[:, 15:].any()
    assert not changed[:, :, :40].any()
    part = found[:, 5:15, 40:]
    assert len(np.unique(part.reshape(N, -1), axis=0)) == N  # each has its own seed
    assert len(np.unique(part)) > 250
    state = np.uint64((1 << 24) + 2)
    row = 7 * 3
    for y in range(10):
        words = (state + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, 4, dtype=np.uint64)).astype(np.uint64)
        state = words[-1]
        expected = _finalize(words).view(np.uint8)[:row]
        np.testing.assert_array_equal(part[2, y].reshape(-1), expected)


def test_a_choice_is_another_step_for_each_picture():
    kinds = ["hue", "posterize", "turn", "affine", "cutout", "blur", None]
    values = {"hue": [0.2], "posterize": [3], "turn": [2], "cutout": [1, 2, 3, 4, 5, 6, 7], "blur": [1.5, 5]}
    values["affine"] = [1, 0.2, 0, 0, 1, 0, 9, 9, 9]
    rows = np.zeros((N, 10), np.float32)
    for row, kind in zip(rows, kinds, strict=True):
        row[0] = np.nan if kind is None else step_kinds().index(kind)
        row[1 : 1 + len(values.get(kind, []))] = values.get(kind, [])
    found = _each("choice", rows)
    for k, kind in enumerate(kinds):
        expected = _pictures() if kind is None else _each(kind, [values[kind]] * N)
        np.testing.assert_array_equal(found[k], expected[k])


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("turn", [1], "only a square picture turns by a quarter"),
        ("turn", [4], "0 to 3 quarters"),
        ("turn", [0.5], "0 to 3 quarters"),
        ("affine", [1, 0, 0, 0, 1, 0, 0, 0, 256], "colour"),
        ("affine", [1, 0, 2e6, 0, 1, 0, 0, 0, 0], r"above 2\^20"),
        ("affine", [1, np.nan, 0, 0, 1, 0, 0, 0, 0], "not finite"),
        ("noise", [0, 0, -1, 1, 0, 0], "must not be negative"),
        ("noise", [0, 0, 1, 1, 0, 2**24], "seed"),
        ("hue", [np.inf], "not finite"),
        ("posterize", [9], "0 to 8 bits"),
        ("posterize", [-1], "0 to 8 bits"),
        ("solarize", [-np.inf], "not finite"),
        ("equalize", [np.nan], "not finite"),
        ("sharpness", [np.inf], "not finite"),
        ("blur", [0, 3], "sigma must be above 0"),
        ("blur", [1, 2], "odd, 1 to 255"),
        ("blur", [1, 257], "odd, 1 to 255"),
        ("choice", [17, 0, 0, 0, 0, 0, 0, 0, 0, 0], "no kind of that number"),  # itself
        ("choice", [-1, 0, 0, 0, 0, 0, 0, 0, 0, 0], "no kind of that number"),
        ("choice", [7, 1, 0, 0, 0, 0, 0, 0, 0, 0], "only a square picture"),
        ("choice", [16, 1, 2, 0, 0, 0, 0, 0, 0, 0], "step blur, image 0: the number of taps"),
    ],
)
def test_wrong_values_are_errors(kind, row, message):
    with pytest.raises(ValueError, match=message):
        _each(kind, [row] * N)
