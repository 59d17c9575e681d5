"""The index as a file that is written: opened or made, for an archive or without one around it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from typing import TYPE_CHECKING

from headrace.formats.barecat.index import queries
from headrace.formats.barecat.index.connections import connect_writer, translated
from headrace.formats.barecat.index.schema import UNLIMITED, VERSION, check_version, create_schema
from headrace.storage.atomic import AtomicFile
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat.index.connections import WriteConnection

__all__ = ["IndexFile", "is_index_missing", "open_index"]


def is_index_missing(file: str) -> bool:
    """There is no index yet, or an empty file that will be one."""
    return not os.path.exists(file) or os.path.getsize(file) == 0


def open_index(
    file: str, *, wal: bool, is_synced: bool = True, limit: int | None = None, like: str | None = None
) -> WriteConnection:
    """Open an index for changes; it is made if it is missing.

    Args:
        file: the SQLite file.
        wal: use SQLite's write-ahead log.
        is_synced: wait for the disk.
        limit: of the shards, for a new one.
        like: a file whose permissions a new one takes over; by default the umask decides.
    """
    if is_index_missing(file):
        _create(file, limit or UNLIMITED, is_synced, like)
    os.close(open_own(file, os.O_RDWR))
    connection = connect_writer(file, wal=wal, sync=is_synced)
    try:
        check_version(file, connection, is_writer=True)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise translated(file, error) from error
        raise
    return connection


def _create(file: str, limit: int, is_synced: bool, like: str | None) -> None:
    """Make an index without files, in one step: half of one could neither be read nor repaired."""
    if os.path.lexists(file):  # an empty file
        os.close(open_own(file, os.O_RDWR))  # and no link
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection, shard_size_limit=limit)
        data = connection.serialize()
    with AtomicFile(file, like=like, is_synced=is_synced) as new:
        new.write([data])


class IndexFile:
    """What an open ``Archive`` and its editor are to an index, for an index file alone."""

    version = VERSION

    def __init__(self, path: str, *, wal: bool) -> None:
        self._lock = threading.RLock()
        self._connection = open_index(path, wal=wal)
        self.index = queries.Index(path, self._connection.cursor, self._connection.cursor)

    @property
    def editor(self) -> IndexFile:
        """It is always written."""
        return self

    def refresh(self) -> bool:
        """Nobody else writes to it."""
        return False

    @contextlib.contextmanager
    def changing(self, *, is_addition: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection inside a transaction, which ``commit`` ends."""
        with self._lock:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    def check_references(self, is_on: bool) -> None:
        """Commit, and from then on check or do not check that directories exist."""
        with self._lock:
            self.commit()
            self._connection.execute(f"PRAGMA foreign_keys = {int(is_on)}")

    def set_limit(self, limit: int) -> None:
        """Change the limit of shards."""
        with self.changing() as connection:
            connection.execute("UPDATE config SET value_int = ? WHERE key = 'shard_size_limit'", (limit,))

    def commit(self) -> None:
        """Put everything on the disk."""
        with self._lock:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def close(self) -> None:
        """Commit and let go of the file."""
        with self._lock:
            self.commit()
            self._connection.execute("PRAGMA optimize")
            self._connection.close()
