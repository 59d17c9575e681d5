"""The index of an archive: what files there are, and where."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sqlite3
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from headrace.compat.barecat.core._connecting import ArchiveSource, FileReader, FileWriter, Source
from headrace.compat.barecat.core._writing import Writing
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import SCHEMA_VERSION_MAJOR, SCHEMA_VERSION_MINOR
from headrace.compat.barecat.util import misc
from headrace.formats.barecat.names import parent_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.compat.barecat.core.types import BarecatFileInfo
    from headrace.errors import PathLike
    from headrace.formats.barecat import Archive

__all__ = ["Index", "normalize_path"]

_logger = logging.getLogger(__name__)


class Index(Writing):
    """The SQLite index of an archive.

    Args:
        path: of the SQLite file, which is made if it is missing and not only read.
        shard_size_limit: of a new index; bytes, or text such as ``1G``.
        bufsize: kept for programs that pass it.
        readonly: refuse changes.
        wal: use SQLite's write-ahead log.
        readonly_is_immutable: kept for programs that pass it; look-ups make no system calls anyway.

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
        self.path = os.fspath(path)
        self.readonly = readonly
        self.is_closed = False
        self._source: Source = FileReader(self.path) if readonly else FileWriter(self.path, wal=wal)
        self._begin()
        if shard_size_limit is not None and not readonly:
            self.shard_size_limit = shard_size_limit

    @classmethod
    def of_archive(cls, archive: Archive, path: str) -> Self:
        """The index of an archive that is open."""
        index = cls.__new__(cls)
        index.path = path
        index.readonly = not archive.is_writable
        index.is_closed = False
        index._source = ArchiveSource(archive)
        index._begin()
        return index

    def _begin(self) -> None:
        _warn_of_version(self.path, self._source.version)
        if not self.readonly and not self._triggers_enabled:  # somebody was killed inside no_triggers()
            self._change("UPDATE config SET value_int = 1 WHERE key = 'use_triggers'")

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
        return int(self.fetch_one("SELECT value_int FROM config WHERE key = 'shard_size_limit'")[0])

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
        info = self._as_fileinfo(path)
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
        with self._source.changing() as connection, self._quietly(connection):
            connection.executemany("INSERT OR IGNORE INTO dirs (path) VALUES (?)", [(path,) for path in sorted(needed)])

    def update_treestats(self) -> None:
        """Count files, directories and bytes of all directories anew."""
        totals = self._true_totals()
        paths = [row[0] for row in self.fetch_iter("SELECT path FROM dirs")]
        with self._source.changing() as connection, self._quietly(connection):
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
        return bool(self.fetch_one("SELECT value_int FROM config WHERE key = 'use_triggers'")[0] == 1)

    @property
    def _foreign_keys_enabled(self) -> bool:
        return bool(self.fetch_one("PRAGMA foreign_keys")[0] == 1)

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
        change = "UPDATE config SET value_int = ? WHERE key = 'use_triggers'"
        with self.no_foreign_keys():
            self._change(change, 0)
            try:
                yield
            finally:
                self._change(change, 1)

    @contextlib.contextmanager
    def bulk_mode(
        self, drop_indexes: bool = False, update_dirs_at_end: bool = True, update_treestats_at_end: bool = True
    ) -> Iterator[None]:
        """Inside, rows are only stored; directories and statistics are made at the end.

        Args:
            drop_indexes: kept for programs that pass it; the indexes stay, which is faster.
            update_dirs_at_end: make directories that are missing.
            update_treestats_at_end: count everything anew.
        """
        with self.no_triggers():
            yield
        if update_dirs_at_end:
            self.update_dirs()
        if update_treestats_at_end:
            self.update_treestats()

    # Whole indexes

    def verify_integrity(self) -> bool:
        """Check the index against itself; what is wrong goes to the log."""
        try:
            problems = list(self._problems())
        except sqlite3.DatabaseError as error:
            problems = [f"the index cannot be read ({error})"]
        for problem in problems:
            _logger.error("%s: %s", self.path, problem)
        return not problems

    def _problems(self) -> Iterator[str]:
        for row in self.fetch_iter("PRAGMA integrity_check"):
            if row[0] != "ok":
                yield row[0]
        for row in self.fetch_iter("PRAGMA foreign_key_check"):
            yield f"a row of {row[0]} lies in a directory that is not there"
        for row in self.fetch_iter("SELECT path FROM dirs WHERE path IN (SELECT path FROM files)"):
            yield f"{row[0]} is both a file and a directory"
        if not self.isdir(""):
            yield "the root directory is not there"
        totals = self._true_totals()
        for path, *stored in self.fetch_iter(
            "SELECT path, num_files, num_subdirs, num_files_tree, size_tree FROM dirs"
        ):
            if stored != totals[path]:
                yield f"{path or 'the root'}: the statistics are {stored}, and should be {totals[path]}"

    def merge_from_other_barecat(
        self,
        source_index_path: str,
        ignore_duplicates: bool = False,
        prefix: str | None = None,
        update_treestats: bool = True,
    ) -> None:
        """Add the rows of another index, whose shards are counted on from those in use here.

        Raises:
            ValueError: a file of one is a directory of the other.
            FileExistsBarecatError: a file is there already, and duplicates are not ignored.
        """
        from headrace.compat.barecat.maintenance.merge import merge_rows

        with Index(source_index_path) as source:
            merge_rows(source, self, ignore_duplicates=ignore_duplicates, prefix=prefix or "")

    def check_merge_conflicts(self, prefix: str) -> str:
        """Refuse what cannot be merged from the database that is attached as ``sourcedb``.

        Returns:
            An SQL expression for the new path of a row.
        """
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

    def __exit__(self, *exc_info: Any) -> None:
        self.close()


def _warn_of_version(path: str, version: tuple[int, int]) -> None:
    current = (SCHEMA_VERSION_MAJOR, SCHEMA_VERSION_MINOR)
    if version == current:
        return
    texts = [".".join(map(str, one)) for one in (version, current)]
    archive = path.removesuffix("-sqlite-index")
    if version > current:
        words = f"Schema version {texts[0]} is newer than supported {texts[1]}. Some features may not work."
    else:
        words = f"Schema version is outdated ({texts[0]} < {texts[1]}). Consider: barecat upgrade {archive}"
    warnings.warn(words, stacklevel=4)
