from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import image_file, picture

from headrace.codecs import image
from headrace.errors import ImageError

PIXELS = picture(2, 12, 18)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_decodes_other_formats_exactly(kind: str) -> None:
    np.testing.assert_array_equal(image.decode(image_file(PIXELS, kind)), PIXELS)


def test_the_first_frame_of_a_gif() -> None:
    assert image.decode(image_file(PIXELS, "GIF")).shape == PIXELS.shape


def test_the_message_shows_how_the_file_begins() -> None:
    with pytest.raises(ImageError, match="starts with b'no pictu'"):
        image.decode(b"no picture at all")


@pytest.mark.filterwarnings("ignore")  # Pillow warns before it refuses
@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_damaged_files_raise_image_error_or_decode(kind: str) -> None:
    rng = np.random.default_rng(7)
    data = bytearray(image_file(PIXELS, kind))
    for _ in range(150):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            broken[at] = rng.integers(0, 256)
        try:
            found = image.decode(broken[: rng.integers(1, len(data) + 1)])
        except ImageError:
            continue
        assert found.dtype == np.uint8
        assert found.ndim == 3


def test_suffixes_are_lower_case_with_a_dot() -> None:
    assert all(s.startswith(".") and s == s.lower() for s in image.SUFFIXES)
