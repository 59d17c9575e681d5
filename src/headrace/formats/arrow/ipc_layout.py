"""Where the record batches of an Arrow file are, and how many rows each has, from its footer and a few bytes of each.

The footer and the head of a batch are FlatBuffers: a table begins with the distance back to a list of 16-bit numbers,
which say where in the table each field is (0: it is not there). Of these only what is needed here is looked up. This is
for objects in stores: pyarrow would ask for the batches one by one.

====================  ==========================================================================================
what                  content
====================  ==========================================================================================
end of the file       footer, its size (int32), ``ARROW1``
footer                field 3: a list of blocks: offset (int64), size of the head (int32, 4 unused), of the body (int64)
head of a batch       FF FF FF FF, size (int32), a table; field 2 of it is a table whose field 0 is the number of rows
====================  ==========================================================================================
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.progress import format_count

if TYPE_CHECKING:
    from headrace.storage import StoredFile
    from headrace.types import IndexArray

__all__ = ["Layout", "read_layout"]

_BATCHES, _HEADER, _ROWS = 3, 2, 0
_END = struct.Struct("<i6s")
_MAGIC = b"ARROW1"
_BLOCK = np.dtype([("offset", "<i8"), ("head", "<i4"), ("unused", "<i4"), ("body", "<i8")])
_CONTINUES = 0xFFFFFFFF


class Layout(NamedTuple):
    """Record batches: where each begins, how long it is with its head, and its rows."""

    offsets: IndexArray
    sizes: IndexArray
    counts: IndexArray


def read_layout(file: StoredFile) -> Layout:
    """The record batches of an Arrow file; ValueError when something contradicts the file or itself."""
    end = file.size_bytes - _END.size
    if end < 0:
        raise ValueError(f"an Arrow file does not have {format_count(file.size_bytes, 'byte')}")
    size, magic = _END.unpack(file.hold(end, file.size_bytes).tobytes())
    if magic != _MAGIC or not 0 < size <= end:
        raise ValueError(f"a footer of {format_count(size, 'byte')} that ends in {magic!r} is none")
    try:
        blocks = _blocks(file.hold(end - size, end).tobytes())
        offsets, heads, bodies = (blocks[name].astype(np.int64) for name in ("offset", "head", "body"))
        if ((offsets < 0) | (heads < 8) | (bodies < 0) | (offsets > end) | (heads > end) | (bodies > end)).any():
            raise ValueError("a record batch has no place")
        if (offsets + heads + bodies > end).any():
            raise ValueError("a record batch lies outside of the file")
        return Layout(offsets, heads + bodies, _counts(file, offsets, heads))
    except (struct.error, IndexError) as error:
        raise ValueError(f"its footer is damaged ({error})") from None


def _blocks(footer: bytes) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    table = _u32(footer, 0)
    place = _field(footer, table, _BATCHES)
    if place is None:
        return np.empty(0, _BLOCK)
    place += _u32(footer, place)
    count = _u32(footer, place)
    if place + 4 + count * _BLOCK.itemsize > len(footer):
        raise ValueError(f"{count:,} record batches do not fit into its footer")
    return np.frombuffer(footer, _BLOCK, count, place + 4)


def _counts(file: StoredFile, offsets: IndexArray, heads: IndexArray) -> IndexArray:
    """Rows of all batches; the heads are brought together."""
    base, starts = file.region(offsets.astype(np.uint64), heads.astype(np.uint64))
    found = [_rows_of(base[start : start + size].tobytes()) for start, size in zip(starts.tolist(), heads, strict=True)]
    file.check()
    return np.array(found, np.int64)


def _rows_of(head: bytes) -> int:
    start = 8 if _u32(head, 0) == _CONTINUES else 4  # files of old libraries begin with the size
    message = head[start:]
    place = _field(message, _u32(message, 0), _HEADER)
    if place is None:
        raise ValueError("a record batch has no head")
    rows = _field(message, place + _u32(message, place), _ROWS)
    count = 0 if rows is None else struct.unpack_from("<q", message, rows)[0]
    if count < 0:
        raise ValueError(f"a record batch has {format_count(count, 'row')}")
    return int(count)


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table is; None when it is not there."""
    (back,) = struct.unpack_from("<i", data, table)
    names = table - back
    if names < 0:
        raise ValueError("its footer is damaged")
    (size,) = struct.unpack_from("<H", data, names)
    at = 4 + 2 * number
    if at + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", data, names + at)
    return table + offset if offset else None


def _u32(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", data, place)[0])
