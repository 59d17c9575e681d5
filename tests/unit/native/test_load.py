"""The native call that makes batches, where another tool says what the values must be."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import image_file, picture

from headrace._native import ImageLoader, LoadOptions, NativeError
from headrace.types import ImageSpans

JPEG, RAW = 0, 1


def load(pixels: np.ndarray, crop: list[int], out: np.ndarray, interpolation: str, **options: Any) -> np.ndarray:
    """A crop (top, left, height, width) of a picture, or of a JPEG file of it, into ``out`` (height, width, 3)."""
    options = {"channels_first": False, "flip": 0, "file": b"", **options}
    file, flip, channels_first = (options.pop(name) for name in ("file", "flip", "channels_first"))
    base = np.frombuffer(file, np.uint8) if file else pixels.reshape(-1)
    height, width, _ = pixels.shape
    spans = ImageSpans(
        base,
        np.zeros(1, np.uint64),
        np.array([len(base)], np.uint64),
        np.array([JPEG if file else RAW], np.uint8),
        np.array([width], np.uint32),
        np.array([height], np.uint32),
    )
    how = LoadOptions(channels_first=channels_first, interpolation=interpolation, **options)
    report = ImageLoader(1).load(spans, np.array([crop], np.int32), np.array([flip], np.uint8), out[None], how)
    assert report.failures == []
    return out


def random_crop(rng: np.random.Generator, height: int, width: int) -> list[int]:
    h, w = rng.integers(1, height + 1), rng.integers(1, width + 1)
    return [int(x) for x in (rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w)]


@pytest.mark.parametrize("is_jpeg", [False, True])
def test_nearest_is_pillows(is_jpeg: bool) -> None:
    rng = np.random.default_rng(1)
    for i in range(150):
        pixels = picture(i, *rng.integers(1, 120, 2).tolist())
        file = image_file(pixels, "JPEG", quality=95) if is_jpeg else b""
        source = Pillow.open(io.BytesIO(file)) if is_jpeg else Pillow.fromarray(pixels)
        top, left, height, width = crop = random_crop(rng, *pixels.shape[:2])
        size = rng.integers(1, 150, 2).tolist()
        box = (left, top, left + width, top + height)
        expected = np.asarray(source.convert("RGB").resize(size[::-1], Pillow.Resampling.NEAREST, box=box))
        found = load(pixels, crop, np.empty((*size, 3), np.uint8), "nearest", file=file, flip=i % 2)
        np.testing.assert_array_equal(found[:, ::-1] if i % 2 else found, expected)


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_table_has_the_outputs(dtype: Any, channels_first: bool) -> None:
    pixels, crop = picture(3, 90, 110), [5, 6, 70, 80]
    table = np.random.default_rng(2).normal(size=(3, 256)).astype(dtype)
    levels = load(pixels, crop, np.empty((64, 72, 3), np.uint8), "area")
    expected = np.stack([table[c][levels[:, :, c]] for c in range(3)], axis=0 if channels_first else 2)
    found = load(pixels, crop, np.empty_like(expected), "area", channels_first=channels_first, table=table)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("out", "table", "options"),
    [
        (np.uint8, np.float32, {}),
        (np.uint8, np.uint8, {}),
        (np.float16, np.float32, {}),
        (np.float32, np.float32, {"scale": np.ones(3, np.float32)}),
        (np.float32, np.float32, {"bias": np.ones(3, np.float32)}),
    ],
)
def test_tables_that_do_not_fit_are_told(out: Any, table: Any, options: dict[str, Any]) -> None:
    with pytest.raises(NativeError, match="table"):
        load(
            picture(1, 9, 9), [0, 0, 9, 9], np.empty((4, 4, 3), out), "area", table=np.zeros((3, 256), table), **options
        )


def small_pictures(count: int) -> tuple[np.ndarray, ImageSpans]:
    pixels = np.random.default_rng(count).integers(0, 256, (count, 8, 9, 3), dtype=np.uint8)
    size = 8 * 9 * 3
    sides = np.full(count, 9, np.uint32), np.full(count, 8, np.uint32)
    offsets = np.arange(count, dtype=np.uint64) * np.uint64(size)
    sizes = np.full(count, size, np.uint64)
    return pixels, ImageSpans(pixels.reshape(-1), offsets, sizes, np.full(count, RAW, np.uint8), *sides)


def test_without_crops_and_flips_pictures_come_as_they_are() -> None:
    pixels, spans = small_pictures(700)
    out = np.empty_like(pixels)
    assert ImageLoader(2).load(spans, None, None, out, LoadOptions()).failures == []
    np.testing.assert_array_equal(out, pixels)
    flips = (np.arange(700) % 2).astype(np.uint8)
    assert ImageLoader(2).load(spans, None, flips, out, LoadOptions()).failures == []
    np.testing.assert_array_equal(out[1::2], pixels[1::2, :, ::-1])
    np.testing.assert_array_equal(out[::2], pixels[::2])


@pytest.mark.parametrize("given", [0, 2, 4])
def test_crops_and_flips_must_be_as_many_as_the_pictures(given: int) -> None:
    pixels, spans = small_pictures(3)
    crops, flips = np.zeros((given, 4), np.int32), np.zeros(given, np.uint8)
    with pytest.raises(NativeError, match=f"crops has {given} entries, not one for each of 3 images"):
        ImageLoader(1).load(spans, crops, None, np.empty_like(pixels), LoadOptions())
    with pytest.raises(NativeError, match=f"flips has {given} entries, not one for each of 3 images"):
        ImageLoader(1).load(spans, None, flips, np.empty_like(pixels), LoadOptions())
