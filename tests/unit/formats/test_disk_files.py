"""Files on the disk, and the names that they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.formats.disk_files import count_ahead, count_found, find_below, find_files, is_excluded, lies_in
from headrace.formats.report import Transfer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b/2.txt", "b/1.txt", "a/x.pyc", "top"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    (tmp_path / "in" / "gone").symlink_to("nowhere")
    return tmp_path / "in"


def test_everything_below_a_folder_is_found_by_name(folder: Path) -> None:
    skipped: list[str] = []
    names = [found.name for found in find_below(str(folder), skipped=skipped)]
    assert names == ["top", "a", "a/x.pyc", "b", "b/1.txt", "b/2.txt"]
    assert [line.partition("/in/")[2][:4] for line in skipped] == ["gone"]


def test_names_begin_where_the_paths_begin(folder: Path) -> None:
    found = find_files(["b", "top"], folder=str(folder), exclude=["2.*"])
    assert [one.name for one in found] == ["b", "b/1.txt", "top"]
    assert [one.name for one in find_files(["b"], folder=str(folder), recurse=False)] == ["b"]
    with pytest.raises(FileNotFoundError):
        list(find_files(["missing"], folder=str(folder)))


@pytest.mark.parametrize(
    ("name", "patterns", "expected"),
    [("a/x.pyc", ["*.pyc"], True), ("a/x.py", ["*.pyc"], False), ("a/b/c", ["a/b"], False), ("a/b", ["a/b/"], True)],
)
def test_patterns_leave_out(name: str, patterns: list[str], expected: bool) -> None:
    assert is_excluded(name, patterns) is expected


def test_counting(folder: Path) -> None:
    result = count_found(find_below(str(folder)), Transfer())
    assert (result.files, result.dirs, result.size_bytes) == (4, 2, 24)
    with count_ahead(None, lambda: find_below(str(folder))) as report:
        assert report is None


def test_links_count_for_what_lies_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    assert lies_in(str(tmp_path / "link" / "x"), str(tmp_path / "in"))
    assert not lies_in(str(tmp_path / "inner"), str(tmp_path / "in"))
    assert not lies_in(str(tmp_path / "in"), str(tmp_path / "in"))
