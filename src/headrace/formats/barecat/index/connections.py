"""Connections to the index.

Contract: a reader's connections belong to one thread of one process each and are made when they are first needed, so
any number of threads and forked children may read; nobody has to say so. Where nobody is writing, the index is opened
as immutable: a look-up then makes no system call. If the index turns out to have changed since, ``refresh`` goes over
to connections that follow a writer, with SQLite's locks. A writer has one connection, used under its lock; a forked
child may not use it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from headrace.errors import ArchiveBusyError, ClosedError, FormatError
from headrace.formats.barecat.index.schema import check_version

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ReadConnections", "WriteConnection", "connect_still", "connect_writer", "translated"]

_CACHE_KIB = 65_536
_MAPPED_BYTES = 30 << 30
_BUSY_TIMEOUT_S = 5.0
_C = TypeVar("_C", bound=sqlite3.Connection)
_SYSTEM = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
}
_FATAL = (  # after these, SQLite may have ended the transaction, or undone a part of it
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_INTERRUPT,
)
_WRONG = (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError)
_forks = [0]  # counted in the child: tells inherited connections without asking for the process id each time
_abandoned: list[Any] = []  # connections inherited by fork: closing them could touch the parent's locks


def _count_fork() -> None:
    _forks[0] += 1


os.register_at_fork(after_in_child=_count_fork)


class _ReadConnection(sqlite3.Connection):
    """A connection that is closed when nobody has a cursor on it any more."""

    forks = -1

    def __del__(self) -> None:
        if self.forks not in (-1, _forks[0]):
            _abandoned.append(self)
            return
        with contextlib.suppress(sqlite3.ProgrammingError):  # one that could not be opened
            self.close()


class _WriteCursor(sqlite3.Cursor):
    """A cursor whose errors are ours, and which tells its connection of those that spoil a transaction."""

    connection: WriteConnection

    def execute(self, statement: str, values: Any = (), /) -> Self:
        """As SQLite's, apart from the errors."""
        try:
            return super().execute(statement, values)
        except sqlite3.IntegrityError:
            raise  # the caller knows which name is taken
        except _WRONG as error:
            raise self.connection.failed(error) from error

    def executemany(self, statement: str, values: Iterable[Any], /) -> Self:
        """As SQLite's, apart from the errors."""
        try:
            return super().executemany(statement, values)
        except sqlite3.IntegrityError:
            raise
        except _WRONG as error:
            raise self.connection.failed(error) from error


class WriteConnection(sqlite3.Connection):
    """The connection of a writer; what is wrong with the index or the disk comes out as our errors.

    ``loss`` is the error after which rows of the transaction may be missing, so that it must not be committed: where
    there is no space, say, SQLite may have ended it. ``is_ended`` tells that somebody has called ``commit`` or
    ``rollback`` on the connection itself.
    """

    path = ""
    loss: Exception | None = None
    is_ended = False

    def cursor(self, factory: type[sqlite3.Cursor] = _WriteCursor) -> sqlite3.Cursor:  # type: ignore[override]
        """A cursor that notes what goes wrong."""
        return super().cursor(factory)

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        """By such a cursor."""
        return super().cursor(_WriteCursor).execute(statement, values)

    def executemany(self, statement: str, values: Iterable[Any], /) -> sqlite3.Cursor:
        """By such a cursor."""
        return super().cursor(_WriteCursor).executemany(statement, values)

    def commit(self) -> None:
        """As SQLite's; the owner of the transaction is told."""
        super().commit()
        self.is_ended = True

    def rollback(self) -> None:
        """As SQLite's; the owner of the transaction is told."""
        super().rollback()
        self.is_ended = True

    def failed(self, error: Exception) -> Exception:
        """Note an error of SQLite, and give ours."""
        failure = translated(self.path, error)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if self.loss is None and code in _FATAL:
            self.loss = failure
        return failure


class ReadConnections:
    """Hands every thread its own cursor on an index that is only read.

    Args:
        path: the SQLite file.
        follow: use locks from the beginning, because somebody writes.
    """

    def __init__(self, path: str, *, follow: bool = False) -> None:
        self.path = path
        self._place = os.path.abspath(path)  # threads connect later, perhaps from another directory
        self._is_closed = False
        self._local = threading.local()
        self._seen = _signature(path)
        if self._seen[1] == 0:
            raise FormatError(path, problem="the index is an empty file", fix="Restore it from a copy.")
        self._is_immutable = not follow and not _is_under_way(path)
        try:
            self.version = check_version(path, self._checked_cursor().connection, is_writer=False)
        except sqlite3.DatabaseError as error:
            raise translated(path, error) from error

    @property
    def follows(self) -> bool:
        """The index may change, and the changes are seen."""
        return not self._is_immutable

    def cursor(self) -> sqlite3.Cursor:
        """The cursor of this thread; every call gives the same one."""
        try:
            cursor, forks = self._local.pair
            if forks == _forks[0]:
                return cursor  # type: ignore[no-any-return]
        except AttributeError:
            pass
        return self._checked_cursor()

    def new_cursor(self) -> sqlite3.Cursor:
        """A cursor of its own, for results that are fetched while others are asked for."""
        return self.cursor().connection.cursor()

    def refresh(self) -> bool:
        """Look whether the index was changed since it was opened; if so, follow the changes from now on."""
        if self._is_closed or not self._is_immutable or _signature(self._place) == self._seen:
            return False
        self._is_immutable = False
        self._local = threading.local()
        return True

    def close(self) -> None:
        """Let go of all connections: that of this thread at once, others when their threads are done with them."""
        self._is_closed = True
        cursor, forks = getattr(self._local, "pair", (None, -1))
        self._local = threading.local()
        if cursor is not None and forks == _forks[0]:
            cursor.connection.close()

    def _checked_cursor(self) -> sqlite3.Cursor:
        if self._is_closed:
            raise ClosedError(f"{self.path}: the archive is closed; open it again")
        try:
            connection = self._connect()
            cursor = connection.cursor()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a damaged schema can spoil the message, too
            raise translated(self.path, error) from error
        self._local.pair = (cursor, _forks[0])
        return cursor

    def _connect(self) -> sqlite3.Connection:
        if self._is_immutable:
            return _prepared(_open(self._place, "mode=ro&immutable=1", _ReadConnection))
        try:
            # Only a connection that may write can undo what a writer that was killed has left half done.
            return _prepared(_open(self._place, "mode=rw", _ReadConnection))
        except sqlite3.OperationalError:
            return _prepared(_open(self._place, "mode=ro", _ReadConnection))


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    if isinstance(connection, _ReadConnection):
        connection.forks = _forks[0]
    for pragma in (
        "query_only = 1",
        f"cache_size = -{_CACHE_KIB}",
        f"mmap_size = {_MAPPED_BYTES}",
        "temp_store = memory",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    return connection


def connect_writer(path: str, *, wal: bool, sync: bool) -> WriteConnection:
    """Open an index for changes, its constraints and triggers active; the file must exist."""
    _refuse_strange_files(path)
    try:
        connection = _open(path, "mode=rw", WriteConnection)
    except sqlite3.DatabaseError as error:
        raise translated(path, error) from error
    connection.path = path
    try:
        connection.execute("PRAGMA trusted_schema = 0")
        connection.execute("PRAGMA foreign_keys = 1")
        connection.execute("PRAGMA recursive_triggers = 1")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = memory")
        connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'OFF'}")
        if wal:
            connection.execute("PRAGMA journal_mode = wal").fetchone()
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def connect_still(path: str) -> WriteConnection:
    """Open an index that is in order, and that nobody else uses, for questions alone; nothing is written or locked."""
    try:
        connection = _open(path, "mode=ro&immutable=1", WriteConnection)
        connection.path = path
        connection.execute("PRAGMA trusted_schema = 0")
    except sqlite3.DatabaseError as error:
        raise translated(path, error) from error
    return connection


def _refuse_strange_files(path: str) -> None:
    """FormatError when SQLite would write to something else than files beside the index."""
    for file in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(file).st_mode):
                raise FormatError(
                    file,
                    problem="this is no regular file (a link, a pipe), so writing could change a file elsewhere",
                    fix="Delete it if it does not belong to the archive.",
                )


def _open(path: str, how: str, kind: type[_C]) -> _C:
    return sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?{how}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
        cached_statements=64,
    )


def translated(path: str, error: Exception) -> Exception:
    """What SQLite, or a value of the index, has to say, as one of our errors."""
    if isinstance(error, sqlite3.ProgrammingError):
        return ClosedError(f"{path}: the archive is closed; open it again")
    if isinstance(error, OverflowError):
        return ValueError(f"{path}: a number does not fit into the 64 bits that an index has for it")
    if isinstance(error, sqlite3.IntegrityError):
        return FormatError(
            path,
            problem=f"the index contradicts itself ({error})",
            fix="Nothing was changed; see what is wrong with: headrace verify",
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ArchiveBusyError(f"{path}: somebody else is writing to this archive ({error})")
    if code in _SYSTEM:
        return OSError(_SYSTEM[code], f"SQLite says: {error}", path)
    if code == sqlite3.SQLITE_NOTADB:
        return FormatError(
            path,
            problem="this is not an archive: its index is not an SQLite file",
            fix="ls, cat, extract, info, verify and convert take other formats, too; a damaged index needs a copy.",
        )
    return FormatError(
        path, problem=f"the index cannot be read ({error})", fix="Restore it from a copy; the shards may be fine."
    )


def _signature(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_under_way(path: str) -> bool:
    """A writer is at work, or was killed at it."""
    return any(os.path.exists(path + ending) and os.path.getsize(path + ending) for ending in ("-journal", "-wal"))
