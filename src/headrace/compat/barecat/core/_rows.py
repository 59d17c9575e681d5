"""Questions to an index."""

from __future__ import annotations

import itertools
import sqlite3
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo, Order
from headrace.compat.barecat.exceptions import FileNotFoundBarecatError
from headrace.formats.barecat.index.rows import DIR_COLUMNS, FILE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.compat.barecat.core._sources import Source

__all__ = ["Rows", "path_of"]

_FETCHED = 1024
_CHUNK = 500


def _file_row(cursor: sqlite3.Cursor | None, row: Any) -> BarecatFileInfo:
    new = BarecatFileInfo.__new__(BarecatFileInfo)
    new._path, new.shard, new.offset, new.size, new.crc32c, new.mode, new.uid, new.gid, new.mtime_ns = row
    return new


def _dir_row(cursor: sqlite3.Cursor | None, row: Any) -> BarecatDirInfo:
    new = BarecatDirInfo.__new__(BarecatDirInfo)
    new._path, new.num_subdirs, new.num_files, new.num_files_tree, new.size_tree, *about = row
    new.mode, new.uid, new.gid, new.mtime_ns = about
    return new


def path_of(item: BarecatEntryInfo | str) -> str:
    """The clean path of an info or of text."""
    return item.path if isinstance(item, BarecatEntryInfo) else normalize_path(item)


class Rows:
    """Look-ups, listings and totals; rows come as ``sqlite3.Row``, or as what ``rowcls`` makes of them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def _ask(self, query: str, params: Any, rowcls: Any, cursor: sqlite3.Cursor | None = None) -> sqlite3.Cursor:
        asked = self._source.cursor() if cursor is None else cursor
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

    def files(
        self, where: str = "1", params: Any = (), order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatFileInfo]:
        """The files that fulfil a condition."""
        query = f"SELECT {FILE_COLUMNS} FROM files WHERE {where}{order.as_query_text()}"
        return self.fetch_iter(query, params, None, bufsize, _file_row)

    def dirs(
        self, where: str = "1", params: Any = (), order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatDirInfo]:
        """The directories that fulfil a condition; they have no address."""
        query = f"SELECT {DIR_COLUMNS} FROM dirs WHERE {where}{_order_of_dirs(order)}"
        return self.fetch_iter(query, params, None, bufsize, _dir_row)

    def paths(self, where: str, params: Any, order: Order, bufsize: int | None) -> Iterator[str]:
        """Paths of directories and files together that fulfil a condition."""
        columns = "NULL AS shard, NULL AS offset" if order & Order.ADDRESS else "1"
        places = "shard, offset" if order & Order.ADDRESS else "1"
        query = (
            f"SELECT path, {columns} FROM dirs WHERE {where} UNION ALL SELECT path, {places} FROM files WHERE {where}"
        )
        return (row[0] for row in self.fetch_iter(query + order.as_query_text(), params, bufsize=bufsize))

    # One file or directory

    def lookup_file(self, path: str, normalized: bool = False) -> BarecatFileInfo:
        """All about a file."""
        name = path if normalized else normalize_path(path)
        found = next(self.files("path = ?", (name,)), None)
        if found is None:
            raise FileNotFoundBarecatError(name)
        return found

    def lookup_files(self, paths: Sequence[str]) -> list[BarecatFileInfo]:
        """All about many files, in the order of the paths."""
        names = [normalize_path(path) for path in paths]
        found: dict[str, BarecatFileInfo] = {}
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            found |= {info.path: info for info in self.files(f"path IN ({','.join('?' * len(part))})", part)}
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise FileNotFoundBarecatError(missing)
        return [found[name] for name in names]

    def lookup_dir(self, dirpath: str) -> BarecatDirInfo:
        """All about a directory."""
        name = normalize_path(dirpath)
        found = next(self.dirs("path = ?", (name,)), None)
        if found is None:
            raise FileNotFoundBarecatError(f"Directory {name} not found in index")
        return found

    def lookup(self, path: str) -> BarecatEntryInfo:
        """All about a file or directory."""
        return self.lookup_file(path) if self.isfile(path) else self.lookup_dir(path)

    def file_of(self, item: BarecatFileInfo | str) -> BarecatFileInfo:
        """The info itself, or what is found under a path."""
        return item if isinstance(item, BarecatFileInfo) else self.lookup_file(item)

    def _dir_of(self, item: BarecatDirInfo | str) -> BarecatDirInfo:
        return item if isinstance(item, BarecatDirInfo) else self.lookup_dir(item)

    def isfile(self, path: str) -> bool:
        """There is a file of this name."""
        return self.fetch_one("SELECT 1 FROM files WHERE path = ?", (normalize_path(path),)) is not None

    def isdir(self, path: str) -> bool:
        """There is a directory of this name."""
        return self.fetch_one("SELECT 1 FROM dirs WHERE path = ?", (normalize_path(path),)) is not None

    def exists(self, path: str) -> bool:
        """There is a file or directory of this name."""
        return self.isfile(path) or self.isdir(path)

    # Everything

    def iter_all_fileinfos(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[BarecatFileInfo]:
        """All files."""
        return self.files(order=order, bufsize=bufsize)

    def iter_all_dirinfos(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[BarecatDirInfo]:
        """All directories, the root included."""
        return self.dirs(order=order, bufsize=bufsize)

    def iter_all_infos(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[BarecatEntryInfo]:
        """All directories and files; by address, and without an order, directories come first."""
        if not (order & Order.PATH or order & Order.RANDOM):
            yield from self.iter_all_dirinfos(bufsize=bufsize)
            yield from self.iter_all_fileinfos(order, bufsize)
            return
        # Both tables have four numbers between the path and what they have in common.
        query = f"SELECT {DIR_COLUMNS}, 1 FROM dirs UNION ALL SELECT {FILE_COLUMNS}, 0 FROM files"
        for *row, is_dir in self.fetch_iter(query + order.as_query_text(), bufsize=bufsize):
            yield _dir_row(None, row) if is_dir else _file_row(None, row)

    def iter_all_filepaths(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Paths of all files."""
        rows = self.fetch_iter("SELECT path FROM files" + order.as_query_text(), bufsize=bufsize)
        return (row[0] for row in rows)

    def iter_all_dirpaths(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Paths of all directories, the root included."""
        rows = self.fetch_iter("SELECT path FROM dirs" + _order_of_dirs(order), bufsize=bufsize)
        return (row[0] for row in rows)

    def iter_all_paths(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Paths of all directories and files."""
        return self.paths("1", (), order, bufsize)

    # One directory

    def list_direct_fileinfos(self, dirpath: str, order: Order = Order.ANY) -> list[BarecatFileInfo]:
        """The files directly in a directory."""
        return list(self.files("parent = ?", (normalize_path(dirpath),), order))

    def list_subdir_dirinfos(self, dirpath: str, order: Order = Order.ANY) -> list[BarecatDirInfo]:
        """The directories directly in a directory."""
        return list(self.dirs("parent = ?", (normalize_path(dirpath),), order))

    def iter_direct_fileinfos(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatFileInfo]:
        """The files directly in a directory."""
        return self.files("parent = ?", (self._dir_of(diritem).path,), order, bufsize)

    def iter_subdir_dirinfos(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatDirInfo]:
        """The directories directly in a directory."""
        return self.dirs("parent = ?", (self._dir_of(diritem).path,), order, bufsize)

    def listdir_names(self, diritem: BarecatDirInfo | str, order: Order = Order.ANY) -> list[str]:
        """Names (last parts) of what is directly in a directory."""
        return list(self.iterdir_names(diritem, order))

    def listdir_infos(self, diritem: BarecatDirInfo | str, order: Order = Order.ANY) -> list[BarecatEntryInfo]:
        """What is directly in a directory, directories first."""
        return list(self.iterdir_infos(diritem, order))

    def iterdir_names(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[str]:
        """Names (last parts) of what is directly in a directory."""
        found = self.paths("parent = :parent", {"parent": self._dir_of(diritem).path}, order, bufsize)
        return (path.rpartition("/")[2] for path in found)

    def iterdir_infos(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What is directly in a directory, directories first."""
        info = self._dir_of(diritem)
        dirs = self.iter_subdir_dirinfos(info, order, bufsize)
        return itertools.chain(dirs, self.iter_direct_fileinfos(info, order, bufsize))

    def walk_infos(
        self, rootitem: BarecatDirInfo | str, bufsize: int = 32
    ) -> Iterator[tuple[BarecatDirInfo, Iterable[BarecatDirInfo], Iterable[BarecatFileInfo]]]:
        """A directory, what directories and what files it has, from the top down."""
        waiting = [self._dir_of(rootitem)]
        while waiting:
            info = waiting.pop()
            subdirs = list(self.iter_subdir_dirinfos(info))
            yield info, subdirs, self.iter_direct_fileinfos(info, bufsize=bufsize)
            waiting.extend(reversed(subdirs))

    def walk_names(
        self, rootitem: BarecatDirInfo | str, bufsize: int = 32
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``; the root is ``.``."""
        for info, dirs, files in self.walk_infos(rootitem, bufsize):
            names = ([entry.path.rpartition("/")[2] for entry in entries] for entries in (dirs, files))
            yield info.path or ".", next(names), next(names)

    # Shards

    def get_last_file(self) -> BarecatFileInfo:
        """The file with the highest address; LookupError when there is none."""
        found = next(self.files(order=Order.ADDRESS | Order.DESC, bufsize=1), None)
        if found is None:
            raise LookupError("Index is empty, it has no last file")
        return found

    def logical_shard_end(self, shard: int) -> int:
        """The byte after the last file of a shard."""
        return self.number("SELECT coalesce(max(offset + size), 0) FROM files WHERE shard = ?", shard)


def _order_of_dirs(order: Order) -> str:
    return "" if order & Order.ADDRESS else order.as_query_text()
