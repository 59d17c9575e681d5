from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.conftest import GOLDEN, manifest
from tests.helpers import golden_photo, golden_rng, image_file, patch_jpeg_frame, picture, png_by_hand

import headrace as hr
from headrace import Image
from headrace.codecs import jpeg
from headrace.errors import ImageError
from headrace.fields import JPG, RAW

if TYPE_CHECKING:
    from pathlib import Path

PIXELS = picture(1, 20, 31)
PARAMS = json.loads((GOLDEN / "params.json").read_text())


def stored_raw(value: Any, **options: Any) -> np.ndarray:
    """What a raw image field keeps of a value."""
    field = Image(mode="raw", **options)
    encoded = field.encode(value, 0)
    assert encoded.facts[0] == RAW
    return field.decode(encoded.facts, memoryview(encoded.payload or b""))


def distance(a: np.ndarray, b: np.ndarray) -> int:
    assert a.shape == b.shape
    return int(np.abs(a.astype(int) - b.astype(int)).max())


# -- arrays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (PIXELS, PIXELS),
        (PIXELS[:, ::-1], PIXELS[:, ::-1]),
        (PIXELS[:, :, 0], np.repeat(PIXELS[:, :, :1], 3, axis=2)),
        (PIXELS[:, :, :1], np.repeat(PIXELS[:, :, :1], 3, axis=2)),
        (np.dstack([PIXELS, np.full((20, 31), 255, np.uint8)]), PIXELS),
        (np.dstack([PIXELS[:, :, 0], np.full((20, 31), 255, np.uint8)]), np.repeat(PIXELS[:, :, :1], 3, axis=2)),
        (np.asfortranarray(PIXELS), PIXELS),
    ],
    ids=["rgb", "reversed", "grey", "grey x1", "opaque rgba", "opaque grey", "fortran"],
)
def test_arrays_that_are_taken(value: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(stored_raw(value), expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (PIXELS.astype(np.uint16), "more than 8 bits"),
        (PIXELS / 255, "more than 8 bits"),
        (PIXELS.astype(np.int8), "must be uint8, got int8"),
        (PIXELS > 9, "must be uint8, got bool"),
        (np.zeros((0, 4, 3), np.uint8), "empty"),
        (np.zeros((4, 0), np.uint8), "empty"),
        (np.zeros((4, 4, 5), np.uint8), "got shape"),
        (np.zeros((4, 4, 0), np.uint8), "got shape"),
        (np.zeros(4, np.uint8), "got shape"),
        (np.zeros((1, 4, 4, 3), np.uint8), "got shape"),
    ],
)
def test_arrays_that_are_refused(value: np.ndarray, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        Image().encode(value, 0)


@pytest.mark.parametrize("value", [None, 3, [[1, 2]], object()])
def test_what_is_no_picture_at_all_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="an Image field takes an array, a Pillow image"):
        Image().encode(value, 0)


def test_transparency_needs_a_background() -> None:
    value = np.dstack([PIXELS, np.full((20, 31), 128, np.uint8)])
    with pytest.raises(ImageError, match="background="):
        Image().encode(value, 0)
    blend = PIXELS * (128 / 255) + np.array([255, 0, 10]) * (127 / 255)
    assert distance(stored_raw(value, background=(255, 0, 10)), blend.round()) <= 1


def test_transparent_grey_takes_the_color_of_the_background() -> None:
    value = np.dstack([PIXELS[:, :, 0], np.zeros((20, 31), np.uint8)])
    assert (stored_raw(value, background=(1, 2, 3)) == [1, 2, 3]).all()


# -- Pillow -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "1", "YCbCr", "HSV"])
def test_pillow_modes_become_what_pillow_makes_of_them(mode: str) -> None:
    image = Pillow.fromarray(PIXELS).convert(mode)
    np.testing.assert_array_equal(stored_raw(image), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_deep_pillow_modes_are_refused(mode: str) -> None:
    with pytest.raises(ImageError, match=f"mode {mode} has more than 8 bits"):
        Image().encode(Pillow.new(mode, (4, 4)), 0)


@pytest.mark.parametrize("mode", ["LA", "RGBA", "P"])
def test_transparent_pillow_images_need_a_background(mode: str) -> None:
    image = Pillow.new(mode, (3, 2), 0)
    if mode == "P":
        image.info["transparency"] = 0
    with pytest.raises(ImageError, match="transparent"):
        Image().encode(image, 0)
    assert (stored_raw(image, background=(9, 8, 7)) == [9, 8, 7]).all()


def test_an_empty_pillow_image_is_refused() -> None:
    with pytest.raises(ImageError, match="empty"):
        Image(mode="raw").encode(Pillow.new("RGB", (0, 4)), 0)


# -- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP", "TIFF", "PPM"])
def test_files_without_loss(kind: str, tmp_path: Path) -> None:
    data = image_file(PIXELS, kind, **({"lossless": True} if kind == "WEBP" else {}))
    path = tmp_path / "picture"
    path.write_bytes(data)
    for value in (data, bytearray(data), memoryview(data), path, str(path)):
        np.testing.assert_array_equal(stored_raw(value), PIXELS)


def test_png_8_bit_by_hand() -> None:
    np.testing.assert_array_equal(stored_raw(png_by_hand(PIXELS, 2)), PIXELS)
    grey = PIXELS[:, :, 0]
    np.testing.assert_array_equal(stored_raw(png_by_hand(grey, 0)), np.repeat(grey[:, :, None], 3, axis=2))


@pytest.mark.parametrize(
    ("channels", "color_type"), [(1, 0), (3, 2), (2, 4), (4, 6)], ids=["grey", "rgb", "grey+alpha", "rgba"]
)
def test_png_16_bit_is_refused(channels: int, color_type: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 65536, (5, 4, channels)).astype(np.uint16)
    with pytest.raises(ImageError, match="more than 8 bits"):
        Image(background=(0, 0, 0)).encode(png_by_hand(pixels, color_type), 0)


@pytest.mark.parametrize("data", [b"", b"hello", b"\xff\xd8", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", bytes(5000)])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(ImageError):
        Image().encode(data, 0)


def test_a_truncated_png_is_refused() -> None:
    data = image_file(PIXELS, "PNG")
    with pytest.raises(ImageError):
        Image().encode(data[: len(data) // 2], 0)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"/no/such\.jpg"):
        Image().encode("/no/such.jpg", 0)


# -- JPEG as it is ------------------------------------------------------------------------------------------

JPEGS = {
    "rgb": image_file(PIXELS, "JPEG", quality=90),
    "grey": image_file(PIXELS[:, :, 0], "JPEG"),
    "progressive": image_file(PIXELS, "JPEG", progressive=True),
    "444": image_file(PIXELS, "JPEG", subsampling=0),
}


@pytest.mark.parametrize("data", JPEGS.values(), ids=JPEGS)
def test_jpeg_is_stored_byte_for_byte(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    for value in (data, path):
        assert Image(max_side=31).encode(value, 0) == ((JPG, 31, 20), data)
    assert Image(max_side=30).encode(data, 0).payload != data


@pytest.mark.parametrize("data", JPEGS.values(), ids=JPEGS)
def test_jpeg_stored_raw_has_pillows_pixels(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    expected = np.asarray(Pillow.open(path).convert("RGB"))
    assert distance(stored_raw(data), expected) <= 3


def test_cmyk_jpeg_is_converted() -> None:
    image = Pillow.fromarray(PIXELS).convert("CMYK")
    data = image_file(image, "JPEG", quality=95)
    expected = np.asarray(image.convert("RGB"))
    assert distance(stored_raw(data), expected) <= 40
    field = Image()
    encoded = field.encode(data, 0)
    assert encoded.payload != data
    assert jpeg.read_info(encoded.payload or b"").color_space == "ycbcr"
    assert distance(field.decode(encoded.facts, memoryview(encoded.payload or b"")), expected) <= 60


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.98])
@pytest.mark.parametrize("kind", ["rgb", "progressive"])
def test_a_truncated_jpeg_is_refused(share: float, kind: str) -> None:
    data = JPEGS[kind]
    with pytest.raises(ImageError, match="JPEG"):
        Image().encode(data[: int(len(data) * share)], 0)


def test_a_jpeg_followed_by_other_bytes_is_kept_as_it_is() -> None:
    data = JPEGS["rgb"] + b"padding" * 9
    assert Image().encode(data, 0).payload == data


def test_a_jpeg_that_could_not_be_read_back_is_refused() -> None:
    with pytest.raises(ImageError, match="12 bits"):
        Image().encode(patch_jpeg_frame(JPEGS["rgb"], precision=12), 0)
    with pytest.raises(ImageError, match="pixels, the most"):
        Image().encode(patch_jpeg_frame(JPEGS["rgb"], width=40_000, height=40_000), 0)


@pytest.mark.parametrize(
    "field",
    [
        Image(),
        Image(max_side=17, quality=70),
        Image(mode="raw"),
        Image(mode="raw", max_side=17),
        Image(mode="smart", smart_threshold=1000, max_side=25),
        Image(mode="smart"),
        Image(mode="proportion", compress_probability=0.5),
    ],
)
def test_many_files_at_once_are_stored_as_one_by_one(field: Image, tmp_path: Path) -> None:
    files = [jpeg.encode(picture(seed, 12 + seed, 40 - seed)) for seed in range(20)]
    for seed in range(0, 20, 2):  # every second one as a path
        (tmp_path / f"{seed}.jpg").write_bytes(files[seed])
    values = [tmp_path / f"{i}.jpg" if i % 2 == 0 else files[i] for i in range(20)]
    indices = range(1000, 1020)
    together = field.encode_files(values, indices)
    assert together == [field.encode(value, index) for value, index in zip(values, indices, strict=True)]


def test_what_the_fast_way_cannot_do_is_left_over(tmp_path: Path) -> None:
    good = jpeg.encode(PIXELS)
    cmyk = image_file(Pillow.fromarray(PIXELS).convert("CMYK"), "JPEG")
    values = [good, good[:-40], cmyk, b"no picture", str(tmp_path / "missing.jpg"), tmp_path, b""]
    stored = Image().encode_files(values, range(len(values)))
    assert [encoded is None for encoded in stored] == [False, True, True, True, True, True, True]
    assert stored[0] is not None
    assert stored[0].payload is good


# -- sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "max_side", "expected"),
    [
        ((640, 480), 500, (500, 375)),
        ((480, 640), 500, (375, 500)),
        ((500, 333), 500, (500, 333)),
        ((501, 333), 500, (500, int(500 / 501 * 333))),
        ((200, 7), 64, (64, int(64 / 200 * 7))),
        ((1000, 1), 10, (10, 1)),
        ((3, 3), 1, (1, 1)),
        ((49, 7), 7, (int(7 / 49 * 49), 1)),
    ],
)
def test_stored_size_is_ffcvs(size: tuple[int, int], max_side: int, expected: tuple[int, int]) -> None:
    assert Image(max_side=max_side).stored_size(*size) == expected


def test_stored_size_for_many_sizes() -> None:
    field = Image(max_side=97)
    for width in range(1, 400, 7):
        for height in range(1, 400, 11):
            longest = max(width, height)
            ratio = min(97 / longest, 1.0)
            expected = (width, height) if longest <= 97 else (max(1, int(ratio * width)), max(1, int(ratio * height)))
            assert field.stored_size(width, height) == expected


def test_shrinking_a_thread_keeps_one_pixel() -> None:
    assert stored_raw(np.full((1, 3000, 3), 7, np.uint8), max_side=20).shape == (1, 20, 3)


def test_small_pictures_are_never_enlarged() -> None:
    np.testing.assert_array_equal(stored_raw(PIXELS, max_side=500), PIXELS)


def test_sides_the_format_cannot_say() -> None:
    line = np.zeros((1, 65_536, 3), np.uint8)
    with pytest.raises(ImageError, match="65536 pixels is too long, the format ends at 65535"):
        Image(mode="raw").encode(line, 0)
    assert Image(mode="raw").encode(line[:, 1:], 0).facts == (RAW, 65_535, 1)
    assert Image(mode="raw", max_side=100).encode(line, 0).facts == (RAW, 100, 1)


def test_shrinking_is_within_one_level_of_ffcv() -> None:
    rng = golden_rng(PARAMS["seed"], "raw")
    sources = [golden_photo(rng, h, w) for h, w in PARAMS["variable_sizes"]]
    with np.load(GOLDEN / "img_raw_var.pixels.npz") as pixels:
        kept = {int(key.partition("/")[2]): pixels[key] for key in pixels.files}
    assert any(max(sources[i].shape) > PARAMS["max_res"] for i in kept)
    for i, expected in kept.items():
        assert distance(stored_raw(sources[i], max_side=PARAMS["max_res"]), expected) <= 1


def test_all_golden_raw_pixels_are_within_one_level(golden_dir: Path) -> None:
    rng = golden_rng(PARAMS["seed"], "raw")
    dataset = hr.open(golden_dir / "img_raw_var.beton")
    for sample, (h, w) in zip(dataset, PARAMS["variable_sizes"], strict=True):
        assert distance(stored_raw(golden_photo(rng, h, w), max_side=PARAMS["max_res"]), sample.image) <= 1


def test_golden_jpg_has_our_sizes_and_nearly_our_pixels(golden_dir: Path) -> None:
    rng = golden_rng(PARAMS["seed"], "jpg")
    field = Image(max_side=PARAMS["max_res_jpg"], quality=PARAMS["quality"])
    dataset = hr.open(golden_dir / "img_jpg_var.beton")
    for i, (h, w) in enumerate(PARAMS["variable_sizes"]):
        encoded = field.encode(golden_photo(rng, h, w), i)
        want = manifest("img_jpg_var")["samples"][i]["image"]
        assert encoded.facts == (JPG, want["width"], want["height"])
        ours = field.decode(encoded.facts, memoryview(encoded.payload or b""))
        assert np.abs(ours.astype(int) - dataset[i].image.astype(int)).mean() < 2


# -- modes --------------------------------------------------------------------------------------------------


def test_smart_compares_the_raw_size_with_the_threshold() -> None:
    size = PIXELS.size
    assert Image(mode="smart", smart_threshold=size).encode(PIXELS, 0).facts[0] == RAW
    assert Image(mode="smart", smart_threshold=size - 1).encode(PIXELS, 0).facts[0] == JPG
    assert Image(mode="smart").encode(PIXELS, 0).facts[0] == RAW


def test_smart_looks_at_the_size_after_shrinking() -> None:
    field = Image(mode="smart", smart_threshold=1000, max_side=15)
    assert field.encode(PIXELS, 0).facts[0] == RAW
    assert field.encode(JPEGS["rgb"], 0).facts[0] == RAW


def test_smart_chooses_as_ffcv_did() -> None:
    field = Image(mode="smart", smart_threshold=PARAMS["smart_threshold"])
    rng = golden_rng(PARAMS["seed"], "smart")
    modes = [field.encode(golden_photo(rng, h, w), 0).facts[0] for h, w in PARAMS["variable_sizes"]]
    assert modes == [row["image"]["mode"] for row in manifest("img_smart")["samples"]]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_proportion_depends_on_the_index_alone(share: float) -> None:
    field = Image(mode="proportion", compress_probability=share)
    tiny = np.zeros((1, 1, 3), np.uint8)
    modes = [field.encode(tiny, i).facts[0] for i in range(2000)]
    assert modes == [field.encode(tiny, i).facts[0] for i in range(2000)]
    assert modes.count(JPG) == pytest.approx(2000 * share, abs=100 if 0 < share < 1 else 0)


def test_quality_matters_for_what_is_encoded_only() -> None:
    low, high = (len(Image(quality=q).encode(PIXELS, 0).payload or b"") for q in (10, 95))
    assert low < high
    assert Image(quality=10).encode(JPEGS["rgb"], 0).payload == JPEGS["rgb"]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "png"},
        {"max_side": 0},
        {"max_side": 65_536},
        {"quality": 0},
        {"quality": 101},
        {"compress_probability": 1.5},
        {"background": (0, 0)},
        {"background": (0, 0, 256)},
        {"background": "white"},
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=name):
        Image(**options)


def test_the_largest_possible_payload() -> None:
    assert Image(mode="raw", max_side=100).max_size_bytes() == 30_000
    assert Image(mode="raw").max_size_bytes() is None
    assert Image(mode="jpg", max_side=100).max_size_bytes() is None


# -- decoding -----------------------------------------------------------------------------------------------


def test_a_view_of_raw_pixels_copies_nothing() -> None:
    stored = np.ascontiguousarray(PIXELS).reshape(-1)
    view = Image().view((RAW, 31, 20), stored)
    assert np.shares_memory(view, stored)
    np.testing.assert_array_equal(view, PIXELS)


def test_there_is_no_view_of_a_jpeg() -> None:
    with pytest.raises(ValueError, match="stored as JPEG"):
        Image().view((JPG, 31, 20), np.frombuffer(JPEGS["rgb"], np.uint8))


def test_a_jpeg_of_another_size_is_refused() -> None:
    with pytest.raises(ImageError, match="JPEG is 31x20 pixels, expected 20x31"):
        Image().decode((JPG, 20, 31), memoryview(JPEGS["rgb"]))


def test_a_gigantic_claim_is_refused_before_memory_is_asked_for() -> None:
    with pytest.raises(ImageError, match="more than"):
        Image().decode((JPG, 65_535, 65_535), memoryview(JPEGS["rgb"]))
