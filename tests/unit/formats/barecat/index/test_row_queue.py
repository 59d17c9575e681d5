"""Rows that are put into the index many at once."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from tests.unit.formats.barecat.tools import FILES

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


def test_statistics_are_those_of_the_triggers(tmp_path: Path) -> None:
    """Rows put in many at once and rows put in one by one, by SQL alone, give the same tables."""
    with Archive(tmp_path / "a.barecat", "x") as archive:
        archive.update(FILES)
    with Archive(tmp_path / "b.barecat", "x") as other:
        pass
    connection = sqlite3.connect(tmp_path / "b.barecat")
    connection.execute("PRAGMA recursive_triggers = 1")
    for info in archive_rows(tmp_path / "a.barecat", "SELECT path, shard, offset, size, crc32c FROM files"):
        connection.execute("INSERT INTO files (path, shard, offset, size, crc32c) VALUES (?, ?, ?, ?, ?)", info)
    connection.commit()
    connection.close()
    question = "SELECT path, num_subdirs, num_files, num_files_tree, size_tree FROM dirs ORDER BY path"
    assert archive_rows(tmp_path / "a.barecat", question) == archive_rows(tmp_path / "b.barecat", question)
    assert not other.is_writable or other.path


def archive_rows(path: Path, question: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()
