"""The index of an archive: what files there are, and where. The bytes in the shards are not touched."""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import os
import sqlite3
import sys
import warnings
from typing import TYPE_CHECKING, Self, TypeAlias
from urllib.parse import quote

from headrace.compat.barecat.core._changes import Changes
from headrace.compat.barecat.core._merge import check_merge, merge_index
from headrace.compat.barecat.core._patterns import Patterns
from headrace.compat.barecat.core._rows import Rows, dir_row, file_row
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo, Order
from headrace.compat.barecat.exceptions import (
    BarecatFormatError,
    FileNotFoundBarecatError,
    NotADirectoryBarecatError,
    translated,
)
from headrace.compat.barecat.util import misc
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.index_file import IndexFile
from headrace.formats.barecat.index.checks import file_problems, table_problems
from headrace.formats.barecat.index.row_queue import triggers_off
from headrace.formats.barecat.index.rows import DIR_COLUMNS, FILE_COLUMNS
from headrace.formats.barecat.index.schema import VERSION
from headrace.progress import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.errors import PathLike

    FileItem: TypeAlias = BarecatFileInfo | str
    DirItem: TypeAlias = BarecatDirInfo | str
    FileInfos: TypeAlias = Iterator[BarecatFileInfo]
    DirInfos: TypeAlias = Iterator[BarecatDirInfo]
    Infos: TypeAlias = Iterator[BarecatEntryInfo]

__all__ = ["Index", "normalize_path"]

_logger = logging.getLogger(__name__)
_FETCHED = 1024
_CHUNK = 500
_SET_TRIGGERS = "UPDATE config SET value_int = ? WHERE key = 'use_triggers'"
_COUNT_TREES = """UPDATE dirs SET
    num_files = (SELECT count(*) FROM files WHERE parent = dirs.path),
    num_subdirs = (SELECT count(*) FROM dirs AS below WHERE below.parent = dirs.path AND below.path <> ''),
    (num_files_tree, size_tree) = (SELECT count(*), coalesce(sum(size), 0) FROM files WHERE {}) WHERE {}"""


def _number(query: str, about: str) -> property:
    return property(lambda self: self._rows.number(query), doc=about)


class Index:
    """The SQLite index of an archive. Arguments named ``bufsize`` and ``readonly_is_immutable`` change nothing.

    Rows come as ``sqlite3.Row``, or as what ``rowcls`` makes of them.

    Example:
        >>> import os, tempfile
        >>> from headrace.compat.barecat import BarecatFileInfo
        >>> with Index(os.path.join(tempfile.mkdtemp(), "x.barecat"), readonly=False) as index:
        ...     index.add_file(BarecatFileInfo("a/b.txt", shard=0, offset=0, size=3))
        ...     index.listdir_names("a"), index.num_files
        (['b.txt'], 1)
    """

    def __init__(
        self,
        path: PathLike,
        shard_size_limit: int | str | None = None,
        bufsize: int | None = None,
        readonly: bool = True,
        wal: bool = False,
        readonly_is_immutable: bool = False,
    ) -> None:
        name = os.fspath(path)
        self._is_owner = True
        with translated():
            self._begin(name, readonly, Archive(name, follow_links=True) if readonly else IndexFile(name, wal=wal))
        if shard_size_limit is not None and not readonly:
            self.shard_size_limit = shard_size_limit

    @classmethod
    def of_archive(cls, archive: Archive, path: str) -> Self:
        """The index of an archive that is open, and that is closed by whoever opened it."""
        index = cls.__new__(cls)
        index._is_owner = False
        index._begin(path, not archive.is_writable, archive)
        return index

    def _begin(self, path: str, readonly: bool, archive: Archive | IndexFile) -> None:
        self.path, self.readonly, self._archive = path, readonly, archive
        self._rows = Rows(archive)
        self._patterns = Patterns(self._rows)
        self._changes = Changes(self._rows, archive)
        self.is_closed = False
        _warn_of_version(path, archive.version)
        if not readonly and not self._triggers_enabled:  # somebody was killed inside no_triggers()
            self._changes.change(_SET_TRIGGERS, 1)

    # Questions in SQL

    fetch_iter = misc.delegate("_rows", Rows.fetch_iter)
    fetch_one = misc.delegate("_rows", Rows.fetch_one)
    fetch_one_or_raise = misc.delegate("_rows", Rows.fetch_one_or_raise)
    fetch_all = misc.delegate("_rows", Rows.fetch_all)
    fetch_many = misc.delegate("_rows", Rows.fetch_many)

    # One file or directory

    def lookup_file(self, path: str, normalized: bool = False) -> BarecatFileInfo:
        """All about a file."""
        name = path if normalized else normalize_path(path)
        found = next(self._rows.files("path = ?", (name,)), None)
        if found is None:
            raise FileNotFoundBarecatError(name)
        return found

    def lookup_files(self, paths: Sequence[str]) -> list[BarecatFileInfo]:
        """All about many files, in the order of the paths."""
        names = [normalize_path(path) for path in paths]
        found: dict[str, BarecatFileInfo] = {}
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            found |= {info.path: info for info in self._rows.files(f"path IN ({','.join('?' * len(part))})", part)}
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise FileNotFoundBarecatError(missing)
        return [found[name] for name in names]

    def lookup_dir(self, dirpath: str) -> BarecatDirInfo:
        """All about a directory."""
        return self._rows.dir(normalize_path(dirpath))

    def lookup(self, path: str) -> BarecatEntryInfo:
        """All about a file or directory."""
        return self.lookup_file(path) if self.isfile(path) else self.lookup_dir(path)

    def file_of(self, item: FileItem) -> BarecatFileInfo:
        """The info itself, or what is found under a path."""
        return item if isinstance(item, BarecatFileInfo) else self.lookup_file(item)

    def _dir_of(self, item: DirItem) -> BarecatDirInfo:
        return item if isinstance(item, BarecatDirInfo) else self.lookup_dir(item)

    def isfile(self, path: str) -> bool:
        """There is a file of this name."""
        return self._rows.has("files", normalize_path(path))

    def isdir(self, path: str) -> bool:
        """There is a directory of this name."""
        return self._rows.has("dirs", normalize_path(path))

    def exists(self, path: str) -> bool:
        """There is a file or directory of this name."""
        return self.isfile(path) or self.isdir(path)

    def __contains__(self, path: str) -> bool:
        return self.isfile(path)

    # Everything

    num_files = _number("SELECT num_files_tree FROM dirs WHERE path = ''", "How many files there are.")
    num_dirs = _number("SELECT count(*) FROM dirs", "How many directories there are, the root included.")
    total_size = _number("SELECT size_tree FROM dirs WHERE path = ''", "Bytes of all files.")
    num_used_shards = _number("SELECT coalesce(max(shard), -1) + 1 FROM files", "One more than the highest shard.")

    def __len__(self) -> int:
        number = int(self.num_files)
        if not 0 <= number <= sys.maxsize:
            raise BarecatFormatError(f"{self.path}: the index says that there are {number} files")
        return number

    def __iter__(self) -> FileInfos:
        return self.iter_all_fileinfos()

    def iter_all_fileinfos(self, order: Order = Order.ANY, bufsize: int | None = None) -> FileInfos:
        """All files."""
        return self._rows.files(order=order, bufsize=bufsize)

    def iter_all_dirinfos(self, order: Order = Order.ANY, bufsize: int | None = None) -> DirInfos:
        """All directories, the root included."""
        return self._rows.dirs(order=order, bufsize=bufsize)

    def iter_all_infos(self, order: Order = Order.ANY, bufsize: int | None = None) -> Infos:
        """All directories and files; by address, and without an order, directories come first."""
        if not (order & Order.PATH or order & Order.RANDOM):
            yield from self.iter_all_dirinfos(bufsize=bufsize)
            yield from self.iter_all_fileinfos(order, bufsize)
            return
        # Both tables have four numbers between the path and what they have in common.
        query = f"SELECT {DIR_COLUMNS}, 1 FROM dirs UNION ALL SELECT {FILE_COLUMNS}, 0 FROM files"
        for *row, is_dir in self.fetch_iter(query + order.as_query_text(), bufsize=bufsize):
            yield dir_row(None, row) if is_dir else file_row(None, row)

    def iter_all_filepaths(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Paths of all files."""
        return self._rows.paths(order=order, bufsize=bufsize, tables=("files",))

    def iter_all_dirpaths(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Paths of all directories, the root included."""
        return self._rows.paths(order=order, bufsize=bufsize, tables=("dirs",))

    def iter_all_paths(self, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Paths of all directories and files."""
        return self._rows.paths(order=order, bufsize=bufsize)

    # One directory

    def list_direct_fileinfos(self, dirpath: str, order: Order = Order.ANY) -> list[BarecatFileInfo]:
        """The files directly in a directory."""
        return list(self._rows.files("parent = ?", (normalize_path(dirpath),), order))

    def list_subdir_dirinfos(self, dirpath: str, order: Order = Order.ANY) -> list[BarecatDirInfo]:
        """The directories directly in a directory."""
        return list(self._rows.dirs("parent = ?", (normalize_path(dirpath),), order))

    def iter_direct_fileinfos(
        self, diritem: DirItem, order: Order = Order.ANY, bufsize: int | None = None
    ) -> FileInfos:
        """The files directly in a directory."""
        return self._rows.files("parent = ?", (self._dir_of(diritem).path,), order, bufsize)

    def iter_subdir_dirinfos(self, diritem: DirItem, order: Order = Order.ANY, bufsize: int | None = None) -> DirInfos:
        """The directories directly in a directory."""
        return self._rows.dirs("parent = ?", (self._dir_of(diritem).path,), order, bufsize)

    def listdir_names(self, diritem: DirItem, order: Order = Order.ANY) -> list[str]:
        """Names (last parts) of what is directly in a directory."""
        return list(self.iterdir_names(diritem, order))

    def listdir_infos(self, diritem: DirItem, order: Order = Order.ANY) -> list[BarecatEntryInfo]:
        """What is directly in a directory, directories first."""
        return list(self.iterdir_infos(diritem, order))

    def iterdir_names(self, diritem: DirItem, order: Order = Order.ANY, bufsize: int | None = None) -> Iterator[str]:
        """Names (last parts) of what is directly in a directory."""
        found = self._rows.paths("parent = :parent", {"parent": self._dir_of(diritem).path}, order, bufsize)
        return (path.rpartition("/")[2] for path in found)

    def iterdir_infos(self, diritem: DirItem, order: Order = Order.ANY, bufsize: int | None = None) -> Infos:
        """What is directly in a directory, directories first."""
        info = self._dir_of(diritem)
        dirs = self.iter_subdir_dirinfos(info, order, bufsize)
        return itertools.chain(dirs, self.iter_direct_fileinfos(info, order, bufsize))

    def walk_infos(
        self, rootitem: DirItem, bufsize: int = 32
    ) -> Iterator[tuple[BarecatDirInfo, Iterable[BarecatDirInfo], Iterable[BarecatFileInfo]]]:
        """A directory, what directories and what files it has, from the top down."""
        waiting = [self._dir_of(rootitem)]
        while waiting:
            info = waiting.pop()
            subdirs = list(self.iter_subdir_dirinfos(info))
            yield info, subdirs, self.iter_direct_fileinfos(info, bufsize=bufsize)
            waiting.extend(reversed(subdirs))

    def walk_names(self, rootitem: DirItem, bufsize: int = 32) -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``; the root is ``.``."""
        for info, dirs, files in self.walk_infos(rootitem, bufsize):
            names = ([entry.path.rpartition("/")[2] for entry in entries] for entries in (dirs, files))
            yield info.path or ".", next(names), next(names)

    # Patterns

    raw_glob_paths = misc.delegate("_patterns", Patterns.raw_glob_paths)
    raw_iterglob_paths = misc.delegate("_patterns", Patterns.raw_iterglob_paths)
    raw_iterglob_paths_multi = misc.delegate("_patterns", Patterns.raw_iterglob_paths_multi)
    raw_iterglob_infos = misc.delegate("_patterns", Patterns.raw_iterglob_infos)
    raw_iterglob_infos_multi = misc.delegate("_patterns", Patterns.raw_iterglob_infos_multi)
    raw_iterglob_infos_incl_excl = misc.delegate("_patterns", Patterns.raw_iterglob_infos_incl_excl)
    glob_paths = misc.delegate("_patterns", Patterns.glob_paths)
    iterglob_paths = misc.delegate("_patterns", Patterns.iterglob_paths)
    iterglob_infos = misc.delegate("_patterns", Patterns.iterglob_infos)
    iterglob_infos_incl_excl = misc.delegate("_patterns", Patterns.iterglob_infos_incl_excl)

    # Shards

    def get_last_file(self) -> BarecatFileInfo:
        """The file with the highest address; LookupError when there is none."""
        found = next(self._rows.files(order=Order.ADDRESS | Order.DESC, bufsize=1), None)
        if found is None:
            raise LookupError("Index is empty, it has no last file")
        return found

    def logical_shard_end(self, shard: int) -> int:
        """The byte after the last file of a shard."""
        return self._rows.number("SELECT coalesce(max(offset + size), 0) FROM files WHERE shard = ?", shard)

    @property
    def shard_size_limit(self) -> int:
        """How large a shard may be."""
        return self._rows.number("SELECT value_int FROM config WHERE key = 'shard_size_limit'")

    @shard_size_limit.setter
    def shard_size_limit(self, value: int | str) -> None:
        if self.readonly:
            raise ValueError("Cannot set shard size limit on a read-only index")
        limit = parse_bytes(value) if isinstance(value, str) else value
        if limit == self.shard_size_limit:
            return
        largest = max((self.logical_shard_end(shard) for shard in range(self.num_used_shards)), default=0)
        if limit < max(largest, 1):
            raise ValueError(
                f"Trying to set shard size limit as {limit}, which is smaller than the largest existing shard size "
                f"{largest}. Increase the shard size limit or re-shard the data first."
            )
        self._archive.editor.set_limit(limit)

    def find_space(self, path: FileItem, size: int) -> BarecatFileInfo:
        """Where a file could be if it had another size: where it is, in the first gap, or in a new shard."""
        info, limit = self.file_of(path), self.shard_size_limit
        others = "SELECT shard, offset, offset + size FROM files WHERE path <> ? ORDER BY shard, offset, size"
        spans = [(row[0], row[1], row[2]) for row in self.fetch_iter(others, (info.path,))]
        here = info.offset or 0
        following = next((start for shard, start, _ in spans if shard == info.shard and start >= here), limit)
        if size <= max(info.size or 0, following - here):
            return info
        found = copy.copy(info)
        found.shard, found.offset = self.num_used_shards, 0
        for (shard, _, end), (next_shard, start, _) in itertools.pairwise([*spans, (-1, 0, 0)]):
            if (start if next_shard == shard else limit) - end >= size:
                found.shard, found.offset = shard, end
                break
        return found

    # Changes

    add = misc.delegate("_changes", Changes.add)
    add_file = misc.delegate("_changes", Changes.add_file)
    add_files = misc.delegate("_changes", Changes.add_files)
    update_file = misc.delegate("_changes", Changes.update_file)
    add_dir = misc.delegate("_changes", Changes.add_dir)
    put_dir = misc.delegate("_changes", Changes.put_dir)
    rename = misc.delegate("_changes", Changes.rename)
    rename_file = misc.delegate("_changes", Changes.rename_file)
    rename_dir = misc.delegate("_changes", Changes.rename_dir)
    remove_file = misc.delegate("_changes", Changes.remove_file)
    remove_files = misc.delegate("_changes", Changes.remove_files)
    remove_empty_dir = misc.delegate("_changes", Changes.remove_empty_dir)
    remove_recursively = misc.delegate("_changes", Changes.remove_recursively)
    chmod = misc.delegate("_changes", Changes.chmod)
    chown = misc.delegate("_changes", Changes.chown)
    update_mtime = misc.delegate("_changes", Changes.update_mtime)

    # Statistics

    def update_dirs(self) -> None:
        """Make the directories that files and directories lie in and that are missing."""
        missing = "SELECT parent FROM files UNION SELECT parent FROM dirs WHERE path <> '' UNION SELECT '' ORDER BY 1"
        try:
            self._changes.change(f"INSERT OR IGNORE INTO dirs (path) {missing}")
        except sqlite3.IntegrityError as error:
            raise NotADirectoryBarecatError(f"a directory of {self.path} exists as a file") from error

    def update_treestats(self) -> None:
        """Count files, directories and bytes of all directories anew."""
        below = "path > dirs.path || '/' AND path < dirs.path || '0'"  # which follows the slash
        with self._changes.changing() as connection, triggers_off(connection):
            connection.execute(_COUNT_TREES.format(below, "path <> ''"))
            connection.execute(_COUNT_TREES.format("1", "path = ''"))

    @property
    def _triggers_enabled(self) -> bool:
        return self._rows.number("SELECT value_int FROM config WHERE key = 'use_triggers'") == 1

    @property
    def _foreign_keys_enabled(self) -> bool:
        return self._rows.number("PRAGMA foreign_keys") == 1

    @contextlib.contextmanager
    def no_foreign_keys(self) -> Iterator[None]:
        """Inside, nobody checks that directories exist."""
        was = self._foreign_keys_enabled
        self._archive.editor.check_references(False)
        try:
            yield
        finally:
            self._archive.editor.check_references(was)

    @contextlib.contextmanager
    def no_triggers(self) -> Iterator[None]:
        """Inside, statistics of directories are not kept, and nobody checks that directories exist."""
        if not self._triggers_enabled:
            yield
            return
        with self.no_foreign_keys():
            self._changes.change(_SET_TRIGGERS, 0)
            try:
                yield
            finally:
                self._changes.change(_SET_TRIGGERS, 1)

    @contextlib.contextmanager
    def bulk_mode(
        self, drop_indexes: bool = False, update_dirs_at_end: bool = True, update_treestats_at_end: bool = True
    ) -> Iterator[None]:
        """Inside, rows are only stored; directories and statistics are made at the end."""
        with self.no_triggers():
            yield
        if update_dirs_at_end:
            self.update_dirs()
        if update_treestats_at_end:
            self.update_treestats()

    # Whole indexes

    def verify_integrity(self) -> bool:
        """Check the index against itself; what is wrong goes to the log."""
        problems = [*file_problems(self._archive.index), *table_problems(self._archive.index)]
        for problem in problems:
            _logger.error("%s: %s", self.path, problem.message)
        return not problems

    def merge_from_other_barecat(
        self,
        source_index_path: str,
        ignore_duplicates: bool = False,
        prefix: str | None = None,
        update_treestats: bool = True,
    ) -> None:
        """Add the rows of another index, whose shards are counted on from those in use here."""
        with Index(source_index_path) as source:
            merge_index(self, source, normalize_path(prefix or ""), ignore_duplicates)

    def check_merge_conflicts(self, prefix: str) -> str:
        """Refuse what cannot be merged from the database that is attached as ``sourcedb``; gives paths as SQL."""
        files = [row[0] for row in self.fetch_iter("SELECT path FROM sourcedb.files")]
        dirs = [BarecatDirInfo(row[0]) for row in self.fetch_iter("SELECT path FROM sourcedb.dirs")]
        check_merge(self, prefix, files, dirs, ignore_duplicates=True)
        quoted = prefix.replace("'", "''")
        return f"CASE WHEN path = '' THEN '{quoted}' ELSE '{quoted}/' || path END" if prefix else "path"

    # SQLite itself, and life

    @property
    def cursor(self) -> sqlite3.Cursor:
        """A cursor for statements of one's own; of a writer it is inside the transaction."""
        if not self.readonly:
            with self._changes.changing():
                pass  # has begun one
        cursor = self._rows.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor

    @property
    def conn(self) -> sqlite3.Connection:
        """The connection to SQLite."""
        return self.cursor.connection

    connection = conn

    @contextlib.contextmanager
    def attached_database(self, path: str, name: str = "sourcedb", readonly: bool = True) -> Iterator[None]:
        """Another SQLite file under a name, for statements of one's own."""
        mode = "ro" if readonly else "rw"
        if not self.readonly:
            self._archive.editor.commit()
        connection = self._rows.cursor().connection
        connection.execute(f"ATTACH DATABASE ? AS {name}", (f"file:{quote(os.path.abspath(path))}?mode={mode}",))
        try:
            yield
        finally:
            if not self.readonly:
                self._archive.editor.commit()
            connection.execute(f"DETACH DATABASE {name}")

    def optimize(self) -> None:
        """Let SQLite tidy up."""
        if not self.readonly:
            self._archive.editor.commit()
            connection = self._rows.cursor().connection
            for statement in ("ANALYZE", "VACUUM", "PRAGMA optimize"):
                connection.execute(statement)

    def close(self) -> None:
        """Commit and let go of the file."""
        if not self.is_closed:
            self.is_closed = True
            if self._is_owner:
                self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _warn_of_version(path: str, version: tuple[int, int]) -> None:
    if version == VERSION:
        return
    found, current = (".".join(map(str, one)) for one in (version, VERSION))
    if version > VERSION:
        words = f"Schema version {found} is newer than supported {current}. Some features may not work."
    else:
        archive = path.removesuffix("-sqlite-index")
        words = f"Schema version is outdated ({found} < {current}). Consider: barecat upgrade {archive}"
    warnings.warn(words, stacklevel=4)
