"""Whether the tables of an index agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import spoil

from headrace.formats.barecat import Archive
from headrace.formats.barecat.index.checks import file_problems, table_problems

if TYPE_CHECKING:
    from pathlib import Path


def test_a_sound_index(texts: Path) -> None:
    with Archive(texts) as archive:
        assert table_problems(archive.index) == file_problems(archive.index) == []


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE dirs SET num_files = 7 WHERE path = 'd1/e1'", "files, the index says 7"),
        ("UPDATE dirs SET num_subdirs = 9 WHERE path = ''", "the root: has 7 directories, the index says 9"),
        ("UPDATE dirs SET size_tree = 1 WHERE path = 'd2'", "bytes in the whole tree, the index says 1"),
        ("UPDATE dirs SET num_files_tree = 1 WHERE path = 'd2'", "files in the whole tree, the index says 1"),
        ("INSERT INTO dirs (path) VALUES ('d1/e1/1.txt')", "d1/e1/1.txt: is both a file and a directory"),
        ("DELETE FROM dirs WHERE path = 'd3/e0'", "its directory d3/e0 is not in the index"),
        ("DELETE FROM dirs WHERE path = ''", "the root directory is not in the index"),
    ],
)
def test_tables_that_contradict_each_other(texts: Path, statement: str, message: str) -> None:
    spoil(texts, statement)
    with Archive(texts) as archive:
        assert any(message in problem.message for problem in table_problems(archive.index))


def test_an_index_that_breaks_off(texts: Path) -> None:
    spoil(texts, "DROP TABLE dirs")
    with Archive(texts) as archive:
        assert ["dirs" in problem.message for problem in table_problems(archive.index)] == [True]
