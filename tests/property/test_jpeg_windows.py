"""Any window of any JPEG, with any tile size, has the pixels of the whole; no index can do worse than be rejected."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from tests.helpers import Surgeon, image_file, picture, sections_of

import headrace as hr
from headrace import _native, ops
from headrace.codecs import jpeg
from headrace.errors import AnnexError, ImageError
from headrace.loader.job import counts_by_name
from headrace.types import ImageSpans

ENOUGH = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
REJECTED = 5  # of the counts


def pixels_of(data: bytes) -> np.ndarray:
    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGB"))


@st.composite
def jpegs(draw: Any, largest: int = 90) -> bytes:
    """Baseline JPEGs: sizes, sampling, quality, tables, restarts, smooth or noise."""
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest * 2))
    pixels = picture(draw(st.integers(0, 9)), height, width)
    if draw(st.booleans()):
        noise = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, pixels.shape, dtype=np.uint8)
        pixels = np.where(noise[:, :, :1] < draw(st.integers(0, 255)), noise, pixels)
    options: dict[str, Any] = {
        "quality": draw(st.integers(1, 100)),
        "optimize": draw(st.booleans()),
        "subsampling": draw(st.sampled_from([0, 1, 2])),
    }
    interval = draw(st.integers(0, 12))
    if interval:
        options[draw(st.sampled_from(["restart_marker_blocks", "restart_marker_rows"]))] = interval
    is_grey = draw(st.sampled_from([False, False, False, True]))
    return image_file(pixels[:, :, 0] if is_grey else pixels, "JPEG", **options)


@st.composite
def windows(draw: Any, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Left, top, width, height."""
    top, left = draw(st.integers(0, shape[0] - 1)), draw(st.integers(0, shape[1] - 1))
    return left, top, draw(st.integers(1, shape[1] - left)), draw(st.integers(1, shape[0] - top))


@lru_cache
def threads() -> _native.ImageLoader:
    return _native.ImageLoader(1)


def load(data: bytes, index: bytes, window: tuple[int, int, int, int], how: str = "window") -> tuple[Any, Any, Any]:
    """The window by the loader's native call: pixels, failures, counts."""
    left, top, width, height = window
    whole = jpeg.read_info(data)
    out = np.zeros((1, height, width, 3), np.uint8)
    place = np.zeros(1, np.uint64)
    spans = ImageSpans(
        np.frombuffer(data, np.uint8),
        place,
        np.array([len(data)], np.uint64),
        np.zeros(1, np.uint8),
        np.array([whole.width], np.uint32),
        np.array([whole.height], np.uint32),
        tile_indices=(np.frombuffer(index, np.uint8), place, np.array([len(index)], np.uint64)),
    )
    crops = np.array([[top, left, height, width]], np.int32)
    options = _native.LoadOptions(interpolation="nearest", jpeg=how)
    report = threads().load(spans, crops, np.zeros(1, np.uint8), out, options)
    return out[0], report.failures, list(counts_by_name(report.counts).values())


@ENOUGH
@given(st.data())
def test_slices_have_the_pixels_of_the_whole(data: Any) -> None:
    file = data.draw(jpegs())
    whole = pixels_of(file)
    index = jpeg.index(file, tile=data.draw(st.sampled_from([1, 2, 3, 8, 50, 65_535])))
    for _ in range(6):
        left, top, width, height = window = data.draw(windows(whole.shape))
        cut = jpeg.slice(file, index, window)
        part = pixels_of(cut.data)[cut.top : cut.top + height, cut.left : cut.left + width]
        np.testing.assert_array_equal(part, whole[top : top + height, left : left + width])


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("columns", range(1, 7))
def test_slices_of_a_few_columns_at_the_right_edge(subsampling: int, columns: int) -> None:
    side = 144 + columns  # the last MCU has so many; libjpeg upsamples pictures of up to four in another way
    noise = np.random.default_rng(0).integers(0, 256, (40, side, 3), dtype=np.uint8)
    file = image_file(noise, "JPEG", subsampling=subsampling)
    whole = pixels_of(file)
    for tile in (1, 3):
        cut = jpeg.slice(file, jpeg.index(file, tile=tile), (side - 1, 0, 1, 40))
        part = pixels_of(cut.data)[cut.top : cut.top + 40, cut.left : cut.left + 1]
        np.testing.assert_array_equal(part, whole[:, side - 1 :])


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512"])
@ENOUGH
@given(data=st.data())
def test_windows_have_the_pixels_of_the_whole(level: str, data: Any) -> None:
    before = _native.simd_level()
    try:
        _native.set_simd_level(level)
    except _native.NativeError:
        pytest.skip(f"this processor does not have {level}")
    try:
        file = data.draw(jpegs())
        whole = pixels_of(file)
        index = jpeg.index(file, tile=data.draw(st.sampled_from([1, 2, 3, 8, 50])))
        for _ in range(6):
            left, top, width, height = window = data.draw(windows(whole.shape))
            expected = whole[top : top + height, left : left + width]
            for used in (index, b""):
                found, failures, counts = load(file, used, window)
                assert failures == []
                assert counts[REJECTED] == 0
                np.testing.assert_array_equal(found, expected)
    finally:
        _native.set_simd_level(before)


@ENOUGH
@given(st.data())
def test_a_changed_index_is_rejected(data: Any) -> None:
    file = data.draw(jpegs())
    whole = pixels_of(file)
    index = bytearray(jpeg.index(file))
    index[data.draw(st.integers(0, len(index) - 1))] ^= data.draw(st.integers(1, 255))
    wrong = bytes(index[: data.draw(st.integers(1, len(index)))]) if data.draw(st.booleans()) else bytes(index)
    left, top, width, height = window = data.draw(windows(whole.shape))
    with pytest.raises(ImageError):
        jpeg.slice(file, wrong, window)
    found, failures, counts = load(file, wrong, window)
    assert failures == []
    assert counts[0] == 0  # not decoded by it
    np.testing.assert_array_equal(found, whole[top : top + height, left : left + width])


@ENOUGH
@given(st.data())
def test_a_forged_index_does_no_harm(data: Any) -> None:
    """With the right checksums: the pixels may be wrong, but nothing outside of its memory is touched."""
    file = data.draw(jpegs())
    body = bytearray(jpeg.index(file, tile=data.draw(st.sampled_from([1, 3, 8]))))[:-4]
    for _ in range(data.draw(st.integers(1, 8))):
        body[data.draw(st.integers(16, len(body) - 1))] = data.draw(st.integers(0, 255))
    forged = bytes(body) + _native.crc32c(body).to_bytes(4, "little")
    window = data.draw(windows(pixels_of(file).shape))
    _, failures, counts = load(file, forged, window)
    assert failures == []
    assert sum(counts[:5]) == 1
    try:
        cut = jpeg.slice(file, forged, window)
    except ImageError:
        return
    with contextlib.suppress(ImageError):
        jpeg.decode(cut.data)


@pytest.fixture(scope="module")
def packed() -> Any:
    """A file of twelve JPEGs, and the batch that must come out of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.beton"
        files = [image_file(picture(i, 30 + 5 * i, 60 + i), "JPEG", subsampling=i % 3) for i in range(12)]
        rows = [(file, i) for i, file in enumerate(files)]
        hr.write(path, rows, fields={"image": hr.Image(), "label": hr.Int()}, page_size=1 << 21)
        yield path, batch_of(path)


def batch_of(path: Path) -> bytes:
    pipelines = {"image": [ops.RandomResizedCrop(8, reduced=False)], "label": None}
    image: np.ndarray = hr.Loader(path, 12, pipelines=pipelines, workers=1)[0].image
    return image.tobytes()


@settings(ENOUGH, max_examples=40)
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=40))
def test_bytes_of_the_section_changed(packed: Any, changes: list[tuple[float, int]]) -> None:
    path, expected = packed
    surgeon = Surgeon(path)
    start, size = sections_of(path)["jpeg_tiles"]
    for place, mask in changes:
        surgeon.flip(start + int(place * size), mask)
    broken = surgeon.save(path.with_name("broken.beton"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(AnnexError):  # the number of columns itself
            assert batch_of(broken) == expected
    assert len(caught) <= 1
