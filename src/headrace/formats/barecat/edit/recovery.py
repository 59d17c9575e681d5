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
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import ArchiveBusyError, FormatError, UnfinishedError
from headrace.formats.barecat.edit.handover import finish_handover, making, remove_hidden
from headrace.formats.barecat.edit.lock import lock_archive, sync_directory
from headrace.formats.barecat.edit.undo import PutBack, read_undo_records, read_undo_version, read_user_version
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
from headrace.formats.barecat.unfinished import OddError
from headrace.progress import format_count
from headrace.storage.new_file import copy_bytes
from headrace.storage.regular import kind_problem, take_over

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    except OddError as error:
        raise UnfinishedError(path, left=error.file, problem=f"{_ODD}: {error} (nothing was changed)") from error


def _recover(path: str) -> list[str]:
    done = []
    if finish_handover(path):
        done.append("a new archive has taken this name, as its process was about to do")
    left = unfinished_files(path)
    if left and not os.path.lexists(index_path(path)):
        raise OddError(left[0], "is there, and there is no index")
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
    except OddError as error:
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
            raise OddError(file, f"is {kind}, and a regular file is needed")
        if status.st_uid not in (self.status.st_uid, os.geteuid()):
            raise OddError(file, "does not belong to the owner of the index")
        if status.st_nlink > names:
            raise OddError(file, "has other names, too: to write to it could change another file")

    def open_shard(self, number: int) -> int:
        """Open a shard to write to it; the names it has must all be shards of this archive."""
        if number not in range(MAX_SHARDS):
            raise OddError(undo_path(self.path), f"has bytes that shard {number} has no place for")
        file = shard_path(self.path, number)
        if not self.exists(file):
            raise OddError(undo_path(self.path), f"has bytes for shard {number}, which does not exist")
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
    """OddError for a journal that SQLite has not made for this index, or that would delete another file."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, _SUPER_TAIL.size, max(0, size - _SUPER_TAIL.size))
    if tail.endswith(_JOURNAL_MAGIC) and size > _SUPER_TAIL.size:
        raise OddError(file, "names a super-journal, which SQLite would delete")
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
        raise OddError(
            file,
            f"has pages of {format_count(page, 'byte')}, and the index has pages of {expected}: it belongs to another",
        )
    if number == b"\0\0\0\1" and len(old) == 100 and not _may_follow(old, first):
        raise OddError(file, "does not belong to the index as it is now")


def _may_follow(old: bytes, new: bytes) -> bool:
    """The second head of a database may come from the first by one transaction."""
    before, after = int.from_bytes(old[24:28]), int.from_bytes(new[24:28])
    return old[:24] == new[:24] and (after - before) % (1 << 32) in (0, 1)


def _refuse_unsound(folder: _Folder, connection: WriteConnection, *, is_new: bool) -> None:
    """OddError when the index that came out is damaged, or names bytes that the shards do not have."""
    check_version(folder.index, connection, is_writer=True)
    if not is_new:
        return
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise OddError(f"{folder.index}-journal", f"would leave an index that is damaged ({verdict})")
    question = "SELECT shard, max(offset + size) FROM files WHERE size > 0 GROUP BY shard"
    for shard, end in connection.execute(question).fetchall():
        file = shard_path(folder.path, shard) if shard in range(MAX_SHARDS) else ""
        if not file or not os.path.exists(file) or os.path.getsize(file) < end:
            raise OddError(f"{folder.index}-journal", f"would leave files where shard {shard} has no bytes")


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
            changes = []
            for shard in sorted({record.shard for record in records}):
                of_shard = [record for record in records if record.shard == shard]
                change = PutBack(folder.path, folder.open_shard(shard), of_shard, fd, connection)
                changes.append(stack.enter_context(change))
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
        raise OddError(file, f"is no file of old bytes: {error}") from error
    if version is None or version != read_user_version(connection) & 0xFFFFFFFF:
        return []
    return read_undo_records(fd, os.fstat(fd).st_size)


@contextlib.contextmanager
def _opened(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)
