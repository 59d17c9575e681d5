"""Files of an archive as Python's file objects."""

from __future__ import annotations

import io
import tempfile
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ArchiveRawFile", "EditedFile", "PositionedFile", "SpooledFile", "parse_mode"]

_SPOOL_BYTES = 50 << 20  # up to here in memory, beyond in a temporary file
_LINE_BYTES = 8192


def parse_mode(mode: str) -> tuple[str, bool, bool]:
    """The letter (r, w, x or a), whether the file is updated (+), and whether it is text.

    Example:
        >>> parse_mode("r+b")
        ('r', True, False)
    """
    letters = set(mode)
    kinds = letters & set("rwxa")
    if len(letters) != len(mode) or len(kinds) != 1 or letters - set("rwxabt+") or {"b", "t"} <= letters:
        raise ValueError(f"mode must be one of r, w, x, a with + and b or t, got {mode!r}")
    return kinds.pop(), "+" in letters, "b" not in letters


class PositionedFile(io.BufferedIOBase):
    """Bytes that are reached by position; whoever derives from this says how many there are, and gives them."""

    size: int
    position = 0
    can_read = True
    can_write = False

    def _read_at(self, position: int, size: int) -> bytes:
        raise NotImplementedError

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def read(self, size: int | None = -1, /) -> bytes:
        """Bytes from the position on."""
        self._check_open()
        if not self.can_read:
            raise io.UnsupportedOperation("not readable")
        left = max(0, self.size - self.position)
        count = left if size is None or size < 0 else min(size, left)
        data = self._read_at(self.position, count) if count else b""
        self.position += len(data)
        return data

    def read1(self, size: int = -1, /) -> bytes:
        """Bytes from the position on."""
        return self.read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Bytes up to the end of the line."""
        line, begin = b"", self.position
        limit = self.size - begin if size is None or size < 0 else size
        while len(line) < limit and (piece := self.read(min(_LINE_BYTES, limit - len(line)))):
            found = piece.find(b"\n") + 1
            line += piece[:found] if found else piece
            if found:
                break
        self.position = begin + len(line)
        return line

    def tell(self) -> int:
        """The position."""
        self._check_open()
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position; past the end there is nothing to read."""
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError(f"whence must be 0, 1 or 2, got {whence}")
        if base + offset < 0:
            raise ValueError(f"Negative seek position: {base + offset} lies before the beginning")
        self.position = base + offset
        return self.position

    def readable(self) -> bool:
        """Whether reading is allowed."""
        return self.can_read

    def writable(self) -> bool:
        """Whether writing is allowed."""
        return self.can_write

    def seekable(self) -> bool:
        """It is."""
        return True


class ArchiveRawFile(PositionedFile):
    """A stored file, read in place: seeking costs nothing, and only what is asked for is copied.

    Args:
        name: of the file.
        view: its bytes.
        check: called with all bytes when they were read in one go, and gives them back; raises if they are damaged.
    """

    def __init__(self, name: str, view: memoryview, check: Callable[[bytes], bytes]) -> None:
        self.name, self.size = name, len(view)
        self._view = view
        self._check = check

    def _read_at(self, position: int, size: int) -> bytes:
        return bytes(self._view[position : position + size])

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as there are bytes."""
        self._check_open()
        part = self._view[self.position : self.position + len(buffer)]
        buffer[: len(part)] = part
        self.position += len(part)
        return len(part)

    def readall(self) -> bytes:
        """The rest; all bytes at once are checked."""
        is_whole = self.position == 0
        data = self.read()
        return self._check(data) if is_whole else data


class SpooledFile(PositionedFile):
    """A file that is written: its content is kept apart, and ``_store`` is called when it is closed.

    Args:
        content: what it holds at first.
        readable: reading is allowed.
        appends: every write goes to the end.
    """

    can_write = True

    def __init__(self, content: bytes, *, readable: bool, appends: bool) -> None:
        # Kept until close(), which every file object has.
        self.spillover: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        self.spillover.write(content)
        self.size, self.can_read, self.dirty = len(content), readable, False
        self.append_mode = appends
        self.position = self.size if appends else 0

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

    def _store(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Store the new content."""
        if self.closed:
            return
        try:
            self.can_read = True  # for whoever stores it
            self._store()
        finally:
            self.spillover.close()
            super().close()


class EditedFile(SpooledFile):
    """A file of an archive that is written; it is stored if something was changed.

    Args:
        name: of the file.
        content: what it holds at first.
        store: takes the new content; called once.
        readable: reading is allowed.
        appends: every write goes to the end.
        dirty: it counts as changed from the beginning.
    """

    def __init__(
        self, name: str, content: bytes, store: Callable[[bytes], None], *, readable: bool, appends: bool, dirty: bool
    ) -> None:
        super().__init__(content, readable=readable, appends=appends)
        self.name, self.dirty = name, dirty
        self._store_content = store

    def _store(self) -> None:
        if self.dirty:
            self.dirty = False
            self._store_content(self._read_at(0, self.size))
