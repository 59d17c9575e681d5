"""Where an index gets its connection from: an archive that is open, or a file of its own."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, TypeAlias

from headrace.compat.barecat.exceptions import translated
from headrace.formats.barecat.index import queries
from headrace.formats.barecat.index.connections import ReadConnections, connect_writer
from headrace.formats.barecat.index.schema import UNLIMITED, check_version, create_schema

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from headrace.formats.barecat import Archive

__all__ = ["ArchiveSource", "FileSource", "Source"]


class ArchiveSource:
    """The index of an archive that is open; the archive closes it."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.version = archive.version
        self.questions = archive.index

    def cursor(self) -> sqlite3.Cursor:
        """A cursor that sees everything written so far."""
        self._archive.refresh()
        return self._archive.index.cursor()

    def changing(self) -> AbstractContextManager[sqlite3.Connection]:
        """The connection inside a transaction."""
        return self._archive.editor.changing(is_addition=True)

    def check_references(self, is_on: bool) -> None:
        """Commit, and from then on check or do not check that directories exist."""
        self._archive.editor.check_references(is_on)

    def set_limit(self, limit: int) -> None:
        """Change the limit of shards."""
        self._archive.editor.set_limit(limit)

    def commit(self) -> None:
        """Put everything on the disk."""
        self._archive.commit()

    def close(self) -> None:
        """Let go of what belongs to the index alone: nothing."""


class FileSource:
    """An index file without an archive around it."""

    def __init__(self, path: str, *, readonly: bool, wal: bool) -> None:
        self._lock = threading.RLock()
        self._readers: ReadConnections | None = None
        with translated():
            if readonly:
                self._readers = _open_readers(path)
                self.version = self._readers.version
                self.questions = queries.Index(path, self._readers.cursor, self._readers.new_cursor)
            else:
                self._connection, self.version = _open_writer(path, wal=wal)
                self.questions = queries.Index(path, self.cursor, self.cursor)

    def cursor(self) -> sqlite3.Cursor:
        """A cursor that sees everything written so far."""
        if self._readers is None:
            return self._connection.cursor()
        self._readers.refresh()
        return self._readers.new_cursor()

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """The connection inside a transaction, which ``commit`` ends."""
        if self._readers is not None:
            raise PermissionError("This index is open for reading only; open it with readonly=False")
        with self._lock:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    def check_references(self, is_on: bool) -> None:
        """Commit, and from then on check or do not check that directories exist."""
        with self.changing() as connection:
            self.commit()
            connection.execute(f"PRAGMA foreign_keys = {int(is_on)}")

    def set_limit(self, limit: int) -> None:
        """Change the limit of shards."""
        with self.changing() as connection:
            connection.execute("UPDATE config SET value_int = ? WHERE key = 'shard_size_limit'", (limit,))

    def commit(self) -> None:
        """Put everything on the disk."""
        with self._lock:
            if self._readers is None and self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def close(self) -> None:
        """Commit and let go of the file."""
        if self._readers is not None:
            self._readers.close()
            return
        with self._lock:
            self.commit()
            self._connection.execute("PRAGMA optimize")
            self._connection.close()


def _open_readers(path: str) -> ReadConnections:
    if not os.path.exists(path):
        raise FileNotFoundError(f"Index file {path} does not exist, so cannot be opened in readonly mode.")
    return ReadConnections(path)


def _open_writer(path: str, *, wal: bool) -> tuple[sqlite3.Connection, tuple[int, int]]:
    is_new = not os.path.exists(path) or os.path.getsize(path) == 0
    if is_new:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    connection = connect_writer(path, wal=wal, sync=True)
    try:
        if is_new:
            create_schema(connection, shard_size_limit=UNLIMITED)
        return connection, check_version(path, connection, is_writer=True)
    except BaseException:
        connection.close()
        raise


Source: TypeAlias = ArchiveSource | FileSource
