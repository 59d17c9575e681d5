"""The items of an HDF5 dataset, row by row: where they lie in the mapped file, and how rows of them are taken.

Contract: any number of threads. Only ``LibraryItems`` uses the HDF5 library, which has one lock for all of Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from headrace._native import gather_into
from headrace.errors import FormatError
from headrace.formats.hdf5.filters import FLETCHER, Filter, undo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.hdf5.chunk_cache import ChunkCache
    from headrace.formats.hdf5.library import LibraryFile
    from headrace.types import IndexArray

__all__ = ["ChunkTable", "ChunkedItems", "FlatItems", "Items", "LibraryItems"]


class Items(Protocol):
    """Rows of items of one dtype and shape."""

    @property
    def block_rows(self) -> int | None:
        """Rows of a chunk, or None where there are none that are read as a whole."""
        ...

    @property
    def is_checked(self) -> bool:
        """Chunks are compared with their checksums as they are read."""
        ...

    def rows(self, indices: IndexArray) -> npt.NDArray[Any]:
        """Rows by number, in a new array; the numbers are checked."""
        ...


@dataclass(frozen=True, slots=True)
class FlatItems:
    """Items one after the other, in memory or in the mapped file."""

    array: npt.NDArray[Any]
    block_rows: None = None
    is_checked: bool = False

    def rows(self, indices: IndexArray) -> npt.NDArray[Any]:
        """Rows by number."""
        array = self.array
        size = array.dtype.itemsize * math.prod(array.shape[1:])
        if size == 0 or not array.flags.c_contiguous:
            return array[indices]
        whole = array.reshape(-1).view(f"V{size}")  # rows need no alignment then, which a file does not promise
        return whole[indices].view(array.dtype).reshape(-1, *array.shape[1:])


class ChunkTable(NamedTuple):
    """The chunks that are stored, by their number in the grid, ascending; all of them lie inside of the file."""

    numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    skipped: npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ChunkedItems:
    """Items in chunks of the mapped file. A *block* is all chunks with the same rows, put together.

    ``fill`` is what items are that were never written. ``number`` tells the datasets apart that share the cache.
    """

    path: str
    name: str
    number: int
    mapped: npt.NDArray[np.uint8]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    table: ChunkTable
    filters: tuple[Filter, ...]
    fill: npt.NDArray[Any]
    cache: ChunkCache

    @property
    def block_rows(self) -> int:
        """Rows of a chunk."""
        return self.chunk[0]

    @property
    def is_checked(self) -> bool:
        """Chunks have checksums."""
        return any(step.number == FLETCHER for step in self.filters)

    @property
    def _grid(self) -> tuple[int, ...]:
        """How many chunks there are beside each other, along all axes but the first."""
        return tuple(-(-side // step) for side, step in zip(self.shape[1:], self.chunk[1:], strict=True))

    @property
    def _is_whole(self) -> bool:
        """A chunk is a block: it has whole rows."""
        return self.chunk[1:] == self.shape[1:]

    def rows(self, indices: IndexArray) -> npt.NDArray[Any]:
        """Rows by number; every chunk is unpacked once, whatever the order of the rows."""
        out = np.empty((len(indices), *self.shape[1:]), self.dtype)
        if len(indices) == 0 or self._take_direct(indices, out):
            return out
        blocks, within = np.divmod(indices, self.chunk[0])
        for block, positions in _groups(blocks):
            out[positions] = self._block(block)[within[positions]]
        return out

    def _take_direct(self, indices: IndexArray, out: npt.NDArray[Any]) -> bool:
        """Copy rows straight out of the file, where they are stored as they are."""
        if self.filters or not self._is_whole or len(self.table.numbers) == 0:
            return False
        blocks, within = np.divmod(indices, self.chunk[0])
        at = np.minimum(np.searchsorted(self.table.numbers, blocks), len(self.table.numbers) - 1)
        if not np.array_equal(self.table.numbers[at], blocks):
            return False  # some were never written
        size = self.dtype.itemsize * math.prod(self.shape[1:])
        offsets = (self.table.offsets[at] + within * size).astype(np.uint64)
        places = np.arange(len(indices), dtype=np.uint64) * np.uint64(size)
        sizes = np.full(len(indices), size, np.uint64)
        gather_into(self.mapped, offsets, sizes, out.reshape(-1).view(np.uint8), places)
        return True

    def _block(self, block: int) -> npt.NDArray[Any]:
        found = self.cache.get((self.number, block))
        if found is None:
            found = self._read_block(block)
            self.cache.put((self.number, block), found)
        return found

    def _read_block(self, block: int) -> npt.NDArray[Any]:
        count = math.prod(self._grid)
        first, last = np.searchsorted(self.table.numbers, [block * count, (block + 1) * count])
        if self._is_whole and last - first == 1:
            return self._chunk(int(first))
        out = np.empty((self.chunk[0], *self.shape[1:]), self.dtype)
        out[...] = self.fill
        for position in range(int(first), int(last)):
            where = np.unravel_index(int(self.table.numbers[position]) - block * count, self._grid)
            starts = [int(place) * step for place, step in zip(where, self.chunk[1:], strict=True)]
            stops = [min(s + step, side) for s, step, side in zip(starts, self.chunk[1:], self.shape[1:], strict=True)]
            inside = tuple(slice(0, stop - start) for start, stop in zip(starts, stops, strict=True))
            out[(slice(None), *map(slice, starts, stops))] = self._chunk(position)[(slice(None), *inside)]
        return out

    def _chunk(self, position: int) -> npt.NDArray[Any]:
        start, size = int(self.table.offsets[position]), int(self.table.sizes[position])
        try:
            skipped, wanted = int(self.table.skipped[position]), self.dtype.itemsize * math.prod(self.chunk)
            data = undo(self.mapped[start : start + size], self.filters, skipped, wanted)
        except ValueError as error:
            problem = f"dataset {self.name!r}, chunk {int(self.table.numbers[position])}: {error}"
            raise FormatError(self.path, problem=problem, offset=start, fix="Copy the file again.") from None
        return data.view(self.dtype).reshape(self.chunk)


def _groups(blocks: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each number that occurs, ascending, and where."""
    order = np.argsort(blocks, kind="stable")
    ordered = blocks[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for part in np.split(order, cuts):
        yield int(blocks[part[0]]), part


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LibraryItems:
    """Items that the HDF5 library reads and converts, a block of rows at a time."""

    file: LibraryFile
    name: str
    stored_name: bytes
    number: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    block_rows: int
    cache: ChunkCache
    is_checked: bool = False

    def rows(self, indices: IndexArray) -> npt.NDArray[Any]:
        """Rows by number."""
        out = np.empty((len(indices), *self.shape[1:]), self.dtype)
        blocks, within = np.divmod(indices, self.block_rows)
        for block, positions in _groups(blocks) if len(indices) else ():
            out[positions] = self._block(block)[within[positions]]
        return out

    def _block(self, block: int) -> npt.NDArray[Any]:
        found = self.cache.get((self.number, block))
        if found is None:
            start = block * self.block_rows
            try:
                found = np.asarray(self.file.dataset(self.stored_name)[start : start + self.block_rows])
            except (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError) as error:
                problem = f"dataset {self.name!r}, samples from {start} on: the HDF5 library cannot read them ({error})"
                raise FormatError(self.file.path, problem=problem, fix="Copy the file again.") from None
            if self.dtype != object:  # how large objects are is not known
                self.cache.put((self.number, block), found)
        return found
