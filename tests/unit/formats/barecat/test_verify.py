"""Checking a whole archive."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.errors import ArchiveBusyError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


def test_verify_of_what_is_no_dataset(tmp_path: Path) -> None:
    empty = tmp_path / "empty.barecat"
    Archive(empty, "x").close()
    assert headrace.verify(empty).ok
    damaged = tmp_path / "damaged.barecat"
    with Archive(damaged, "x") as archive:
        archive["a"] = b"1"
    with sqlite3.connect(damaged) as connection:
        connection.execute("UPDATE files SET size = 'many'")
    assert not headrace.verify(damaged).ok


def test_a_writer_at_work_is_no_damage(full: Path) -> None:
    with Archive(full, "r+") as writer:
        name = next(name for name, data in writer.items() if data)
        writer.update_file(name, bytes(len(writer[name])))  # in place, and not committed
        reader = Archive(full)
        with pytest.raises(ArchiveBusyError, match="check it again"):
            reader.verify()
    assert Archive(full).verify().ok
