"""Checking a whole archive."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import headrace
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
