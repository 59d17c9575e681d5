"""What is carried between archives, folders, tar and zip: one entry after the other."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from headrace.formats.metadata import Metadata

__all__ = ["Entry", "Exactly", "content_of", "wrong_size"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory on its way; ``open`` gives a file's content and is called at most once.

    ``offset`` is where the content lies in the file that is read, if it lies there as it is.
    """

    name: str
    is_dir: bool
    size: int
    about: Metadata
    open: Callable[[], BinaryIO] = io.BytesIO
    offset: int | None = None


def wrong_size(entry: Entry, found: str) -> FormatError:
    """The error of a content that has not the size that was announced."""
    size = format_count(entry.size, "byte")
    fix = "What it was read from is damaged, or changed meanwhile."
    return FormatError(entry.name, problem=f"this file should have {size} and has {found}", fix=fix)


def content_of(entry: Entry) -> bytes:
    """The whole content, which must have the size that was announced."""
    with entry.open() as file:
        data = file.read(entry.size + 1)
    if len(data) != entry.size:
        raise wrong_size(entry, "more" if len(data) > entry.size else str(len(data)))
    return data


class Exactly(io.RawIOBase):
    """A stream that must have the size that was announced, neither more nor less."""

    def __init__(self, entry: Entry, file: BinaryIO) -> None:
        self._entry, self._file, self._left = entry, file, entry.size

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next piece."""
        piece = self._file.read(len(buffer))
        self._left -= len(piece)
        if self._left < 0 or (not piece and self._left):
            raise wrong_size(self._entry, "more" if piece else "fewer")
        buffer[: len(piece)] = piece
        return len(piece)
