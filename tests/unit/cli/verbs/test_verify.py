"""``headrace verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import headrace as hr
from headrace.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pytest

    Said = Callable[..., str]
    JsonSaid = Callable[..., Any]


def test_verify_finds_what_is_bad(packed: Path, said: Said, json_said: JsonSaid) -> None:
    report = json_said("verify", packed, "--decode")
    assert (report["ok"], report["samples_checked"], report["images_decoded"]) == (True, 5, 5)
    assert report["checksums_checked"] == 10
    at = int(hr.open(packed).image_facts("image")["data_ptr"][2]) + 100
    with packed.open("r+b") as file:
        file.seek(at)
        file.write(b"\0\1\2\3")
    report = json_said("verify", packed, code=1)
    assert report["bad_samples"] == [2]
    text = said("verify", packed, code=1)
    assert "sample 2, field 'image': checksum" in text
    assert "BAD: 1 problem, 1 sample affected" in text


def test_verify_of_a_file_that_does_not_open(packed: Path, said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    packed.write_bytes(packed.read_bytes()[:1000])
    assert "descriptors need" in said("verify", packed, code=2)
    assert main(["verify", str(packed), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert "descriptors need" in report["problems"][0]["message"]


def test_damage_of_an_ffr_is_found(packed_files: Path, said: Said) -> None:
    data = bytearray(packed_files.read_bytes())
    data[12 + 12 * 5 + 2] ^= 1
    packed_files.write_bytes(data)
    report = json.loads(said("verify", packed_files, "--json", code=1))
    assert report["bad_samples"] == [0]
    data[4] = 99
    packed_files.write_bytes(data)
    assert "header of 99 samples" in said("verify", packed_files, code=2)


def test_hostile_packed_folders(tmp_path: Path, said: Said) -> None:
    golden = Path(__file__).parents[3] / "golden" / "ffr" / "corrupted"
    for name in ("packed_hostile_global.ffr", "packed_cyclic_index.ffr"):
        assert "is not read" in said("verify", golden / name, code=2)
        assert main(["extract", str(golden / name), "-C", str(tmp_path / "out")]) == 2
        assert main(["ls", str(golden / name)]) == 2
    assert not (tmp_path / "out").exists()


def test_verify_of_a_packed_folder(packed_files: Path, json_said: JsonSaid) -> None:
    assert json_said("verify", packed_files)["checksums_checked"] == 4


def test_verify_of_an_archive(place: Path, said: Said) -> None:
    (place / "x.barecat-shard-00001").unlink()
    printed = said("verify", "x.barecat", code=1)
    assert "src/cat/2.bin: this shard is missing" in printed
    assert said("verify", "--quick", "x.barecat", code=1)
    (place / "x.barecat").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert "headrace: error: x.barecat" in said("verify", "x.barecat", code=2)


def test_verify_says_what_was_checked(place: Path, said: Said) -> None:
    assert said("verify", "x.barecat").startswith("x.barecat: ok (4 files, ")
    assert "(4 files; structure only" in said("verify", "x.barecat", "--quick")
