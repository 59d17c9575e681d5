"""An archive that is open for writing: shards, index, and the transaction that keeps both in step.

Contract: any number of threads may call; a lock lets one at a time in. Bytes go to the shards first, then the rows
into a transaction; ``commit`` puts the bytes on the disk before it ends the transaction, so a row that survives a crash
names bytes that did, too. It runs by itself after so many files or bytes, and on ``close``. What a crash can take is
what came after the last commit, and never anything older: see ``shard_writer`` and ``undo``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import ArchiveBusyError, ClosedError, FormatError
from headrace.formats.barecat.edit.shard_writer import ShardWriter
from headrace.formats.barecat.edit.undo import UndoLog, recover
from headrace.formats.barecat.index.connections import connect_writer, translated
from headrace.formats.barecat.index.queries import Index
from headrace.formats.barecat.index.row_queue import FileQueue
from headrace.formats.barecat.index.schema import UNLIMITED, check_version, create_schema
from headrace.formats.barecat.names import index_path, shard_numbers, shard_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat.index.connections import WriteConnection

__all__ = ["Transactions", "WriteOptions"]

_COMMIT_FILES = 20_000
_COMMIT_BYTES = 256 << 20
_QUEUED_FILES = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """How an archive is written.

    Args:
        shard_size: limit of new shards; None keeps what the archive has.
        is_synced: wait for the disk at every commit.
        wal: use SQLite's write-ahead log.
        allow_links: also write to shards that are symbolic links.
        is_append_only: refuse everything but new files and directories.
    """

    shard_size: int | None = None
    is_synced: bool = True
    wal: bool = False
    allow_links: bool = False
    is_append_only: bool = False


class Transactions:
    """An archive open for writing: its shards, its index, and the running transaction.

    Index and first shard are made if they are missing.
    """

    def __init__(self, path: str, options: WriteOptions) -> None:
        self.path = path
        self.full_path = os.path.abspath(path)  # shards are begun later, perhaps in another current directory
        recover(self.full_path)
        self.lock = threading.RLock()
        self._is_append_only = options.is_append_only
        self._process = os.getpid()
        self._uncommitted_files = self._uncommitted_bytes = 0
        self._is_closed = False
        first = shard_path(self.full_path, 0)
        is_missing = not os.path.lexists(first)  # the shard writer creates it, to lock it
        self.shards = ShardWriter(
            self.full_path, is_synced=options.is_synced, allow_links=options.allow_links, commit=self.commit
        )
        try:
            self.connection = _open_index(self.full_path, options)
            self._refuse_missing_shards({0} if is_missing else set())
        except BaseException:
            if is_missing:
                os.unlink(first)
            self.shards.close()
            raise
        self.undo = UndoLog(self.full_path, self.connection, is_synced=options.is_synced)
        self.queue = FileQueue(path, self.connection)
        self.index = Index(path, self._cursor, self._cursor)
        self.limit = self.index.config("shard_size_limit") or UNLIMITED
        try:
            if options.shard_size not in (None, self.limit):
                self.set_limit(options.shard_size)
        except BaseException:
            self.close()
            raise

    def show_as(self, path: str) -> None:
        """Let errors say another path: that of an archive which has not got its name yet."""
        self.path = self.queue.path = self.connection.path = self.index.path = path

    def _refuse_missing_shards(self, just_made: set[int]) -> None:
        there = set(shard_numbers(self.full_path)) - just_made
        try:
            found = [shard for (shard,) in self.connection.execute("SELECT DISTINCT shard FROM files WHERE size > 0")]
            missing = next((shard for shard in found if shard not in there), None)
            if missing is not None:
                raise FormatError(
                    self.path,
                    problem=f"shard {missing} is missing, and files lie in it",
                    fix="Put it back, or see what is left with: headrace verify",
                )
        except BaseException as error:
            self.connection.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise translated(index_path(self.full_path), error) from error
            raise

    def set_limit(self, limit: int) -> None:
        """Change the limit of shards; it must hold for those there are."""
        with self.lock:
            self.begin(is_addition=True)
            largest = max((self.shards.end(n) for n in shard_numbers(self.full_path)), default=0)
            if limit < largest:
                raise ValueError(
                    f"shard_size must be at least {largest}, the size of the largest shard, got {limit}; "
                    "make them smaller with: headrace reshard"
                )
            self.connection.execute("UPDATE config SET value_int = ? WHERE key = 'shard_size_limit'", (limit,))
            self.limit = limit

    def begin(self, *, is_addition: bool = False) -> None:
        """Make sure that a transaction runs, and that it may change what is there or at least add to it."""
        self._check_open()
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self.path} was opened for writing by another process (this one was forked from it); "
                "open it again here, after the other has closed it"
            )
        self._check_whole()
        if self._is_append_only and not is_addition:
            raise PermissionError(f"{self.path} is open for appending only; what is there cannot be changed")
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    def _cursor(self) -> sqlite3.Cursor:
        with self.lock:
            self._check_open()
            if len(self.queue):
                self.queue.flush()
        return self.connection.cursor()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.path}: the archive is closed; open it again")

    @property
    def _failure(self) -> Exception | None:
        """Why rows or bytes of the transaction are missing, if so: nothing more can be committed."""
        return self.shards.failure or self.connection.loss

    def _check_whole(self) -> None:
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """Put everything so far on the disk."""
        with self.lock:
            self._check_open()
            self._commit()

    def _commit(self) -> None:
        with self.lock:
            self._check_whole()
            self.queue.flush()
            self.shards.sync()
            if self.connection.in_transaction:
                try:
                    self.connection.execute("COMMIT")
                except ArchiveBusyError as error:
                    raise ArchiveBusyError(
                        f"{self.path}: the changes cannot be committed ({error}); they are kept, try again"
                    ) from error
            self.undo.clear()
            self.shards.committed()
            self._uncommitted_files = self._uncommitted_bytes = 0

    def close(self) -> None:
        """Commit and let go of all files."""
        with self.lock:
            if self._is_closed:
                return
            self._is_closed = True
            if os.getpid() != self._process:
                return
            try:
                if self._failure is None:
                    self._commit()
                    self.connection.execute("PRAGMA optimize")
            finally:
                self.connection.close()  # rolls back what was not committed
                if self._failure is not None:
                    self.shards.give_up()
                self.shards.close()
            recover(self.full_path)  # after a failure, bytes may have to be put back

    def count(self, size: int) -> None:
        """Count a change of so many bytes; after many of them, commit."""
        self._uncommitted_files += 1
        self._uncommitted_bytes += size
        if len(self.queue) >= _QUEUED_FILES:
            self.queue.flush()
        if self._uncommitted_files >= _COMMIT_FILES or self._uncommitted_bytes >= _COMMIT_BYTES:
            self.commit()

    def execute(self, statement: str, *arguments: object) -> None:
        """Run a statement inside the transaction."""
        with self.lock:
            self.begin()
            self._cursor().execute(statement, arguments)
            self.queue.forget_dirs()  # whatever it was

    @contextlib.contextmanager
    def changing(self, *, is_addition: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection inside the transaction, for changes to the index that this class does not know."""
        with self.lock:
            self.begin(is_addition=is_addition)
            self.queue.flush()
            try:
                yield self.connection
            finally:
                self.queue.forget_dirs()
            self.count(0)

    def check_references(self, is_on: bool) -> None:
        """Commit, and from then on check or do not check that directories exist."""
        with self.lock:
            self.commit()
            self.connection.execute(f"PRAGMA foreign_keys = {int(is_on)}")


def _open_index(path: str, options: WriteOptions) -> WriteConnection:
    file = index_path(path)
    is_new = not os.path.exists(file) or os.path.getsize(file) == 0
    if is_new:
        sizes = [os.path.getsize(shard_path(path, number)) for number in shard_numbers(path)]
        if any(sizes):
            raise FormatError(
                file,
                problem=f"there is no index, but {len(sizes)} shards hold {sum(sizes)} bytes",
                fix="Restore the index from a copy, or remove the shards.",
            )
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    connection = connect_writer(file, wal=options.wal, sync=options.is_synced)
    try:
        if is_new:
            create_schema(connection, shard_size_limit=options.shard_size or UNLIMITED)
        check_version(file, connection, is_writer=True)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise translated(file, error) from error
        raise
    return connection
