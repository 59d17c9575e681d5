"""What the header of a JPEG says."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import image_file, picture

from headrace.codecs import jpeg
from headrace.codecs.jpeg_header import estimate_quality, read_header
from headrace.errors import ImageError

PIXELS = picture(1, 40, 60)


@pytest.mark.parametrize(
    ("subsampling", "words", "mcu"), [(0, "4:4:4", (8, 8)), (1, "4:2:2", (16, 8)), (2, "4:2:0", (16, 16))]
)
def test_sampling(subsampling: int, words: str, mcu: tuple[int, int]) -> None:
    header = read_header(image_file(PIXELS, "JPEG", subsampling=subsampling))
    assert (header.sampling, header.mcu) == (words, mcu)
    assert (header.width, header.height, header.precision) == (60, 40, 8)


def test_grey() -> None:
    header = read_header(image_file(PIXELS[:, :, 0], "JPEG"))
    assert (header.sampling, header.mcu) == ("grey", (8, 8))


@pytest.mark.parametrize("quality", [1, 10, 35, 50, 75, 90, 95, 100])
def test_quality_of_libjpeg_is_found_exactly(quality: int) -> None:
    header = read_header(image_file(PIXELS, "JPEG", quality=quality))
    assert (header.quality, header.is_standard) == (quality, True)


def test_quality_of_other_tables_is_an_estimate() -> None:
    own = [[max(1, min(255, 3 * i % 50 + 4)) for i in range(64)]] * 2
    header = read_header(image_file(PIXELS, "JPEG", qtables=own))
    assert header.quality is not None
    assert 1 <= header.quality <= 100
    assert not header.is_standard
    assert estimate_quality([255] * 64)[0] <= 5


def test_progressive_restart_and_extras() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    out = io.BytesIO()
    Pillow.fromarray(PIXELS).save(
        out, "JPEG", progressive=True, restart_marker_blocks=5, exif=exif, comment=b"hello", icc_profile=b"x" * 200
    )
    header = read_header(out.getvalue())
    assert header.is_progressive
    assert not header.is_arithmetic
    assert header.restart_interval == 5
    assert set(header.extras) >= {"JFIF", "Exif", "comment", "colour profile"}
    assert not read_header(jpeg.encode(PIXELS)).is_progressive


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG",
        b"\xff\xd8",
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8" + b"\xff" * 1000,
        b"\xff\xd8\xff\xc0\x00\x02",
        b"\xff\xd8\xff\xc0\x00\x08\x08\x00\x10\x00\x10\xff",
        b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x10\x00\x10\x01\x01\x00\x00",
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * 10_000,
    ],
)
def test_broken_headers_are_refused(data: bytes) -> None:
    with pytest.raises(ImageError):
        read_header(data)


def test_any_cut_or_change_is_survived() -> None:
    data = bytearray(image_file(PIXELS, "JPEG", quality=90, comment=b"x" * 50))
    rng = np.random.default_rng(0)
    for _ in range(500):
        bad = bytearray(data[: rng.integers(2, 700)])
        for at in rng.integers(2, len(bad), 3) if len(bad) > 2 else ():
            bad[at] = rng.integers(256)
        try:
            header = read_header(bad)
        except ImageError:
            continue
        assert all(1 <= factor <= 4 for pair in header.factors for factor in pair)


def test_an_array_is_taken_too() -> None:
    data = np.frombuffer(jpeg.encode(PIXELS), np.uint8)
    assert read_header(data).width == 60
