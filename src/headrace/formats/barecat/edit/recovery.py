"""Putting an archive in order that a killed writer has left.

Contract: this happens when somebody opens the archive for writing, or asks for it (``headrace repair``), and never when
it is read. Nothing beside an archive is believed, for it may come from anybody:

- Files are opened below the descriptor of their folder, without following links or waiting; they must be regular files
  that belong to the owner of the index or to us, and have no other names.
- A journal is rolled back in a copy of the index. One that names a super-journal, which SQLite would delete, or that
  belongs to another database is refused. The copy takes the place of the index only when it is sound.
- The bytes of ``X-undo`` go back only where files of the archive are, and into shards that have them. They are saved
  first, and put back if a file whose checksum was right before has a wrong one afterwards.

Until everything is checked, nothing is changed. Every step may be done twice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import struct
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace._native import crc32c_file
from headrace.errors import ArchiveBusyError, FormatError, UnfinishedError
from headrace.formats.barecat.edit.handover import finish_handover, making, remove_hidden
from headrace.formats.barecat.edit.lock import lock_archive, sync_directory
from headrace.formats.barecat.edit.undo import read_undo_records, read_undo_version, read_user_version
from headrace.formats.barecat.index.connections import connect_still, connect_writer, translated
from headrace.formats.barecat.index.schema import check_version
from headrace.formats.barecat.names import (
    MAX_SHARDS,
    beside_path,
    duplicate_path,
    index_path,
    replace_path,
    shard_numbers,
    shard_path,
    undo_path,
)
from headrace.progress import format_count
from headrace.storage.atomic import write_all
from headrace.storage.new_file import copy_bytes
from headrace.storage.regular import kind_problem, take_over

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    import numpy.typing as npt

    from headrace.formats.barecat.edit.undo import UndoRecord
    from headrace.formats.barecat.index.connections import WriteConnection

__all__ = ["recover", "settle_archive", "unfinished_files"]

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_HEAD = struct.Struct(">8sIIIII")  # magic, records, nonce, pages of the database, sector size, page size
_SUPER_TAIL = struct.Struct(">II8s")  # length and checksum of the name of a super-journal, magic
_LOCK_BYTES = (0x40000000, 512)  # where SQLite locks a database
_FLOCK = struct.Struct("hhqqi4x")
_WAIT_S = 10.0
_ODD = "a writer was killed, or somebody wants it to look so"
_DELETE = "delete that file if it does not belong to the archive"


class _Odd(Exception):
    """Something beside the archive is not as a killed writer leaves it."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{os.path.basename(file)} {problem}")
        self.file = file


def unfinished_files(path: str) -> list[str]:
    """What says that a writer was killed, or is at work: its journal, its old bytes, the note of a new archive."""
    files = (f"{index_path(path)}-journal", undo_path(path), replace_path(path))
    return [file for file in files if os.path.lexists(file)]


def recover(path: str) -> list[str]:
    """Put in order what a writer that was killed has left; says what was done, nothing when all is well.

    Raises:
        ArchiveBusyError: the writer is alive.
        UnfinishedError: what is there is not what a writer leaves; nothing was changed.
    """
    if not unfinished_files(path):
        return []
    try:
        return _recover(path)
    except _Odd as error:
        raise UnfinishedError(path, left=error.file, problem=f"{_ODD}: {error} (nothing was changed)") from error


def _recover(path: str) -> list[str]:
    done = []
    if finish_handover(path):
        done.append("a new archive has taken this name, as its process was about to do")
    left = unfinished_files(path)
    if left and not os.path.lexists(index_path(path)):
        raise _Odd(left[0], "is there, and there is no index")
    log = f"{index_path(path)}-wal"
    has_log = os.path.lexists(log) and bool(kind_problem(os.lstat(log)) or os.lstat(log).st_size)
    if left or has_log:
        with _locked(path), _Folder(path) as folder, folder.index_alone():
            done += _settle(folder)
    return done


def settle_archive(place: str, shown: str) -> list[str]:
    """As ``recover``, and remove what else was left; says what was done.

    Args:
        place: of the archive, without links.
        shown: how errors name it.
    """
    if not (os.path.exists(index_path(place)) or os.path.lexists(replace_path(place))):
        raise FileNotFoundError(errno.ENOENT, "there is no archive of this name", shown)
    try:
        done = _recover(place)
    except _Odd as error:
        problem = f"{_ODD}: {error}"
        raise FormatError(shown, problem=problem, fix=f"Nothing was changed; {_DELETE}.") from error
    return done + _remove_leftovers(place)


def _remove_leftovers(path: str) -> list[str]:
    with making(path, wait_s=_WAIT_S) as is_alone:
        removed = remove_hidden(path) if is_alone else []
    second_names = [duplicate_path(shard_path(path, number)) for number in shard_numbers(path)]
    if any(map(os.path.lexists, second_names)):
        with _locked(path):
            for file in filter(os.path.lexists, second_names):
                os.unlink(file)
                removed.append(file)
    return [f"{os.path.basename(file)} was removed, which no process needs any more" for file in removed]


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Nobody writes to the archive, or makes another of its name."""
    try:
        lock = lock_archive(path)
    except FileNotFoundError as error:
        raise FormatError(
            path, problem="shard 0 is missing", fix="Put it back: all files of an archive belong together."
        ) from error
    try:
        with making(path):
            yield
    finally:
        os.close(lock)


def _settle(folder: _Folder) -> list[str]:
    """Roll back the journal and put bytes back; the caller has the locks."""
    done: list[str] = []
    with contextlib.ExitStack() as stack:
        try:
            settled = stack.enter_context(_settled_index(folder))
            connection = stack.enter_context(contextlib.closing(connect_still(settled.path)))
            if os.path.getsize(settled.path):  # else it was killed before anything was in it
                _refuse_unsound(folder, connection, is_new=settled.is_copy)
            undone = stack.enter_context(_undone(folder, connection))
            connection.close()
        except sqlite3.Error as error:
            raise translated(folder.index, error) from error
        if settled.is_copy:
            settled.take_place()
            done.append("what had not been committed was taken out of the index")
        done += undone
    return done


class _Folder:
    """The folder of an archive, and files in it that are checked before they are used.

    Args:
        path: of the archive, without links.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.index = index_path(path)
        self._folder = os.path.dirname(path)

    def __enter__(self) -> _Folder:
        self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.status = self._stat(self.index)
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.close(self._fd)

    def _stat(self, file: str) -> os.stat_result:
        return os.stat(os.path.basename(file), dir_fd=self._fd, follow_symlinks=False)

    def exists(self, file: str) -> bool:
        """Something has this name."""
        try:
            self._stat(file)
        except FileNotFoundError:
            return False
        return True

    def open(self, file: str, flags: int = os.O_RDONLY, *, names: int = 1) -> int:
        """Open a file; it must be a regular one, of the right owner, with no more than so many names."""
        self._check(file, self._stat(file), names)
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(os.path.basename(file), flags, dir_fd=self._fd)
        try:
            self._check(file, os.fstat(fd), names)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _check(self, file: str, status: os.stat_result, names: int) -> None:
        kind = kind_problem(status)
        if kind is not None:
            raise _Odd(file, f"is {kind}, and a regular file is needed")
        if status.st_uid not in (self.status.st_uid, os.geteuid()):
            raise _Odd(file, "does not belong to the owner of the index")
        if status.st_nlink > names:
            raise _Odd(file, "has other names, too: to write to it could change another file")

    def open_shard(self, number: int) -> int:
        """Open a shard to write to it; the names it has must all be shards of this archive."""
        file = shard_path(self.path, number)
        if not self.exists(file):
            raise _Odd(undo_path(self.path), f"has bytes for shard {number}, which does not exist")
        own = self._stat(file)
        names = sum(os.path.samestat(own, self._stat(shard_path(self.path, n))) for n in shard_numbers(self.path))
        return self.open(file, os.O_RDWR, names=names)

    def create(self, file: str) -> int:
        """Make a new file with the permissions of the index."""
        fd = os.open(os.path.basename(file), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        with contextlib.suppress(PermissionError):  # only root can
            os.fchown(fd, self.status.st_uid, -1)
        take_over(fd, self.status)
        return fd

    def unlink(self, file: str) -> None:
        """Delete a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.basename(file), dir_fd=self._fd)

    def rename(self, file: str, other: str) -> None:
        """Give a file another name."""
        names = os.path.basename(file), os.path.basename(other)
        os.replace(*names, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    @contextlib.contextmanager
    def index_alone(self) -> Iterator[None]:
        """No program that uses SQLite reads the index, or writes to it."""
        fd = self.open(self.index, os.O_RDWR)
        try:
            wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, *_LOCK_BYTES, 0)
            with contextlib.suppress(AttributeError):  # from Linux only
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted)
            yield
        except BlockingIOError as error:
            raise ArchiveBusyError(f"{self.path}: somebody else is using this archive; close it there first") from error
        finally:
            os.close(fd)


class _SettledIndex(NamedTuple):
    """An index without a journal: that of the archive, or a copy in which the journal was rolled back."""

    folder: _Folder
    path: str

    @property
    def is_copy(self) -> bool:
        return self.path != self.folder.index

    def take_place(self) -> None:
        """Replace the index by the copy. The journal would change nothing more, so it may go a moment later."""
        folder = self.folder
        folder.rename(self.path, folder.index)
        sync_directory(folder.index)
        for ending in ("-journal", "-wal", "-shm"):
            folder.unlink(folder.index + ending)
        sync_directory(folder.index)


@contextlib.contextmanager
def _settled_index(folder: _Folder) -> Iterator[_SettledIndex]:
    """The index as it is when SQLite has put it in order; in the block, nothing has changed yet."""
    sources = {ending: folder.index + ending for ending in ("-journal", "-wal") if folder.exists(folder.index + ending)}
    if not sources:
        yield _SettledIndex(folder, folder.index)
        return
    copy = beside_path(folder.path)
    try:
        for ending, file in {"": folder.index, **sources}.items():
            with _opened(folder.open(file)) as source:
                if ending == "-journal":
                    _check_journal(folder, file, source)
                with _opened(folder.create(copy + ending)) as target:
                    copy_bytes(source, target, os.fstat(source).st_size)
                    os.fsync(target)
        with contextlib.closing(connect_writer(copy, wal=False, sync=True)) as connection:
            if "-wal" in sources:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        yield _SettledIndex(folder, copy)
    finally:
        for ending in ("", "-journal", "-wal", "-shm"):
            folder.unlink(copy + ending)


def _check_journal(folder: _Folder, file: str, fd: int) -> None:
    """_Odd for a journal that SQLite has not made for this index, or that would delete another file."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, _SUPER_TAIL.size, max(0, size - _SUPER_TAIL.size))
    if tail.endswith(_JOURNAL_MAGIC) and size > _SUPER_TAIL.size:
        raise _Odd(file, "names a super-journal, which SQLite would delete")
    head = os.pread(fd, _JOURNAL_HEAD.size, 0)
    if len(head) < _JOURNAL_HEAD.size or not head.startswith(_JOURNAL_MAGIC):
        return  # SQLite had not yet begun to use it, or was done
    _, _, _, _, sector, page = _JOURNAL_HEAD.unpack(head)
    with _opened(folder.open(folder.index)) as index:
        first = os.pread(index, 100, 0)
        size_field = int.from_bytes(first[16:18])
        expected = 65536 if size_field == 1 else size_field
        number = os.pread(fd, 4, sector)
        old = os.pread(fd, 100, sector + 4)
    if page not in (expected, 0):
        raise _Odd(
            file,
            f"has pages of {format_count(page, 'byte')}, and the index has pages of {expected}: it belongs to another",
        )
    if number == b"\0\0\0\1" and len(old) == 100 and not _may_follow(old, first):
        raise _Odd(file, "does not belong to the index as it is now")


def _may_follow(old: bytes, new: bytes) -> bool:
    """The second head of a database may come from the first by one transaction."""
    before, after = int.from_bytes(old[24:28]), int.from_bytes(new[24:28])
    return old[:24] == new[:24] and (after - before) % (1 << 32) in (0, 1)


def _refuse_unsound(folder: _Folder, connection: WriteConnection, *, is_new: bool) -> None:
    """_Odd when the index that came out is damaged, or names bytes that the shards do not have."""
    check_version(folder.index, connection, is_writer=True)
    if not is_new:
        return
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _Odd(f"{folder.index}-journal", f"would leave an index that is damaged ({verdict})")
    question = "SELECT shard, max(offset + size) FROM files WHERE size > 0 GROUP BY shard"
    for shard, end in connection.execute(question).fetchall():
        file = shard_path(folder.path, shard) if shard in range(MAX_SHARDS) else ""
        if not file or not os.path.exists(file) or os.path.getsize(file) < end:
            raise _Odd(f"{folder.index}-journal", f"would leave files where shard {shard} has no bytes")


@contextlib.contextmanager
def _undone(folder: _Folder, connection: WriteConnection) -> Iterator[list[str]]:
    """Put the bytes of ``X-undo`` back; when the block ends well the file goes, else everything is as it was."""
    file = undo_path(folder.path)
    if not folder.exists(file):
        yield []
        return
    with _opened(folder.open(file)) as fd:
        records = _read_records(folder, file, fd, connection)
        with contextlib.ExitStack() as stack:
            changes = [
                stack.enter_context(_Change(folder, shard, [r for r in records if r.shard == shard], fd, connection))
                for shard in sorted({record.shard for record in records})
            ]
            try:
                for change in changes:
                    change.make()
                yield [_undo_done(file, len(records))]
            except BaseException:
                for change in changes:
                    change.take_back()
                raise
    folder.unlink(file)
    sync_directory(file)


def _undo_done(file: str, count: int) -> str:
    if count == 0:
        return f"{os.path.basename(file)} was removed: it held no bytes that are still needed"
    return f"{count} stretches of overwritten bytes were put back"


def _read_records(folder: _Folder, file: str, fd: int, connection: WriteConnection) -> list[UndoRecord]:
    """The records that count; none when the transaction was committed."""
    try:
        version = read_undo_version(fd)
    except ValueError as error:
        raise _Odd(file, f"is no file of old bytes: {error}") from error
    if version is None or version != read_user_version(connection) & 0xFFFFFFFF:
        return []
    return read_undo_records(fd, os.fstat(fd).st_size)


class _Change:
    """Bytes that go back into one shard.

    Args:
        folder: of the archive.
        number: of the shard.
        records: what goes back.
        undo: the file that has the bytes.
        connection: to the index as it will be.
    """

    def __init__(
        self, folder: _Folder, number: int, records: list[UndoRecord], undo: int, connection: WriteConnection
    ) -> None:
        self._file = undo_path(folder.path)
        self._undo = undo
        self._fd = folder.open_shard(number) if number in range(MAX_SHARDS) else -1
        try:
            size = os.fstat(self._fd).st_size if self._fd >= 0 else -1
            if any(record.offset + record.size > size for record in records):
                raise _Odd(self._file, f"has bytes that shard {number} has no place for")
            self._rows = _Rows(connection, number, size)
            self._pieces = [piece for record in reversed(records) for piece in self._rows.parts_of(record)]
            self._old: BinaryIO = tempfile.TemporaryFile(dir=os.path.dirname(folder.path))  # noqa: SIM115
        except BaseException:
            if self._fd >= 0:
                os.close(self._fd)
            raise
        self._saved: list[tuple[int, int]] = []

    def __enter__(self) -> _Change:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._old.close()
        os.close(self._fd)

    def make(self) -> None:
        """Put the bytes back; _Odd when a file that was right is wrong then."""
        for offset, size, _ in self._pieces:
            self._old.write(os.pread(self._fd, size, offset))
        touched = self._rows.checked(self._pieces)
        was_right = self._is_right(touched)
        for offset, size, start in self._pieces:
            self._saved.append((offset, size))
            write_all(self._fd, [os.pread(self._undo, size, start)], offset)
        os.fsync(self._fd)
        if bool((was_right & ~self._is_right(touched)).any()):
            raise _Odd(self._file, "would change files whose checksums are right as they are")

    def take_back(self) -> None:
        """Let the shard be as it was found."""
        self._old.flush()
        start = sum(size for _, size in self._saved)
        for offset, size in reversed(self._saved):
            start -= size
            write_all(self._fd, [os.pread(self._old.fileno(), size, start)], offset)
        os.fsync(self._fd)

    def _is_right(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        starts = rows[:, 0].astype(np.uint64)
        sums = crc32c_file(self._fd, starts, rows[:, 1].astype(np.uint64) - starts)
        is_right: npt.NDArray[np.bool_] = np.asarray(sums, np.int64) == rows[:, 2]
        return is_right


class _Rows:
    """Files of a shard that lie inside it: start, end and checksum (-1: none), by start."""

    def __init__(self, connection: WriteConnection, shard: int, shard_size: int) -> None:
        question = (
            "SELECT offset, offset + size, coalesce(crc32c, -1) FROM files WHERE shard = ? "
            "AND typeof(size) = 'integer' AND typeof(offset) = 'integer' "
            "AND typeof(coalesce(crc32c, -1)) = 'integer' "
            "AND size > 0 AND offset >= 0 AND size <= ? AND offset <= ? - size ORDER BY offset"
        )
        rows = connection.execute(question, (shard, shard_size, shard_size)).fetchall()
        self._table = np.array(rows, np.int64).reshape(-1, 3)
        self._ends = np.maximum.accumulate(self._table[:, 1])  # where all up to this one end

    def _near(self, start: int, end: int) -> slice:
        """Files of which some reach into a span."""
        first = np.searchsorted(self._ends, start, side="right")
        return slice(int(first), int(np.searchsorted(self._table[:, 0], end, side="left")))

    def parts_of(self, record: UndoRecord) -> Iterator[tuple[int, int, int]]:
        """Those parts of a record that files have: offset, size, and where they begin in the file of old bytes."""
        end = record.offset + record.size
        position = record.offset
        for start, row_end, _ in self._table[self._near(record.offset, end)].tolist():
            low, high = max(start, position), min(row_end, end)
            if low < high:
                yield low, high - low, record.start + low - record.offset
                position = high

    def checked(self, pieces: list[tuple[int, int, int]]) -> npt.NDArray[np.int64]:
        """Files with a checksum that have some of these bytes."""
        is_touched = np.zeros(len(self._table), bool)
        for offset, size, _ in pieces:
            near = self._near(offset, offset + size)
            is_touched[near] |= self._table[near, 1] > offset
        touched: npt.NDArray[np.int64] = self._table[is_touched & (self._table[:, 2] >= 0)]
        return touched


@contextlib.contextmanager
def _opened(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)
