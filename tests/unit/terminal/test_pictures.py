"""Pictures for terminals, read back by small readers of each protocol."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import PIL.Image
import pytest
from tests.helpers import picture

from headrace.terminal import Screen, blend, block_lines, draw, enlarge


def read_png(data: bytes) -> np.ndarray:
    return np.asarray(PIL.Image.open(io.BytesIO(data)))


def read_blocks(text: str) -> np.ndarray:
    rows: list[list[list[int]]] = []
    for line in text.splitlines():
        assert line.endswith("\x1b[0m")
        upper: list[list[int]] = []
        lower: list[list[int]] = []
        for top, bottom, run in re.findall(r"\x1b\[38;2;([\d;]+);48;2;([\d;]+)m(▀+)", line):
            upper += [[int(one) for one in top.split(";")]] * len(run)
            lower += [[int(one) for one in bottom.split(";")]] * len(run)
        rows += [upper, lower]
    return np.array(rows, np.uint8)


def read_sixel(text: str) -> np.ndarray:
    found = re.fullmatch(r'\x1bPq"1;1;(\d+);(\d+)((?:#\d+;2;\d+;\d+;\d+)+)(.*)\x1b\\', text, re.S)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    colours = {int(n): [int(c) * 2.55 for c in rgb.split(";")] for n, rgb in re.findall(r"#(\d+);2;([\d;]+)", found[3])}
    pixels = np.full((-(-height // 6) * 6, width, 3), -1.0)
    for top, band in enumerate(found[4].split("-")):
        for part in band.split("$"):
            number, letters = re.fullmatch(r"#(\d+)([!\d?-~]*)", part).groups()  # type: ignore[union-attr]
            x = 0
            for count, letter in re.findall(r"(?:!(\d+))?([?-~])", letters):
                for _ in range(int(count or 1)):
                    for bit in range(6):
                        if (ord(letter) - 63) >> bit & 1:
                            pixels[6 * top + bit, x] = colours[int(number)]
                    x += 1
            assert x == width
    return pixels[:height]


def test_half_blocks_have_the_pixels() -> None:
    pixels = picture(1, 12, 20)
    assert (read_blocks(draw(pixels, Screen(way="blocks"))) == pixels).all()
    odd = picture(1, 11, 20)
    assert (read_blocks(draw(odd, Screen(way="blocks")))[:11] == odd).all()


def test_256_colours_are_the_nearest() -> None:
    pixels = np.array([[[0, 0, 0], [255, 0, 0]], [[118, 118, 118], [95, 135, 175]]], np.uint8)
    (line,) = block_lines(pixels, is_256=True)
    assert line == "\x1b[38;5;16;48;5;243m▀\x1b[38;5;196;48;5;67m▀\x1b[0m"


def test_sixel_has_the_pixels() -> None:
    pixels = picture(1, 40, 50)
    shown = draw(pixels, Screen(way="sixel"))
    assert shown.endswith("\n")
    back = read_sixel(shown[:-1])
    assert back.min() >= 0
    assert np.abs(back - pixels).mean() < 12
    flat = np.full((7, 9, 3), 51, np.uint8)
    assert np.abs(read_sixel(draw(flat, Screen(way="sixel"))[:-1]) - 51).max() < 1


@pytest.mark.parametrize("channels", [3, 4])
def test_kitty_gets_a_png_in_chunks(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 70, channels), np.uint8)
    parts = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", draw(pixels, Screen(way="kitty")))
    assert len(parts) > 1
    assert parts[0][0] == "a=T,f=100,q=2,m=1"
    assert [head for head, _ in parts[1:]] == ["m=1"] * (len(parts) - 2) + ["m=0"]
    assert all(len(data) <= 4096 for _, data in parts)
    assert (read_png(base64.b64decode("".join(data for _, data in parts))) == pixels).all()


def test_iterm2_gets_a_file() -> None:
    pixels = picture(1, 30, 40)
    found = re.fullmatch(r"\x1b\]1337;File=([^:]*):([A-Za-z0-9+/=]*)\x07\n", draw(pixels, Screen(way="iterm2")))
    assert found is not None
    assert "inline=1" in found[1]
    assert "width=40px;height=30px" in found[1]
    assert (read_png(base64.b64decode(found[2])) == pixels).all()


def test_nothing_where_nothing_can_be_shown() -> None:
    assert draw(picture(1, 30, 40), Screen(way="text")) == ""


def test_what_is_clear_becomes_grey() -> None:
    pixels = np.array([[[200, 0, 0, 255], [200, 0, 0, 0], [255, 255, 255, 128]]], np.uint8)
    assert blend(pixels).tolist() == [[[200, 0, 0], [128, 128, 128], [192, 192, 192]]]


def test_tiny_pictures_are_enlarged_as_far_as_they_fit() -> None:
    tiny = picture(1, 8, 16)
    assert enlarge(tiny, (1000, 1000)).shape == (128, 256, 3)
    assert enlarge(tiny, (40, 1000)).shape == (16, 32, 3)
    assert enlarge(tiny, (10, 4)).shape == (8, 16, 3)
    assert enlarge(picture(1, 20, 200), (1000, 1000)).shape == (20, 200, 3)
