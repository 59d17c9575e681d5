"""An index that is written without an archive around it."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from headrace.formats.barecat.index import queries
from headrace.formats.barecat.index.connections import connect_writer
from headrace.formats.barecat.index.schema import UNLIMITED, VERSION, check_version, create_schema

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

__all__ = ["IndexFile"]


class IndexFile:
    """What an open ``Archive`` and its editor are to an index, for an index file alone; it is made if it is missing."""

    version = VERSION

    def __init__(self, path: str, *, wal: bool) -> None:
        self._lock = threading.RLock()
        is_new = not os.path.exists(path) or os.path.getsize(path) == 0
        if is_new:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        self._connection = connect_writer(path, wal=wal, sync=True)
        try:
            if is_new:
                create_schema(self._connection, shard_size_limit=UNLIMITED)
            check_version(path, self._connection, is_writer=True)
        except BaseException:
            self._connection.close()
            raise
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
