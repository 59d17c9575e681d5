"""Questions to the index."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

from penstock._native import FileRows, NativeError
from penstock.formats.barecat.rows import DIR_COLUMNS, FILE_COLUMNS, DirInfo, FileInfo, Place

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._native import FileTable

__all__ = ["Index", "Order"]

Order = Literal["any", "path", "address", "random"]
_ORDERS: dict[str, str] = {
    "any": "",
    "path": " ORDER BY path",
    "address": " ORDER BY shard, offset",
    "random": " ORDER BY random()",
}
# Without a Python call for each row, as _make would need.
_as_file: Callable[[Any], FileInfo] = partial(tuple.__new__, FileInfo)
_as_dir: Callable[[Any], DirInfo] = partial(tuple.__new__, DirInfo)
_CHUNK = 500  # names in one question
_BLOCK = 1024  # rows made at once
_PLACE = "SELECT shard, offset, size, crc32c FROM files WHERE path = ?"
_FILE = f"SELECT {FILE_COLUMNS} FROM files"
_DIR = f"SELECT {DIR_COLUMNS} FROM dirs"


class Index:
    """Look-ups, listings and totals; names must be clean.

    Args:
        cursor: gives a cursor to use at once.
        new_cursor: gives one for results that are fetched little by little.
        table: the files without SQLite, while nobody writes.
    """

    def __init__(
        self,
        cursor: Callable[[], sqlite3.Cursor],
        new_cursor: Callable[[], sqlite3.Cursor],
        table: FileTable | None = None,
    ) -> None:
        self._cursor = cursor
        self._new_cursor = new_cursor
        self.table = table

    def place(self, name: str) -> tuple[int, int, int, int | None] | None:
        """Shard, offset, size and CRC-32C of a file, or None."""
        found: tuple[int, int, int, int | None] | None = self._cursor().execute(_PLACE, (name,)).fetchone()
        return found

    def places(self, names: Sequence[str]) -> dict[str, Place]:
        """Places of those names that are files."""
        found: dict[str, Place] = {}
        cursor = self._cursor()
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            rows = cursor.execute(
                f"SELECT path, shard, offset, size, crc32c FROM files WHERE path IN ({marks})", tuple(part)
            )
            for path, *place in rows:
                found[path] = Place._make(place)
        return found

    def file(self, name: str) -> FileInfo | None:
        """All about a file, or None."""
        row = self._cursor().execute(f"{_FILE} WHERE path = ?", (name,)).fetchone()
        return None if row is None else _as_file(row)

    def directory(self, name: str) -> DirInfo | None:
        """All about a directory, or None."""
        row = self._cursor().execute(f"{_DIR} WHERE path = ?", (name,)).fetchone()
        return None if row is None else _as_dir(row)

    def is_file(self, name: str) -> bool:
        """There is such a file."""
        return self._cursor().execute("SELECT 1 FROM files WHERE path = ?", (name,)).fetchone() is not None

    def is_dir(self, name: str) -> bool:
        """There is such a directory."""
        return self._cursor().execute("SELECT 1 FROM dirs WHERE path = ?", (name,)).fetchone() is not None

    def cursor(self) -> sqlite3.Cursor:
        """A cursor of its own, for questions that this class does not know."""
        return self._new_cursor()

    def number(self, question: str, *arguments: object) -> int:
        """The one number that a question gives; 0 for nothing."""
        return int(self._cursor().execute(question, arguments).fetchone()[0] or 0)

    def rows(self, question: str, *arguments: object) -> Iterator[Any]:
        """All rows of a question."""
        return iter(self._new_cursor().execute(question, arguments))

    def count_files(self) -> int:
        """How many files there are; the root's statistics know."""
        row = self._cursor().execute("SELECT num_files_tree FROM dirs WHERE path = ''").fetchone()
        return self.number("SELECT count(*) FROM files") if row is None else int(row[0])

    def count_dirs(self) -> int:
        """How many directories there are, the root included."""
        return self.number("SELECT count(*) FROM dirs")

    def total_size(self) -> int:
        """Bytes of all files."""
        row = self._cursor().execute("SELECT size_tree FROM dirs WHERE path = ''").fetchone()
        return self.number("SELECT sum(size) FROM files") if row is None else int(row[0])

    def files(self, order: Order = "any", below: str = "") -> Iterator[FileInfo]:
        """All files, or those below a directory."""
        if order == "any" and not below and self.table is not None:
            return chain.from_iterable(self._blocks(self.table))
        where, arguments = _below(below)
        return map(_as_file, self._new_cursor().execute(f"{_FILE}{where}{_ORDERS[order]}", arguments))

    def _blocks(self, table: FileTable) -> Iterator[Iterable[FileInfo]]:
        rows, count = FileRows(table, FileInfo), 0
        try:
            while block := rows.block(_BLOCK):
                count += len(block)
                yield block
        except (NativeError, UnicodeError):  # SQLite says what is wrong
            yield islice(map(_as_file, self._new_cursor().execute(_FILE)), count, None)

    def dirs(self, order: Order = "any", below: str = "") -> Iterator[DirInfo]:
        """All directories with the root, or those below a directory, which does not count."""
        where, arguments = _below(below)
        return map(_as_dir, self._new_cursor().execute(f"{_DIR}{where}{_ORDERS[order]}", arguments))

    def file_names(self, order: Order = "any") -> Iterator[str]:
        """Paths of all files."""
        return chain.from_iterable(self._new_cursor().execute(f"SELECT path FROM files{_ORDERS[order]}"))

    def dir_names(self, order: Order = "any") -> Iterator[str]:
        """Paths of all directories."""
        return chain.from_iterable(self._new_cursor().execute(f"SELECT path FROM dirs{_ORDERS[order]}"))

    def files_in(self, name: str) -> list[FileInfo]:
        """The files directly in a directory."""
        return list(map(_as_file, self._cursor().execute(f"{_FILE} WHERE parent = ?", (name,))))

    def dirs_in(self, name: str) -> list[DirInfo]:
        """The directories directly in a directory."""
        return list(map(_as_dir, self._cursor().execute(f"{_DIR} WHERE parent = ?", (name,))))

    def names_in(self, name: str) -> tuple[list[str], list[str]]:
        """Names (last parts) of the directories and files directly in a directory."""
        cut = len(name) + 1 if name else 0
        cursor = self._cursor()
        dirs = [path[cut:] for (path,) in cursor.execute("SELECT path FROM dirs WHERE parent = ?", (name,))]
        files = [path[cut:] for (path,) in cursor.execute("SELECT path FROM files WHERE parent = ?", (name,))]
        return dirs, files

    def matching(self, pattern: str, *, dirs: bool) -> Iterator[str]:
        """Paths that match a GLOB of SQLite, files first."""
        tables = ("files", "dirs") if dirs else ("files",)
        for table in tables:
            yield from chain.from_iterable(
                self._new_cursor().execute(f"SELECT path FROM {table} WHERE path GLOB ?", (pattern,))
            )

    def last_file(self) -> FileInfo | None:
        """The file with the highest address."""
        row = self._cursor().execute(f"{_FILE} ORDER BY shard DESC, offset DESC LIMIT 1").fetchone()
        return None if row is None else _as_file(row)

    def shard_ends(self) -> dict[int, int]:
        """For every shard that has files, the byte after the last one."""
        rows = self._cursor().execute("SELECT shard, max(offset + size) FROM files GROUP BY shard").fetchall()
        return dict(rows)

    def shard_end(self, shard: int) -> int:
        """The byte after the last file of one shard, quickly."""
        # Files do not overlap: the one with the highest offset that has bytes ends last.
        row = (
            self._cursor()
            .execute(
                "SELECT offset + size FROM files WHERE shard = ? AND size > 0 ORDER BY offset DESC LIMIT 1", (shard,)
            )
            .fetchone()
        )
        return 0 if row is None else int(row[0])

    def config(self, key: str) -> int | None:
        """A number from the table of settings."""
        row = self._cursor().execute("SELECT value_int FROM config WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]


def _below(name: str) -> tuple[str, tuple[str, ...]]:
    """A condition for everything below a directory: a range of the path index ('0' follows '/')."""
    return (" WHERE path > ? AND path < ?", (f"{name}/", f"{name}0")) if name else ("", ())
