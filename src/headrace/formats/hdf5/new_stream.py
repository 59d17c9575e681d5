"""The new file as the HDF5 library sees it.

The library crashes, or loses bytes without a word, when a write of a file object fails or does less than it was asked.
Here every write is done whole. The first one that cannot be is kept, from then on nothing is written, and the library
goes on as if all were well; whoever uses it asks for the error afterwards.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.storage import AtomicFile

__all__ = ["NewStream"]


class NewStream:
    """A file object over a file that has no name yet.

    Args:
        target: the file; it stays open.

    Attributes:
        error: why a write failed, or None.
    """

    def __init__(self, target: AtomicFile) -> None:
        self._target = target
        self._at = self._end = 0
        self.error: OSError | None = None

    def check(self) -> None:
        """Raise what was kept."""
        if self.error is not None:
            raise self.error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        """The byte it is at."""
        return self._at

    def read(self, size: int) -> bytes:
        """Read as many bytes."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; what could not be written is zeros."""
        view = memoryview(buffer).cast("B")
        count = 0
        while count < len(view) and (got := os.preadv(self._target.fileno(), [view[count:]], self._at + count)):
            count += got
        view[count:] = bytes(len(view) - count)
        self._at += len(view)
        return len(view)

    def write(self, buffer: memoryview) -> int:
        """Write all of a buffer."""
        view = memoryview(buffer).cast("B")
        if self.error is None:
            try:
                self._target.write_at(self._at, view)
            except OSError as error:
                self.error = error
        self._at += len(view)
        self._end = max(self._end, self._at)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut it, or make it longer."""
        self._end = self._at if size is None else size
        if self.error is None:
            try:
                os.ftruncate(self._target.fileno(), self._end)
            except OSError as error:
                self.error = error
        return self._end

    def flush(self) -> None:
        """Nothing waits here."""
