"""Spans of a file, read when they are asked for, all of a batch at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._native import RangeReader

__all__ = ["RangeSource", "read_ranges"]


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
        places = np.zeros(len(sizes), np.uint64)
        np.cumsum(sizes[:-1], out=places[1:])
        out = self._take((int(sizes.sum()),), np.uint8)
        read_ranges(self._path, self._reader, pointers, sizes, out, places)
        return out, places


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
            problem=f"{int(sizes[position])} bytes cannot be read ({detail})",
            fix="Was the file changed or cut while it was in use? Restore it, and replace files only by renaming.",
        )
