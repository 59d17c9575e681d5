"""What is carried between archives, folders, tar and zip: one entry after the other."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.formats.barecat.names import check_new_name, clean_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from headrace.formats.barecat.rows import Metadata

__all__ = ["Entry", "Exactly", "Transfer", "content_of", "safe_name"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory on its way; ``open`` gives a file's content and is called at most once."""

    name: str
    is_dir: bool
    size: int
    about: Metadata
    open: Callable[[], BinaryIO] = io.BytesIO


@dataclass(slots=True)
class Transfer:
    """What was carried: counts, bytes, and what was left out, with the reason."""

    files: int = 0
    dirs: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list)


def safe_name(name: str) -> str:
    """A name from an archive that stays inside the target; ValueError for one that does not.

    Example:
        >>> safe_name("./a//b")
        'a/b'
    """
    if name.startswith("/"):
        raise ValueError(f"{name!r} is an absolute path; names in an archive must be relative")
    if ".." in name.split("/"):
        raise ValueError(f"{name!r} leads out of the archive; it is refused")
    return check_new_name(clean_name(name))


def content_of(entry: Entry) -> bytes:
    """The whole content, which must have the size that was announced."""
    with entry.open() as file:
        data = file.read(entry.size + 1)
    if len(data) != entry.size:
        raise ValueError(f"{entry.name} should have {entry.size} bytes and has {'more' if data else 'none'}")
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
            raise ValueError(
                f"{self._entry.name} should have {self._entry.size} bytes and has {'more' if piece else 'fewer'}"
            )
        buffer[: len(piece)] = piece
        return len(piece)
