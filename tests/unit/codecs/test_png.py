"""PNG by the native core: the pixels of Pillow, and what is not taken."""

from __future__ import annotations

import struct
import threading
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import image_file, picture
from tests.png_files import CHANNELS, DEPTHS, chunk, png_file, with_chunk

from headrace import _native
from headrace.codecs import image, png
from headrace.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not png.is_native(), reason="this build has no libpng")

PIXELS = picture(2, 12, 18)


def by_pillow(data: bytes) -> np.ndarray:
    with image.open_picture(data) as opened:
        return image.pillow_to_rgb(opened)


@st.composite
def files(draw: st.DrawFn, deepest: int = 8) -> bytes:
    colour = draw(st.sampled_from(sorted(CHANNELS)))
    depth = draw(st.sampled_from([depth for depth in DEPTHS[colour] if depth <= deepest]))
    shape = (draw(st.integers(1, 19)), draw(st.integers(1, 19)), CHANNELS[colour])
    numbers = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 1 << depth, shape)
    if colour in (4, 6) and draw(st.integers(0, 9)):
        numbers[:, :, -1] = (1 << depth) - 1
    colours = int(numbers.max()) + 1 if colour == 3 else 0
    return png_file(
        numbers,
        colour,
        depth,
        is_interlaced=draw(st.booleans()),
        filters=bytes(draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))),
        palette=np.random.default_rng(1).bytes(3 * colours),
        parts=draw(st.integers(1, 4)),
    )


@settings(max_examples=400, deadline=None)
@given(data=files())
def test_the_pixels_are_those_of_pillow(data: bytes) -> None:
    size = png.plain_size(data)
    assert size is not None
    found = png.decode(data, size)
    if found is None:
        with pytest.raises(ImageError, match="transparent in places"):
            by_pillow(data)
        with pytest.raises(ImageError, match="transparent in places"):
            image.decode(data)
    else:
        np.testing.assert_array_equal(found, by_pillow(data))
        np.testing.assert_array_equal(image.decode(data, background=(1, 2, 3)), found)
        np.testing.assert_array_equal(image.decode_any(data), found)


@settings(max_examples=150, deadline=None)
@given(data=files(deepest=16), key=st.binary(min_size=6, max_size=6))
def test_what_is_rare_is_pillows(data: bytes, key: bytes) -> None:
    rare = with_chunk(data, b"tRNS", {0: key[:2], 2: key}.get(data[25], key[:1]))
    assert png.plain_size(rare) is None
    assert outcome(image.decode, rare) == outcome(by_pillow, rare)


def outcome(decode: Callable[[bytes], np.ndarray], data: bytes) -> object:
    """The pixels, or what is wrong."""
    try:
        return decode(data).tolist()
    except ImageError as error:
        return str(error)


def test_numbers_that_the_palette_does_not_have() -> None:
    numbers = np.arange(256).reshape(16, 16, 1)
    data = png_file(numbers, 3, 8, palette=bytes([9, 8, 7]))
    found = image.decode(data)
    assert found[0, 0].tolist() == [9, 8, 7]
    assert not found.reshape(-1, 3)[1:].any()


def test_more_pixels_than_there_should_be() -> None:
    data = png_file(PIXELS, 2, 8)
    rows = zlib.decompress(data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8]) + bytes(100)
    longer = data[: data.index(b"IDAT") - 4] + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    np.testing.assert_array_equal(image.decode(longer), PIXELS)
    np.testing.assert_array_equal(by_pillow(longer), PIXELS)


def test_photographs() -> None:
    pixels = picture(3, 240, 321)
    for options in ({}, {"optimize": True}, {"compress_level": 0}):
        np.testing.assert_array_equal(image.decode(image_file(pixels, "PNG", **options)), pixels)


def test_chunks_beside_the_pixels_do_not_matter() -> None:
    profile = b"x\0\0" + zlib.compress(bytes(1 << 24), 9)  # a bomb that nobody has to open
    data = image_file(PIXELS, "PNG")
    for name, content in [(b"iCCP", profile), (b"zTXt", profile), (b"gAMA", b"\0\0\0\1"), (b"prVt", bytes(70_000))]:
        found = _native_decode(with_chunk(data, name, content))
        np.testing.assert_array_equal(found, PIXELS)


def _native_decode(data: bytes) -> np.ndarray:
    size = png.plain_size(data)
    assert size is not None
    found = png.decode(data, size)
    assert found is not None
    return found


def test_animated_ones_are_pillows() -> None:
    data = with_chunk(image_file(PIXELS, "PNG"), b"acTL", struct.pack(">II", 1, 0))
    assert png.plain_size(data) is None
    np.testing.assert_array_equal(image.decode(data), PIXELS)


def test_more_than_eight_bits_are_refused_as_ever() -> None:
    with pytest.raises(ImageError, match="more than 8 bits a channel, and an image field holds 8"):
        image.decode(png_file(np.zeros((2, 3, 3), int), 2, 16))


@pytest.mark.parametrize("colour", sorted(CHANNELS.keys() - {3}))
def test_sixteen_bits(colour: int) -> None:
    numbers = np.random.default_rng(5).integers(0, 1 << 16, (7, 9, CHANNELS[colour]))
    for is_interlaced in (False, True):
        data = png_file(numbers, colour, 16, is_interlaced=is_interlaced, filters=bytes(range(5)))
        found = image.decode_deep(data)
        assert found.dtype == np.uint16
        np.testing.assert_array_equal(found.reshape(numbers.shape), numbers)
        assert found.ndim == (2 if colour == 0 else 3)
    with pytest.raises(ImageError, match="mode RGB cannot be read as 16 bits"):
        image.decode_deep(image_file(PIXELS, "PNG"))


def test_sixteen_bits_of_a_tiff() -> None:
    import PIL.Image

    numbers = np.arange(12 * 1000, dtype=np.uint16).reshape(12, 1000)
    np.testing.assert_array_equal(image.decode_deep(image_file(PIL.Image.fromarray(numbers), "TIFF")), numbers)


def test_cut_short_at_every_byte() -> None:
    data = png_file(PIXELS, 2, 8, filters=b"\4")
    end = data.index(b"IEND") - 4
    for size in range(end):
        with pytest.raises(ImageError):
            image.decode(data[:size])
    np.testing.assert_array_equal(image.decode(data[:end]), PIXELS)


def test_damage_is_named() -> None:
    data = bytearray(image_file(PIXELS, "PNG"))
    data[data.index(b"IDAT") + 20] ^= 1
    with pytest.raises(ImageError, match=r"PNG of [0-9,]+ bytes: PNG: "):
        image.decode(data)


@settings(max_examples=300, deadline=None)
@given(data=files(), draws=st.data())
def test_mutations_raise_image_error_or_decode(data: bytes, draws: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(draws.draw(st.integers(1, 4))):
        broken[draws.draw(st.integers(8, len(data) - 1))] = draws.draw(st.integers(0, 255))
    for decode in (image.decode, image.decode_deep):
        try:
            decode(broken)
        except ImageError:
            continue


def test_few_bytes_get_no_memory() -> None:
    head = struct.pack(">IIBBBBB", 9000, 9000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(9)))
    with pytest.raises(ImageError, match="cannot hold 9000x9000 pixels"):
        image.decode(data)


def test_the_output_must_fit() -> None:
    data = image_file(PIXELS, "PNG")
    with pytest.raises(_native.NativeError, match="it has 18x12 pixels, not 12x18"):
        _native.decode_png(data, np.empty((18, 12, 3), np.uint8))
    with pytest.raises(_native.NativeError, match="does not have the size"):
        _native.decode_deep_png(png_file(PIXELS.astype(int), 2, 16), np.empty((12, 18, 4), np.uint16))


def test_many_threads() -> None:
    data = [png_file(picture(i, 40, 30), 2, 8, filters=bytes([i % 5])) for i in range(8)]
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(i for i in range(8) for _ in range(20) if (image.decode(data[i]) != picture(i, 40, 30)).any())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
