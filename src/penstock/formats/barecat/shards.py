"""Shards for reading: mapped when they are first needed, each under its own number."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import ClosedError, FormatError
from penstock.formats.barecat.names import MAX_SHARDS, shard_path
from penstock.storage import map_file, mapping_faults

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["MappedShard", "MappedShards"]


class MappedShard:
    """One shard: its bytes as an array and as a memoryview."""

    __slots__ = ("array", "path", "size", "view")

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.array: npt.NDArray[np.uint8] = map_file(path)
        except FileNotFoundError:
            raise FormatError(
                path, problem="this shard is missing", fix="Put it back: all files of an archive belong together."
            ) from None
        self.view = memoryview(self.array)
        self.size = len(self.array)

    def problem_of(self, offset: int, size: int) -> str | None:
        """Why a span cannot be read, if so."""
        if offset >= 0 and size >= 0 and offset + size <= self.size:
            return None
        return f"{size} bytes at byte {offset} of {os.path.basename(self.path)}, which has {self.size} bytes"

    @property
    def is_cut(self) -> bool:
        """Some of it could not be read, because the file became shorter while it was mapped."""
        return mapping_faults(self.array) > 0


class MappedShards:
    """The shards of an archive that is read; any number of threads may use it, and forked children, too.

    ``mapped`` has those that were needed so far.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._place = os.path.abspath(path)  # shards are opened later, perhaps from another directory
        self._is_closed = False
        self.mapped: dict[int, MappedShard] = {}

    def shard(self, number: int, end: int = 0) -> MappedShard:
        """A shard by number, mapped anew if it is shorter than ``end`` and has grown since."""
        found = self.mapped.get(number)
        if found is not None and end <= found.size:
            return found
        if self._is_closed:
            raise ClosedError(f"{self._path}: the archive is closed; open it again")
        if not 0 <= number < MAX_SHARDS:
            raise FormatError(self._path, problem=f"shard {number} cannot exist; numbers go from 0 to {MAX_SHARDS - 1}")
        if found is None or os.path.getsize(found.path) > found.size:
            found = self.mapped[number] = MappedShard(shard_path(self._place, number))
        return found

    def forget(self) -> None:
        """Map everything anew when it is needed next; views that were handed out stay valid."""
        self.mapped = {}

    def close(self) -> None:
        """Let go of the mappings; views that were handed out stay valid."""
        self._is_closed = True
        self.forget()
