"""Connections to the index.

Contract: a reader's connections belong to one thread of one process each and are made when they are first needed, so
any number of threads and forked children may read; nobody has to say so. They write nothing, and SQLite could not: what
would have to be rolled back first is an ``UnfinishedError``. Where nobody is writing, the index is opened as immutable:
a look-up then makes no system call. If the index turns out to have changed since, ``refresh`` goes over to connections
that follow a writer, with SQLite's locks. A writer has one connection, used under its lock; a forked child may not use
it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sqlite3
import stat
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from urllib.parse import quote

from headrace.errors import ArchiveBusyError, ClosedError, FormatError, UnfinishedError
from headrace.formats.barecat.index.schema import check_schema, check_version
from headrace.formats.barecat.names import archive_path, shard_path
from headrace.formats.barecat.unfinished import has_content, is_locked, journal_failure
from headrace.storage import check_regular, map_file, open_for_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "ReadConnections",
    "WriteConnection",
    "connect_still",
    "connect_writer",
    "limit_steps",
    "restrict",
    "translated",
]

_STILL = "mode=ro&immutable=1"
_FOLLOWING = "mode=ro&readonly_shm=1"  # the shared memory of a write-ahead log is neither made nor written
_CACHE_KIB = 65_536
_MAX_VALUE_BYTES = 1 << 20  # of a path, and of a statement
_STEPS = 100_000
_LEAST_STEPS = 5_000_000
_STEPS_FOR_BYTE = 50  # of the index: a check of everything takes about two
_BUSY_TIMEOUT_S = 5.0
_ATTEMPTS = 10
_PAUSE_S = 0.01
_PAGE_SIZE_AT = 16  # two bytes, the higher first; 1 stands for the largest
_MAX_PAGE_SIZE = 65_536
_SHM_HEAD = 48
_SHM_VERSION = 3_007_000
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
_NEEDS_WRITING = {  # what SQLite could only read after it had put the index in order
    sqlite3.SQLITE_READONLY_ROLLBACK: "-journal",
    sqlite3.SQLITE_READONLY_RECOVERY: "-wal",
    sqlite3.SQLITE_READONLY_CANTLOCK: "-wal",
    sqlite3.SQLITE_READONLY_CANTINIT: "-wal",
}
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
        return self._noted(super().execute, statement, values)

    def executemany(self, statement: str, values: Iterable[Any], /) -> Self:
        """As SQLite's, apart from the errors."""
        return self._noted(super().executemany, statement, values)

    def _noted(self, run: Callable[[str, Any], Self], statement: str, values: Any) -> Self:
        try:
            return run(statement, values)
        except sqlite3.IntegrityError:
            raise  # the caller knows which name is taken
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
        path: the SQLite file, as errors name it.
        place: where it is, if the path is a link or relative to a directory that may change.
        follow: use locks from the beginning, because somebody writes.
        on_replaced: called when another index has taken the name, before a cursor on that one is handed out.
    """

    def __init__(
        self,
        path: str,
        *,
        place: str | None = None,
        follow: bool = False,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._place = os.path.abspath(place or path)  # threads connect later, perhaps from another directory
        self._is_closed = False
        self._local = threading.local()
        self._on_replaced = on_replaced
        self._numbers = itertools.count(1)
        self.changes = 0
        """Another number each time that the index is found to be changed."""
        self._seen = _look(self._place)
        if self._seen.size == 0:  # SQLite would delete a journal beside it
            raise FormatError(path, problem="the index is an empty file", fix="Restore it from a copy.")
        self._is_still = not follow and not _is_under_way(self._place)
        try:
            self.version = check_version(path, self._new_pair()[0].connection, is_writer=False)
        except sqlite3.DatabaseError as error:
            raise self.failure(error) from error

    @property
    def follows(self) -> bool:
        """The index may change, and the changes are seen."""
        return not self._is_still

    def cursor(self) -> sqlite3.Cursor:
        """The cursor of this thread; every call gives the same one, until the index changes."""
        if not self._is_still:
            self.refresh()
        try:
            cursor, forks, meter = self._local.pair
            if forks == _forks[0]:
                meter.calls = 0
                return cursor  # type: ignore[no-any-return]
        except AttributeError:
            pass
        return self._new_pair()[0]

    def new_cursor(self) -> sqlite3.Cursor:
        """A cursor of its own, for results that are fetched while others are asked for."""
        return self.cursor().connection.cursor()

    def refresh(self) -> bool:
        """Look whether the index was changed since it was looked at last; if so, follow the changes from now on.

        Connections are made anew then: the name may belong to another file now, whose journal an old connection would
        take for its own.
        """
        if self._is_closed:
            return False
        try:
            now = _look(self._place)
        except FileNotFoundError:
            return False  # what was opened can still be read
        before = self._seen
        if now == before:
            return False
        if now.identity != before.identity:
            self._on_replaced()
        # In this order, so that another thread cannot ask by an old connection and then hear that nothing has changed.
        self._is_still = False
        self._local = threading.local()
        self.changes = next(self._numbers)  # another thread that counts at the same time gets another number
        self._seen = now
        return True

    def follow(self) -> None:
        """Use locks from now on, because somebody writes; every thread connects anew.

        An old connection that is in the middle of a listing would still see the index as it was when that began.
        """
        self._is_still = False
        self._local = threading.local()

    def _has_changed(self) -> bool:
        """A writer was at work since the index was looked at, though it may be done by now."""
        try:
            return _look(self._place) != self._seen
        except FileNotFoundError:
            return True

    def is_replaced(self) -> bool:
        """Another index has the name now, or none."""
        try:
            status = os.stat(self._place)
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._seen.identity

    def close(self) -> None:
        """Let go of all connections: that of this thread at once, others when their threads are done with them."""
        self._is_closed = True
        cursor, forks, _ = getattr(self._local, "pair", (None, -1, None))
        self._local = threading.local()
        if cursor is not None and forks == _forks[0]:
            cursor.connection.close()

    def failure(self, error: Exception) -> Exception:
        """What SQLite has to say, as one of our errors; what a writer is changing just now may look like damage."""
        shown = translated(self.path, error, self._place)
        if type(shown) is FormatError and (is_locked(shard_path(archive_path(self._place), 0)) or self._has_changed()):
            return ArchiveBusyError(f"{archive_path(self.path)}: somebody else is writing to this archive; try again")
        return shown

    def _new_pair(self) -> tuple[sqlite3.Cursor, int, _Meter]:
        if self._is_closed:
            raise ClosedError(f"{self.path}: the archive is closed; open it again")
        meter = _Meter(self._seen.size)
        for attempt in itertools.count(1):
            local = self._local  # of now: when the index turns out to be changed meanwhile, the connection is not kept
            try:
                connection = _prepared(_open(self._place, self._how(), _ReadConnection), self.path, meter)
                break
            except (FileNotFoundError, ArchiveBusyError, UnfinishedError):
                if not self._may_be_passing(local, attempt):
                    raise
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a damaged schema can spoil the message, too
                if _is_busy(error) or not self._may_be_passing(local, attempt):
                    raise self.failure(error) from error
            time.sleep(_PAUSE_S)
        local.pair = pair = connection.cursor(), _forks[0], meter
        return pair

    def _may_be_passing(self, local: threading.local, attempt: int) -> bool:
        """What failed may succeed in a moment: a writer opens, closes or replaces the index, its log or its memory."""
        return attempt < _ATTEMPTS and (self.refresh() or self.follows or self._local is not local)

    def _how(self) -> str:
        """How SQLite opens the index: never so that it could write, roll back or create anything."""
        if has_content(f"{self._place}-wal"):
            if not os.path.lexists(f"{self._place}-shm"):
                raise journal_failure(self._place, "-wal", self.path)
            has_content(f"{self._place}-shm")
            if not _is_shared_memory(f"{self._place}-shm"):
                raise journal_failure(self._place, "-wal", self.path)
            map_file(f"{self._place}-shm", nofollow=False)  # SQLite will: from now on, to cut it does not end us
            return _FOLLOWING
        if self._is_still:
            return _STILL
        if not _has_wal_mode(self._place):
            return _FOLLOWING
        # SQLite would create the log, and there is nothing in it. Its changes are seen from outside.
        if _is_hot(f"{self._place}-journal"):
            raise journal_failure(self._place, "-journal", self.path)
        return _STILL


class _Look(NamedTuple):
    """What changes when an index does."""

    identity: tuple[int, int]
    size: int
    mtime_ns: int
    log: tuple[int, int, int] | None


class _Meter:
    """Counts the steps of SQLite since the last question, and ends one that takes more than any good index can need.

    A tree of pages may lead to the same pages again and again: a small file can have more rows than could ever be read.
    """

    __slots__ = ("calls", "limit")

    def __init__(self, index_bytes: int) -> None:
        self.calls = 0
        self.limit = (_LEAST_STEPS + _STEPS_FOR_BYTE * index_bytes) // _STEPS

    def __call__(self) -> bool:
        self.calls += 1
        return self.calls > self.limit


def _prepared(connection: _ReadConnection, path: str, meter: _Meter) -> sqlite3.Connection:
    connection.forks = _forks[0]
    restrict(connection)
    connection.set_progress_handler(meter, _STEPS)
    for pragma in ("query_only = 1", f"cache_size = -{_CACHE_KIB}", "temp_store = memory"):
        connection.execute(f"PRAGMA {pragma}")
    check_schema(path, connection)
    return connection


def restrict(connection: sqlite3.Connection) -> None:
    """Let SQLite take nothing in the file on trust, and map nothing: a file that becomes shorter would end the process.

    To be called before anything else is asked.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    if hasattr(connection, "setconfig"):  # from Python 3.12 on
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    for pragma in ("trusted_schema = 0", "cell_size_check = 1", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")


def limit_steps(connection: sqlite3.Connection, index_bytes: int) -> None:
    """End a connection's questions when, all together, they take more steps than they could in a sound index."""
    connection.set_progress_handler(_Meter(index_bytes), _STEPS)


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
        connection = _open(path, _STILL, WriteConnection)
        connection.path = path
        restrict(connection)
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


def translated(path: str, error: Exception, place: str | None = None) -> Exception:
    """What SQLite, or a value of the index, has to say, as one of our errors.

    Args:
        path: as the error names it.
        error: what was raised.
        place: where the index is, if the path does not lead there.
    """
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
    whole_code = getattr(error, "sqlite_errorcode", 0)
    if whole_code in _NEEDS_WRITING:
        return journal_failure(place or path, _NEEDS_WRITING[whole_code], path)
    code = whole_code & 0xFF
    if _is_busy(error):
        return ArchiveBusyError(f"{path}: somebody else is writing to this archive ({error})")
    if whole_code == sqlite3.SQLITE_IOERR_SHORT_READ or (whole_code == sqlite3.SQLITE_IOERR and _is_cut(place or path)):
        error = RuntimeError("it ends in the middle of a page, so it was cut short")
    elif code in _SYSTEM:
        return OSError(_SYSTEM[code], f"SQLite says: {error}", path)
    if code == sqlite3.SQLITE_NOTADB:
        return FormatError(
            path,
            problem="this is not an archive: its index is not an SQLite file",
            fix="ls, cat, extract, info, verify and convert take other formats, too; a damaged index needs a copy.",
        )
    if code == sqlite3.SQLITE_INTERRUPT:
        error = RuntimeError("a question takes longer than it could in any sound index of this size")
    return FormatError(
        path, problem=f"the index cannot be read ({error})", fix="Restore it from a copy; the shards may be fine."
    )


def _is_busy(error: Exception) -> bool:
    """SQLite has waited for a lock in vain."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _look(place: str) -> _Look:
    status = check_regular(place, nofollow=False)
    try:
        log = os.lstat(f"{place}-wal")
    except FileNotFoundError:
        beside = None
    else:
        beside = (log.st_ino, log.st_size, log.st_mtime_ns) if log.st_size else None
    return _Look((status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns, beside)


def _is_under_way(place: str) -> bool:
    """A writer is at work, or was killed at it."""
    return any([has_content(f"{place}-journal"), has_content(f"{place}-wal")])  # both are looked at


def _is_hot(journal: str) -> bool:
    return has_content(journal) and _bytes_at(journal, 0, 1) != b"\0"


def _has_wal_mode(place: str) -> bool:
    return 2 in _bytes_at(place, 18, 2)


def _is_cut(place: str) -> bool:
    """The index ends in the middle of a page.

    SQLite calls that a disk error. Where it happens while the schema is read, it does not tell it from others.
    """
    try:
        page_size = int.from_bytes(_bytes_at(place, _PAGE_SIZE_AT, 2), "big")
        size = os.stat(place).st_size
    except (OSError, FormatError):
        return False
    return page_size != 0 and size % (_MAX_PAGE_SIZE if page_size == 1 else page_size) != 0


def _is_shared_memory(file: str) -> bool:
    """The two heads of a log's shared memory agree; with one of noise, SQLite would try for ten seconds."""
    for _ in range(_ATTEMPTS):
        heads = _bytes_at(file, 0, 2 * _SHM_HEAD)
        first = heads[:_SHM_HEAD]
        if first == heads[_SHM_HEAD:] and int.from_bytes(first[:4], sys.byteorder) == _SHM_VERSION:
            return True
        time.sleep(_PAUSE_S)  # a writer may be between the two
    return False


def _bytes_at(file: str, offset: int, size: int) -> bytes:
    fd = open_for_reading(file, nofollow=False)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)
