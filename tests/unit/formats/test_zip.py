"""Zips: plain files and samples, compressed and not, what is odd and what is hostile."""

from __future__ import annotations

import json
import os
import pickle
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError, HeadraceError
from headrace.fields import Bytes, Int, Text
from headrace.formats.zip import ZipDataset, writer

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
TRUTH = [json.loads(line) for line in np.load(GOLDEN / "truth.npy")]


def make_zip(path: Path, files: dict[str, bytes], *, packed: bool = False, **options: Any) -> Path:
    kind = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind, **options) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path


def patch(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def test_the_golden_zip_is_a_folder_of_pictures() -> None:
    dataset = hr.open(GOLDEN / "classes.zip")
    by_path = {truth["path"]: truth for truth in TRUTH}
    assert list(dataset.keys or ()) == sorted(by_path)
    assert dataset.class_names == {"label": [f"class{i}" for i in range(5)]}
    for i, key in enumerate(dataset.keys or ()):
        assert dataset.read_bytes([i], "image") == [(GOLDEN / "truth" / f"{by_path[key]['key']}.jpg").read_bytes()]
        assert f"class{dataset[i].label}" == key.partition("/")[0]


@pytest.mark.parametrize("packed", [False, True])
def test_groups_compressed_or_not(tmp_path: Path, packed: bool) -> None:
    files = {f"a/{i}.{end}": f"{i}{end}".encode() * 100 for i in range(50) for end in ("txt", "bin")}
    path = make_zip(tmp_path / "x.zip", files, packed=packed)
    dataset = hr.open(path)
    assert (list(dataset.schema), len(dataset)) == (["txt", "bin"], 50)
    assert dataset[7].txt == "7txt" * 100
    assert dataset.rows(np.array([7])) == [{"txt": "400B", "bin": "400B"}]
    ragged = dataset.read_ragged(np.array([3, 12]), "bin")
    assert ragged.values.tobytes() == files["a/3.bin"] + files["a/12.bin"]
    report = dataset.verify()
    assert (report.ok, report.checksums_checked) == (True, 100)
    hr.index(path)
    again = hr.open(path)
    assert again.has_checksums
    assert pickle.loads(pickle.dumps(again))[49].bin == files["a/49.bin"]
    assert again.verify(decode=True).ok


def test_compressed_pictures_are_loaded(tmp_path: Path) -> None:
    files = {truth["path"]: (GOLDEN / "truth" / f"{truth['key']}.jpg").read_bytes() for truth in TRUTH}
    path = make_zip(tmp_path / "x.zip", files, packed=True)
    hr.index(path)
    from headrace import ops

    crop = {"image": [ops.RandomResizedCrop(16)]}
    plain = make_zip(tmp_path / "y.zip", files)
    one, other = (next(iter(hr.Loader(hr.open(p), 20, order="random", pipelines=crop))) for p in (path, plain))
    assert np.array_equal(one.image, other.image)


@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_checksum_is_found(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(0)
    files = {f"{i}.bin": rng.bytes(200) for i in range(5)}
    path = make_zip(tmp_path / "x.zip", files, packed=packed)
    offset = int(ZipDataset(path).indexed.index.offsets[2, 0])
    patch(path, offset + 100, b"XY")
    dataset = hr.open(path)
    assert dataset.verify().bad_samples == (2,)
    if packed:
        with pytest.raises(CorruptSampleError, match="sample 2, field 'bin'"):
            _ = dataset[2]


def test_names_of_old_zips(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"xxx.txt": b"1"})
    data = path.read_bytes().replace(b"xxx", b"\x82\xe1z")
    path.write_bytes(data)
    assert list(hr.open(path).keys or ()) == [b"\x82\xe1z".decode("cp437")]
    path = make_zip(tmp_path / "y.zip", {"é.txt": b"1"})
    assert list(hr.open(path).keys or ()) == ["é"]


def test_a_zip_behind_something_else_and_with_a_comment(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"1", "d/": b""})
    with zipfile.ZipFile(path, "a") as file:
        file.comment = b"PK\5\6 hello"
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    assert hr.open(path)[0].txt == "1"


def test_large_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_U16", 3)
    hr.write(tmp_path / "x.zip", [(str(i),) for i in range(9)], fields={"txt": Text()}, annex=False)
    data = (tmp_path / "x.zip").read_bytes()
    assert b"PK\6\6" in data
    few = struct.unpack("<H", data[-12:-10])[0]
    assert few == 3
    (tmp_path / "x.zip").write_bytes(data[:-14] + b"\xff\xff\xff\xff" + data[-10:])
    assert [sample.txt for sample in hr.open(tmp_path / "x.zip")] == [str(i) for i in range(9)]
    with zipfile.ZipFile(tmp_path / "x.zip") as file:
        assert file.testzip() is None
        assert len(file.namelist()) == 9


def test_the_sizes_of_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file, file.open("a.txt", "w", force_zip64=True) as out:
        out.write(b"hello")
    assert hr.open(tmp_path / "x.zip")[0].txt == "hello"
    entry = writer._entry(b"a", 7, 5 << 32, 6 << 32)
    assert entry[20:28] == b"\xff" * 8
    assert struct.unpack("<HHQQQ", entry[47:]) == (1, 24, 5 << 32, 5 << 32, 6 << 32)


def test_zipfile_reads_what_we_write(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.zip", [(str(i), i) for i in range(9)], fields={"txt": Text(), "label": Int()})
    with zipfile.ZipFile(tmp_path / "x.zip") as file:
        assert file.testzip() is None
        assert file.namelist()[:2] == ["000000000.txt", "000000000.cls"]
        assert file.read("000000003.cls") == b"3"
        assert {oct(info.external_attr >> 16) for info in file.infolist()} == {"0o100644"}


def test_links_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"1"})
    with zipfile.ZipFile(path, "a") as file:
        info = zipfile.ZipInfo("b.txt")
        info.external_attr = 0o120777 << 16
        file.writestr(info, "a.txt")
    assert len(hr.open(path)) == 1
    assert "1 link or device left out" in caplog.text


@pytest.mark.parametrize(
    ("name", "message"), [("../a.txt", "leads out of the archive"), ("/etc/a.txt", "absolute path"), ("a..txt", "")]
)
def test_bad_names(tmp_path: Path, name: str, message: str) -> None:
    path = make_zip(tmp_path / "x.zip", {name: b"1"})
    if message:
        with pytest.raises(FormatError, match=message):
            hr.open(path)
    else:
        assert list(hr.open(path).schema) == [".txt"]


def test_encrypted_and_unknown_methods(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"1"})
    data = path.read_bytes()
    at = data.index(b"PK\1\2")
    patch(path, at + 8, b"\1")
    with pytest.raises(FormatError, match=r"a\.txt: a file is encrypted.*Unpack it"):
        hr.open(path)
    patch(path, at + 8, b"\0\0\x0e")
    with pytest.raises(FormatError, match="method 14"):
        hr.open(path)


def test_bombs(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.bin": bytes(1 << 20)}, packed=True)
    with pytest.raises(FormatError, match="max_unpacked_bytes"):
        hr.open(path, max_unpacked_bytes=1000)
    assert len(hr.open(path)[0].bin) == 1 << 20
    data = path.read_bytes()
    at = data.index(b"PK\1\2")
    for size, message in ((1 << 31, "larger than it can"), ((1 << 20) - 1, "more, or fewer"), ((1 << 20) + 1, "fewer")):
        patch(path, at + 24, struct.pack("<I", size))
        with pytest.raises(HeadraceError, match=message):
            _ = hr.open(path)[0]
    shared = make_zip(tmp_path / "y.zip", {"a.bin": b"1" * 100, "b.bin": b"1" * 100})
    data = shared.read_bytes()
    patch(shared, data.rindex(b"PK\1\2") + 42, bytes(4))
    with pytest.raises(FormatError, match="contradict"):
        hr.open(shared)


def test_truncated_and_empty(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"1" * 1000, "b.txt": b"2"})
    os.truncate(path, path.stat().st_size - 30)
    with pytest.raises(FormatError, match=r"list of files.*cut short"):
        hr.open(path)
    with pytest.raises(FormatError, match="no samples"):
        hr.open(make_zip(tmp_path / "y.zip", {}))


def test_mutated_compressed_zips_raise_only_our_errors(tmp_path: Path) -> None:
    files = {f"{i}.{end}": f"{i}".encode() * 9 for i in range(6) for end in ("cls", "txt")}
    data = make_zip(tmp_path / "x.zip", files, packed=True).read_bytes()
    rng = random.Random(3)
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 3))):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 255, rng.randrange(256)))
        path = tmp_path / "y.zip"
        path.write_bytes(broken)
        try:
            with hr.open(path) as dataset:
                dataset.verify(decode=True)
                for i in range(len(dataset)):
                    _ = dataset[i]
        except HeadraceError:
            pass


def test_bytes_of_every_file(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"README": b"1", ".hidden": b"2", "a/b.jpg": b"3"}, packed=True)
    dataset = hr.open(path, decode="bytes")
    assert dataset.schema == {"bytes": Bytes()}
    assert [sample.bytes for sample in dataset] == [b"1", b"2", b"3"]
