"""Changes to an archive: files, and with ``Directories`` everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace._native import crc32c
from headrace.errors import EntryIsDirectoryError, EntryNotFoundError, FileTooLargeError
from headrace.formats.barecat.edit.directories import Directories
from headrace.formats.barecat.edit.shard_writer import SMALL_BYTES
from headrace.formats.barecat.index.rows import Place
from headrace.formats.barecat.names import check_new_name

if TYPE_CHECKING:
    from typing import BinaryIO

    from headrace.formats.barecat.index.rows import Metadata
    from headrace.types import Buffer

__all__ = ["Editor"]

_CHUNK_BYTES = 16 << 20


class Editor(Directories):
    """Everything that changes an archive; it is opened as ``Transactions`` says."""

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
            (self._queue.put_checked if size > SMALL_BYTES else self._queue.put)(name, place, about)
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
            self._queue.put_checked(name, place, about)
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
