"""Old bytes, kept while they are overwritten.

Overwriting in place is the one thing that SQLite's transactions do not cover. So the bytes that committed rows name
are saved first, beside the archive in ``X-undo``::

    magic u64 "HDRUNDO1", version u32, crc u32 of the version, then records:
    shard u32, crc u32 of the bytes, offset u64, size u64, bytes

``version`` is SQLite's ``user_version`` before the transaction, which raises it by one: the file counts only while
the number is still the same. Records are on the disk before the bytes are touched, and put back last first. The file
is deleted after the commit, or when everything is put back. What a writer that was killed has left is the business of
``recovery``.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from headrace._native import crc32c
from headrace.formats.barecat.edit.lock import sync_directory
from headrace.formats.barecat.names import archive_status, undo_path
from headrace.storage.atomic import write_all
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from headrace.types import Buffer

__all__ = ["MAX_RECORD_BYTES", "UndoLog", "UndoRecord", "read_undo_records", "read_undo_version", "read_user_version"]

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
