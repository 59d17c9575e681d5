"""Numbers in files that would make memory grow with them, instead of with the file."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.attacks.limited import run_limited

import headrace
from headrace.errors import CorruptSampleError, FormatError
from headrace.formats.ffr import FfrReader, PackedFolder, pack_folder

if TYPE_CHECKING:
    from pathlib import Path

OPEN = """
import sys, headrace, headrace.errors
from headrace.formats.ffr import PackedFolder
for opened in (lambda: headrace.open(sys.argv[1]).keys, lambda: PackedFolder(sys.argv[1]).list(recursive=True)):
    try:
        print(len(opened()))
    except headrace.errors.HeadraceError as error:
        print(type(error).__name__, str(error)[-200:])
"""


def write_ffr(path: Path, samples: list[bytes], offsets: list[int] | None = None) -> None:
    count = len(offsets or samples)
    places, at = [], 12 + 12 * count
    for sample in samples:
        places.append(at)
        at += len(sample)
    places = [12 + 12 * count + offset for offset in offsets] if offsets else places
    checksums = [zlib.crc32(sample) for sample in samples] if not offsets else [0] * count
    head = struct.pack(f"<q{count}I{count}q", count, *checksums, *places)
    path.write_bytes(struct.pack("<I", zlib.crc32(head)) + head + b"".join(samples))


def test_a_packed_folder_of_long_names(tmp_path: Path) -> None:
    files = OrderedDict((f"{i:x}", 0) for i in range(30_000))
    tree: Any = OrderedDict({"n" * 1_000_000: files})
    write_ffr(tmp_path / "x.ffr", [b"x", b"piouhjgbr" + pickle.dumps(tree, 4)])
    printed, peak = run_limited(OPEN, str(tmp_path / "x.ffr"))
    assert printed.count("FormatError") == 2
    assert "far longer than the index" in printed
    assert peak < 500


def test_a_packed_folder_of_names_in_names(tmp_path: Path) -> None:
    tree: Any = OrderedDict(a=0)
    for _ in range(900):
        tree = OrderedDict({"n" * 1000: tree, "f": 0})
    write_ffr(tmp_path / "x.ffr", [b"x", b"piouhjgbr" + pickle.dumps(tree, 4)])
    printed, peak = run_limited(OPEN, str(tmp_path / "x.ffr"))
    assert printed.count("FormatError") == 2
    assert peak < 500


def test_long_names_as_file_systems_have_them(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200) / ("b" * 200)
    folder.mkdir(parents=True)
    for i in range(50):
        (folder / f"{i}").write_bytes(b"x")
    pack_folder(tmp_path / ("a" * 200), tmp_path / "x.ffr")
    assert PackedFolder(tmp_path / "x.ffr").num_files() == 50


def test_samples_of_an_ffr_that_lie_over_one_another(tmp_path: Path) -> None:
    write_ffr(tmp_path / "x.ffr", [bytes(100_000)], offsets=[0, 100_000] * 20_000)
    with pytest.raises(FormatError, match="cannot begin before"):
        headrace.open(tmp_path / "x.ffr")
    assert len(FfrReader(tmp_path / "x.ffr", checksums=False)) == 40_000


ARRAYS = """
import sys, headrace, headrace.errors
path = sys.argv[1]
for read in (
    lambda: headrace.open(path)[0],
    lambda: headrace.open(path)[:64],
    lambda: headrace.open(path).read_bytes(range(64), "a"),
    lambda: headrace.open(path).read_values(headrace.open(path).table[:64, 0].astype("i8"), "a"),
    lambda: next(iter(headrace.Loader(path, 64))),
    lambda: next(iter(headrace.Loader(path, 64, order="random", cache="1MB"))),
):
    try:
        read()
        print("read")
    except headrace.errors.HeadraceError as error:
        print(type(error).__name__)
print(headrace.verify(path).ok if len(sys.argv) < 3 else "")
"""


def write_arrays(path: Path, count: int = 64) -> bytearray:
    values = [(np.arange(4, dtype=np.int64), i) for i in range(count)]
    fields = {"a": headrace.NDArray("int64", (4,)), "n": headrace.Int()}
    headrace.write(path, values, fields=fields, annex=False, page_size=2 << 20)
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("side", [1 << 20, 1 << 26, (1 << 29) - 1])
def test_arrays_that_are_larger_than_the_file(tmp_path: Path, side: int) -> None:
    path = tmp_path / "x.beton"
    data = write_arrays(path)
    struct.pack_into("<Q", data, 24 + 17, side)
    path.write_bytes(data)
    printed, peak = run_limited(ARRAYS, str(path), memory=3 << 30)
    assert printed.split() == ["CorruptSampleError"] * 6 + ["False"]
    assert peak < 300


def test_a_shape_that_no_page_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    data = write_arrays(path)
    struct.pack_into("<Q", data, 24 + 17, 1 << 37)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="more than any page"):
        headrace.open(path)


def test_arrays_that_all_are_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    data = write_arrays(path, 20_000)
    struct.pack_into("<Q", data, 24 + 17, (1 << 20) // 8)
    start = struct.unpack_from("<Q", data, 24 + 2 * 1041)[0]
    for i in range(20_000):  # 20 GB in a file of 3 MB
        struct.pack_into("<Q", data, 24 + 2 * 1041 + 16 * i, start)
    path.write_bytes(data)
    code = ARRAYS.replace("64", "20_000")
    printed, peak = run_limited(code, str(path), "without verify", memory=3 << 30)
    assert printed.split() == ["read"] + ["CorruptSampleError"] * 5
    assert peak < 300
    dataset = headrace.open(path)
    assert len(dataset[[5] * 10]) == 10  # the same sample may be wanted several times


def test_pictures_that_say_they_are_huge(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    pixels = np.zeros((16, 16, 3), np.uint8)
    headrace.write(path, [(pixels,)] * 64, fields={"image": headrace.Image()}, annex=False, page_size=2 << 20)
    data = bytearray(path.read_bytes())
    for i in range(64):
        struct.pack_into("<HH", data, 24 + 1041 + 13 * i + 1, 65535, 65535)
    path.write_bytes(data)
    code = """
import sys, headrace, headrace.errors
try:
    next(iter(headrace.Loader(sys.argv[1], 64)))
except (headrace.errors.HeadraceError, ValueError) as error:
    print(type(error).__name__, error)
"""
    printed, peak = run_limited(code, str(path), memory=6 << 30)
    assert "Error" in printed
    assert "batch" in printed
    assert peak < 300


def test_padding_to_one_long_value(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    values = [b"x" * (1 << 20)] + [b""] * 40_000
    headrace.write(path, [(value,) for value in values], fields={"b": headrace.Bytes()}, annex=False)
    code = """
import sys, headrace, headrace.errors
try:
    next(iter(headrace.Loader(sys.argv[1], 40_001, collate="pad")))
except (headrace.errors.HeadraceError, ValueError) as error:
    print(type(error).__name__, error)
"""
    printed, peak = run_limited(code, str(path), memory=3 << 30)
    assert "padded" in printed
    assert peak < 500


def test_the_error_of_a_damaged_array_is_about_its_sample(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    data = write_arrays(path)
    struct.pack_into("<Q", data, 24 + 2 * 1041 + 16 * 7, 1 << 60)
    path.write_bytes(data)
    loader = headrace.Loader(path, 64, on_error="skip")
    next(iter(loader))
    assert [error.sample for error in loader.errors] == [7]
    with pytest.raises(CorruptSampleError, match="sample 7"):
        headrace.open(path)[7]


LIST = """
import os, sys, threading
from headrace.cli.main import main
def read_some(pipe):
    os.read(pipe, 1000)
    os.close(pipe)
pipe, into = os.pipe()
threading.Thread(target=read_some, args=(pipe,)).start()
before = os.dup(1)
os.dup2(into, 1)
os.close(into)
code = main([*sys.argv[2:], sys.argv[1]])
os.dup2(before, 1)
print(code)
"""


@pytest.mark.parametrize("words", ["ls", "ls -l", "ls --json"])
def test_the_beginning_of_a_hundred_million_samples(tmp_path: Path, words: str) -> None:
    path, count = tmp_path / "x.beton", 100_000_000
    headrace.write(path, [(1,)], fields={"n": headrace.Int()}, annex=False)
    layout = headrace.open(path).layout  # type: ignore[attr-defined]
    end = layout.metadata_start + count * layout.record.itemsize
    with open(path, "r+b") as file:
        file.truncate(layout.metadata_start)
        file.seek(8)
        file.write(struct.pack("<QQ", count, end))
        file.truncate(end)  # zeros that take no room
    printed, peak = run_limited(LIST, str(path), *words.split())
    assert printed.split() == ["0"]
    assert peak < 200
