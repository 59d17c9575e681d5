"""Sets of files that are not whole: what is noted beside them, and what readers are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headrace as hr
from headrace.errors import FormatError
from headrace.formats.shard_log import DiskShelf, ShardLog, refuse_unfinished
from headrace.formats.sharded_writer import ShardNames


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of three files."""
    hr.write(tmp_path / "x-%02d.beton", range(9), fields={"n": hr.Int()}, shard_samples=3)
    return tmp_path


def shelf(folder: Path) -> DiskShelf:
    names = ShardNames.of(folder / "x-%02d.beton")
    assert names is not None
    return DiskShelf(names)


@pytest.mark.parametrize("note", ["x-%02d.beton", "x-*.beton"])
@pytest.mark.parametrize("pattern", ["x-*.beton", "*.beton", "x-0[01].beton", "**/*.beton", ""])
def test_a_set_with_a_note_is_not_opened_by_a_pattern(folder: Path, note: str, pattern: str) -> None:
    (folder / f".{note}.convert.json").write_text("{}")
    with pytest.raises(FormatError, match=r"the set is not complete: .*convert\.json says.*--resume.*one by one"):
        hr.open(str(folder / pattern))
    assert len(hr.open(folder / "x-01.beton")) == 3
    assert len(hr.open(str(folder / "x-{00..01}.beton"))) == 6


def test_notes_of_other_sets_do_not_matter(folder: Path) -> None:
    for name in (".y-%02d.beton.convert.json", ".x-%02d.tar.convert.json", ".x.beton.convert.json"):
        (folder / name).write_text("{}")
    assert len(hr.open(str(folder / "x-*.beton"))) == 9
    assert len(hr.open(folder)) == 9


def test_names_that_are_no_notes() -> None:
    refuse_unfinished("s3://b/", [".convert.json", "x-%d.tar.convert.json", ".x-%d.tar"], ["x-0.tar"])
    with pytest.raises(FormatError, match=r"^s3://b/x-%d\.tar: the set"):
        refuse_unfinished("s3://b/", [".x-%d.tar.convert.json"], ["x-0.tar"])


def test_files_that_changed_are_not_taken_as_complete(folder: Path) -> None:
    log = ShardLog.begin(shelf(folder), {"a": 1})
    for number in range(3):
        log.note(number, 3 * number, 3)
    assert log.samples == 9
    assert log.size_bytes == sum(path.stat().st_size for path in folder.glob("x-*"))
    (folder / "x-01.beton").write_bytes(b"other")
    again = ShardLog.load(shelf(folder), {"a": 1}, force=False)
    assert sorted(again.shards) == [0, 2]
    again.clear()
    assert sorted(path.name for path in folder.glob("x-*")) == ["x-00.beton", "x-02.beton"]
    with pytest.raises(ValueError, match="was begun with another a"):
        ShardLog.load(shelf(folder), {"a": 2}, force=False)
    again.remove()
    assert list(folder.glob(".*")) == []


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"version": 9}), json.dumps({"version": 2, "job": {}})])
def test_a_note_that_cannot_be_read(folder: Path, text: str) -> None:
    Path(shelf(folder).note).write_text(text)
    with pytest.raises(FormatError, match="what an earlier run has noted cannot be read"):
        ShardLog.load(shelf(folder), {}, force=False)
