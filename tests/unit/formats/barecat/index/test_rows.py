"""What the index says about one file or directory."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from headrace.formats.barecat.index.rows import Place, make_dir_info, make_file_info
from headrace.formats.metadata import Metadata

FILE = ("d/a.txt", 1, 20, 3, 4, 0o644, 5, 6, 1_500_000_000)
DIR = ("d", 1, 2, 3, 4, None, None, None, None)


def test_a_file() -> None:
    info = make_file_info(FILE)
    assert (info.name, info.end, info.place) == ("a.txt", 23, Place(1, 20, 3, 4))
    assert info.metadata == Metadata(0o644, 5, 6, 1_500_000_000)
    assert info.mtime == datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC)
    assert (info.is_file(), info.is_dir()) == (True, False)


def test_a_directory() -> None:
    info = make_dir_info(DIR)
    assert (info.name, info.mtime, info.metadata) == ("d", None, Metadata())
    assert (info.is_file(), info.is_dir()) == (False, True)


@pytest.mark.parametrize("position", range(9))
def test_rows_that_cannot_be(position: int) -> None:
    for make, row in ((make_file_info, FILE), (make_dir_info, DIR)):
        wrong: list[Any] = list(row)
        wrong[position] = b"x"
        with pytest.raises(TypeError):
            make(tuple(wrong))
