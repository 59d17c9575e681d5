"""Old bytes, kept while they are overwritten.

Overwriting in place is the one thing that SQLite's transactions do not cover. So the bytes that committed rows name
are saved first, beside the archive in ``X-undo``::

    magic u64 "HDRUNDO1", version u32, crc u32 of the version, then records:
    shard u32, crc u32 of the bytes, offset u64, size u64, bytes

``version`` is SQLite's ``user_version`` before the transaction, which raises it by one: the file counts only while
the number is still the same. Records are on the disk before the bytes are touched, and put back last first. The file
is deleted after the commit.
"""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING

from headrace._native import crc32c
from headrace.formats.barecat.edit.lock import lock_archive, sync_directory
from headrace.formats.barecat.index.connections import connect_writer
from headrace.formats.barecat.names import index_path, shard_path, undo_path
from headrace.storage.atomic import write_all

if TYPE_CHECKING:
    import sqlite3

    from headrace.types import Buffer

__all__ = ["UndoLog", "recover"]

_MAGIC = b"HDRUNDO1"
_HEAD = struct.Struct("<8sII")
_RECORD = struct.Struct("<IIQQ")


class UndoLog:
    """Saves bytes of the running transaction.

    Args:
        path: of the archive.
        connection: of the writer, inside the transaction when ``save`` is called.
        is_synced: wait for the disk; without, only a crash of the process is survived.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, *, is_synced: bool) -> None:
        self._path = path
        self._connection = connection
        self._is_synced = is_synced
        self._fd = -1
        self._end = 0

    def save(self, shard: int, offset: int, data: Buffer) -> None:
        """Keep bytes that are about to be overwritten, after ``sync``."""
        if self._fd < 0:
            self._begin()
        head = _RECORD.pack(shard, crc32c(data), offset, len(data))
        try:
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
        version = _user_version(self._connection)
        number = struct.pack("<I", version & 0xFFFFFFFF)
        self._fd = os.open(undo_path(self._path), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        write_all(self._fd, [_HEAD.pack(_MAGIC, version & 0xFFFFFFFF, crc32c(number))], 0)
        self._end = _HEAD.size
        if self._is_synced:
            sync_directory(self._path)
        self._connection.execute(f"PRAGMA user_version = {(version + 1) & 0x7FFFFFFF}")

    def clear(self) -> None:
        """The transaction is committed: the old bytes are not needed any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            os.unlink(undo_path(self._path))


def _user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def recover(path: str) -> None:
    """Put back what a writer that was killed had overwritten and not committed; does nothing when all is well.

    Raises:
        ArchiveBusyError: the writer is alive.
    """
    if not os.path.exists(undo_path(path)):
        return
    lock = lock_archive(path)
    try:
        with contextlib.closing(connect_writer(index_path(path), wal=False, sync=True)) as connection:
            _put_back(path, _user_version(connection))
        os.unlink(undo_path(path))
    finally:
        os.close(lock)


def _put_back(path: str, version: int) -> None:
    with open(undo_path(path), "rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return  # killed before anything was overwritten
        magic, before, checksum = _HEAD.unpack(head)
        if magic != _MAGIC or crc32c(struct.pack("<I", before)) != checksum or before != version:
            return
        records = []
        while len(record := file.read(_RECORD.size)) == _RECORD.size:
            shard, crc, offset, size = _RECORD.unpack(record)
            start = file.tell()
            if start + size > os.fstat(file.fileno()).st_size or crc32c(file.read(size)) != crc:
                break  # not complete, so not yet used
            records.append((shard, offset, start, size))
        for shard, offset, start, size in reversed(records):
            _restore(path, shard, offset, os.pread(file.fileno(), size, start))


def _restore(path: str, shard: int, offset: int, data: bytes) -> None:
    fd = os.open(shard_path(path, shard), os.O_RDWR | os.O_CLOEXEC)
    try:
        write_all(fd, [data], offset)
        os.fsync(fd)
    finally:
        os.close(fd)
