"""Where the data of a batch are, from metadata records and the allocation table; everything is checked before use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace._native import AllocationTable, BetonColumn
from headrace.errors import CorruptSampleError
from headrace.formats.beton.spans import Spans, image_spans
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from headrace.types import Source

__all__ = ["StorageState", "StoredColumn", "check_sizes", "column_of", "locate_bytes", "locate_images", "read_span"]

StorageState: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]
"""What decoders get: the bytes of the file, pointers of the allocation table in ascending order, their sizes.

Of several rows with one pointer the largest comes last: values of no bytes share the place of their neighbour.
"""

_NOT_FOUND = np.uint64(2**64 - 1)


class _SortedTable:
    def __init__(self, state: StorageState) -> None:
        self._pointers, self._sizes = state[1], state[2]

    def sizes(self, pointers: npt.NDArray[np.uint64], guesses: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        if not len(self._pointers):
            return np.full(len(pointers), _NOT_FOUND)
        rows = np.searchsorted(self._pointers, pointers, side="right") - 1
        found = (rows >= 0) & (self._pointers[rows] == pointers)
        return np.where(found, self._sizes[rows], _NOT_FOUND)


class StoredColumn:
    """A field of a file: finds the data of many samples by one native call, if all of them are as they should be.

    Args:
        metadata: the records of all samples.
        member: the field's name in them.
        table: the allocation table.
        row_in_sample: how many values of a sample the table usually has before this one.
        file_size: data end there.
    """

    def __init__(self, metadata: Any, member: str, table: Any, row_in_sample: int, file_size: int) -> None:
        record = metadata.dtype
        at = record.fields[member][1]
        self._native = BetonColumn(metadata.view(np.uint8), record.itemsize, at, 0, file_size)
        self._table = AllocationTable(table.view(np.uint8))
        self._rows = len(table) // max(1, len(metadata)), row_in_sample

    def pictures(self, indices: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...] | None:
        """Pointers, sizes, modes, widths and heights of pictures."""
        return self._native.pictures(self._table, indices, *self._rows)

    def arrays(self, indices: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.uint64] | None:
        """Pointers of values of one size."""
        return self._native.arrays(indices, size)


def column_of(operation: Any, metadata: Any) -> StoredColumn | None:
    """The column that a decoder reads, if it is one of a file and the metadata are those of this column."""
    column: StoredColumn | None = getattr(getattr(operation, "field", None), "column", None)
    return column if metadata is operation.metadata else None


def locate_images(
    metadata: Any,
    indices: Any,
    state: StorageState,
    source: Source | None = None,
    column: StoredColumn | None = None,
) -> ImageSpans:
    """The undecoded pictures of some samples; CorruptSampleError names the first that cannot be there."""
    found = None if column is None else column.pictures(np.asarray(indices, np.int64))
    if found is not None:
        pointers, sizes, modes, widths, heights = found
        base, places = (state[0], pointers) if source is None else source.locate(pointers, sizes)
        return ImageSpans(base, places, sizes, modes, widths, heights)
    members = metadata[np.asarray(indices, np.int64)]
    table: Any = _SortedTable(state)
    spans = image_spans(members, table, np.zeros(len(members), np.uint64))
    spans.keep_inside(0, len(state[0]))
    _raise_first(spans, indices)
    base, places = (state[0], spans.pointers) if source is None else source.locate(spans.pointers, spans.sizes)
    sides = (members["width"].astype(np.uint32), members["height"].astype(np.uint32))
    return ImageSpans(base, places, spans.sizes, members["mode"].copy(), *sides)


def locate_bytes(
    pointers: Any, sizes: Any, indices: Any, state: StorageState, source: Source | None = None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Memory, places in it and sizes of values whose sizes are known."""
    spans = Spans(np.array(pointers, np.uint64), np.array(sizes, np.uint64))
    spans.keep_inside(0, len(state[0]))
    _raise_first(spans, indices)
    base, places = (state[0], spans.pointers) if source is None else source.locate(spans.pointers, spans.sizes)
    return base, places, spans.sizes


def check_sizes(sizes: npt.NDArray[np.uint64], room: int, indices: Any) -> None:
    """CorruptSampleError for the first value that is longer than any value can be."""
    spans = Spans(np.zeros(len(sizes), np.uint64), sizes)
    spans.reject(sizes > np.uint64(room), f"a value of {{size}} bytes, and none can have more than {room}")
    _raise_first(spans, indices)


def read_span(address: Any, mem_state: Any) -> Any:
    """The bytes of one allocation; plain enough for numba."""
    row = np.searchsorted(mem_state[1], address, side="right") - 1
    size = mem_state[2][row]
    return mem_state[0][address : address + size]


def _raise_first(spans: Spans, indices: Any) -> None:
    if spans.problems:
        position = min(spans.problems)
        raise CorruptSampleError(
            "dataset",
            sample=int(indices[position]),
            problem=spans.problems[position],
            fix="Restore the file from a copy, or leave the sample out.",
        )
