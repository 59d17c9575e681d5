"""What a process that fuzzes is doing, in a file that outlives it: runs u64, begun f64, size u64, then the input."""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

__all__ = ["Note"]

_HEAD = struct.Struct("<QdQ")
_MAX_INPUT = 1 << 20


class Note:
    """A note in a file, which one process writes and another reads. The file is made if it is missing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open(path, "a+b") as file:
            file.truncate(_HEAD.size + _MAX_INPUT)
            self._map = mmap.mmap(file.fileno(), _HEAD.size + _MAX_INPUT)

    @property
    def runs(self) -> int:
        """How many inputs have begun, in all processes that had this note."""
        return int(_HEAD.unpack_from(self._map)[0])

    @property
    def begun_s(self) -> float:
        """When the input began that runs now, as time.monotonic counts; 0 if none does."""
        return float(_HEAD.unpack_from(self._map)[1])

    @property
    def input(self) -> bytes:
        """The input that runs now, or ran last."""
        size = min(_HEAD.unpack_from(self._map)[2], _MAX_INPUT)
        return self._map[_HEAD.size : _HEAD.size + size]

    def begin(self, data: bytes, now_s: float) -> None:
        """An input begins."""
        kept = data[:_MAX_INPUT]
        self._map[_HEAD.size : _HEAD.size + len(kept)] = kept
        _HEAD.pack_into(self._map, 0, self.runs + 1, now_s, len(kept))

    def end(self) -> None:
        """It has ended."""
        struct.pack_into("<d", self._map, 8, 0.0)
