"""Old bytes, kept while they are overwritten.

Overwriting in place is the one thing that SQLite's transactions do not cover. So the bytes that committed rows name
are saved first, beside the archive in ``X-undo``::

    magic u64 "HDRUNDO1", version u32, crc u32 of the version, then records:
    shard u32, crc u32 of the bytes, offset u64, size u64, bytes

``version`` is SQLite's ``user_version`` before the transaction, which raises it by one: the file counts only while
the number is still the same. Records are on the disk before the bytes are touched, and put back last first. The file
is deleted after the commit, or when everything is put back. After a kill, ``recovery`` does that by ``PutBack``, which
believes nothing: bytes go only where files are, and only if no file that is right becomes wrong.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace._native import crc32c, crc32c_file
from headrace.formats.barecat.edit.lock import sync_directory
from headrace.formats.barecat.names import archive_status, undo_path
from headrace.formats.barecat.unfinished import OddError
from headrace.storage.atomic import write_all
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    import numpy.typing as npt

    from headrace.types import Buffer

__all__ = [
    "MAX_RECORD_BYTES",
    "PutBack",
    "UndoLog",
    "UndoRecord",
    "read_undo_records",
    "read_undo_version",
    "read_user_version",
]

MAX_RECORD_BYTES = 16 << 20
_MAGIC = b"HDRUNDO1"
_HEAD = struct.Struct("<8sII")
_RECORD = struct.Struct("<IIQQ")


class UndoRecord(NamedTuple):
    """Bytes that were saved: where they belong, and where they are in the file."""

    shard: int
    offset: int
    size: int
    start: int


class UndoLog:
    """Saves bytes of the running transaction; ``version`` is that of the index before it.

    Args:
        path: of the archive.
        connection: of the writer, inside the transaction when ``save`` is called.
        is_synced: wait for the disk; without, only a crash of the process is survived.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, *, is_synced: bool) -> None:
        self._path = path
        self._connection = connection
        self._is_synced = is_synced
        self.version = 0
        self._fd = -1
        self._end = 0

    @property
    def is_active(self) -> bool:
        """Bytes of the running transaction are saved."""
        return self._fd >= 0

    def save(self, shard: int, offset: int, data: Buffer) -> None:
        """Keep bytes that are about to be overwritten, after ``sync``."""
        try:
            if self._fd < 0:
                self._begin()
            head = _RECORD.pack(shard, crc32c(data), offset, len(data))
            write_all(self._fd, [head, data], self._end)
        except OSError as error:
            raise type(error)(
                error.errno, f"{error.strerror}; nothing was overwritten", undo_path(self._path)
            ) from None
        self._end += len(head) + len(data)

    def sync(self) -> None:
        """Put what was saved on the disk; only now it may be overwritten."""
        if self._fd >= 0 and self._is_synced:
            os.fsync(self._fd)

    def _begin(self) -> None:
        file = undo_path(self._path)
        self.version = version = read_user_version(self._connection)
        number = struct.pack("<I", version & 0xFFFFFFFF)
        with contextlib.suppress(FileNotFoundError):  # one of a transaction that was committed
            os.unlink(file)
        self._fd = open_own(file, os.O_RDWR, like=archive_status(self._path), create=True)
        write_all(self._fd, [_HEAD.pack(_MAGIC, version & 0xFFFFFFFF, crc32c(number))], 0)
        self._end = _HEAD.size
        if self._is_synced:
            sync_directory(self._path)
        self._connection.execute(f"PRAGMA user_version = {(version + 1) & 0x7FFFFFFF}")

    def put_back(self, write: Callable[[int, int, bytes], None]) -> None:
        """Give everything that was saved to ``write``, with shard and offset, the last first."""
        if self._fd < 0:
            return
        for record in reversed(read_undo_records(self._fd, self._end)):
            write(record.shard, record.offset, os.pread(self._fd, record.size, record.start))

    def clear(self) -> None:
        """The transaction is committed, or everything is put back: the old bytes are not needed any more."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # it does not count any more
            if os.path.samestat(os.fstat(self._fd), os.lstat(undo_path(self._path))):
                os.unlink(undo_path(self._path))
        self.close()

    def close(self) -> None:
        """Let go of the file, which stays."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def read_user_version(connection: sqlite3.Connection) -> int:
    """SQLite's ``user_version``, which a transaction that overwrites bytes raises by one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def read_undo_version(fd: int) -> int | None:
    """The version in the head of an undo file; None when the head is not complete, ValueError when it is no head."""
    head = os.pread(fd, _HEAD.size, 0)
    if len(head) < _HEAD.size:
        return None  # killed before anything was overwritten
    magic, version, checksum = _HEAD.unpack(head)
    if magic != _MAGIC or crc32c(struct.pack("<I", version)) != checksum:
        raise ValueError("it does not begin as such a file does")
    return int(version)


def read_undo_records(fd: int, end: int) -> list[UndoRecord]:
    """The records up to a byte of the file; one that is not complete was not yet used, and ends the list."""
    records = []
    start = _HEAD.size
    while start + _RECORD.size <= end:
        shard, checksum, offset, size = _RECORD.unpack(os.pread(fd, _RECORD.size, start))
        start += _RECORD.size
        if size > MAX_RECORD_BYTES or start + size > end or crc32c(os.pread(fd, size, start)) != checksum:
            break
        records.append(UndoRecord(shard, offset, size, start))
        start += size
    return records


class PutBack:
    """Bytes that go back into one shard.

    Args:
        path: of the archive.
        fd: the shard, to be read and written; it is closed in the end.
        records: what goes back; there is at least one.
        undo: the file that has the bytes.
        connection: to the index as it will be.
    """

    def __init__(
        self, path: str, fd: int, records: list[UndoRecord], undo: int, connection: sqlite3.Connection
    ) -> None:
        self._file, self._fd, self._undo = undo_path(path), fd, undo
        number = records[0].shard
        try:
            size = os.fstat(fd).st_size
            if any(record.offset + record.size > size for record in records):
                raise OddError(self._file, f"has bytes that shard {number} has no place for")
            self._rows = _Rows(connection, number, size)
            self._pieces = [piece for record in reversed(records) for piece in self._rows.parts_of(record)]
            self._old: BinaryIO = tempfile.TemporaryFile(dir=os.path.dirname(path))  # noqa: SIM115
        except BaseException:
            os.close(fd)
            raise
        self._saved: list[tuple[int, int]] = []

    def __enter__(self) -> PutBack:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._old.close()
        os.close(self._fd)

    def make(self) -> None:
        """Put the bytes back; OddError when a file that was right is wrong then."""
        for offset, size, _ in self._pieces:
            self._old.write(os.pread(self._fd, size, offset))
        touched = self._rows.checked(self._pieces)
        was_right = self._is_right(touched)
        for offset, size, start in self._pieces:
            self._saved.append((offset, size))
            write_all(self._fd, [os.pread(self._undo, size, start)], offset)
        os.fsync(self._fd)
        if bool((was_right & ~self._is_right(touched)).any()):
            raise OddError(self._file, "would change files whose checksums are right as they are")

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

    def __init__(self, connection: sqlite3.Connection, shard: int, shard_size: int) -> None:
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
