"""The two sides of a synchronization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace._native import crc32c
from headrace.formats.barecat import Archive
from headrace.transfer.entry import content_of
from headrace.transfer.tree import ArchiveTree, FolderTree

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["a", "a/1.txt", "a/deep", "a/deep/new\nline", "empty", "void"]


@pytest.mark.parametrize("inner", ["", "in/side"])
def test_a_folder_and_an_archive_are_alike(folder: Path, path: Path, tmp_path: Path, inner: str) -> None:
    source = FolderTree(str(folder))
    skipped: list[str] = []
    found = source.entries(skipped)
    assert sorted(found) == NAMES
    assert skipped == []
    with Archive(path, "x") as archive:
        archive["elsewhere"] = b"not below"
        target = ArchiveTree(archive, inner)
        for name in NAMES:
            target.put(found[name])
        target.finish()
        copies = target.entries([])
        assert {name: copies[name].about for name in NAMES} == {name: found[name].about for name in NAMES}
        assert ("elsewhere" in copies) is (inner == "")
        assert target.checksum("a/1.txt") == source.checksum("a/1.txt") == crc32c(b"one")
        assert content_of(target.file("a/1.txt")) == content_of(source.file("a/1.txt")) == b"one"
        back = FolderTree(str(tmp_path / "back"))
        assert back.entries([]) == {}
        for name in NAMES:
            back.put(copies[name])
        back.finish()
        assert (tmp_path / "back" / "a" / "1.txt").read_text() == "one"
        assert (tmp_path / "back" / "void").stat().st_mtime_ns == 10**18
        target.remove("a", True)
        target.remove("empty", False)
        back.remove("a", True)
        back.remove("empty", False)
        assert sorted(name for name in target.entries([]) if name not in ("elsewhere", "in", "in/side")) == ["void"]
        assert sorted(back.entries([])) == ["void"]


def test_files_are_written_over(folder: Path, tmp_path: Path) -> None:
    tree = FolderTree(str(folder))
    other = tmp_path / "other"
    other.mkdir()
    (other / "empty").write_bytes(b"now with content")
    tree.put(FolderTree(str(other)).file("empty"))
    assert (folder / "empty").read_bytes() == b"now with content"


def test_a_link_to_a_directory_is_removed_itself(folder: Path) -> None:
    (folder / "link").symlink_to("a")
    FolderTree(str(folder)).remove("link", True)
    assert (folder / "a" / "1.txt").exists()
    assert not (folder / "link").is_symlink()
