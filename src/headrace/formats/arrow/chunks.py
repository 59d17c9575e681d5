"""One column of one part of a table (a row group, a record batch) as numpy sees it.

Numbers and bytes are looked at where Arrow has them, in a mapped file if need be. Nothing that the file says is
believed: places are compared with the size of the buffer each time they are used, for a file may change under a
mapping. Only nested values are left to Arrow; they are copied first and then checked as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.progress import format_count
from headrace.registry import require

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["BytesChunk", "Chunk", "CodedChunk", "NumberChunk", "Span", "ValueChunk", "validity"]

Flags: TypeAlias = npt.NDArray[np.bool_]
Span: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64], Flags]
"""A region, where in it values begin, how long they are, and which of them do not lie inside of it."""


def validity(array: Any) -> Flags | None:
    """Which values of an Arrow array are there; None when all are."""
    bitmap = array.buffers()[0]
    if bitmap is None or len(array) == 0:
        return None
    first, last = array.offset // 8, -(-(array.offset + len(array)) // 8)
    bits = np.frombuffer(bitmap, np.uint8)[first:last]
    if len(bits) < last - first:
        raise ValueError("the table of missing values is cut short")
    flags = np.unpackbits(bits, bitorder="little")[array.offset % 8 :][: len(array)].astype(np.bool_)
    return None if flags.all() else flags


def both(first: Flags | None, second: Flags | None) -> Flags | None:
    """Which values are there if both must be."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def items(buffer: Any, dtype: np.dtype[Any], start: int, count: int) -> npt.NDArray[Any]:
    """Numbers of a buffer, without a copy; ValueError when it is too short."""
    if count == 0:
        return np.empty(0, dtype)
    size = 0 if buffer is None else buffer.size // dtype.itemsize
    if start < 0 or start + count > size:
        raise ValueError(f"a buffer holds {format_count(size, 'number')}, and {start + count} are needed")
    return np.frombuffer(buffer, dtype, size)[start : start + count]


@dataclass(frozen=True, slots=True, eq=False)
class NumberChunk:
    """Numbers, or arrays of one shape."""

    values: npt.NDArray[Any]
    valid: Flags | None

    @property
    def size_bytes(self) -> int:
        """Bytes that it looks at."""
        return int(self.values.nbytes)

    def missing(self, rows: IndexArray) -> Flags | None:
        """Which of some rows have no value."""
        return None if self.valid is None else ~self.valid[rows]


@dataclass(frozen=True, slots=True, eq=False)
class BytesChunk:
    """Bytes of any length: value i lies at ``shift + table[i]`` of the region, up to ``shift + table[i + 1]``."""

    base: npt.NDArray[np.uint8]
    shift: int
    limit: int
    table: npt.NDArray[Any]
    valid: Flags | None

    @property
    def size_bytes(self) -> int:
        """Bytes that it looks at."""
        return int(self.limit + self.table.nbytes)

    def missing(self, rows: IndexArray) -> Flags | None:
        """Which of some rows have no value."""
        return None if self.valid is None else ~self.valid[rows]

    def spans(self, rows: IndexArray) -> Span:
        """Where the values of some rows are; those that lie outside of the data are given no size."""
        starts = self.table[rows].astype(np.int64)
        sizes = self.table[rows + 1].astype(np.int64) - starts
        is_bad = (starts < 0) | (sizes < 0) | (sizes > self.limit) | (starts > self.limit - sizes)
        if self.valid is not None:
            sizes[~self.valid[rows]] = 0
        sizes[is_bad] = 0
        starts[sizes == 0] = 0
        return self.base, starts + self.shift, sizes, is_bad


@dataclass(frozen=True, slots=True, eq=False)
class CodedChunk:
    """Values by number: bytes of a dictionary."""

    codes: npt.NDArray[np.integer[Any]]
    words: BytesChunk
    valid: Flags | None

    @property
    def size_bytes(self) -> int:
        """Bytes that it looks at."""
        return int(self.codes.nbytes + self.words.size_bytes)

    def missing(self, rows: IndexArray) -> Flags | None:
        """Which of some rows have no value."""
        return None if self.valid is None else ~self.valid[rows]

    def spans(self, rows: IndexArray) -> Span:
        """Where the words of some rows are."""
        codes = self.codes[rows].astype(np.int64)
        count = len(self.words.table) - 1
        is_bad = (codes < 0) | (codes >= count)
        if self.valid is not None:
            is_bad &= self.valid[rows]
        if count == 0:
            nothing = np.zeros(len(rows), np.int64)
            return self.words.base, nothing, nothing, is_bad
        base, starts, sizes, outside = self.words.spans(np.where((codes < 0) | (codes >= count), 0, codes))
        return base, starts, sizes, is_bad | outside


@dataclass(frozen=True, slots=True, eq=False)
class ValueChunk:
    """Nested values, which Arrow turns into those of Python; the array is a checked copy."""

    array: Any
    size_bytes: int

    def take(self, rows: IndexArray) -> list[Any]:
        """The values of some rows; None where there is none."""
        pyarrow = require("pyarrow", "reading Arrow data")
        values: list[Any] = self.array.take(pyarrow.array(rows)).to_pylist()
        return values


Chunk: TypeAlias = NumberChunk | BytesChunk | CodedChunk | ValueChunk
