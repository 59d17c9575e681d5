"""The table of files straight from the mapped index, without SQLite.

Contract: only while nobody writes to the index. What this cannot read as it expects to (a table that is laid out in
another way, a damaged page) it does not find, and SQLite, which is asked then, says what is wrong.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from headrace._native import FileTable, NativeError
from headrace.formats.barecat.index.rows import FILE_COLUMNS
from headrace.storage import map_file

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["indexes_agree", "open_table", "pages_are_sound"]

_VIRTUAL = 2  # a generated column that is not stored


def open_table(path: str, cursor: Callable[[], sqlite3.Cursor]) -> FileTable | None:
    """The files of an index, or None where only SQLite can read it."""
    try:
        places = _column_places(cursor())
        table, paths = _root_of(cursor(), "files"), _path_index_root(cursor())
        if places is None or table is None or paths is None:
            return None
        return FileTable(map_file(path), table, paths, places)
    except (sqlite3.DatabaseError, NativeError, OSError, TypeError, ValueError):
        return None


_KEYS = {("path",): "path", ("parent",): "parent", ("shard", "offset"): "address"}


def indexes_agree(table: FileTable, cursor: Callable[[], sqlite3.Cursor]) -> bool:
    """The indexes of the files say what the table says; False also where only SQLite can tell."""
    found = []
    for name, _, is_partial, keys in _indexes(cursor()):
        key = _KEYS.get(tuple(column for column, _, _ in keys))
        root = _root_of(cursor(), name)
        is_plain = all(not is_descending and collation == "BINARY" for _, is_descending, collation in keys)
        if key is None or root is None or is_partial or not is_plain:
            return False
        found.append((root, key))
    return table.agrees_with(found)


def pages_are_sound(table: FileTable, cursor: sqlite3.Cursor) -> bool:
    """The pages of the SQLite file fit together; False also where only SQLite can tell."""
    roots = [root for (root,) in cursor.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")]
    return table.is_sound([1, *roots])


def _column_places(cursor: sqlite3.Cursor) -> list[int] | None:
    """Where the columns stand in a stored row."""
    stored = [name for _, name, _, _, _, _, hidden in cursor.execute("PRAGMA table_xinfo(files)") if hidden != _VIRTUAL]
    wanted = FILE_COLUMNS.split(", ")
    return [stored.index(name) for name in wanted] if set(wanted) <= set(stored) else None


def _root_of(cursor: sqlite3.Cursor, name: str) -> int | None:
    row = cursor.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _path_index_root(cursor: sqlite3.Cursor) -> int | None:
    """The first page of an index on the path alone, compared byte by byte."""
    for name, is_unique, is_partial, keys in _indexes(cursor):
        if is_unique and not is_partial and keys == [("path", 0, "BINARY")]:
            return _root_of(cursor, name)
    return None


def _indexes(cursor: sqlite3.Cursor) -> list[tuple[str, int, int, list[tuple[str, int, str]]]]:
    """The indexes of the files: name, whether it is unique, whether it is partial, and its columns."""
    question = "SELECT name, desc, coll FROM pragma_index_xinfo(?) WHERE key"
    return [
        (name, is_unique, is_partial, cursor.execute(question, (name,)).fetchall())
        for _, name, is_unique, _, is_partial in cursor.execute("PRAGMA index_list(files)").fetchall()
    ]
