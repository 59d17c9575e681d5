"""Files of an archive as Python's file objects."""

from __future__ import annotations

import io
import os
import tempfile
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.exceptions import BarecatIntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

__all__ = ["BarecatFileObject", "BarecatReadOnlyFileObject", "BarecatReadWriteFileObject"]

_SPOOL_BYTES = 50 << 20


def read_span(shard_file: Any, offset: int, size: int) -> bytes:
    """Bytes of a shard; all of them, or an error."""
    if hasattr(shard_file, "pread"):
        data: bytes = shard_file.pread(size, offset)
    else:
        shard_file.seek(offset)
        data = shard_file.read(size)
    if len(data) < size:
        name = getattr(shard_file, "name", "the shard")
        raise BarecatIntegrityError(f"{name} ends before byte {offset + size}, where a file should end")
    return data


class BarecatFileObject(io.IOBase):
    """A file of an archive: bytes that can be reached by position."""

    position: int
    size: int
    can_read = True
    can_write = False

    def _read_at(self, position: int, size: int) -> bytes:
        raise NotImplementedError

    def read(self, size: int | None = -1, /) -> bytes:
        """Bytes from the position on."""
        left = max(0, self.size - self.position)
        count = left if size is None or size < 0 else min(size, left)
        data = self._read_at(self.position, count) if count else b""
        self.position += len(data)
        return data

    def read1(self, size: int | None = -1, /) -> bytes:
        """Bytes from the position on."""
        return self.read(size)

    def readall(self) -> bytes:
        """The rest."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as there are bytes."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Bytes up to the end of the line."""
        line, begin = b"", self.position
        limit = self.size - begin if size is None or size < 0 else size
        while len(line) < limit and (piece := self.read(min(8192, limit - len(line)))):
            found = piece.find(b"\n") + 1
            line += piece[:found] if found else piece
            if found:
                break
        self.position = begin + len(line)
        return line

    def tell(self) -> int:
        """The position."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position; past the end there is nothing to read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError(f"Invalid value for whence: {whence}")
        if base + offset < 0:
            raise ValueError("Negative seek position")
        self.position = base + offset
        return self.position

    def write(self, data: Any, /) -> int:
        """Write at the position, if that is allowed."""
        raise io.UnsupportedOperation("not writable")

    def readable(self) -> bool:
        """Whether reading is allowed."""
        return self.can_read

    def writable(self) -> bool:
        """Whether writing is allowed."""
        return self.can_write

    def seekable(self) -> bool:
        """It is."""
        return True

    def __len__(self) -> int:
        return self.size


class BarecatReadOnlyFileObject(BarecatFileObject):
    """A span of a shard, for reading."""

    def __init__(self, shard_file: Any, start: int, size: int) -> None:
        super().__init__()
        self.shard_file = shard_file
        self.start, self.end, self.size = start, start + size, size
        self.position = 0

    def _read_at(self, position: int, size: int) -> bytes:
        return read_span(self.shard_file, self.start + position, size)

    def sendfile(self, out_fd: int, offset: int = 0, count: int | None = None) -> int:
        """Let the system copy bytes to a socket or file; gives how many."""
        if not 0 <= offset <= self.size:
            raise ValueError("Offset out of bounds")
        wanted = self.size - offset if count is None else min(count, self.size - offset)
        sent = os.sendfile(out_fd, self.shard_file.fileno(), self.start + offset, wanted)
        self.position = offset + sent
        return sent


class BarecatReadWriteFileObject(BarecatFileObject):
    """A file that is written: changes are collected beside the archive, and stored when it is closed."""

    can_write = True

    def __init__(
        self,
        shard_file: Any,
        offset: int,
        size: int,
        on_close_callback: Callable[[BarecatReadWriteFileObject], None],
        mode: str = "r+b",
    ) -> None:
        super().__init__()
        letters = mode.replace("b", "")
        self.shard_file, self.offset, self.original_size = shard_file, offset, size
        self.on_close_callback = on_close_callback
        self.mode = mode
        self.append_mode = "a" in letters
        self.can_read = "+" in letters or letters.startswith("r")
        self.dirty = False
        # Kept until close(), which every file object has.
        self.spillover: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        if size:
            self.spillover.write(read_span(shard_file, offset, size))
        self.size = size
        self.position = size if self.append_mode else 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Bytes from the position on."""
        self._check_open()
        if not self.can_read:
            raise io.UnsupportedOperation("not readable")
        return super().read(size)

    def _read_at(self, position: int, size: int) -> bytes:
        self.spillover.seek(position)
        return self.spillover.read(size)

    def write(self, data: Any, /) -> int:
        """Write at the position, or at the end when appending."""
        self._check_open()
        view = memoryview(data).cast("B")
        if not len(view):
            return 0
        if self.append_mode:
            self.position = self.size
        self.spillover.seek(self.position)  # what is between is zero
        self.spillover.write(view)
        self.position += len(view)
        self.size = max(self.size, self.position)
        self.dirty = True
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut, or lengthen with zeros."""
        self._check_open()
        wanted = self.position if size is None else size
        if wanted < 0:
            raise ValueError(f"size must not be negative, got {wanted}")
        if wanted != self.size:
            if wanted > self.size:
                self.spillover.seek(wanted - 1)
                self.spillover.write(b"\0")
            self.spillover.truncate(wanted)
            self.size = wanted
            self.dirty = True
        return self.size

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def close(self) -> None:
        """Store the new content."""
        if self.closed:
            return
        try:
            self.can_read = True  # for the callback
            self.on_close_callback(self)
        finally:
            self.spillover.close()
            super().close()
