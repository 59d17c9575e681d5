"""Damaged indices of archives, read without SQLite: nothing is read out of bounds, and nothing else is found."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace._native import FileRows, FileTable, NativeError, PathIndex
from headrace.formats.barecat import Archive
from headrace.formats.barecat.index.rows import FILE_COLUMNS, FileInfo

if TYPE_CHECKING:
    from pathlib import Path

ITERATIONS = int(os.environ.get("HEADRACE_FUZZ_ITERATIONS", "300"))
COLUMNS = len(FILE_COLUMNS.split(", "))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "x.barecat"
    chance = random.Random(5)
    with Archive(path, "x") as archive:
        for i in range(300):
            archive[f"{i % 7}/{'n' * chance.randrange(60)}{i}"] = bytes(i % 5)
        archive["long/" + "x" * 5000] = b"1"
    small = path.with_suffix(".small")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA page_size = 1024")
        connection.execute(f"VACUUM INTO '{small}'")
    return small


def roots(path: Path) -> tuple[int, int]:
    with sqlite3.connect(path) as connection:
        found = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    return found["files"], found["idx_files_path"]


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bytes(index: Path, seed: int) -> None:
    whole = np.fromfile(index, np.uint8)
    chance = np.random.default_rng(seed)
    names = [name for (name,) in sqlite3.connect(index).execute("SELECT path FROM files")]
    for _ in range(ITERATIONS):
        data = whole.copy()
        count = int(chance.integers(1, 200))
        data[chance.integers(0, len(data), count)] = chance.integers(0, 256, count)
        try:
            table = FileTable(data[: int(chance.integers(0, 2 * len(data)))], *roots(index), [0, *range(1, COLUMNS)])
        except NativeError:
            continue
        found = table.find_many(names)
        assert found.shape == (len(names), 4)
        rows = FileRows(table, FileInfo)
        seen = 0
        try:
            while block := rows.block(64):
                seen += len(block)
                assert all(len(row) == COLUMNS for row in block)
        except (NativeError, UnicodeError):
            pass
        assert seen <= len(data) // 4
        with contextlib.suppress(NativeError):
            table.fill(PathIndex(0, 1))
