from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from tests.helpers import image_file, patch_jpeg_frame, picture

from headrace.codecs import image, jpeg
from headrace.errors import ImageError

PIXELS = picture(3, 40, 56)
DATA = image_file(PIXELS, "JPEG", quality=92)


@pytest.mark.parametrize(
    ("options", "components", "color_space", "progressive"),
    [
        ({}, 3, "ycbcr", False),
        ({"progressive": True}, 3, "ycbcr", True),
        ({"keep_rgb": True}, 3, "rgb", False),
    ],
)
def test_info(options: dict[str, bool], components: int, color_space: str, progressive: bool) -> None:
    info = jpeg.read_info(image_file(PIXELS, "JPEG", **options))
    assert (info.width, info.height, info.components, info.precision) == (56, 40, components, 8)
    assert (info.color_space, info.progressive) == (color_space, progressive)


def test_info_of_grey() -> None:
    info = jpeg.read_info(image_file(PIXELS[:, :, 0], "JPEG"))
    assert (info.components, info.color_space) == (1, "grayscale")


@pytest.mark.parametrize("shape", [(1, 1), (1, 17), (8, 8), (33, 65)])
@pytest.mark.parametrize("quality", [75, 100])
def test_encode_then_decode_is_close(shape: tuple[int, int], quality: int) -> None:
    pixels = np.full((*shape, 3), [200, 100, 50], np.uint8)
    assert np.abs(jpeg.decode(jpeg.encode(pixels, quality=quality)).astype(int) - pixels).max() <= 4


def test_every_truncation_is_an_image_error() -> None:
    small = image_file(picture(1, 9, 10), "JPEG", quality=30)
    for size in range(len(small) - 2):
        with pytest.raises(ImageError):
            jpeg.decode(small[:size])


def test_a_wrong_quality_is_refused() -> None:
    with pytest.raises(ImageError, match="quality"):
        jpeg.encode(PIXELS, quality=0)


def test_sides_that_jpeg_cannot_say_are_refused() -> None:
    with pytest.raises(ImageError, match="65536x1"):
        jpeg.encode(np.zeros((1, 65_536, 3), np.uint8))


def test_a_header_that_claims_too_many_pixels_is_refused() -> None:
    with pytest.raises(ImageError, match="65535x65535"):
        jpeg.decode(patch_jpeg_frame(DATA, width=65_535, height=65_535))


def test_many_threads_decode_the_same() -> None:
    expected = jpeg.decode(DATA)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(jpeg.decode, [DATA] * 200):
            np.testing.assert_array_equal(found, expected)


def test_is_jpeg() -> None:
    assert jpeg.is_jpeg(DATA)
    assert jpeg.is_jpeg(memoryview(DATA))
    assert not jpeg.is_jpeg(b"")
    assert not jpeg.is_jpeg(b"\x89PNG")


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("tile", [1, 3, 8])
def test_a_slice_decodes_to_the_pixels_of_the_whole(subsampling: str, tile: int) -> None:
    data = image_file(picture(5, 150, 210), "JPEG", quality=80, subsampling=subsampling, optimize=True)
    whole = jpeg.decode(data)
    entries = jpeg.index(data, tile=tile)
    for left, top, width, height in [(0, 0, 210, 150), (70, 33, 50, 41), (209, 149, 1, 1), (17, 0, 100, 9)]:
        cut = jpeg.slice(data, entries, (left, top, width, height))
        part = jpeg.decode(cut.data)[cut.top : cut.top + height, cut.left : cut.left + width]
        np.testing.assert_array_equal(part, whole[top : top + height, left : left + width])


def test_a_small_window_is_a_small_file() -> None:
    data = image_file(picture(5, 300, 400), "JPEG", quality=90)
    entries = jpeg.index(data, tile=1)
    assert len(entries) < len(data)
    assert len(jpeg.slice(data, entries, (200, 100, 30, 30)).data) < len(data) / 5


def test_kinds_without_an_index_are_refused() -> None:
    with pytest.raises(ImageError, match="progressive"):
        jpeg.index(image_file(PIXELS, "JPEG", progressive=True))
    with pytest.raises(ImageError, match="tile must be"):
        jpeg.index(DATA, tile=0)


def test_wrong_slices_are_refused() -> None:
    entries = jpeg.index(DATA)
    with pytest.raises(ImageError, match="not inside"):
        jpeg.slice(DATA, entries, (0, 0, 57, 40))
    with pytest.raises(ImageError, match="negative"):
        jpeg.slice(DATA, entries, (-1, 0, 5, 5))
    with pytest.raises(ImageError, match="another JPEG"):
        jpeg.slice(image_file(PIXELS, "JPEG", quality=91), entries, (0, 0, 5, 5))
    with pytest.raises(ImageError, match="checksum"):
        jpeg.slice(DATA, entries[:30] + b"\x55" + entries[31:], (0, 0, 5, 5))


def test_which_jpegs_are_plain() -> None:
    plain = jpeg.read_info(jpeg.encode(np.zeros((8, 8, 3), np.uint8)))
    assert jpeg.has_rgb(plain)
    assert jpeg.is_plain(plain)
    out = io.BytesIO()
    Image.new("CMYK", (8, 8)).save(out, "JPEG")
    assert not jpeg.has_rgb(jpeg.read_info(out.getvalue()))
    assert not jpeg.is_plain(jpeg.read_info(out.getvalue()))
    assert image.decode_any(out.getvalue()).shape == (8, 8, 3)
