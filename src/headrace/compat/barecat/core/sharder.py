"""The shards of an archive, or some without one: mapped if they are only read, else held by what writes them."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from headrace._native import crc32c as crc32c_of
from headrace.compat.barecat.core.types import SHARD_SIZE_UNLIMITED
from headrace.compat.barecat.exceptions import BarecatIntegrityError, FileTooLargeBarecatError, translated
from headrace.compat.barecat.io.copyfile import pieces
from headrace.compat.barecat.io.fileobj import (
    BarecatFileObject,
    BarecatReadOnlyFileObject,
    BarecatReadWriteFileObject,
)
from headrace.compat.barecat.util import misc
from headrace.formats.barecat.edit.maintenance import cut_tails
from headrace.formats.barecat.edit.shard_writer import ShardWriter
from headrace.formats.barecat.names import shard_numbers, shard_path
from headrace.formats.barecat.shards import MappedShards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from headrace.errors import PathLike
    from headrace.formats.barecat import Archive

__all__ = ["ShardFile", "Sharder"]

COPY_BUFSIZE = 64 * 1024
_PIECE_BYTES = 16 << 20
_SPOOL_BYTES = 64 << 20
Address = tuple[int, int, int, int]


class Sharder:
    """Reads and writes spans of shards, and knows nothing of names."""

    def __init__(
        self,
        path: PathLike,
        shard_size_limit: int | None = None,
        readonly: bool = True,
        append_only: bool = False,
        threadsafe: bool = False,
        allow_writing_symlinked_shard: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self.shard_size_limit = SHARD_SIZE_UNLIMITED if shard_size_limit is None else shard_size_limit
        self.readonly, self.append_only, self.threadsafe = readonly, append_only, threadsafe
        self.allow_writing_symlinked_shard = allow_writing_symlinked_shard
        self._archive: Archive | None = None
        self._mapped: MappedShards | None = None
        self._own: ShardWriter | None = None
        self._own_lock = threading.RLock()
        self._files: dict[int, ShardFile] = {}

    def use_archive(self, archive: Archive) -> None:
        """Read and write the shards by way of the archive that they belong to."""
        self._archive = archive

    @property
    def _reader(self) -> MappedShards:
        if self._archive is not None:
            return self._archive.shards
        if self._mapped is None:
            self._mapped = MappedShards(self.path, follow_links=True)
        return self._mapped

    @property
    def _writer(self) -> ShardWriter:
        if self.readonly:
            raise io.UnsupportedOperation("not writable")
        if self._archive is not None:
            return self._archive.editor.shards
        if self._own is None:
            allow_links = self.allow_writing_symlinked_shard
            with translated():
                self._own = ShardWriter(self.path, is_synced=True, allow_links=allow_links, commit=lambda: None)
        return self._own

    @property
    def _lock(self) -> AbstractContextManager[Any]:
        return self._own_lock if self._archive is None else self._archive.editor.lock

    # Reading

    def read_span(self, shard: int, offset: int, size: int) -> bytes:
        """Bytes of a shard, fewer where it ends."""
        if not self.readonly:
            with self._lock:
                return self._writer.read(shard, offset, min(size, self._writer.end(shard) - offset))
        if size <= 0 or offset < 0:
            return b""
        return bytes(self._reader.shard(shard, offset + size).view[offset : offset + size])

    def read_from_address(self, shard: int, offset: int, size: int, expected_crc32c: int | None = None) -> bytes:
        """Bytes at a place, checked if it is known what they must be."""
        with translated():
            data = self.read_span(shard, offset, size)
        if expected_crc32c is not None and crc32c_of(data) != expected_crc32c:
            found = crc32c_of(data)
            raise BarecatIntegrityError(f"CRC32C mismatch: {expected_crc32c:#010x} expected, found {found:#010x}")
        return data

    def readinto_from_address(self, shard: int, offset: int, buffer: Any, expected_crc32c: int | None = None) -> int:
        """Fill a buffer from a place."""
        target = memoryview(buffer).cast("B")
        data = self.read_from_address(shard, offset, len(target), expected_crc32c)
        target[: len(data)] = data
        return len(data)

    def open_from_address(
        self,
        shard: int,
        offset: int,
        size: int,
        mode: str = "rb",
        on_close_callback: Callable[[BarecatReadWriteFileObject], None] | None = None,
    ) -> BarecatReadOnlyFileObject | BarecatReadWriteFileObject:
        """A span as a file object."""
        file = self._file(shard)
        if mode in ("r", "rb"):
            return BarecatReadOnlyFileObject(file, offset, size)
        return BarecatReadWriteFileObject(file, offset, size, on_close_callback or (lambda one: None), mode)

    # Writing

    @misc.raise_if_readonly
    def add(
        self,
        shard: int | None = None,
        offset: int | None = None,
        size: int | None = None,
        data: Any = None,
        fileobj: Any = None,
        bufsize: int = COPY_BUFSIZE,
        raise_if_cannot_fit: bool = False,
    ) -> Address:
        """Write bytes behind all others, or at a place; gives shard, offset, size and CRC-32C."""
        check_content(data, fileobj, size)
        if (shard is None) != (offset is None):
            raise ValueError("Shard and offset belong together: give both or none")
        with as_stream(data, fileobj, size) as (file, length):
            if length > self.shard_size_limit:
                raise FileTooLargeBarecatError(length, self.shard_size_limit)
            if shard is not None and offset is not None:
                if offset + length <= self.shard_size_limit:
                    return self._write_at(shard, offset, file, length)
                if raise_if_cannot_fit:
                    raise ValueError("File does not fit in the shard")
            return self._append(file, length)

    def _write_at(self, shard: int, offset: int, file: BinaryIO, size: int) -> Address:
        checksum, done = 0, 0
        for piece in pieces(file, size, _PIECE_BYTES):
            checksum = crc32c_of(piece, checksum)
            self.overwrite(shard, offset + done, piece)
            done += len(piece)
        return shard, offset, size, checksum

    def overwrite(self, shard: int, offset: int, data: bytes) -> None:
        """Write at a place; of an archive, what committed rows have there is saved until the commit."""
        writer = self._writer if self._archive is None or self.readonly else self._archive.editor
        with self._lock:
            writer.overwrite(shard, offset, data)

    def cut(self, shard: int, end: int) -> None:
        """End a shard earlier; what committed rows may name stays until the next commit."""
        writer = self._writer
        with self._lock:
            writer.cut(shard, end)

    def _append(self, file: BinaryIO, size: int) -> Address:
        if self._archive is not None:
            with translated():
                place = self._archive.editor.append("a file", file, size)
            return place.shard, place.offset, size, place.crc32c or 0
        checksum = 0
        with self._lock:
            shard, offset = self._writer.reserve(size, self.shard_size_limit)
            for piece in pieces(file, size, _PIECE_BYTES):
                checksum = crc32c_of(piece, checksum)
                self._writer.append(piece)
        return shard, offset, size, checksum

    @misc.raise_if_readonly
    def add_by_path(
        self,
        filesys_path: PathLike,
        shard: int | None = None,
        offset: int | None = None,
        size: int | None = None,
        raise_if_cannot_fit: bool = False,
        bufsize: int = COPY_BUFSIZE,
    ) -> Address:
        """Write the content of a file of the disk."""
        with open(filesys_path, "rb", buffering=0) as file:
            return self.add(shard, offset, size, fileobj=file, raise_if_cannot_fit=raise_if_cannot_fit)

    @misc.raise_if_readonly
    def reserve(self, size: int) -> tuple[int, int]:
        """Make room behind all others; gives shard and offset."""
        if size > self.shard_size_limit:
            raise FileTooLargeBarecatError(size, self.shard_size_limit)
        return self._append(cast("BinaryIO", _Zeros()), size)[:2]

    @misc.raise_if_readonly
    def start_new_shard(self) -> ShardFile:
        """Go on with the next shard."""
        with self._lock:
            self._writer.begin_shard()
        return self.last_shard_file

    def ensure_open_shards(self, shard_id: int) -> None:
        """Nothing: shards are opened when they are needed."""

    @misc.raise_if_readonly
    def reopen_current_shard(self, mode: str) -> ShardFile:
        """The last shard; modes are kept for programs that pass them."""
        return self.last_shard_file

    @misc.raise_if_readonly
    def reopen_shard(self, shard_number: int, mode: str) -> ShardFile:
        """A shard; modes are kept for programs that pass them."""
        return self._file(shard_number)

    @misc.raise_if_readonly
    def reopen_shards(self) -> None:
        """Nothing: all shards can be read and written."""

    @misc.raise_if_readonly
    def truncate_all_to_logical_size(self, logical_shard_ends: list[int]) -> None:
        """End every shard after its last file, and delete the empty ones at the end."""
        if self._archive is not None:
            cut_tails(self._archive)
            return
        with self._lock:
            used = max((shard for shard, end in enumerate(logical_shard_ends) if end), default=0)
            for shard, end in enumerate(logical_shard_ends[: used + 1]):
                self._writer.cut_now(shard, end)
            self._writer.remove_after(used)

    # The files

    def get_shard_path(self, i_shard: int) -> str:
        """The file of a shard."""
        return shard_path(self.path, i_shard)

    def _file(self, shard: int) -> ShardFile:
        if shard not in self._files:
            self._files[shard] = ShardFile(self, shard, "rb" if self.readonly else "r+b")
        return self._files[shard]

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        if not self.readonly:
            self._writer  # noqa: B018  # makes the first shard
        return max(shard_numbers(self.path), default=0) + 1

    @property
    def shard_files(self) -> list[ShardFile]:
        """All shards as files."""
        return [self._file(number) for number in range(self.num_shards)]

    @property
    def last_shard_file(self) -> ShardFile:
        """The last shard as a file."""
        return self._file(self.num_shards - 1)

    def physical_shard_end(self, shard_number: int) -> int:
        """The byte after the last of a shard."""
        if self.readonly:
            return os.path.getsize(shard_path(self.path, shard_number))
        with self._lock:
            return self._writer.end(shard_number)

    def flush(self) -> None:
        """Give what is still in memory to the system."""
        if not self.readonly:
            with self._lock:
                self._writer.flush()

    @property
    def total_physical_size_seek(self) -> int:
        """Bytes of all shards, with what is still in memory."""
        return sum(self.physical_shard_end(number) for number in range(self.num_shards))

    @property
    def total_physical_size_stat(self) -> int:
        """Bytes of all shards, as the file system says."""
        return sum(os.path.getsize(self.get_shard_path(number)) for number in range(self.num_shards))

    # Life

    def raise_if_readonly(self, message: str) -> None:
        """Raise ValueError if it is only read."""
        if self.readonly:
            raise ValueError(message)

    def raise_if_append_only(self, message: str) -> None:
        """Raise ValueError if what is there may not be changed."""
        if self.append_only:
            raise ValueError(message)

    def close(self) -> None:
        """Let go of the shards; those of an archive are closed with it."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        if self._mapped is not None:
            self._mapped.close()
        if self._own is not None:
            with self._lock:
                self._own.sync()
                self._own.committed()
                self._own.close()
                self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class ShardFile(BarecatFileObject):
    """One shard as a file; any number of threads may ``pread``."""

    def __init__(self, sharder: Sharder, number: int, mode: str) -> None:
        super().__init__()
        self._sharder = sharder
        self.number, self.mode, self.position = number, mode, 0
        self.can_write = mode != "rb"
        self.name = sharder.get_shard_path(number)
        self._fd = -1

    @property
    def size(self) -> int:  # type: ignore[override]  # it grows
        """Bytes of the shard."""
        return self._sharder.physical_shard_end(self.number)

    def pread(self, size: int, offset: int) -> bytes:
        """Bytes at a place, fewer where the shard ends."""
        return self._sharder.read_span(self.number, offset, size)

    def _read_at(self, position: int, size: int) -> bytes:
        return self.pread(size, position)

    def write(self, data: Any, /) -> int:
        """Write over bytes at the position."""
        view = memoryview(data).cast("B")
        self._sharder.overwrite(self.number, self.position, bytes(view))
        self.position += len(view)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """End the shard earlier."""
        wanted = self.position if size is None else size
        self._sharder.cut(self.number, wanted)
        return wanted

    def flush(self) -> None:
        """Give what is still in memory to the system."""
        if not self.closed:
            self._sharder.flush()

    def fileno(self) -> int:
        """A descriptor for reading."""
        self.flush()
        if self._fd < 0:
            self._fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        return self._fd

    def close(self) -> None:
        """Close the descriptor, if there is one; the archive keeps the shard."""
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)
            self._fd = -1
        super().close()

    def __repr__(self) -> str:
        return f"<ShardFile name={self.name!r}>"


class _Zeros:
    def read(self, size: int) -> bytes:
        return bytes(size)


class _Exactly:
    """A file that must have at least so many bytes."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._size = size
        self._done = 0

    def read(self, size: int) -> bytes:
        """The next bytes; ValueError when there are none."""
        piece: bytes = self._file.read(size)
        self._done += len(piece)
        if not piece and size:
            raise ValueError(f"Size mismatch! Expected {self._size}, got only {self._done}")
        return piece


def check_content(data: Any, fileobj: Any, size: int | None) -> None:
    """Refuse arguments that contradict each other."""
    if data is None and fileobj is None:
        raise ValueError("Either data or fileobj must be provided")
    if data is None:
        return
    if fileobj is not None:
        raise ValueError("Both data and fileobj cannot be provided")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ValueError(
            f"Data must be bytes, bytearray or memoryview, got {type(data).__name__}. "
            "Are you using auto_codec/register_codec wrong?"
        )
    if size is not None and size != memoryview(data).nbytes:
        raise ValueError("Specified size does not match the length of the data")


@contextlib.contextmanager
def as_stream(data: Any, fileobj: Any, size: int | None) -> Iterator[tuple[BinaryIO, int]]:
    """Content as a file of known size."""
    if data is not None:
        view = memoryview(data).cast("B")
        yield io.BytesIO(view), len(view)
    elif size is not None:
        yield cast("BinaryIO", _Exactly(fileobj, size)), size
    elif (left := _bytes_left(fileobj)) is not None:
        yield cast("BinaryIO", _Exactly(fileobj, left)), left
    else:  # a pipe: what it holds is known at its end
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            shutil.copyfileobj(fileobj, spool)
            total = spool.tell()
            spool.seek(0)
            yield cast("BinaryIO", spool), total


def _bytes_left(fileobj: Any) -> int | None:
    try:
        here: int = fileobj.tell()
        end: int = fileobj.seek(0, os.SEEK_END)
        fileobj.seek(here)
    except (AttributeError, OSError):
        return None
    return max(0, end - here)
