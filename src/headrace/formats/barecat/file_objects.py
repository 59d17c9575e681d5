"""Files of an archive as Python's file objects."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ArchiveRawFile", "EditedFile", "parse_mode"]


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


def _position_of(name: str, base: int | None, offset: int, whence: int) -> int:
    if base is None:
        raise ValueError(f"whence must be 0, 1 or 2, got {whence}")
    if base + offset < 0:
        raise ValueError(f"{name}: position {base + offset} lies before the beginning")
    return base + offset


class ArchiveRawFile(io.RawIOBase):
    """A stored file, read in place: seeking costs nothing, and only what is asked for is copied.

    Args:
        name: of the file.
        view: its bytes.
        check: called with all bytes when they were read in one go, and gives them back; raises if they are damaged.
    """

    def __init__(self, name: str, view: memoryview, check: Callable[[bytes], bytes]) -> None:
        self.name = name
        self._view = view
        self._check = check
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position; past the end there is nothing to read."""
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._view)}.get(whence)
        self._position = _position_of(self.name, base, offset, whence)
        return self._position

    def tell(self) -> int:
        """The position."""
        self._check_open()
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there are bytes."""
        self._check_open()
        part = self._view[self._position : self._position + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def readall(self) -> bytes:
        """The rest; all bytes at once are checked."""
        self._check_open()
        data = bytes(self._view[self._position :])
        if self._position == 0:
            data = self._check(data)
        self._position = max(self._position, len(self._view))
        return data

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name}: the file is closed")


class EditedFile(io.BytesIO):
    """A file that is written: changes are collected in memory and stored when it is closed.

    Args:
        name: of the file.
        content: what it holds at first.
        store: takes the new content; called once, and only if something was changed.
        readable: reading is allowed.
        appends: every write goes to the end.
        dirty: it counts as changed from the beginning.
    """

    def __init__(
        self, name: str, content: bytes, store: Callable[[bytes], None], *, readable: bool, appends: bool, dirty: bool
    ) -> None:
        super().__init__(content)
        self.name = name
        self._store = store
        self._is_readable = readable
        self._appends = appends
        self._is_dirty = dirty
        if appends:
            super().seek(0, io.SEEK_END)

    def readable(self) -> bool:
        """Whether reading is allowed."""
        return self._is_readable

    def read(self, size: int | None = -1, /) -> bytes:
        """Bytes from the position on."""
        self._check_readable()
        return super().read(size)

    def read1(self, size: int | None = -1, /) -> bytes:
        """The same."""
        return self.read(size)

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as there are bytes."""
        self._check_readable()
        return super().readinto(buffer)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Bytes up to the end of the line."""
        self._check_readable()
        return super().readline(size)

    def readlines(self, size: int | None = -1, /) -> list[bytes]:
        """All lines from the position on."""
        self._check_readable()
        return super().readlines(size)

    def __next__(self) -> bytes:
        self._check_readable()
        return super().__next__()

    def _check_readable(self) -> None:
        if not self._is_readable:
            raise io.UnsupportedOperation(f"{self.name} is not open for reading")

    def write(self, data: Any, /) -> int:
        """Write at the position, or at the end when appending."""
        if not memoryview(data).nbytes:
            return 0
        if self._appends:
            super().seek(0, io.SEEK_END)
        self._is_dirty = True
        return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut, or lengthen with zeros."""
        position = self.tell()
        wanted = position if size is None else size
        length = self.getbuffer().nbytes
        if wanted > length:
            super().seek(length)
            super().write(bytes(wanted - length))
            super().seek(position)
        else:
            super().truncate(wanted)
        self._is_dirty |= wanted != length
        return wanted

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self.getbuffer().nbytes}.get(whence)
        return super().seek(_position_of(self.name, base, offset, whence))

    def close(self) -> None:
        """Store the new content."""
        if self.closed:
            return
        try:
            if self._is_dirty:
                self._is_dirty = False
                self._store(self.getvalue())
        finally:
            super().close()
