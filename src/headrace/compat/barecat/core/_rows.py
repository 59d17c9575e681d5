"""Questions to an index in SQL, and rows as what the drop-in makes of them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatFileInfo, Order
from headrace.compat.barecat.exceptions import BarecatFormatError, FileNotFoundBarecatError
from headrace.formats.barecat.index.rows import DIR_COLUMNS, FILE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat import Archive
    from headrace.formats.barecat.edit.index_file import IndexFile

__all__ = ["Rows", "dir_row", "file_row"]

_FETCHED = 1024


class Rows:
    """Asks an index. Rows come as ``sqlite3.Row``, or as what ``rowcls`` makes of them.

    Where no order is given they come in the order of SQLite: of creation, or sorted where it finds only paths.
    """

    def __init__(self, archive: Archive | IndexFile) -> None:
        self._archive = archive

    def cursor(self) -> sqlite3.Cursor:
        """A cursor that sees everything written so far."""
        self._archive.refresh()
        return self._archive.index.cursor()

    def _ask(self, query: str, params: Any, rowcls: Any, cursor: sqlite3.Cursor | None = None) -> sqlite3.Cursor:
        asked = self.cursor() if cursor is None else cursor
        asked.row_factory = getattr(rowcls, "row_factory", rowcls) or sqlite3.Row
        return asked.execute(query, params)

    def fetch_iter(
        self, query: str, params: Any = (), cursor: Any = None, bufsize: int | None = None, rowcls: Any = None
    ) -> Iterator[Any]:
        """All rows, a few at a time."""
        asked = self._ask(query, params, rowcls, cursor)
        while rows := asked.fetchmany(bufsize or _FETCHED):
            yield from rows

    def fetch_one(self, query: str, params: Any = (), cursor: Any = None, rowcls: Any = None) -> Any:
        """The first row, or None."""
        return self._ask(query, params, rowcls, cursor).fetchone()

    def fetch_one_or_raise(self, query: str, params: Any = (), cursor: Any = None, rowcls: Any = None) -> Any:
        """The first row; LookupError if there is none."""
        row = self.fetch_one(query, params, cursor, rowcls)
        if row is None:
            raise LookupError(f"no row answers {query!r}")
        return row

    def fetch_all(self, query: str, params: Any = (), cursor: Any = None, rowcls: Any = None) -> list[Any]:
        """All rows."""
        return self._ask(query, params, rowcls, cursor).fetchall()

    def fetch_many(
        self, query: str, params: Any = (), cursor: Any = None, bufsize: int | None = None, rowcls: Any = None
    ) -> list[Any]:
        """The first rows."""
        return self._ask(query, params, rowcls, cursor).fetchmany(bufsize or 128)

    def number(self, query: str, *params: object) -> int:
        """The one number that a question gives."""
        return int(self.fetch_one(query, params)[0])

    def has(self, table: str, path: str) -> bool:
        """A table has the row of this path."""
        return self.fetch_one(f"SELECT 1 FROM {table} WHERE path = ?", (path,)) is not None

    def dir(self, path: str) -> BarecatDirInfo:
        """A directory, which must exist."""
        found = next(self.dirs("path = ?", (path,)), None)
        if found is None:
            raise FileNotFoundBarecatError(f"Directory {path} not found in index")
        return found

    def files(
        self, where: str = "1", params: Any = (), order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatFileInfo]:
        """Files for which a condition holds."""
        query = f"SELECT {FILE_COLUMNS} FROM files WHERE {where}{order.as_query_text()}"
        return self.fetch_iter(query, params, None, bufsize, file_row)

    def dirs(
        self, where: str = "1", params: Any = (), order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatDirInfo]:
        """Directories for which a condition holds; they have no address."""
        by = "" if order & Order.ADDRESS else order.as_query_text()
        query = f"SELECT {DIR_COLUMNS} FROM dirs WHERE {where}{by}"
        return self.fetch_iter(query, params, None, bufsize, dir_row)

    def paths(
        self,
        where: str = "1",
        params: Any = (),
        order: Order = Order.ANY,
        bufsize: int | None = None,
        tables: tuple[str, ...] = ("dirs", "files"),
    ) -> Iterator[str]:
        """Paths for which a condition holds, of the tables together."""
        address = {"dirs": ", NULL AS shard, NULL AS offset", "files": ", shard, offset"}
        columns = address if order & Order.ADDRESS else dict.fromkeys(address, "")
        parts = [f"SELECT path{columns[table]} FROM {table} WHERE {where}" for table in tables]
        for row in self.fetch_iter(" UNION ALL ".join(parts) + order.as_query_text(), params, bufsize=bufsize):
            if not isinstance(row[0], str):
                raise BarecatFormatError(f"the index has a path that is not text: {row[0]!r:.60}")
            yield row[0]


def file_row(cursor: sqlite3.Cursor | None, row: Any) -> BarecatFileInfo:
    """A row of the table of files."""
    new = BarecatFileInfo.__new__(BarecatFileInfo)
    new._path, new.shard, new.offset, new.size, new.crc32c, new.mode, new.uid, new.gid, new.mtime_ns = row
    return new


def dir_row(cursor: sqlite3.Cursor | None, row: Any) -> BarecatDirInfo:
    """A row of the table of directories."""
    new = BarecatDirInfo.__new__(BarecatDirInfo)
    new._path, new.num_subdirs, new.num_files, new.num_files_tree, new.size_tree, *about = row
    new.mode, new.uid, new.gid, new.mtime_ns = about
    return new
