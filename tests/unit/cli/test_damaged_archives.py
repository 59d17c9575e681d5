"""The command with archives that are damaged, deep or hostile."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import TEXTS, spoil

from headrace.cli.main import main
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive.update(TEXTS)
    return tmp_path / "x.barecat"


def test_names_nested_deeply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, name = tmp_path / "x.barecat", "d/" * 1500 + "f"
    with Archive(path, "x") as archive:
        archive[name] = b"1"
    assert main(["tree", str(path)]) == 0
    assert "1,500 directories, 1 file" in capsys.readouterr().out
    assert main(["du", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1501
    with contextlib.chdir(tmp_path):
        assert main(["extract", "x.barecat", "-C", "o", "-q"]) == 0
        assert os.path.getsize(f"o/{name}") == 1
        os.unlink(f"o/{name}")
        os.removedirs(f"o/{name[:-2]}")  # rmtree would go too deep


def test_names_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, name = tmp_path / "x.barecat", "red\x1b[31m\nü"
    with Archive(path, "x") as archive:
        archive[name] = b"123"
    spoil(path, "UPDATE files SET crc32c = 1")
    folder = tmp_path / "in"
    folder.mkdir()
    os.symlink("nowhere", folder / name)
    assert main(["verify", str(path)]) == 1
    assert main(["cat", str(path), name]) == 2
    assert main(["create", str(tmp_path / "y.barecat"), str(folder)]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert shown.out.count(r"red\x1b[31m\nü: checksum") == 1
    assert shown.err.count(r"red\x1b[31m\nü") == 2


def test_info_counts_what_is_missing(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = f"{texts}-shard-00000"
    os.truncate(shard, os.path.getsize(shard) - 7)
    assert main(["info", str(texts)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "gaps 0 B MISSING 7 B" in shown
    os.unlink(shard)
    assert main(["info", str(texts), "--json"]) == 0
    assert f'"missing_bytes": {sum(map(len, TEXTS.values()))}' in capsys.readouterr().out


def test_nothing_is_made_for_names_that_do_not_exist(texts: Path, tmp_path: Path) -> None:
    assert main(["extract", str(texts), "nope", "-C", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()
