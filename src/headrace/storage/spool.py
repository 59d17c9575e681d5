"""Bytes that are kept until they are needed: in memory, and in a file without a name once there are many."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

from headrace.storage.new_file import temporary_file

if TYPE_CHECKING:
    from headrace.types import Buffer

__all__ = ["Spool"]


class Spool:
    """Takes bytes and gives them back.

    Args:
        folder: where the file may stand.
        max_bytes: from then on the bytes are in a file.

    Example:
        >>> import tempfile
        >>> spool = Spool(tempfile.mkdtemp(), max_bytes=2)
        >>> spool.write(b"hello")
        >>> spool.seek(1)
        >>> spool.read(3)
        b'ell'
        >>> spool.close()
    """

    def __init__(self, folder: str, *, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._memory: io.BytesIO | None = io.BytesIO()
        self._file: BinaryIO = self._memory

    def write(self, data: Buffer) -> None:
        """Put bytes at the place where we are."""
        self._file.write(data)
        if self._memory is not None and self._memory.tell() > self._max_bytes:
            file = temporary_file(self._folder)
            file.write(self._memory.getbuffer())
            file.seek(self._memory.tell())
            self._file, self._memory = file, None

    def seek(self, offset: int) -> None:
        """Go to a place."""
        self._file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        """Bytes from there on."""
        return self._file.read(size)

    def close(self) -> None:
        """Let go of them."""
        self._file.close()
