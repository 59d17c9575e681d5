"""Files of an archive as file objects."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING

import pytest

from headrace.errors import (
    EntryExistsError,
    EntryIsDirectoryError,
)
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


def test_file_objects(path: Path) -> None:
    with Archive(path, "x") as archive:
        with archive.open("t.txt", "w") as file:
            file.write("héllo\nworld\n")
        with archive.open("t.txt", "a") as file:
            file.write("more")
        with archive.open("t.txt", "r+b") as file:
            assert file.read(1) == b"h"
            file.seek(0)
            file.write(b"H")
        with archive.open("t.txt") as file:
            assert file.readlines() == ["Héllo\n", "world\n", "more"]
        with pytest.raises(EntryExistsError):
            archive.open("t.txt", "x")
        with archive.open("gone", "wb") as file:
            file.write(b"12345")
        with archive.open("gone", "wb"):
            pass  # opened for writing and closed: empty
        assert archive["gone"] == b""
    archive = Archive(path)
    with archive.open("t.txt", "rb") as file:
        assert (file.seek(-4, 2), file.read(), file.read()) == (13, b"more", b"")
        file.seek(3)
        buffer = bytearray(3)
        assert (file.readinto(buffer), bytes(buffer)) == (3, b"llo")
    with pytest.raises(ValueError, match="mode must be"):
        archive.open("t.txt", "rw")
    with pytest.raises(PermissionError):
        archive.open("t.txt", "w")


def test_file_objects_that_are_written_seek_as_others(path: Path) -> None:
    with Archive(path, "x") as archive, archive.open("a", "w+b") as file:
        for offset, whence in ((-1, 0), (-1, 1), (-1, 2)):
            with pytest.raises(ValueError, match="before the beginning"):
                file.seek(offset, whence)
        assert file.seek(5) == 5
        assert file.write(b"") == 0
        file.write(b"ab")
        file.seek(0)
        numbers = array.array("H", [9, 9, 9])
        assert file.readinto(numbers) == 6
        assert numbers.tobytes() == b"\0\0\0\0\0a"
    assert Archive(path)["a"] == b"\0\0\0\0\0ab"


def test_file_objects_of_an_archive_that_only_grows(path: Path) -> None:
    with Archive(path, "x", append_only=True) as archive:
        with archive.open("a/b", "w") as file:
            file.write("new")
            assert "a/b" not in archive
        assert archive["a/b"] == b"new"
        with archive.open("empty", "xb"):
            pass
        for mode in ("r+", "w", "a"):
            with pytest.raises(PermissionError, match="appending only"):
                archive.open("a/b", mode)
        with pytest.raises(EntryIsDirectoryError):
            archive.open("a", "w")
    assert dict(Archive(path)) == {"a/b": b"new", "empty": b""}
