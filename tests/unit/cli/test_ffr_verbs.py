from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import picture, write_folder

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg

FILES = {"a.txt": b"hello", "sub/b.bin": bytes(range(256)), "sub/deep/c": b"", "index.jsonl": b"mine"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "folder", FILES)


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "x.ffr"
    assert main(["create", str(path), str(folder), "-q"]) == 0
    return path


def out_of(capfdbinary: Any, *argv: str | Path, code: int = 0) -> str:
    capfdbinary.readouterr()
    assert main([str(word) for word in argv]) == code
    return capfdbinary.readouterr().out.decode()


def test_ls_cat_info_verify(packed: Path, capfdbinary: Any) -> None:
    assert out_of(capfdbinary, "ls", packed).split() == [
        word for i, name in enumerate(["a.txt", "index.jsonl", "sub/b.bin", "sub/deep/c"]) for word in (str(i), name)
    ]
    assert "data=256B" in out_of(capfdbinary, "ls", "-l", packed, "sub/b.bin")
    assert out_of(capfdbinary, "cat", packed, "a.txt", "data") == "hello"
    about = json.loads(out_of(capfdbinary, "info", packed, "--json"))
    assert (about["format"], about["samples"], about["is_packed_folder"]) == ("ffr", 4, True)
    text = out_of(capfdbinary, "info", packed)
    assert "of every sample and header" in text
    assert "4 files by path" in text
    assert json.loads(out_of(capfdbinary, "verify", packed, "--json"))["checksums_checked"] == 4


def test_extract_gives_the_files_back(packed: Path, tmp_path: Path, capfdbinary: Any) -> None:
    target = tmp_path / "out"
    out_of(capfdbinary, "extract", packed, "-C", target, "-q")
    found = {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert (target / "empty" / "deep").is_dir()
    rows = [json.loads(line) for line in found.pop("index.jsonl").splitlines()]
    assert {row["name"]: found[row["data"]] for row in rows} == FILES
    assert {row["name"]: row["data"] for row in rows if row["name"] != "index.jsonl"} == {
        name: name for name in FILES if name != "index.jsonl"
    }


def test_damage_is_found(packed: Path, capfdbinary: Any) -> None:
    data = bytearray(packed.read_bytes())
    data[12 + 12 * 5 + 2] ^= 1
    packed.write_bytes(data)
    report = json.loads(out_of(capfdbinary, "verify", packed, "--json", code=1))
    assert report["bad_samples"] == [0]
    data[4] = 99
    packed.write_bytes(data)
    assert "header of 99 samples" in out_of(capfdbinary, "verify", packed, code=1)


def test_hostile_files(tmp_path: Path, capfdbinary: Any) -> None:
    golden = Path(__file__).parents[2] / "golden" / "ffr" / "corrupted"
    for name in ("packed_hostile_global.ffr", "packed_cyclic_index.ffr"):
        assert "is not read" in out_of(capfdbinary, "verify", golden / name, code=1)
        assert main(["extract", str(golden / name), "-C", str(tmp_path / "out")]) == 2
        assert main(["ls", str(golden / name)]) == 2
    assert not (tmp_path / "out").exists()


def test_create_refuses_what_does_not_apply(folder: Path, tmp_path: Path, capfdbinary: Any) -> None:
    assert main(["create", str(tmp_path / "y.ffr"), str(folder), "--max-side", "10"]) == 2
    assert b"takes files as they are; leave out image" in capfdbinary.readouterr().err
    assert main(["create", str(tmp_path / "y.ffr"), str(folder), "--shuffle", "1"]) == 2
    assert not (tmp_path / "y.ffr").exists()


def test_convert(tmp_path: Path, capfdbinary: Any) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.jpg").write_bytes(jpeg.encode(picture(i, 20, 20)))
    first, middle, last = (tmp_path / name for name in ("a.ffr", "b.beton", "c.ffr"))
    out_of(capfdbinary, "create", first, folder, "-q")
    assert "3 samples" in out_of(capfdbinary, "convert", first, middle)
    assert json.loads(out_of(capfdbinary, "convert", middle, last, "--json"))["samples"] == 3
    assert last.read_bytes() == first.read_bytes()
    assert main(["convert", str(first), str(middle)]) == 2
    assert b"exists; give --force" in capfdbinary.readouterr().err
    out_of(capfdbinary, "convert", first, middle, "-f", "-q", "--decode", "bytes", "--no-names", "--shuffle", "1")
    assert hr.open(middle).keys is None
    assert sorted(s.data for s in hr.open(middle)) == sorted(p.read_bytes() for p in folder.iterdir())
    assert os.path.exists(middle)
