"""What a TIFF may declare."""

from __future__ import annotations

import struct
import time
import zlib

import numpy as np
import pytest
from tests.helpers import image_file, picture

from headrace.codecs import image, tiff
from headrace.errors import ImageError

Entry = tuple[int, int, int, int]  # number, type, values, value or offset

BYTE, SHORT, LONG, LONG8, SLONG8 = 1, 3, 4, 16, 17
KINDS = {BYTE: "B", SHORT: "H", LONG: "I", LONG8: "Q", SLONG8: "q"}
TYPES = [(SHORT, False), (LONG, False), (SHORT, True), (LONG8, True), (SLONG8, True)]


def made(entries: list[Entry], rest: bytes = b"", *, order: str = "<", is_big: bool = False) -> bytes:
    word, width = ("Q", 8) if is_big else ("I", 4)
    mark = b"II" if order == "<" else b"MM"
    head = struct.pack(f"{order}2sHHHQ", mark, 43, 8, 0, 16) if is_big else struct.pack(f"{order}2sHI", mark, 42, 8)
    out = head + struct.pack(order + ("Q" if is_big else "H"), len(entries))
    for number, kind, values, value in entries:
        form = KINDS[kind] if values == 1 and struct.calcsize(KINDS[kind]) <= width else word
        out += struct.pack(f"{order}HH{word}", number, kind, values) + struct.pack(order + form, value).ljust(
            width, b"\0"
        )
    return out + bytes(width) + rest


def tiled(side: int, kind: int = LONG, **how: object) -> bytes:
    content = zlib.compress(bytes(99))
    start = 8 + 2 + 12 * 10 + 4
    numbers = {256: 16, 257: 16, 258: 8, 259: 8, 262: 1, 277: 1, 324: start, 325: len(content)}
    entries: list[Entry] = [(number, LONG, 1, value) for number, value in numbers.items()]
    return made(sorted([*entries, (322, kind, 1, side), (323, kind, 1, side)]), content, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("kind", "is_big"), [(SHORT, False), (LONG, False), (SHORT, True), (LONG8, True), (SLONG8, True)]
)
def test_a_tile_that_is_too_large(kind: int, order: str, is_big: bool) -> None:
    data = tiled(30_000, kind, order=order, is_big=is_big)
    assert tiff.is_tiff(data)
    with pytest.raises(ImageError, match="tiles of 30000x30000 pixels, and at most 89478485"):
        image.decode(data)
    tiff.check(data, None)
    tiff.check(tiled(256, kind, order=order, is_big=is_big), 89_478_485)


def test_the_larger_one_of_two_sizes_counts() -> None:
    sizes: list[Entry] = [(322, LONG, 1, 16), (322, LONG, 1, 1 << 20), (323, LONG, 1, 1 << 20), (323, LONG, 1, 16)]
    with pytest.raises(ImageError, match="tiles of 1048576x1048576"):
        tiff.check(made(sizes), 1 << 30)


def test_a_number_that_lies_elsewhere() -> None:
    rest = struct.pack("<Q", 1 << 20)
    at = len(made([(322, LONG8, 1, 0), (323, LONG8, 1, 0)]))
    with pytest.raises(ImageError, match="tiles of 1048576x1048576"):
        tiff.check(made([(322, LONG8, 1, at), (323, LONG8, 1, at)], rest), 1 << 30)


def test_tags_cannot_share_their_data_without_end() -> None:
    entries: list[Entry] = [(1000 + i, BYTE, 12_000, 8) for i in range(1000)]
    with pytest.raises(ImageError, match="take more bytes than the file has"):
        image.decode(made(entries))


def test_directories_that_lead_to_each_other() -> None:
    entries: list[Entry] = [(34665, LONG, 1, 8 + 12 * i) for i in range(20_000)]
    data = made(entries, order=">")  # each begins with the end of an offset, as the number of its entries
    start = time.monotonic()
    with pytest.raises(ImageError, match="take more bytes"):
        tiff.check(data, None)
    assert time.monotonic() - start < 2


def test_sound_and_damaged_files() -> None:
    pixels = picture(3, 20, 30)
    for data in (image_file(pixels, "TIFF"), tiled(16), tiled(16, is_big=True)):
        tiff.check(data, 1000)
        tiff.check(memoryview(data), 1000)
        rng = np.random.default_rng(1)
        for _ in range(300):
            broken = bytearray(data)
            for at in rng.integers(2, min(len(data), 200), 4).tolist():
                broken[at] = rng.integers(256)
            try:
                tiff.check(broken[: rng.integers(4, len(data) + 1)], 1000)
            except ImageError:
                continue
