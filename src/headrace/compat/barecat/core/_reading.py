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

    from headrace.compat.barecat.core._connecting import Source

__all__ = ["Fetcher", "Reading", "dir_row", "file_row"]

FILES = f"SELECT {FILE_COLUMNS} FROM files"
DIRS = f"SELECT {DIR_COLUMNS} FROM dirs"
_FETCHED = 1024
_CHUNK = 500


def file_row(cursor: sqlite3.Cursor | None, row: Any) -> BarecatFileInfo:
    """A row with the columns of ``FILES``."""
    new = BarecatFileInfo.__new__(BarecatFileInfo)
    new._path, new.shard, new.offset, new.size, new.crc32c, new.mode, new.uid, new.gid, new.mtime_ns = row
    return new


def dir_row(cursor: sqlite3.Cursor | None, row: Any) -> BarecatDirInfo:
    """A row with the columns of ``DIRS``."""
    new = BarecatDirInfo.__new__(BarecatDirInfo)
    (
        new._path,
        new.num_subdirs,
        new.num_files,
        new.num_files_tree,
        new.size_tree,
        new.mode,
        new.uid,
        new.gid,
        new.mtime_ns,
    ) = row
    return new


def _order_of_dirs(order: Order) -> str:
    """Directories have no address."""
    return "" if order & Order.ADDRESS else order.as_query_text()


class Fetcher:
    """Asks questions in SQL; rows come as ``sqlite3.Row``, or as what ``rowcls`` makes of them."""

    _source: Source

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


class Reading(Fetcher):
    """Look-ups, listings and totals."""

    def lookup_file(self, path: str, normalized: bool = False) -> BarecatFileInfo:
        """All about a file."""
        name = path if normalized else normalize_path(path)
        found = self.fetch_one(f"{FILES} WHERE path = ?", (name,), rowcls=file_row)
        if found is None:
            raise FileNotFoundBarecatError(name)
        return found  # type: ignore[no-any-return]

    def lookup_files(self, paths: Sequence[str]) -> list[BarecatFileInfo]:
        """All about many files, in the order of the paths."""
        names = [normalize_path(path) for path in paths]
        found: dict[str, BarecatFileInfo] = {}
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            for info in self.fetch_all(f"{FILES} WHERE path IN ({marks})", part, rowcls=file_row):
                found[info.path] = info
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise FileNotFoundBarecatError(missing)
        return [found[name] for name in names]

    def lookup_dir(self, dirpath: str) -> BarecatDirInfo:
        """All about a directory."""
        name = normalize_path(dirpath)
        found = self.fetch_one(f"{DIRS} WHERE path = ?", (name,), rowcls=dir_row)
        if found is None:
            raise FileNotFoundBarecatError(f"Directory {name} not found in index")
        return found  # type: ignore[no-any-return]

    def lookup(self, path: str) -> BarecatEntryInfo:
        """All about a file or directory."""
        return self.lookup_file(path) if self.isfile(path) else self.lookup_dir(path)

    def __len__(self) -> int:
        return self.num_files

    def __iter__(self) -> Iterator[BarecatFileInfo]:
        return self.iter_all_fileinfos()

    def __contains__(self, path: str) -> bool:
        return self.isfile(path)

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return int(self.fetch_one("SELECT num_files_tree FROM dirs WHERE path = ''")[0])

    @property
    def num_dirs(self) -> int:
        """How many directories there are, the root included."""
        return int(self.fetch_one("SELECT count(*) FROM dirs")[0])

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        return int(self.fetch_one("SELECT size_tree FROM dirs WHERE path = ''")[0])

    @property
    def num_used_shards(self) -> int:
        """One more than the highest number of a shard that has files."""
        return int(self.fetch_one("SELECT coalesce(max(shard), -1) + 1 FROM files")[0])

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
        return self.fetch_iter(FILES + order.as_query_text(), bufsize=bufsize, rowcls=file_row)

    def iter_all_dirinfos(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[BarecatDirInfo]:
        """All directories, the root included."""
        return self.fetch_iter(DIRS + _order_of_dirs(order), bufsize=bufsize, rowcls=dir_row)

    def iter_all_infos(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[BarecatEntryInfo]:
        """All directories and files; by address, and without an order, directories come first."""
        if not (order & Order.PATH or order & Order.RANDOM):
            yield from self.iter_all_dirinfos(bufsize=bufsize)
            yield from self.iter_all_fileinfos(order, bufsize)
            return
        # Both tables have four numbers between the path and what they have in common.
        query = f"SELECT {DIR_COLUMNS}, 1 FROM dirs UNION ALL SELECT {FILE_COLUMNS}, 0 FROM files"
        for *row, is_dir in self.fetch_iter(query + order.as_query_text(), bufsize=bufsize):
            yield dir_row(None, row) if is_dir else file_row(None, row)

    def _both(self, where: str, params: Any, order: Order, bufsize: int | None) -> Iterator[tuple[str, int]]:
        """Paths of directories and files together, and whether they are directories."""
        columns = "NULL AS shard, NULL AS offset" if order & Order.ADDRESS else "1"
        places = "shard, offset" if order & Order.ADDRESS else "1"
        query = (
            f"SELECT path, 1 AS is_dir, {columns} FROM dirs WHERE {where} "
            f"UNION ALL SELECT path, 0, {places} FROM files WHERE {where}"
        )
        for row in self.fetch_iter(query + order.as_query_text(), params, bufsize=bufsize):
            yield row[0], row[1]

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
        return (path for path, _ in self._both("1", (), order, bufsize))

    # One directory

    def _as_dirinfo(self, diritem: BarecatDirInfo | str) -> BarecatDirInfo:
        return diritem if isinstance(diritem, BarecatDirInfo) else self.lookup_dir(diritem)

    def _as_fileinfo(self, fileitem: BarecatFileInfo | str) -> BarecatFileInfo:
        return fileitem if isinstance(fileitem, BarecatFileInfo) else self.lookup_file(fileitem)

    @staticmethod
    def _as_path(item: BarecatEntryInfo | str) -> str:
        return item.path if isinstance(item, BarecatEntryInfo) else normalize_path(item)

    def list_direct_fileinfos(self, dirpath: str, order: Order = Order.ANY) -> list[BarecatFileInfo]:
        """The files directly in a directory."""
        query = f"{FILES} WHERE parent = ?{order.as_query_text()}"
        return self.fetch_all(query, (normalize_path(dirpath),), rowcls=file_row)

    def list_subdir_dirinfos(self, dirpath: str, order: Order = Order.ANY) -> list[BarecatDirInfo]:
        """The directories directly in a directory."""
        query = f"{DIRS} WHERE parent = ?{_order_of_dirs(order)}"
        return self.fetch_all(query, (normalize_path(dirpath),), rowcls=dir_row)

    def iter_direct_fileinfos(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatFileInfo]:
        """The files directly in a directory."""
        path = self._as_dirinfo(diritem).path
        return self.fetch_iter(
            f"{FILES} WHERE parent = ?{order.as_query_text()}", (path,), bufsize=bufsize, rowcls=file_row
        )

    def iter_subdir_dirinfos(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatDirInfo]:
        """The directories directly in a directory."""
        path = self._as_dirinfo(diritem).path
        return self.fetch_iter(
            f"{DIRS} WHERE parent = ?{_order_of_dirs(order)}", (path,), bufsize=bufsize, rowcls=dir_row
        )

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
        path = self._as_dirinfo(diritem).path
        found = self._both("parent = :parent", {"parent": path}, order, bufsize)
        return (child.rpartition("/")[2] for child, _ in found)

    def iterdir_infos(
        self, diritem: BarecatDirInfo | str, order: Order = Order.ANY, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What is directly in a directory, directories first."""
        info = self._as_dirinfo(diritem)
        dirs = self.iter_subdir_dirinfos(info, order, bufsize)
        return itertools.chain(dirs, self.iter_direct_fileinfos(info, order, bufsize))

    def walk_infos(
        self, rootitem: BarecatDirInfo | str, bufsize: int = 32
    ) -> Iterator[tuple[BarecatDirInfo, Iterable[BarecatDirInfo], Iterable[BarecatFileInfo]]]:
        """A directory, what directories and what files it has, from the top down."""
        waiting = [self._as_dirinfo(rootitem)]
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
        found = self.fetch_one(f"{FILES} ORDER BY shard DESC, offset DESC LIMIT 1", rowcls=file_row)
        if found is None:
            raise LookupError("Index is empty, it has no last file")
        return found  # type: ignore[no-any-return]

    def logical_shard_end(self, shard: int) -> int:
        """The byte after the last file of a shard."""
        return int(self.fetch_one("SELECT coalesce(max(offset + size), 0) FROM files WHERE shard = ?", (shard,))[0])
