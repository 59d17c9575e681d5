"""WebP by the native core: the pixels of Pillow, and what is not taken."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import image_file, picture

from headrace.codecs import image, webp
from headrace.errors import ImageError

pytestmark = pytest.mark.skipif(not webp.is_native(), reason="this build has no libwebp")


def by_pillow(data: bytes) -> np.ndarray:
    with image.open_picture(data) as opened:
        return image.pillow_to_rgb(opened)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 99),
    sides=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    mode=st.sampled_from(["RGB", "L", "RGBA", "P"]),
    lossless=st.booleans(),
    quality=st.integers(0, 100),
    with_profile=st.booleans(),
)
def test_the_pixels_are_those_of_pillow(
    seed: int, sides: tuple[int, int], mode: str, lossless: bool, quality: int, with_profile: bool
) -> None:
    source = PIL.Image.fromarray(picture(seed, *sides)).convert(mode)
    profile = b"profile" if with_profile else b""
    data = image_file(source, "WEBP", lossless=lossless, quality=quality, method=1, icc_profile=profile)
    size = webp.plain_size(data)
    assert size == source.size
    found = webp.decode(data, size)
    assert found is not None
    np.testing.assert_array_equal(found, by_pillow(data))
    np.testing.assert_array_equal(image.decode(data), found)


@pytest.mark.parametrize("lossless", [True, False])
def test_alpha(lossless: bool) -> None:
    source = PIL.Image.fromarray(picture(1, 20, 30)).convert("RGBA")
    opaque = image_file(source, "WEBP", lossless=lossless, exact=True)
    np.testing.assert_array_equal(image.decode(opaque), by_pillow(opaque))
    source.putpixel((3, 4), (1, 2, 3, 200))
    data = image_file(source, "WEBP", lossless=lossless, exact=True)
    assert webp.decode(data, (30, 20)) is None
    with pytest.raises(ImageError, match="transparent in places; say what is behind it"):
        image.decode(data)
    assert image.decode(data, background=(9, 9, 9)).shape == (20, 30, 3)


def test_of_animated_ones_the_first_frame() -> None:
    frames = [PIL.Image.fromarray(picture(i, 20, 30)) for i in range(3)]
    out = io.BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    assert webp.plain_size(out.getvalue()) is None
    np.testing.assert_array_equal(image.decode(out.getvalue()), picture(0, 20, 30))


@pytest.mark.parametrize("lossless", [True, False])
def test_damage(lossless: bool) -> None:
    data = image_file(picture(4, 30, 40), "WEBP", lossless=lossless)
    for size in range(0, len(data) - 2, 3):
        with pytest.raises(ImageError):
            image.decode(data[:size])
    rng = np.random.default_rng(3)
    for _ in range(300):
        broken = bytearray(data)
        for at in rng.integers(12, len(data), 3):
            broken[at] = rng.integers(0, 256)
        try:
            assert image.decode(broken).dtype == np.uint8
        except ImageError:
            continue
