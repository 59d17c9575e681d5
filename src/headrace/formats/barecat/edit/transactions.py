"""An archive that is open for writing: shards, index, and the transaction that keeps both in step.

Contract: any number of threads may call; a lock lets one at a time in. Bytes go to the shards first, then the rows
into a transaction; ``commit`` puts the bytes on the disk before it ends the transaction, so a row that survives a crash
names bytes that did, too. It runs by itself after so many files or bytes, and on ``close``. What a crash can take is
what came after the last commit, and never anything older: see ``shard_writer`` and ``undo``.

Whatever goes wrong in the middle of a change (``whole``), Ctrl-C included, ends the transaction: everything since the
last commit is undone at once, rows and bytes, and nothing more can be changed until the archive is opened again. Only
changes to rows alone (``changing``) are taken back one by one. Where even that fails, the files that can undo it stay,
and the error names ``headrace repair``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import ArchiveBusyError, ClosedError, FormatError, UnfinishedError, WriteError
from headrace.formats.barecat.edit.index_file import is_index_missing, open_index
from headrace.formats.barecat.edit.recovery import recover, unfinished_files
from headrace.formats.barecat.edit.shard_writer import ShardWriter
from headrace.formats.barecat.edit.undo import UndoLog, read_user_version
from headrace.formats.barecat.index.connections import connect_writer, translated
from headrace.formats.barecat.index.queries import Index
from headrace.formats.barecat.index.row_queue import FileQueue
from headrace.formats.barecat.index.schema import UNLIMITED
from headrace.formats.barecat.names import index_path, place_of, shard_numbers, shard_path, undo_path
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

__all__ = ["Transactions", "WriteOptions"]

_COMMIT_FILES = 20_000
_COMMIT_BYTES = 256 << 20
_QUEUED_FILES = 5000
_LOST = "what was not committed is lost, close the archive and open it again"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAKE_ROOM = "the archive is as it was at its last commit; make room, and do the rest again"


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

    def __post_init__(self) -> None:
        if self.shard_size is not None:
            check_limit(self.shard_size)


def check_limit(shard_size: int) -> None:
    """ValueError for a limit of shards that an index cannot hold."""
    if not 1 <= shard_size <= UNLIMITED:
        raise ValueError(f"shard_size must be from 1 to {UNLIMITED}, got {shard_size}")


class _Whole:
    """A block that happens as a whole: an error in it undoes everything since the last commit."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Transactions) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._owner.fail(error)


class Transactions:
    """An archive open for writing: its shards, its index, and the running transaction.

    Index and first shard are made if they are missing.
    """

    def __init__(self, path: str, options: WriteOptions) -> None:
        self._is_closed = True  # until everything is open
        self.path = path
        self.full_path = place_of(path, follow_links=options.allow_links)
        recover(self.full_path)
        self.lock = threading.RLock()
        self.is_append_only = options.is_append_only
        self._is_synced = options.is_synced
        self._process = os.getpid()
        self._uncommitted_files = self._uncommitted_bytes = 0
        self.largest: int | None = None  # of all files, while only files were added since it was looked up
        self._failure: Exception | None = None
        self._has_begun = self._is_ending = self._is_hidden = False
        self.whole = _Whole(self)
        first = shard_path(self.full_path, 0)
        is_missing = not os.path.lexists(first)  # the shard writer creates it, to lock it
        self.shards = ShardWriter(
            self.full_path, is_synced=options.is_synced, allow_links=options.allow_links, commit=self.commit
        )
        try:
            if unfinished_files(self.full_path):
                raise ArchiveBusyError(f"{self.path}: another writer was killed just now; try again")
            _refuse_lost_index(self.full_path)
            self.connection = open_index(
                index_path(self.full_path),
                wal=options.wal,
                is_synced=options.is_synced,
                limit=options.shard_size,
                like=first,
            )
            self._index_status = os.stat(index_path(self.full_path))
            self._refuse_missing_shards({0} if is_missing else set())
        except BaseException:
            if hasattr(self, "connection"):
                self.connection.close()
            if is_missing:
                os.unlink(first)
            self.shards.close()
            raise
        self.undo = UndoLog(self.full_path, self.connection, is_synced=options.is_synced)
        self.queue = FileQueue(path, self.connection)
        self.index = Index(path, self._cursor, self._cursor)
        self._is_closed = False
        try:
            self.limit = self.index.config("shard_size_limit") or UNLIMITED
            if options.shard_size not in (None, self.limit):
                self.set_limit(options.shard_size)
        except BaseException:
            self.close()
            raise

    def show_as(self, path: str) -> None:
        """Let errors say another path: that of an archive which has not got its name yet."""
        self._is_hidden = True  # nothing of it is kept when something goes wrong, and ``handover`` says so
        self.path = self.queue.path = self.connection.path = self.index.path = path

    def _refuse_missing_shards(self, just_made: set[int]) -> None:
        there = set(shard_numbers(self.full_path)) - just_made
        try:
            found = [shard for (shard,) in self.connection.execute("SELECT DISTINCT shard FROM files WHERE size > 0")]
        except sqlite3.DatabaseError as error:
            raise translated(index_path(self.full_path), error) from error
        missing = next((shard for shard in found if shard not in there), None)
        if missing is not None:
            problem = f"shard {missing} is missing, and files lie in it"
            raise FormatError(self.path, problem=problem, fix="Put it back, or see what is left with: headrace verify")

    def set_limit(self, limit: int) -> None:
        """Change the limit of shards; it must hold for those there are."""
        check_limit(limit)
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
        if self.is_append_only and not is_addition:
            raise PermissionError(f"{self.path} is open for appending only; what is there cannot be changed")
        if not self.connection.in_transaction:
            self._refuse_ended()
            self.connection.execute("BEGIN IMMEDIATE")
        self._has_begun = True

    def _refuse_ended(self) -> None:
        """A transaction that ran, and does not any more, has lost what was in it, unless somebody else ended it."""
        if not self._has_begun:
            return
        self._is_ending = True
        if self.undo.is_active or not self.connection.is_ended:
            with self.whole:
                raise OSError(errno.EIO, "SQLite has ended the transaction", index_path(self.full_path))

    def _cursor(self) -> sqlite3.Cursor:
        with self.lock:
            self._check_open()
            self._check_whole()
            if len(self.queue):
                with self.whole:
                    self.queue.flush()
        return self.connection.cursor()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.path}: the archive is closed; open it again")

    def _check_whole(self) -> None:
        if self._failure is None and self.connection.loss is not None:
            self.fail(self.connection.loss)
        if self._failure is not None:
            raise self._failure

    @property
    def is_whole(self) -> bool:
        """Nothing has gone wrong so far."""
        return self._failure is None and self.connection.loss is None

    def fail(self, error: BaseException) -> None:
        """After an error in the middle of a change: undo everything since the last commit.

        Raises what the error means for users, if they should not see the error itself.
        """
        known = self._known(error)
        shown = self._with_remedy(known)
        if self._failure is None:
            self._failure = self._later_failure(known)
            try:
                self._put_back()
            except Exception as second:
                left = next(iter(unfinished_files(self.full_path)), undo_path(self.full_path))
                raise UnfinishedError(
                    self.path, left=left, problem=f"{shown}; and what was changed could not be put back ({second})"
                ) from error
        if shown is not error:
            raise shown from error

    def _known(self, error: BaseException) -> BaseException:
        """The error as one that users know."""
        if isinstance(error, MemoryError):
            return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), self.path)
        return translated(self.path, error) if isinstance(error, sqlite3.Error | OverflowError) else error

    def _with_remedy(self, error: BaseException) -> BaseException:
        """On a full disk, the same about the archive instead of one of its files, with what to do."""
        if self._is_hidden or not isinstance(error, OSError) or error.errno not in _NO_ROOM:
            return error
        return type(error)(error.errno, f"{error.strerror}; {_MAKE_ROOM}", self.path)

    def _later_failure(self, error: BaseException) -> Exception:
        """What later calls raise."""
        if isinstance(error, OSError) and error.errno is not None:
            filename = self.path if error.errno in _NO_ROOM and not self._is_hidden else error.filename or self.path
            return type(error)(error.errno, f"{error.strerror}; {_LOST}", filename)
        problem = str(error) or type(error).__name__
        return WriteError(f"{self.path}: a change was broken off ({problem.rstrip('.')}); {_LOST}")

    def _put_back(self) -> None:
        """Let everything be as it was at the last commit."""
        self.queue.clear()
        self.connection.close()  # rolls back
        if not self._has_begun:
            self.shards.give_up({})
            return
        ends: dict[int, int] = {}
        is_committed = False
        if self._is_in_place():
            version, ends = self._look_up()
            is_committed = self.undo.is_active and self.undo.version != version
        elif self._is_ending:
            raise FormatError(self.path, problem="the index is not where it was, so it cannot be asked")
        if not is_committed:
            self.undo.put_back(self.shards.write_back)
        self.shards.give_up(ends)
        self.undo.clear()

    def _look_up(self) -> tuple[int, dict[int, int]]:
        """The version of the index, and if a commit may have succeeded that failed, where files of each shard end."""
        with contextlib.closing(connect_writer(index_path(self.full_path), wal=False, sync=self._is_synced)) as index:
            version = read_user_version(index)
            if not self._is_ending:
                return version, {}
            question = "SELECT shard, max(offset + size) FROM files GROUP BY shard"
            return version, dict(index.execute(question).fetchall())

    def _is_in_place(self) -> bool:
        """The index is still the file that was opened."""
        try:
            return os.path.samestat(self._index_status, os.stat(index_path(self.full_path)))
        except FileNotFoundError:
            return False

    def commit(self) -> None:
        """Put everything so far on the disk."""
        with self.lock:
            self._check_open()
            self._commit()

    def _commit(self) -> None:
        self._check_whole()
        with self.whole:
            self.queue.flush()
            self.shards.sync()
            if not self._is_in_place():
                raise ArchiveBusyError(f"{self.path}: another archive has taken this name while it was written to")
        if self.connection.in_transaction:
            self._end_transaction()
        else:
            self._refuse_ended()
        self._has_begun = self._is_ending = self.connection.is_ended = False
        self.undo.clear()
        self.shards.committed()
        self._uncommitted_files = self._uncommitted_bytes = 0

    def _end_transaction(self) -> None:
        self._is_ending = True
        try:
            self.connection.execute("COMMIT")
        except ArchiveBusyError as error:
            raise ArchiveBusyError(
                f"{self.path}: the changes cannot be committed ({error}); they are kept, try again"
            ) from error
        except BaseException as error:
            self.fail(error)
            raise

    def close(self) -> None:
        """Commit and let go of all files."""
        with self.lock:
            if self._is_closed:
                return
            self._is_closed = True
            if os.getpid() != self._process:
                return
            try:
                if self.is_whole:
                    self._commit_last()
                elif self._failure is None:
                    self._check_whole()
            finally:
                self.connection.close()
                self.undo.close()
                self.shards.close()

    def _commit_last(self) -> None:
        with self.whole:
            self._commit()
        with contextlib.suppress(OSError, FormatError):  # everything is committed
            self.connection.execute("PRAGMA optimize")

    def __del__(self) -> None:
        # A writer that nobody has closed: what it has overwritten goes back, so that the archive can be read.
        if not getattr(self, "_is_closed", True) and self.undo.is_active and os.getpid() == self._process:
            with contextlib.suppress(Exception):
                self._put_back()

    def count(self, size: int) -> None:
        """Count a change of so many bytes; after many of them, commit."""
        self._uncommitted_files += 1
        self._uncommitted_bytes += size
        if len(self.queue) >= _QUEUED_FILES:
            with self.whole:
                self.queue.flush()
        if self._uncommitted_files >= _COMMIT_FILES or self._uncommitted_bytes >= _COMMIT_BYTES:
            self.commit()

    def execute(self, statement: str, *arguments: object) -> None:
        """Run a statement inside the transaction."""
        with self.changing() as connection:
            connection.execute(statement, arguments)

    def execute_many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run a statement for many rows inside the transaction."""
        with self.changing() as connection:
            connection.executemany(statement, rows)

    @contextlib.contextmanager
    def changing(self, *, is_addition: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection inside the transaction, for changes to rows; an error takes those of the block back."""
        with self.lock:
            self.begin(is_addition=is_addition)
            self.largest = None
            with self.whole:
                self.queue.flush()
                self.connection.execute("SAVEPOINT changing")
            try:
                yield self.connection
            except BaseException as error:
                self._take_back(error)
                raise
            finally:
                self.queue.forget_dirs()
            with self.whole:
                self.connection.execute("RELEASE changing")
            self.count(0)

    def _take_back(self, error: BaseException) -> None:
        """Undo what the block of ``changing`` has done; everything if that is not certain."""
        if not self.is_whole or not self.connection.in_transaction:
            self.fail(error)
            return
        with self.whole:
            self.connection.execute("ROLLBACK TO changing")
            self.connection.execute("RELEASE changing")

    def check_references(self, is_on: bool) -> None:
        """Commit, and from then on check or do not check that directories exist."""
        with self.lock:
            self.commit()
            self.connection.execute(f"PRAGMA foreign_keys = {int(is_on)}")


def _refuse_lost_index(path: str) -> None:
    """FormatError when there are bytes in the shards, and no index that says what they are."""
    sizes = [os.path.getsize(shard_path(path, number)) for number in shard_numbers(path)]
    if any(sizes) and is_index_missing(index_path(path)):
        shards, held = format_count(len(sizes), "shard"), format_count(sum(sizes), "byte")
        raise FormatError(
            index_path(path),
            problem=f"there is no index, but {shards} with {held}",
            fix="Restore the index from a copy, or remove the shards.",
        )
