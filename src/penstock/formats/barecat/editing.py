"""Changes to an archive.

Contract: any number of threads may call; a lock lets one at a time in. Bytes go to the shards first, then the rows
into a transaction; ``commit`` puts the bytes on the disk before it ends the transaction, so a row that survives a crash
names bytes that did, too. It runs by itself after so many files or bytes, and on ``close``. What a crash can take is
what came after the last commit, and never anything older: see ``appending`` and ``undo``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from typing import TYPE_CHECKING

from penstock._native import crc32c
from penstock.errors import (
    ArchiveBusyError,
    ClosedError,
    DirectoryNotEmptyError,
    EntryExistsError,
    EntryIsDirectoryError,
    EntryIsFileError,
    EntryNotFoundError,
    FileTooLargeError,
    FormatError,
)
from penstock.formats.barecat.appending import SMALL_BYTES, ShardWriter
from penstock.formats.barecat.connections import connect_writer, translated
from penstock.formats.barecat.index import Index
from penstock.formats.barecat.names import check_new_name, index_path, parent_of, shard_numbers, shard_path
from penstock.formats.barecat.queueing import FileQueue, triggers_off
from penstock.formats.barecat.rows import Place
from penstock.formats.barecat.schema import UNLIMITED, check_version, create_schema
from penstock.formats.barecat.undo import UndoLog, recover

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from penstock.formats.barecat.connections import WriteConnection
    from penstock.formats.barecat.rows import Metadata
    from penstock.types import Buffer

__all__ = ["Editor"]

_CHUNK_BYTES = 16 << 20
_COMMIT_FILES = 20_000
_COMMIT_BYTES = 256 << 20
_QUEUED_FILES = 5000


class Editor:
    """Everything that changes an archive.

    Args:
        path: of the archive; index and first shard are made if they are missing.
        shard_size: limit of new shards; None keeps what the archive has.
        is_synced: wait for the disk at every commit.
        wal: use SQLite's write-ahead log.
        allow_links: also write to shards that are symbolic links.
        is_append_only: refuse everything but new files and directories.
    """

    def __init__(
        self, path: str, *, shard_size: int | None, is_synced: bool, wal: bool, allow_links: bool, is_append_only: bool
    ) -> None:
        recover(path)
        self.path = path
        self.lock = threading.RLock()
        self.is_append_only = is_append_only
        self._process = os.getpid()
        self._uncommitted_files = self._uncommitted_bytes = 0
        self._is_closed = False
        self.shards = ShardWriter(path, is_synced=is_synced, allow_links=allow_links, commit=self.commit)
        try:
            self._connection = self._open_index(shard_size, wal, is_synced)
        except BaseException:
            self.shards.close()
            raise
        self._undo = UndoLog(path, self._connection, is_synced=is_synced)
        self._queue = FileQueue(path, self._connection)
        self.index = Index(path, self._cursor, self._cursor)
        self.limit = self.index.config("shard_size_limit") or UNLIMITED
        try:
            if shard_size is not None and shard_size != self.limit:
                self.set_limit(shard_size)
        except BaseException:
            self.close()
            raise

    def _open_index(self, shard_size: int | None, wal: bool, is_synced: bool) -> WriteConnection:
        file = index_path(self.path)
        is_new = not os.path.exists(file) or os.path.getsize(file) == 0
        if is_new:
            self._refuse_orphans(file)
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        connection = connect_writer(file, wal=wal, sync=is_synced)
        try:
            if is_new:
                create_schema(connection, shard_size_limit=shard_size or UNLIMITED)
            check_version(file, connection, is_writer=True)
            self._refuse_missing_shards(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise translated(file, error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_orphans(self, file: str) -> None:
        sizes = [os.path.getsize(shard_path(self.path, number)) for number in shard_numbers(self.path)]
        if any(sizes):
            raise FormatError(
                file,
                problem=f"there is no index, but {len(sizes)} shards hold {sum(sizes)} bytes",
                fix="Restore the index from a copy, or remove the shards.",
            )

    def _refuse_missing_shards(self, connection: sqlite3.Connection) -> None:
        there = set(shard_numbers(self.path))
        for (shard,) in connection.execute("SELECT DISTINCT shard FROM files WHERE size > 0"):
            if shard not in there:
                raise FormatError(
                    self.path,
                    problem=f"shard {shard} is missing, and files lie in it",
                    fix="Put it back, or see what is left with: penstock verify",
                )

    def set_limit(self, limit: int) -> None:
        """Change the limit of shards; it must hold for those there are."""
        with self.lock:
            self._begin(is_addition=True)
            largest = max((self.shards.end(n) for n in shard_numbers(self.path)), default=0)
            if limit < largest:
                raise ValueError(
                    f"shard_size must be at least {largest}, the size of the largest shard, got {limit}; "
                    "make them smaller with: penstock reshard"
                )
            self._connection.execute("UPDATE config SET value_int = ? WHERE key = 'shard_size_limit'", (limit,))
            self.limit = limit

    # Transactions

    def check_writable(self, name: str, *, exists: bool) -> None:
        """Raise if a file that exists may not be written, or if there can be no new one of this name."""
        with self.lock:
            self._begin(is_addition=not exists)
            if not exists:
                self._queue.check(check_new_name(name))

    def _begin(self, *, is_addition: bool = False) -> None:
        self._check_open()
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self.path} was opened for writing by another process (this one was forked from it); "
                "open it again here, after the other has closed it"
            )
        self._check_whole()
        if self.is_append_only and not is_addition:
            raise PermissionError(f"{self.path} is open for appending only; what is there cannot be changed")
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")

    def _cursor(self) -> sqlite3.Cursor:
        with self.lock:
            self._check_open()
            if len(self._queue):
                self._queue.flush()
        return self._connection.cursor()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.path}: the archive is closed; open it again")

    @property
    def _failure(self) -> Exception | None:
        """Why rows or bytes of the transaction are missing, if so: nothing more can be committed."""
        return self.shards.failure or self._connection.loss

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
            self._queue.flush()
            self.shards.sync()
            if self._connection.in_transaction:
                try:
                    self._connection.execute("COMMIT")
                except ArchiveBusyError as error:
                    raise ArchiveBusyError(
                        f"{self.path}: the changes cannot be committed ({error}); they are kept, try again"
                    ) from error
            self._undo.clear()
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
                    self._connection.execute("PRAGMA optimize")
            finally:
                self._connection.close()  # rolls back what was not committed
                if self._failure is not None:
                    self.shards.give_up()
                self.shards.close()
            recover(self.path)  # after a failure, bytes may have to be put back

    def _count(self, size: int) -> None:
        self._uncommitted_files += 1
        self._uncommitted_bytes += size
        if len(self._queue) >= _QUEUED_FILES:
            self._queue.flush()
        if self._uncommitted_files >= _COMMIT_FILES or self._uncommitted_bytes >= _COMMIT_BYTES:
            self.commit()

    def execute(self, statement: str, *arguments: object) -> None:
        """Run a statement inside the transaction."""
        with self.lock:
            self._begin()
            self._cursor().execute(statement, arguments)

    @contextlib.contextmanager
    def changing(self, *, is_addition: bool = False) -> Iterator[sqlite3.Connection]:
        """The connection inside the transaction, for changes to the index that this class does not know."""
        with self.lock:
            self._begin(is_addition=is_addition)
            self._queue.flush()
            try:
                yield self._connection
            finally:
                self._queue.forget_dirs()
            self._count(0)

    def check_references(self, is_on: bool) -> None:
        """Commit, and from then on check or do not check that directories exist."""
        with self.lock:
            self.commit()
            self._connection.execute(f"PRAGMA foreign_keys = {int(is_on)}")

    # Files

    def add(self, name: str, data: Buffer, about: Metadata) -> Place:
        """Add a file from memory; there must be none of this name. Gives where its bytes are."""
        size = len(data)
        with self.lock:
            self._begin(is_addition=True)
            check_new_name(name)
            if size > SMALL_BYTES:
                self._queue.check(name)  # before anything is written
            shard, offset = self._reserve(name, size)
            self.shards.append(data if isinstance(data, bytes) else bytes(data))
            place = Place(shard, offset, size, crc32c(data))
            self._queue.put(name, place, about)
            self._count(size)
            return place

    def add_stream(self, name: str, file: BinaryIO, size: int, about: Metadata) -> Place:
        """Add a file of known size from an open file, a piece at a time; gives where its bytes are."""
        with self.lock:
            self._begin(is_addition=True)
            check_new_name(name)
            self._queue.check(name)
            shard, offset = self._reserve(name, size)
            try:
                checksum = self._copy(name, file, size)
            except BaseException:
                self.shards.cut(shard, offset)
                raise
            place = Place(shard, offset, size, checksum)
            self._queue.put(name, place, about)
            self._count(size)
            return place

    def _copy(self, name: str, file: BinaryIO, size: int) -> int:
        checksum, left = 0, size
        while left:
            part = file.read(min(left, _CHUNK_BYTES))
            if not part:
                raise OSError(f"{name} ended after {size - left} bytes, {size} were expected; it was changed meanwhile")
            checksum = crc32c(part, checksum)
            self.shards.append(part)
            left -= len(part)
        return checksum

    def append(self, name: str, file: BinaryIO, size: int) -> Place:
        """Put bytes behind all others; no row names them yet."""
        with self.lock:
            self._begin(is_addition=True)
            shard, offset = self._reserve(name, size)
            return Place(shard, offset, size, self._copy(name, file, size))

    def _reserve(self, name: str, size: int) -> tuple[int, int]:
        if size > self.limit:
            raise FileTooLargeError(self.path, name=name, size_bytes=size, limit=self.limit)
        place = self.shards.reserve(size, self.limit)
        self._begin(is_addition=True)  # reserving may have committed
        return place

    def insert(self, name: str, place: tuple[int, int, int, int | None], about: Metadata) -> None:
        """Add a row for bytes that are in a shard already."""
        with self.lock:
            self._begin(is_addition=True)
            self._queue.put(check_new_name(name), place, about)
            self._count(place[2])

    def _named(self, error: sqlite3.IntegrityError, name: str) -> Exception:
        text = str(error)
        if "as directory" in text:
            return EntryIsDirectoryError(self.path, name)
        if "as file" in text:
            return EntryIsFileError(self.path, name)
        if "UNIQUE" in text:
            return EntryExistsError(self.path, name)
        return translated(self.path, error)

    def _refuse_below_file(self, name: str) -> None:
        parent = parent_of(name)
        while parent and not self.index.is_dir(parent):
            if self.index.is_file(parent):
                raise EntryIsFileError(self.path, name)
            parent = parent_of(parent)

    def update(self, name: str, data: Buffer, about: Metadata | None = None) -> None:
        """Replace the content of a file: in place if it is not longer, else at the end."""
        size = len(data)
        with self.lock:
            self._begin()
            old = self.index.file(name)
            if old is None:
                raise EntryNotFoundError(self.path, name)
            if size <= old.size:
                shard, offset = old.shard, old.offset
                self.overwrite(shard, offset, data)
            else:
                shard, offset = self._reserve(name, size)
                self.shards.append(bytes(data))
            self._connection.execute(
                "UPDATE files SET shard = ?, offset = ?, size = ?, crc32c = ? WHERE path = ?",
                (shard, offset, size, crc32c(data), name),
            )
            if about is not None:
                self.set_metadata(name, about)
            self._count(size)

    def overwrite(self, shard: int, offset: int, data: Buffer) -> None:
        """Write over bytes of a shard; what committed rows have there is saved until the commit."""
        with self.lock:
            self.save([(shard, offset, len(data))])
            self.shards.overwrite(shard, offset, data)

    def save(self, spans: list[tuple[int, int, int]]) -> None:
        """Save (shard, offset, size) spans before they are overwritten, where committed rows may have bytes."""
        with self.lock:
            self._begin()
            for shard, offset, size in spans:
                for start in range(offset, offset + size, _CHUNK_BYTES):
                    if self.shards.is_kept(shard, start):
                        count = min(_CHUNK_BYTES, offset + size - start)
                        self._undo.save(shard, start, self.shards.read(shard, start, count))
            self._undo.sync()

    def remove(self, name: str) -> None:
        """Remove a file; its bytes are cut off if they are the last of their shard, else they become a gap."""
        with self.lock:
            self._begin()
            old = self.index.file(name)
            if old is None:
                if self.index.is_dir(name):
                    raise EntryIsDirectoryError(self.path, name)
                raise EntryNotFoundError(self.path, name)
            self._connection.execute("DELETE FROM files WHERE path = ?", (name,))
            if old.size and old.end == self.shards.end(old.shard) and self.index.shard_end(old.shard) <= old.offset:
                self.shards.cut(old.shard, old.offset)
            self._count(0)

    # Directories

    def make_dir(self, name: str, about: Metadata, *, exist_ok: bool) -> None:
        """Make a directory, and those it lies in; with ``exist_ok`` one that exists takes the new metadata."""
        with self.lock:
            self._begin(is_addition=True)
            check_new_name(name)
            if self.index.is_dir(name):
                if not exist_ok:
                    raise EntryExistsError(self.path, name)
                if any(value is not None for value in about):
                    self.set_metadata(name, about)
                return
            if self.index.is_file(name):
                raise EntryIsFileError(self.path, name) if exist_ok else EntryExistsError(self.path, name)
            try:
                self._connection.execute(
                    "INSERT INTO dirs (path, mode, uid, gid, mtime_ns) VALUES (?, ?, ?, ?, ?)", (name, *about)
                )
            except sqlite3.IntegrityError as error:
                raise self._named(error, name) from error
            self._count(0)

    def remove_dir(self, name: str) -> None:
        """Remove an empty directory."""
        with self.lock:
            self._begin()
            self._existing_dir(name)
            dirs, files = self.index.names_in(name)
            if dirs or files or name == "":
                raise DirectoryNotEmptyError(self.path, name)
            self._connection.execute("DELETE FROM dirs WHERE path = ?", (name,))
            self._queue.forget_dirs()
            self._count(0)

    def _existing_dir(self, name: str) -> None:
        if not self.index.is_dir(name):
            if self.index.is_file(name):
                raise EntryIsFileError(self.path, name)
            raise EntryNotFoundError(self.path, name)

    def remove_tree(self, name: str) -> None:
        """Remove a directory and everything below; of the root, everything below."""
        with self.lock:
            self._begin()
            self._existing_dir(name)  # also puts into the index what is still waiting
            low, high = (f"{name}/", f"{name}0") if name else ("", b"")  # every text comes before a blob
            below = [
                path
                for (path,) in self._connection.execute(
                    "SELECT path FROM dirs WHERE path > ? AND path < ?", (low, high)
                )
            ]
            below.sort(key=len, reverse=True)  # a directory may go only when nothing refers to it

            with triggers_off(self._connection):
                self._connection.execute("DELETE FROM files WHERE path >= ? AND path < ?", (low, high))
                self._connection.executemany("DELETE FROM dirs WHERE path = ?", [(path,) for path in below])
            self._queue.forget_dirs()
            if name:
                self._connection.execute("DELETE FROM dirs WHERE path = ?", (name,))
            else:
                self._connection.execute(
                    "UPDATE dirs SET num_subdirs = 0, num_files = 0, num_files_tree = 0, size_tree = 0"
                )
            self._count(0)

    def rename(self, old: str, new: str) -> None:
        """Give a file or a directory another name; directories on the way are made."""
        with self.lock:
            self._begin()
            check_new_name(new)
            is_file = self.index.is_file(old)
            if not is_file and not self.index.is_dir(old):
                raise EntryNotFoundError(self.path, old)
            if old == new:
                return
            if not is_file and (old == "" or new.startswith(f"{old}/")):
                raise ValueError(f"{self.path}: {old or 'the root'} cannot be moved to {new}, which lies inside it")
            if self.index.is_file(new) or self.index.is_dir(new):
                raise EntryExistsError(self.path, new)
            self._refuse_below_file(new)
            if parent_of(new) and not self.index.is_dir(parent_of(new)):
                self._connection.execute("INSERT INTO dirs (path) VALUES (?)", (parent_of(new),))
            if is_file:
                self._connection.execute("UPDATE files SET path = ? WHERE path = ?", (new, old))
            else:
                self._rename_dir(old, new)
            self._count(0)

    def _rename_dir(self, old: str, new: str) -> None:
        self._connection.execute("PRAGMA defer_foreign_keys = 1")  # until the commit: children follow below
        self._connection.execute("UPDATE dirs SET path = ? WHERE path = ?", (new, old))

        with triggers_off(self._connection):
            for table in ("files", "dirs"):
                self._connection.execute(
                    f"UPDATE {table} SET path = ? || substr(path, ?) WHERE path > ? AND path < ?",
                    (new, len(old) + 1, f"{old}/", f"{old}0"),
                )
        self._queue.forget_dirs()

    def set_metadata(self, name: str, about: Metadata) -> None:
        """Set those of mode, owner and time that are not None."""
        with self.lock:
            self._begin(is_addition=True)
            table = "files" if self.index.is_file(name) else "dirs"
            changed = self._connection.execute(
                f"UPDATE {table} SET mode = coalesce(?, mode), uid = coalesce(?, uid), gid = coalesce(?, gid), "
                "mtime_ns = coalesce(?, mtime_ns) WHERE path = ?",
                (*about, name),
            ).rowcount
            if not changed:
                raise EntryNotFoundError(self.path, name)
