"""Spans of a file, read when they are asked for, all of a batch at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import FormatError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace._native import RangeReader

__all__ = ["RangeSource", "read_ranges"]

_BLOCK_BYTES = np.uint64(4096)
_LARGE_BYTES = 100_000


class RangeSource:
    """A Source that reads the spans it is asked for, many at a time.

    Args:
        path: of the file, for errors.
        reader: reads it.
        take: makes the array that the bytes go to, from its shape and dtype.
    """

    def __init__(
        self, path: str, reader: RangeReader, take: Callable[[tuple[int, ...], Any], npt.NDArray[Any]]
    ) -> None:
        self._path = path
        self._reader = reader
        self._take = take

    def locate(
        self, pointers: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Read spans; the result is theirs alone."""
        places, total = _arrange(pointers, sizes)
        out = self._take((total,), np.uint8)
        read_ranges(self._path, self._reader, pointers, sizes, out, places)
        return out, places


def _arrange(pointers: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], int]:
    """Where each span goes, and the size of it all.

    Large spans lie in the array as they lie in the file, relative to blocks of the disk: then they are read in place.
    """
    places = np.zeros(len(sizes), np.uint64)
    if len(sizes) == 0 or int(sizes.sum()) < _LARGE_BYTES * len(sizes):
        np.cumsum(sizes[:-1], out=places[1:])
        return places, int(sizes.sum())
    shifts = pointers % _BLOCK_BYTES
    rooms = (shifts + sizes + _BLOCK_BYTES - np.uint64(1)) // _BLOCK_BYTES * _BLOCK_BYTES
    np.cumsum(rooms[:-1], out=places[1:])
    return places + shifts, int(rooms.sum())


def read_ranges(
    path: str,
    reader: RangeReader,
    pointers: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint8],
    places: npt.NDArray[np.uint64],
) -> None:
    """Read spans of a file into places of an array; FormatError when the file does not have them."""
    failures = reader.read(pointers, sizes, out, places)
    if failures:
        position, _, detail = min(failures)
        raise FormatError(
            path,
            offset=int(pointers[position]),
            problem=f"{format_count(int(sizes[position]), 'byte')} cannot be read ({detail})",
            fix="Was the file changed or cut while it was in use? Restore it, and replace files only by renaming.",
        )
