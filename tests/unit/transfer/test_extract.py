"""Files of an archive back to the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.transfer.tools import tree

from headrace.errors import CorruptFileError
from headrace.formats.barecat import Archive
from headrace.transfer.convert import convert
from headrace.transfer.extract import extract_files

if TYPE_CHECKING:
    from pathlib import Path


def test_extracting_never_leaves_the_folder(tmp_path: Path) -> None:
    """An archive of another tool may hold any name; and a link in the folder may lead anywhere."""
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive["ok"] = b"1"
        archive["evil"] = b"2"
        archive.mkdir("up")
        archive.editor.execute("PRAGMA defer_foreign_keys = 1")
        archive.editor.execute("UPDATE files SET path = '../evil' WHERE path = 'evil'")
        archive.editor.execute("UPDATE dirs SET path = '..' WHERE path = 'up'")
    with pytest.raises(ValueError, match="leads out"):
        extract_files(Archive(tmp_path / "x.barecat"), tmp_path / "sub" / "out")
    assert not (tmp_path / "sub" / "evil").exists()
    with Archive(tmp_path / "y.barecat", "x") as archive:
        archive["d/f"] = b"1"
    (tmp_path / "out2").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out2" / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="nothing is written through links"):
        extract_files(Archive(tmp_path / "y.barecat"), tmp_path / "out2")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("target", ["out", "y.barecat", "x.tar", "x.zip"])
def test_large_files_go_piece_by_piece_and_are_checked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    for module in ("containers", "extract"):
        monkeypatch.setattr(f"headrace.transfer.{module}.LARGE_BYTES", 1000)
    convert(folder, tmp_path / "x.barecat")
    convert(tmp_path / "x.barecat", tmp_path / target)
    convert(tmp_path / target, tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder)
    extract_files(Archive(tmp_path / "x.barecat"), tmp_path / "extracted")
    assert tree(tmp_path / "extracted") == tree(folder)
    place = Archive(tmp_path / "x.barecat").stat("a/deep/new\nline")
    with open(tmp_path / "x.barecat-shard-00000", "r+b") as shard:
        shard.seek(place.offset + 50_000)  # type: ignore[union-attr]
        shard.write(b"!")
    with pytest.raises(CorruptFileError, match="checksum"):
        convert(tmp_path / "x.barecat", tmp_path / f"bad{target}")
    with pytest.raises(CorruptFileError, match="checksum"):
        extract_files(Archive(tmp_path / "x.barecat"), tmp_path / "bad")
    assert not (tmp_path / "bad" / "a" / "deep" / "new\nline").exists()
    assert target == "out" or not (tmp_path / f"bad{target}").exists()
