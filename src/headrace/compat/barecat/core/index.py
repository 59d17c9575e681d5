"""The index of an archive: what files there are, and where."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sqlite3
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from headrace.compat.barecat.core._changes import Changes
from headrace.compat.barecat.core._globs import Globs
from headrace.compat.barecat.core._rows import Rows
from headrace.compat.barecat.core._sources import ArchiveSource, FileSource
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.util import misc
from headrace.compat.barecat.util.misc import delegate
from headrace.formats.barecat.index.checks import file_problems, table_problems
from headrace.formats.barecat.index.row_queue import triggers_off
from headrace.formats.barecat.index.schema import VERSION
from headrace.formats.barecat.names import parent_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.compat.barecat.core._sources import Source
    from headrace.compat.barecat.core.types import BarecatFileInfo
    from headrace.errors import PathLike
    from headrace.formats.barecat import Archive

__all__ = ["Index", "normalize_path"]

_logger = logging.getLogger(__name__)
_SET_TRIGGERS = "UPDATE config SET value_int = ? WHERE key = 'use_triggers'"


def _number(query: str, about: str) -> property:
    def ask(self: Index) -> int:
        return self._rows.number(query)

    return property(ask, doc=about)


class Index:
    """The SQLite index of an archive. Arguments named ``bufsize`` and ``readonly_is_immutable`` change nothing.

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
        self._begin(name, readonly, FileSource(name, readonly=readonly, wal=wal))
        if shard_size_limit is not None and not readonly:
            self.shard_size_limit = shard_size_limit

    @classmethod
    def of_archive(cls, archive: Archive, path: str) -> Self:
        """The index of an archive that is open."""
        index = cls.__new__(cls)
        index._begin(path, not archive.is_writable, ArchiveSource(archive))
        return index

    def _begin(self, path: str, readonly: bool, source: Source) -> None:
        self.path = path
        self.readonly = readonly
        self.is_closed = False
        self._source = source
        self._rows = Rows(source)
        self._globs = Globs(self._rows)
        self._changes = Changes(source, self._rows)
        _warn_of_version(path, source.version)
        if not readonly and not self._triggers_enabled:  # somebody was killed inside no_triggers()
            self._changes.run(_SET_TRIGGERS, 1)

    fetch_iter = delegate("_rows", Rows.fetch_iter)
    fetch_one = delegate("_rows", Rows.fetch_one)
    fetch_one_or_raise = delegate("_rows", Rows.fetch_one_or_raise)
    fetch_all = delegate("_rows", Rows.fetch_all)
    fetch_many = delegate("_rows", Rows.fetch_many)
    lookup = delegate("_rows", Rows.lookup)
    lookup_file = delegate("_rows", Rows.lookup_file)
    lookup_files = delegate("_rows", Rows.lookup_files)
    lookup_dir = delegate("_rows", Rows.lookup_dir)
    isfile = delegate("_rows", Rows.isfile)
    isdir = delegate("_rows", Rows.isdir)
    exists = delegate("_rows", Rows.exists)
    iter_all_fileinfos = delegate("_rows", Rows.iter_all_fileinfos)
    iter_all_dirinfos = delegate("_rows", Rows.iter_all_dirinfos)
    iter_all_infos = delegate("_rows", Rows.iter_all_infos)
    iter_all_filepaths = delegate("_rows", Rows.iter_all_filepaths)
    iter_all_dirpaths = delegate("_rows", Rows.iter_all_dirpaths)
    iter_all_paths = delegate("_rows", Rows.iter_all_paths)
    list_direct_fileinfos = delegate("_rows", Rows.list_direct_fileinfos)
    list_subdir_dirinfos = delegate("_rows", Rows.list_subdir_dirinfos)
    iter_direct_fileinfos = delegate("_rows", Rows.iter_direct_fileinfos)
    iter_subdir_dirinfos = delegate("_rows", Rows.iter_subdir_dirinfos)
    listdir_names = delegate("_rows", Rows.listdir_names)
    listdir_infos = delegate("_rows", Rows.listdir_infos)
    iterdir_names = delegate("_rows", Rows.iterdir_names)
    iterdir_infos = delegate("_rows", Rows.iterdir_infos)
    walk_infos = delegate("_rows", Rows.walk_infos)
    walk_names = delegate("_rows", Rows.walk_names)
    get_last_file = delegate("_rows", Rows.get_last_file)
    logical_shard_end = delegate("_rows", Rows.logical_shard_end)

    raw_glob_paths = delegate("_globs", Globs.raw_glob_paths)
    raw_iterglob_paths = delegate("_globs", Globs.raw_iterglob_paths)
    raw_iterglob_paths_multi = delegate("_globs", Globs.raw_iterglob_paths_multi)
    raw_iterglob_infos = delegate("_globs", Globs.raw_iterglob_infos)
    raw_iterglob_infos_multi = delegate("_globs", Globs.raw_iterglob_infos_multi)
    raw_iterglob_infos_incl_excl = delegate("_globs", Globs.raw_iterglob_infos_incl_excl)
    glob_paths = delegate("_globs", Globs.glob_paths)
    iterglob_paths = delegate("_globs", Globs.iterglob_paths)
    iterglob_infos = delegate("_globs", Globs.iterglob_infos)
    iterglob_infos_incl_excl = delegate("_globs", Globs.iterglob_infos_incl_excl)

    add = delegate("_changes", Changes.add)
    add_file = delegate("_changes", Changes.add_file)
    add_files = delegate("_changes", Changes.add_files)
    add_dir = delegate("_changes", Changes.add_dir)
    update_file = delegate("_changes", Changes.update_file)
    rename = delegate("_changes", Changes.rename)
    rename_file = delegate("_changes", Changes.rename_file)
    rename_dir = delegate("_changes", Changes.rename_dir)
    remove_file = delegate("_changes", Changes.remove_file)
    remove_files = delegate("_changes", Changes.remove_files)
    remove_empty_dir = delegate("_changes", Changes.remove_empty_dir)
    remove_recursively = delegate("_changes", Changes.remove_recursively)
    chmod = delegate("_changes", Changes.chmod)
    chown = delegate("_changes", Changes.chown)
    update_mtime = delegate("_changes", Changes.update_mtime)

    num_files = _number("SELECT num_files_tree FROM dirs WHERE path = ''", "How many files there are.")
    num_dirs = _number("SELECT count(*) FROM dirs", "How many directories there are, the root included.")
    total_size = _number("SELECT size_tree FROM dirs WHERE path = ''", "Bytes of all files.")
    num_used_shards = _number("SELECT coalesce(max(shard), -1) + 1 FROM files", "One more than the highest shard.")

    def __len__(self) -> int:
        return int(self.num_files)

    def __iter__(self) -> Iterator[BarecatFileInfo]:
        return self.iter_all_fileinfos()

    def __contains__(self, path: str) -> bool:
        return self.isfile(path)

    # SQLite itself

    @property
    def cursor(self) -> sqlite3.Cursor:
        """A cursor for statements of one's own; of a writer it is inside the transaction."""
        if not self.readonly:
            with self._source.changing():
                pass  # has begun one
        cursor = self._source.cursor()
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
        self._source.commit()
        connection = self._source.cursor().connection
        connection.execute(f"ATTACH DATABASE ? AS {name}", (f"file:{quote(os.path.abspath(path))}?mode={mode}",))
        try:
            yield
        finally:
            self._source.commit()
            connection.execute(f"DETACH DATABASE {name}")

    # Limits

    @property
    def shard_size_limit(self) -> int:
        """How large a shard may be."""
        return self._rows.number("SELECT value_int FROM config WHERE key = 'shard_size_limit'")

    @shard_size_limit.setter
    def shard_size_limit(self, value: int | str) -> None:
        if self.readonly:
            raise ValueError("Cannot set shard size limit on a read-only index")
        limit = misc.parse_size(value) if isinstance(value, str) else value
        if limit == self.shard_size_limit:
            return
        largest = max((self.logical_shard_end(shard) for shard in range(self.num_used_shards)), default=0)
        if limit < max(largest, 1):
            raise ValueError(
                f"Trying to set shard size limit as {limit}, which is smaller than the largest existing shard size "
                f"{largest}. Increase the shard size limit or re-shard the data first."
            )
        self._source.set_limit(limit)

    def find_space(self, path: BarecatFileInfo | str, size: int) -> BarecatFileInfo:
        """Where a file could be if it had another size: where it is, in the first gap, or in a new shard."""
        info = self._rows.file_of(path)
        if size <= (info.size or 0):
            return info
        limit, shard, end = self.shard_size_limit, -1, 0
        found = copy.copy(info)
        others = "SELECT shard, offset, offset + size FROM files WHERE path <> ? ORDER BY shard, offset"
        spans = [(row[0], row[1], row[2]) for row in self.fetch_iter(others, (info.path,))]
        following = next((o for s, o, _ in spans if s == info.shard and o >= (info.offset or 0)), limit)
        if following - (info.offset or 0) >= size:
            return info
        for next_shard, offset, next_end in [*spans, (spans[-1][0] + 1 if spans else 0, 0, 0)]:
            if shard >= 0 and (offset if next_shard == shard else limit) - end >= size:
                found.shard, found.offset = shard, end
                return found
            end = next_end if next_shard != shard else max(end, next_end)
            shard = next_shard
        found.shard, found.offset = self.num_used_shards, 0
        return found

    # Statistics

    def update_dirs(self) -> None:
        """Make the directories that files and directories lie in and that are missing."""
        needed: set[str] = {""}
        for row in self.fetch_iter("SELECT parent FROM files UNION SELECT parent FROM dirs WHERE path <> ''"):
            path = row[0]
            while path not in needed:
                needed.add(path)
                path = parent_of(path)
        with self._source.changing() as connection, triggers_off(connection):
            connection.executemany("INSERT OR IGNORE INTO dirs (path) VALUES (?)", [(path,) for path in sorted(needed)])

    def update_treestats(self) -> None:
        """Count files, directories and bytes of all directories anew."""
        totals = self._true_totals()
        paths = list(self.iter_all_dirpaths())
        with self._source.changing() as connection, triggers_off(connection):
            connection.executemany(
                "UPDATE dirs SET num_files = ?, num_subdirs = ?, num_files_tree = ?, size_tree = ? WHERE path = ?",
                [(*totals[path], path) for path in paths],
            )

    def _true_totals(self) -> defaultdict[str, list[int]]:
        """Of each directory: files and directories in it, files and bytes of its whole tree."""
        totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for parent, count, size in self.fetch_iter("SELECT parent, count(*), sum(size) FROM files GROUP BY parent"):
            totals[parent][0] = count
            path = parent
            while True:
                totals[path][2] += count
                totals[path][3] += size or 0
                if not path:
                    break
                path = parent_of(path)
        for parent, count in self.fetch_iter("SELECT parent, count(*) FROM dirs WHERE path <> '' GROUP BY parent"):
            totals[parent][1] = count
        return totals

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
        self._source.check_references(False)
        try:
            yield
        finally:
            self._source.check_references(was)

    @contextlib.contextmanager
    def no_triggers(self) -> Iterator[None]:
        """Inside, statistics of directories are not kept, and nobody checks that directories exist."""
        if not self._triggers_enabled:
            yield
            return
        with self.no_foreign_keys():
            self._changes.run(_SET_TRIGGERS, 0)
            try:
                yield
            finally:
                self._changes.run(_SET_TRIGGERS, 1)

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
        problems = [*file_problems(self._source.questions), *table_problems(self._source.questions)]
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
        from headrace.compat.barecat.maintenance.merge import merge_rows

        with Index(source_index_path) as source:
            merge_rows(source, self, ignore_duplicates=ignore_duplicates, prefix=prefix or "")

    def check_merge_conflicts(self, prefix: str) -> str:
        """Refuse what cannot be merged from the database that is attached as ``sourcedb``."""
        from headrace.compat.barecat.maintenance.merge import check_prefix

        check_prefix(self, prefix)
        quoted = prefix.replace("'", "''")
        path = f"CASE WHEN path = '' THEN '{quoted}' ELSE '{quoted}/' || path END" if prefix else "path"
        for ours, theirs, words in (
            ("dirs", "files", "Source file '{}' conflicts with target directory"),
            ("files", "dirs", "Source directory '{}' conflicts with target file"),
        ):
            query = f"SELECT {path} FROM sourcedb.{theirs} WHERE {path} IN (SELECT path FROM main.{ours}) LIMIT 1"
            found = self.fetch_one(query)
            if found is not None:
                raise ValueError(words.format(found[0]))
        return path

    # Life

    def optimize(self) -> None:
        """Let SQLite tidy up."""
        if not self.readonly:
            self._source.commit()
            connection = self._source.cursor().connection
            for statement in ("ANALYZE", "VACUUM", "PRAGMA optimize"):
                connection.execute(statement)

    def close(self) -> None:
        """Commit and let go of the file."""
        if not self.is_closed:
            self.is_closed = True
            self._source.close()

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
