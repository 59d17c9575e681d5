"""Contents of archives for the tests."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILES = {f"d{i % 5}/e{i % 3}/{i}.bin": bytes([i % 256]) * (i * 37 % 900) for i in range(200)}
TEXTS = {f"d{i % 7}/e{i % 3}/{i}.txt": f"file {i} ".encode() * (1 + i % 20) for i in range(400)}


def spoil(path: Path, statement: str, *values: object) -> None:
    """Change the index by SQL alone, without triggers."""
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
        index.execute(statement, values)
