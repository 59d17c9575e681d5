"""Older indexes brought up to date."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c as crc32c_of
from headrace.compat.barecat.core.index import Index
from headrace.compat.barecat.core.paths import resolve_index_path
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatFileInfo, Order
from headrace.compat.barecat.exceptions import translated
from headrace.errors import FormatError
from headrace.formats.barecat.index.connections import connect_still, limit_steps
from headrace.formats.barecat.index.connections import translated as translated_error
from headrace.formats.barecat.index.rows import FILE_COLUMNS
from headrace.formats.barecat.index.schema import VERSION, check_schema, read_version
from headrace.formats.barecat.shards import MappedShards
from headrace.formats.barecat.unfinished import has_content, journal_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import PathLike

__all__ = ["get_schema_version", "upgrade"]

_OLDEST = (-1, 0)


def get_schema_version(dbase_path: PathLike) -> tuple[int, int]:
    """Major and minor version of an index; (-1, 0) if it is older than versions."""
    with _reading(dbase_path), closing(_connect(dbase_path)) as connection:
        return read_version(connection) or _OLDEST


@contextmanager
def _reading(path: PathLike) -> Iterator[None]:
    """In this block, what is wrong with an index is one of the errors that are known here."""
    with translated():
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise translated_error(os.fspath(path), error) from error


def _connect(path: PathLike) -> sqlite3.Connection:
    """Open an index that nobody is writing to, and refuse one in which there is more than tables.

    Views, and columns that are computed, are programs of whoever made the file. An index with a version must be, word
    for word, as that version has it; one that is older may have plain tables alone.
    """
    name = os.fspath(path)
    for ending in ("-journal", "-wal"):
        if has_content(f"{name}{ending}"):
            raise journal_failure(name, ending)
    connection = connect_still(name)
    try:
        limit_steps(connection, os.path.getsize(name))
        known = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        if any((kind, table) == ("table", "config") for kind, table, _ in known):
            check_schema(name, connection)
        else:
            _refuse_programs(name, connection, known)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_programs(path: str, connection: sqlite3.Connection, known: list[tuple[str, str, str | None]]) -> None:
    tables = [table for kind, table, _ in known if kind == "table"]
    odd = [table for kind, table, text in known if kind == "view" or (text or "").upper().startswith("CREATE VIRTUAL")]
    odd += [table for table in tables if _is_computed(connection, table)]
    if odd or "files" not in tables or not {"dirs", "directories"} & set(tables):
        problem = f"the index has {odd[0]!r}, which is more than a table" if odd else "no archive has such an index"
        raise FormatError(path, problem=problem, fix="Do not use it unless you know who made it and why.")


def _is_computed(connection: sqlite3.Connection, table: str) -> bool:
    """One of the columns that are read is not stored but computed."""
    rows = connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,))
    return any(hidden for name, hidden in rows if name in FILE_COLUMNS.split(", "))


def upgrade(path: PathLike, workers: int = 8, preserve_backup: bool = True) -> None:
    """Write the index anew in the present version; the old one stays as ``.old``.

    Checksums that are missing are computed. The new index takes the place of the old one when it is complete.
    """
    index_path = resolve_index_path(path)
    if not os.path.exists(index_path):
        raise FileNotFoundError(f"{index_path} does not exist!")
    found = get_schema_version(index_path)
    texts = [".".join(map(str, version)) for version in (found, VERSION)]
    if found == VERSION:
        print(f"Database is already at version {texts[0]}, nothing to do.")
        return
    if found > VERSION:
        raise ValueError(f"Database version {texts[0]} is newer than supported {texts[1]}. Update headrace first.")
    print(f"Upgrading from {'pre-versioned format' if found == _OLDEST else texts[0]} to {texts[1]}...")
    beside = f"{index_path}.upgrade"
    try:
        if os.path.lexists(beside):
            os.unlink(beside)
        _rewrite(os.fspath(path), index_path, beside)
        os.link(index_path, f"{index_path}.old") if not os.path.exists(f"{index_path}.old") else None
        os.replace(beside, index_path)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
    if not preserve_backup:
        os.unlink(f"{index_path}.old")
    print("Upgrade complete.")


def _rewrite(archive: str, old_path: str, new_path: str) -> None:
    shards = MappedShards(archive, follow_links=True)
    with _reading(old_path), closing(_connect(old_path)) as old, Index(new_path, readonly=False) as new:
        old.row_factory = sqlite3.Row
        tables = {row[0] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        files = [BarecatFileInfo(**_checked(old_path, row)) for row in _rows(old, "files", "shard, offset")]
        dirs = _rows(old, "dirs" if "dirs" in tables else "directories", "path")
        for info in files:
            _add_checksum(info, shards)
        with new.bulk_mode():
            new.add_files(files)
            for row in dirs:
                new.add_dir(BarecatDirInfo(**_checked(old_path, row)), exist_ok=True)
        if "config" in tables:
            limit = old.execute("SELECT value_int FROM config WHERE key = 'shard_size_limit'").fetchone()
            if limit is not None and limit[0]:
                new.shard_size_limit = limit[0]
        assert new.num_files == len(files) == sum(1 for _ in new.iter_all_filepaths(Order.PATH))


def _checked(path: str, row: sqlite3.Row) -> dict[str, Any]:
    """A row whose values are what they must be: SQLite stores anything in any column."""
    values = dict(row) | {"path": row["path"] or ""}
    numbers = [value for name, value in values.items() if name != "path" and value is not None]
    if not isinstance(values["path"], str) or not all(isinstance(value, int) for value in numbers):
        raise FormatError(path, problem=f"the row of {values['path']!r} has values that no row can have")
    if any((values.get(name) or 0) < 0 for name in ("shard", "offset", "size")):
        raise FormatError(path, problem=f"{values['path']!r} is at a place that no file can be at")
    return values


def _rows(old: sqlite3.Connection, table: str, order: str) -> sqlite3.Cursor:
    """Those columns of a table that tables still have; statistics are counted anew."""
    there = {row["name"] for row in old.execute("SELECT name FROM pragma_table_xinfo(?)", (table,))}
    columns = ", ".join(name for name in FILE_COLUMNS.split(", ") if name in there)
    return old.execute(f"SELECT {columns} FROM {table} ORDER BY {order}")


def _add_checksum(info: BarecatFileInfo, shards: MappedShards) -> None:
    shard, offset, size = info.shard or 0, info.offset or 0, info.size or 0
    if info.crc32c is None:
        view = shards.shard(shard, offset + size).view[offset : offset + size] if size else memoryview(b"")
        info.crc32c = crc32c_of(bytes(view)) if len(view) == size else None
