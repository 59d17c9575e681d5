"""Files of an archive as Python's file objects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.exceptions import BarecatIntegrityError
from headrace.formats.barecat.file_objects import PositionedFile, SpooledFile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BarecatFileObject", "BarecatReadOnlyFileObject", "BarecatReadWriteFileObject"]


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


class BarecatFileObject(PositionedFile):
    """A file of an archive: bytes that can be reached by position."""

    def readall(self) -> bytes:
        """The rest."""
        return self.read()

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


class BarecatReadWriteFileObject(SpooledFile, BarecatFileObject):  # programs ask whether it is one
    """A file that is written: changes are collected beside the archive, and stored when it is closed."""

    def __init__(
        self,
        shard_file: Any,
        offset: int,
        size: int,
        on_close_callback: Callable[[BarecatReadWriteFileObject], None],
        mode: str = "r+b",
    ) -> None:
        content = read_span(shard_file, offset, size) if size else b""
        super().__init__(content, readable="+" in mode or mode.startswith("r"), appends="a" in mode)
        self.shard_file, self.offset, self.original_size = shard_file, offset, size
        self.on_close_callback = on_close_callback
        self.mode = mode

    def _store(self) -> None:
        self.on_close_callback(self)
