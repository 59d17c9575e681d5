from __future__ import annotations

import io
import struct

import numpy as np
import PIL.Image
import pytest
from tests.helpers import image_file, patch_jpeg_frame, picture, png_by_hand

from headrace.codecs import small_picture
from headrace.codecs.small_picture import looks_like_picture, small_array, small_file
from headrace.errors import ImageError


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(float) - b.astype(float)).mean())


def expected(pixels: np.ndarray, columns: int, rows: int) -> np.ndarray:
    return np.asarray(PIL.Image.fromarray(pixels).resize((columns, rows), PIL.Image.Resampling.BOX))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "PPM"])
def test_a_file_of_any_kind_is_made_small(kind: str) -> None:
    pixels = picture(1, 300, 400)
    small = small_file(image_file(pixels, kind), (100, 100))
    assert (small.pixels.shape, small.width, small.height) == ((75, 100, 3), 400, 300)
    assert distance(small.pixels, expected(pixels, 100, 75)) < 4


def test_both_sides_of_the_box_count_and_nothing_is_enlarged() -> None:
    data = image_file(picture(1, 300, 400), "JPEG")
    assert small_file(data, (80, 30)).pixels.shape == (30, 40, 3)
    assert small_file(data, (1000, 1000)).pixels.shape == (300, 400, 3)
    assert small_file(image_file(picture(1, 1, 400), "PNG"), (10, 10)).pixels.shape == (1, 10, 3)


def test_grey_palette_and_cmyk_become_rgb() -> None:
    grey = picture(2, 60, 80)[:, :, 0]
    for image in (PIL.Image.fromarray(grey), PIL.Image.fromarray(grey).convert("P")):
        small = small_file(image_file(image, "PNG"), (80, 80))
        assert distance(small.pixels, np.repeat(grey[:, :, None], 3, 2)) < 1
    cmyk = image_file(PIL.Image.fromarray(picture(2, 60, 80)).convert("CMYK"), "JPEG", quality=95)
    assert distance(small_file(cmyk, (80, 80)).pixels, picture(2, 60, 80)) < 12


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_transparency_is_kept(kind: str) -> None:
    pixels = np.dstack([picture(3, 64, 64), np.full((64, 64), 255, np.uint8)])
    pixels[:32, :, 3] = 0
    options = {"lossless": True} if kind == "WEBP" else {}
    small = small_file(image_file(PIL.Image.fromarray(pixels), kind, **options), (16, 16)).pixels
    assert small.shape == (16, 16, 4)
    assert (small[:8, :, 3] == 0).all()
    assert (small[8:, :, 3] == 255).all()
    assert distance(small[8:, :, :3], expected(pixels[:, :, :3].copy(), 16, 16)[8:]) < 2


def test_an_alpha_channel_that_says_opaque_is_dropped() -> None:
    pixels = np.dstack([picture(3, 20, 20), np.full((20, 20), 255, np.uint8)])
    gif = image_file(PIL.Image.fromarray(pixels), "TIFF")
    assert small_file(gif, (20, 20)).pixels.shape == (20, 20, 3)


@pytest.mark.parametrize("colour", [0, 2])
def test_16_bits_are_stretched(colour: int) -> None:
    ramp = np.linspace(100, 1100, 64 * 64).astype(np.uint16).reshape(64, 64)
    data = png_by_hand(ramp if colour == 0 else np.repeat(ramp[:, :, None], 3, 2), colour)
    small = small_file(data, (64, 64)).pixels
    assert small.shape == (64, 64, 3)
    assert (small[0, 0] == 0).all()
    assert (small[-1, -1] == 255).all()
    assert small[32, 0, 0] == pytest.approx(128, abs=3)


def test_16_bit_tiff_goes_through_pillow() -> None:
    ramp = np.linspace(0, 4095, 64 * 64).astype(np.uint16).reshape(64, 64)
    small = small_file(image_file(PIL.Image.fromarray(ramp), "TIFF"), (32, 32)).pixels
    assert small.shape == (32, 32, 3)
    assert small.min() < 5
    assert small.max() > 250


def bmp_header(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "deep PNG", "BMP"])
def test_a_gigantic_picture_is_refused_before_it_is_decoded_and_its_size_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_picture, "MAX_PIXELS", 1000)
    data = {
        "JPEG": patch_jpeg_frame(image_file(picture(1, 8, 8), "JPEG"), width=9000, height=9000),
        "PNG": image_file(PIL.Image.new("RGB", (9000, 9000)), "PNG"),
        "deep PNG": png_by_hand(np.zeros((9000, 9000), np.uint16), 0) if kind == "deep PNG" else b"",
        "BMP": bmp_header(9000, 9000),
    }[kind]
    with pytest.raises(ImageError, match="9000 x 9000 pixels, and at most 1000"):
        small_file(data, (64, 64))


def test_a_gigantic_jpeg_is_refused_by_the_real_limit() -> None:
    data = patch_jpeg_frame(image_file(picture(1, 8, 8), "JPEG"), width=60_000, height=60_000)
    with pytest.raises(ImageError, match="60000 x 60000 pixels"):
        small_file(data, (64, 64))


@pytest.mark.parametrize("damage", ["cut", "no picture", "empty"])
def test_damage_is_an_image_error(damage: str) -> None:
    whole = image_file(picture(1, 50, 50), "PNG")
    data = {"cut": whole[:200], "no picture": b"hello, world", "empty": b""}[damage]
    with pytest.raises(ImageError):
        small_file(data, (64, 64))


def test_what_looks_like_a_picture() -> None:
    assert all(map(looks_like_picture, [(28, 28), (28, 28, 1), (32, 32, 3), (32, 32, 4), (3, 32, 32), (1, 9, 9)]))
    assert not any(map(looks_like_picture, [(), (784,), (100, 4), (5, 32, 32), (2, 3, 32, 32), (3, 3, 3)]))


def test_arrays_of_every_layout() -> None:
    pixels = picture(4, 40, 60)
    small = small_array(pixels, (30, 30)).pixels
    assert small.shape == (20, 30, 3)
    assert (small_array(pixels.transpose(2, 0, 1), (30, 30)).pixels == small).all()
    grey = small_array(pixels[:, :, 0], (30, 30)).pixels
    assert (grey == small[:, :, :1]).all()
    alpha = np.dstack([pixels, np.full((40, 60), 255, np.uint8)])
    assert small_array(alpha, (30, 30)).pixels.shape == (20, 30, 4)


def test_numbers_are_stretched_and_what_is_not_finite_does_no_harm() -> None:
    ramp = np.linspace(-3, 5, 64).reshape(8, 8)
    assert small_array(ramp, (8, 8)).pixels[[0, -1], [0, -1], 0].tolist() == [0, 255]
    share = np.full((8, 8), 0.5, np.float32)
    assert (small_array(share, (8, 8)).pixels == 128).all()
    ramp[0, 0], ramp[0, 1], ramp[0, 2] = np.nan, np.inf, -np.inf
    assert small_array(ramp, (8, 8)).pixels[0, :3, 0].tolist() == [0, 255, 0]
    assert (small_array(np.full((8, 8), np.nan), (8, 8)).pixels == 0).all()
    huge = np.array([[-1.7e308, 1.7e308] * 4] * 8)
    assert small_array(huge, (8, 8)).pixels[0, :2, 0].tolist() == [0, 255]
    assert small_array(np.eye(8, dtype=bool), (8, 8)).pixels[0, :2, 0].tolist() == [255, 0]
    ints = np.array([[np.iinfo(np.int64).min, np.iinfo(np.int64).max] * 4] * 8)
    assert small_array(ints, (8, 8)).pixels[0, :2, 0].tolist() == [0, 255]


def test_a_long_array_is_thinned_out_first() -> None:
    small = small_array(np.zeros((4000, 9), np.float32), (20, 20))
    assert (small.pixels.shape, small.width, small.height) == ((20, 1, 3), 9, 4000)


@pytest.mark.parametrize("array", [np.zeros((8, 8), np.complex64), np.zeros(9), np.zeros((8, 8), "S3")])
def test_other_arrays_are_refused(array: np.ndarray) -> None:
    with pytest.raises(ImageError, match="does not look like a picture"):
        small_array(array, (8, 8))


def test_a_box_must_make_sense() -> None:
    with pytest.raises(ValueError, match="0 x 5"):
        small_file(b"", (0, 5))
    with pytest.raises(ValueError, match="1 to 16384"):
        small_array(np.zeros((8, 8)), (8, 1 << 20))


def test_the_first_picture_of_a_gif_is_shown() -> None:
    out = io.BytesIO()
    red, blue = PIL.Image.new("RGB", (16, 16), "red"), PIL.Image.new("RGB", (16, 16), "blue")
    red.save(out, "GIF", save_all=True, append_images=[blue])
    assert small_file(out.getvalue(), (4, 4)).pixels[0, 0].tolist() == [255, 0, 0]
