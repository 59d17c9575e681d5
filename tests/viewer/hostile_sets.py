"""Datasets that nobody means well with, small, each made by a function that gets an empty folder."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.helpers import Surgeon, image_file, patch_jpeg_frame, picture

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["HOSTILE_SETS", "SCRIPT"]

SCRIPT = "<img src=x onerror=window.pwned=1><script>window.pwned=2</script>"
HOSTILE_SETS: dict[str, Callable[[Path], Any]] = {}
NAMES = [
    SCRIPT,
    '"><svg onload=window.pwned=3>',
    "javascript:window.pwned=4",
    "a\x00b\x1b[31m\x07\r\n\t",
    "gpj.\u202etxe.cat",
    "\udcff\udc80 no utf-8",
    "../../../etc/passwd",
    "/etc/passwd",
    "C:\\windows\\..\\x",
    "a//./../b/",
    "",
    " ",
    "\u200b\ufeff\u2028\u2029",
    "&lt;b&gt;&#x3c;",
    "{{constructor.constructor('window.pwned=5')()}}${window.pwned=6}",
    "x" * 100_000,
    "\U0001f9e8" * 500,
    "a\u0300" * 2000,
    "__proto__",
    "?d=0&i=1#/verify",
    "%2e%2e%2f%00",
]


def hostile(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    HOSTILE_SETS[make.__name__] = make
    return make


@hostile
def names_with_html(folder: Path) -> Any:
    path = folder / "names.beton"
    fields = {"image": hr.Image(), "label": hr.Int(), "caption": hr.Text()}
    classes = {"label": [SCRIPT, '"><svg onload=window.pwned=7>', *map(str, range(2, len(NAMES)))]}
    samples = [(picture(i, 12, 16), i, name[:9999].encode("utf-8", "replace").decode()) for i, name in enumerate(NAMES)]
    hr.write(path, samples, fields=fields, names=NAMES, class_names=classes)
    return hr.open(path)


@hostile
def file_called_as_html(folder: Path) -> Any:
    path = folder / "<img src=x onerror=window.pwned=8>\u202e\x1b[2J.beton"
    hr.write(path, [(1,)], fields={"n": hr.Int()})
    return hr.open(path)


@hostile
def fields_with_odd_names(folder: Path) -> Any:
    path = folder / "fields.npz"
    names = ["<img src=x onerror=window.pwned=9>", "__proto__", "constructor", "a b&c=d#e", "ключ", "x" * 200, "length"]
    np.savez(path, **{name: np.arange(5) for name in names})
    return hr.open(path)


@hostile
def gigantic_pictures(folder: Path) -> Any:
    jpeg = image_file(picture(1, 16, 16), "JPEG")
    files = [
        patch_jpeg_frame(jpeg, height=60000, width=60000),
        patch_jpeg_frame(jpeg, height=65535, width=1),
        png_that_claims(60000, 60000),
        png_that_claims(2**31 - 1, 2**31 - 1),
        b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\xff\xff\xff\x0f\0\0\0\0\0\0\0\0",
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 99, 0, 0, 54, 40, 60000, 60000, 1, 24, 0, 0, 0, 0, 0, 0),
        b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\2\2\0;",
        jpeg,
    ]
    return written_as_pictures(folder / "large.tar", files)


@hostile
def pictures_that_are_none(folder: Path) -> Any:
    jpeg = image_file(picture(1, 40, 40), "JPEG")
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=10'><script>window.pwned=11</script></svg>"
    files = [b"", b"\xff\xd8\xff", jpeg[:200], jpeg[:-300] + bytes(300), svg, b"<html><script>window.pwned=12</script>"]
    return written_as_pictures(folder / "broken.tar", files)


@hostile
def json_bombs(folder: Path) -> Any:
    path = folder / "bombs.tar"
    deep = b"[" * 50_000 + b"1" + b"]" * 50_000
    wide = json.dumps(list(range(300_000))).encode()
    mapping = json.dumps({f"k{i}": {SCRIPT: [i] * 9} for i in range(20_000)}).encode()
    nest = json.dumps([[[[[["x"] * 10] * 10] * 10] * 10] * 10]).encode()
    odd = b'{"__proto__": {"pwned": 13}, "big": 123456789012345678901234567890, "nan": NaN, "inf": [-Infinity, 1e999]}'
    text = json.dumps("y" * 3_000_000).encode()
    bombs = [deep, wide, mapping, nest, odd, text, b"{", b'"\\ud800"', b"9" * 5000]
    samples = [(bomb,) for bomb in bombs]
    hr.write(path, samples, fields={"json": hr.Bytes()}, names=[f"b{i}" for i in range(len(samples))])
    return hr.open(path, decode="json")


@hostile
def arrays_of_odd_values(folder: Path) -> Any:
    path = folder / "arrays.beton"
    fields = {"f": hr.NDArray("<f4", (64, 64)), "n": hr.Float(), "i": hr.Int(), "wide": hr.NDArray("<f8", (1, 200_000))}
    odd = np.full((64, 64), np.nan, "<f4")
    odd[0] = np.inf
    samples = [
        (odd, float("nan"), 2**63 - 1, np.zeros((1, 200_000))),
        (odd[::-1], -float("inf"), -(2**63), np.full((1, 200_000), 1e300)),
    ]
    hr.write(path, samples, fields=fields)
    return hr.open(path)


@hostile
def damaged_samples(folder: Path) -> Any:
    path = folder / "sound.beton"
    samples = [(picture(i, 30, 40), i, f"text {i}", {"i": i}) for i in range(30)]
    fields = {"image": hr.Image(), "label": hr.Int(), "text": hr.Text(), "json": hr.Json()}
    hr.write(path, samples, fields=fields)
    surgeon = Surgeon(path)
    for row, size in enumerate(surgeon.table[:, 2].tolist()):
        if row % 4 == 0:
            surgeon.flip(int(surgeon.table[row][1]) + size // 2, 0xFF)
    return hr.open(surgeon.save())


@hostile
def empty_dataset(folder: Path) -> Any:
    path = folder / "one.beton"
    hr.write(path, [(picture(1, 9, 9), 1)], fields={"image": hr.Image(), "label": hr.Int()})
    return hr.subset(hr.open(path), [])


@hostile
def texts_and_bytes(folder: Path) -> Any:
    path = folder / "texts.beton"
    samples = [(SCRIPT * 100, SCRIPT.encode() * 100), ("\x00\x1b[2J\u202e" * 50, bytes(range(256)) * 4000), ("", b"")]
    hr.write(path, samples, fields={"<b onclick=x>": hr.Text(), "data": hr.Bytes()})
    return hr.open(path)


def written_as_pictures(path: Path, files: list[bytes]) -> Any:
    names = [f"{i}" for i in range(len(files))]
    hr.write(path, [(file,) for file in files], fields={"x": hr.Bytes()}, names=names)
    return hr.open(path, decode="image")


def png_that_claims(width: int, height: int) -> bytes:
    def piece(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", head) + piece(b"IDAT", zlib.compress(bytes(99))) + piece(b"IEND", b"")
