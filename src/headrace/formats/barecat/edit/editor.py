"""Changes to an archive: files here, everything else in ``Directories``."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace._native import crc32c
from headrace.errors import (
    ArchiveBusyError,
    CorruptFileError,
    EntryExistsError,
    EntryIsDirectoryError,
    EntryIsFileError,
    EntryNotFoundError,
    FileTooLargeError,
)
from headrace.formats.barecat.batches import RESTORE, check_content
from headrace.formats.barecat.edit.directories import Directories
from headrace.formats.barecat.edit.maintenance import finish_reshard
from headrace.formats.barecat.edit.shard_writer import SMALL_BYTES
from headrace.formats.barecat.edit.transactions import Transactions, WriteOptions
from headrace.formats.barecat.edit.undo import MAX_RECORD_BYTES
from headrace.formats.barecat.index.rows import Place
from headrace.formats.barecat.index.schema import VERSION
from headrace.formats.entry_names import check_new_name, clean_name
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from headrace.errors import PathLike
    from headrace.formats.barecat.index.rows import FileInfo
    from headrace.formats.metadata import Metadata
    from headrace.types import Buffer

__all__ = ["Editor"]

_log = logging.getLogger("headrace")
_CHUNK_BYTES = 16 << 20
_REFUSED = (EntryExistsError, EntryIsDirectoryError, EntryIsFileError)  # before anything has changed
_REPLACE = "UPDATE files SET shard = ?, offset = ?, size = ?, crc32c = ? WHERE path = ?"
_SHARING = (
    "SELECT 1 FROM files WHERE shard = ? AND offset > ? AND offset < ? AND size > 0 AND offset + size > ? "
    "AND path <> ? LIMIT 1"
)


class Editor:
    """Everything that changes an archive, and what reads it meanwhile.

    Args:
        path: of the archive; index and first shard are made if they are missing.
        options: how it is written.
        is_checked: check every file that is read as a whole against its CRC-32C.

    Attributes:
        has_finished_reshard: a ``reshard`` had been killed, and what it had left is in order now.
    """

    version = VERSION

    def __init__(self, path: str, options: WriteOptions | None = None, *, is_checked: bool = True) -> None:
        chosen = options or WriteOptions()
        self._is_checked = is_checked
        self._transactions = transactions = Transactions(path, replace(chosen, is_append_only=False))
        self.directories = Directories(transactions)
        self.index = transactions.index
        self.shards = transactions.shards
        self.lock = transactions.lock
        self.whole = transactions.whole
        self.full_path = transactions.full_path
        self._queue = transactions.queue
        # Whole transactions are the business of that class alone.
        self.commit, self.close, self.show_as = transactions.commit, transactions.close, transactions.show_as
        self.set_limit, self.check_references = transactions.set_limit, transactions.check_references
        self.changing = transactions.changing
        self.execute, self.execute_many = transactions.execute, transactions.execute_many
        try:
            self.has_finished_reshard = finish_reshard(self)
        except BaseException:
            transactions.close()
            raise
        if self.has_finished_reshard:
            _log.warning("%s: what a killed reshard had begun was finished", path)
        self.is_append_only = transactions.is_append_only = chosen.is_append_only

    @property
    def limit(self) -> int:
        """The limit of shards in bytes."""
        return self._transactions.limit

    # Reading

    def view(self, name: PathLike, offset: int = 0, size: int = -1) -> tuple[str, memoryview, int | None]:
        """The name of a file as the index has it, some of its bytes, and the CRC-32C of all."""
        cleaned, (shard, start, length, checksum) = self._locate(name)
        first = min(offset, length)
        count = length - first if size < 0 else min(size, length - first)
        return cleaned, memoryview(self._bytes_at(cleaned, shard, start + first, count)), checksum

    def _locate(self, name: PathLike) -> tuple[str, tuple[int, int, int, int | None]]:
        place = self.index.place(name) if isinstance(name, str) else None
        if place is not None:
            return str(name), place
        cleaned = clean_name(name)
        place = self.index.place(cleaned)
        if place is None:
            raise self.index.missing_file(cleaned)
        return cleaned, place

    def _bytes_at(self, name: str, shard: int, offset: int, size: int) -> bytes:
        with self.lock:
            data = self.shards.read(shard, offset, size) if offset >= 0 else b""
        if len(data) != size:
            missing = f"at byte {offset} of shard {shard}, {format_count(size, 'byte')} are not there"
            raise CorruptFileError(self.index.path, name=name, problem=missing, fix=RESTORE)
        return data

    def read(self, name: str) -> bytes:
        """A whole file, checked."""
        cleaned, (shard, offset, size, checksum) = self._locate(name)
        data = self._bytes_at(cleaned, shard, offset, size)
        if self._is_checked:
            check_content(self.index.path, cleaned, data, checksum)
        return data

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Whole files, one after the other."""
        return [self.read(name) for name in names]

    # Files

    def check_writable(self, name: str, *, exists: bool) -> None:
        """Raise if a file that exists may not be written, or if there can be no new one of this name."""
        with self.lock:
            self._begin(is_addition=not exists)
            if not exists:
                self._queue.check(check_new_name(name))

    def _begin(self, *, is_addition: bool = False) -> None:
        self._transactions.begin(is_addition=is_addition)

    def add(self, name: str, data: Buffer, about: Metadata) -> Place:
        """Add a file from memory; there must be none of this name. Gives where its bytes are."""
        size = len(data)
        with self.lock:
            self._begin(is_addition=True)
            check_new_name(name)
            if size > SMALL_BYTES:
                self._queue.check(name)  # before anything is written
            content = data if isinstance(data, bytes) else bytes(data)
            shard, offset = self._reserve(name, size)
            try:  # as ``whole``, which would take longer than the rest
                self.shards.append(content)
                place = Place(shard, offset, size, crc32c(content))
                if size <= SMALL_BYTES:
                    self._queue.check(name)
                self._queue.put_checked(name, place, about)
            except _REFUSED:
                raise
            except BaseException as error:
                self._transactions.fail(error)
                raise
            self._count(size)
            return place

    def _count(self, size: int) -> None:
        """Count a file that was added."""
        transactions = self._transactions
        if transactions.largest is not None and size > transactions.largest:
            transactions.largest = size
        transactions.count(size)

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
                if self._transactions.is_whole:  # it is the file that could not be read
                    with self.whole:
                        self.shards.cut(shard, offset)
                raise
            place = Place(shard, offset, size, checksum)
            with self.whole:
                self._queue.put_checked(name, place, about)
            self._count(size)
            return place

    def _copy(self, name: str, file: BinaryIO, size: int) -> int:
        checksum, left = 0, size
        while left:
            part = file.read(min(left, _CHUNK_BYTES))
            if not part:
                raise OSError(
                    f"{name} ended after {format_count(size - left, 'byte')} of {size}; it was changed meanwhile"
                )
            with self.whole:
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
            raise FileTooLargeError(self.index.path, name=name, size_bytes=size, limit=self.limit)
        try:
            place = self.shards.reserve(size, self.limit)
        except ArchiveBusyError:
            raise  # it had to commit, and may try again
        except BaseException as error:
            self._transactions.fail(error)
            raise
        self._begin(is_addition=True)  # reserving may have committed
        return place

    def insert(self, name: str, place: tuple[int, int, int, int | None], about: Metadata) -> None:
        """Add a row for bytes that are in a shard already."""
        with self.lock:
            self._begin(is_addition=True)
            self._queue.check(check_new_name(name))
            with self.whole:
                self._queue.put_checked(name, place, about)
            self._count(place[2])

    def update(self, name: str, data: Buffer, about: Metadata | None = None) -> None:
        """Replace the content of a file: in place if it is not longer, else at the end."""
        size = len(data)
        with self.lock:
            self._begin()
            old = self.index.file(name)
            if old is None:
                raise EntryNotFoundError(self.index.path, name)
            is_in_place = size <= old.size and not self._is_shared(old)
            content = data if isinstance(data, bytes) else bytes(data)
            shard, offset = old.place[:2] if is_in_place else self._reserve(name, size)
            with self.whole:
                if is_in_place:
                    self.overwrite(shard, offset, content)
                else:
                    self.shards.append(content)
                self._transactions.connection.execute(_REPLACE, (shard, offset, size, crc32c(content), name))
                if about is not None:
                    self.directories.set_metadata(name, about)
            self._count(size)

    def _is_shared(self, info: FileInfo) -> bool:
        """Another file has some of the same bytes: they must not be overwritten."""
        largest = self._transactions.largest
        if largest is None:  # how far before this one another can begin that reaches into it
            largest = self._transactions.largest = self.index.number("SELECT max(size) FROM files")
        bounds = (info.shard, info.offset - largest, info.end, info.offset, info.path)
        return self._transactions.connection.execute(_SHARING, bounds).fetchone() is not None

    def overwrite(self, shard: int, offset: int, data: Buffer) -> None:
        """Write over bytes of a shard; what committed rows have there is saved until the commit."""
        with self.lock:
            self._begin()
            with self.whole:
                self.save([(shard, offset, len(data))])
                self.shards.overwrite(shard, offset, data)

    def save(self, spans: list[tuple[int, int, int]]) -> None:
        """Save (shard, offset, size) spans before they are overwritten, where committed rows may have bytes."""
        with self.lock:
            self._begin()
            with self.whole:
                for shard, offset, size in spans:
                    for start in range(offset, offset + size, MAX_RECORD_BYTES):
                        if self.shards.is_kept(shard, start):
                            count = min(MAX_RECORD_BYTES, offset + size - start)
                            self._transactions.undo.save(shard, start, self.shards.read(shard, start, count))
                self._transactions.undo.sync()

    def remove(self, name: str) -> None:
        """Remove a file; its bytes are cut off if they are the last of their shard, else they become a gap."""
        with self.lock:
            self._begin()
            old = self.index.file(name)
            if old is None:
                raise self.index.missing_file(name)
            with self.whole:
                self._transactions.connection.execute("DELETE FROM files WHERE path = ?", (name,))
                if old.size and old.end == self.shards.end(old.shard) and self.index.shard_end(old.shard) <= old.offset:
                    self.shards.cut(old.shard, old.offset)
            self._transactions.count(0)
