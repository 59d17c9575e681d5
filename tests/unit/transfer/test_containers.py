"""Folders, tar and zip to archives and back; what is hostile is refused."""

from __future__ import annotations

import stat
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.unit.transfer.tools import make_tar, member, tree

from headrace.errors import FormatError
from headrace.formats.barecat import Archive
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("ending", ["barecat", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz", "zip", "out"])
def test_there_and_back(folder: Path, tmp_path: Path, ending: str) -> None:
    middle = tmp_path / ("out" if ending == "out" else f"x.{ending}")
    first = convert(folder, middle)
    assert (first.files, first.dirs, first.skipped) == (3, 3, [])
    convert(middle, tmp_path / "y.barecat", shard_size=100_001)
    assert Archive(tmp_path / "y.barecat").verify().ok
    convert(tmp_path / "y.barecat", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder)
    status = (tmp_path / "back" / "a" / "1.txt").stat()
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_mtime_ns == 10**18
    assert (tmp_path / "back" / "void").stat().st_mtime_ns == 10**18


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/abs"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    make_tar(tmp_path / "x.tar", [(member(name), b"evil")])
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, b"evil")
    for source in ("x.tar", "x.zip"):
        for target in ("t.barecat", "t"):
            with pytest.raises(ValueError, match=r"leads out|absolute"):
                convert(tmp_path / source, tmp_path / target)
    assert not (tmp_path / "t.barecat").exists()
    assert not (tmp_path.parent / "out").exists()


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_broken_input(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"x.{ending}").write_bytes(b"not what it says" * 100)
    with pytest.raises(FormatError, match="cannot be read"):
        convert(tmp_path / f"x.{ending}", tmp_path / "x.barecat")
    assert not list(tmp_path.glob("x.barecat*"))
