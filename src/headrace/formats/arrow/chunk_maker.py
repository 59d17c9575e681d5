"""From an Arrow array and the field that it is read as to a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.fields import Int, Json, NDArray
from headrace.formats.arrow.chunks import BytesChunk, CodedChunk, NumberChunk, ValueChunk, both, items, validity
from headrace.formats.arrow.column_types import array_form, kind_of, picture_parts
from headrace.progress import format_bytes, format_count
from headrace.registry import require

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.formats.arrow.chunks import Chunk, Flags
    from headrace.types import Field

__all__ = ["is_within", "make_chunk"]

_INT32, _INT64 = np.dtype("<i4"), np.dtype("<i8")
_MAX_VIEW_BYTES = 1 << 30


def make_chunk(array: Any, field: Field, mapped: npt.NDArray[np.uint8] | None) -> Chunk:
    """The chunk of a column.

    Args:
        array: of Arrow; what it says about itself has been looked at (``validate()``), not its values.
        field: what the column is read as.
        mapped: the file, if the array may lie in it.
    """
    pyarrow = require("pyarrow", "reading Arrow data")
    form = array_form(array.type)
    while isinstance(array.type, pyarrow.BaseExtensionType):
        array = array.storage
    how = kind_of(array.type)
    if isinstance(field, Json) and how not in ("bytes", "words", "picture"):
        return _nested(array, mapped is not None)
    if how == "time":
        return _bytes(_as_text(array), None, None)
    if how in ("int", "float"):
        values, valid = _numbers(array)
        return NumberChunk(values.view(np.uint8) if isinstance(field, Int) and values.dtype == bool else values, valid)
    if how in ("array", "list"):
        shape = field.shape if isinstance(field, NDArray) else form[1] if form else ()
        dtype = field.dtype if isinstance(field, NDArray) else np.dtype(np.uint8)
        values, valid = _arrays(array, list(shape))
        return NumberChunk(values.reshape(len(array), *shape).astype(dtype, copy=False), valid)
    if how == "words":
        return _words(array)
    if how == "picture":
        return _bytes(array.field(picture_parts(array.type)), mapped, validity(array))
    if isinstance(field, NDArray) and pyarrow.types.is_fixed_size_binary(array.type):
        return _fixed_arrays(array, field)
    return _bytes(array, mapped, None)


def _nested(array: Any, is_mapped: bool) -> ValueChunk:
    array.validate(full=True)
    if is_mapped:
        array = _copied(array)
        array.validate(full=True)
    return ValueChunk(array, array.nbytes)


def _copied(array: Any) -> Any:
    """The same array in memory of its own, so that what was checked cannot change any more."""
    pyarrow = require("pyarrow", "reading Arrow data")
    sink = pyarrow.BufferOutputStream()
    batch = pyarrow.record_batch([array], names=["x"])
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pyarrow.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_next_batch().column(0)


def _as_text(array: Any) -> Any:
    """Times, dates and decimals as ISO text; times of a zone are told in UTC."""
    pyarrow = require("pyarrow", "reading Arrow data")
    compute = require("pyarrow.compute", "reading Arrow data")
    kind = array.type
    if not pyarrow.types.is_timestamp(kind):
        return array.cast(pyarrow.string())
    text = compute.replace_substring(array.cast(pyarrow.timestamp(kind.unit)).cast(pyarrow.string()), " ", "T")
    return text if kind.tz is None else compute.binary_join_element_wise(text, "Z", "")


def _numbers(array: Any) -> tuple[npt.NDArray[Any], Flags | None]:
    valid = validity(array)
    dtype = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if dtype != np.bool_:
        return items(buffer, dtype, array.offset, len(array)), valid
    first, last = array.offset // 8, -(-(array.offset + len(array)) // 8)
    bits = np.unpackbits(items(buffer, np.dtype(np.uint8), first, last - first), bitorder="little")
    return bits[array.offset % 8 :][: len(array)].view(np.bool_), valid


def _arrays(array: Any, shape: list[int]) -> tuple[npt.NDArray[Any], Flags | None]:
    """All numbers of lists in one row, and which samples have all of theirs."""
    types = require("pyarrow", "reading Arrow data").types
    count, kind = len(array), array.type
    if not (types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return _numbers(array)
    valid = validity(array)
    if types.is_fixed_size_list(kind):
        side, start = kind.list_size, array.offset * kind.list_size
        rest = shape
    else:
        side, rest = shape[0], shape[1:]
        start = _start_of_lists(array, side)
    child = array.values.slice(start, count * side)
    if len(child) != count * side:
        raise ValueError(
            f"lists of {format_count(side, 'number')} have {len(child)} in all, and there are {count} of them"
        )
    values, below = _arrays(child, rest)
    whole: Flags | None = None if below is None else np.logical_and.reduce(below.reshape(count, -1), axis=1)
    return values, both(valid, whole)


def _start_of_lists(array: Any, side: int) -> int:
    types = require("pyarrow", "reading Arrow data").types
    dtype = _INT64 if types.is_large_list(array.type) else _INT32
    table = items(array.buffers()[1], dtype, array.offset, len(array) + 1) if len(array) else np.zeros(1, dtype)
    is_wrong = np.diff(table) != side
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ValueError(f"row {row} has a list of {int(table[row + 1]) - int(table[row])}, and {side} are expected")
    return int(table[0])


def _fixed_arrays(array: Any, field: NDArray) -> NumberChunk:
    width = array.type.byte_width
    if width != field.size_bytes:
        raise ValueError(f"values have {format_count(width, 'byte')}, and {field.size_bytes} are needed for {field}")
    data = items(array.buffers()[1], np.dtype(np.uint8), array.offset * width, len(array) * width)
    return NumberChunk(data.view(field.dtype).reshape(len(array), *field.shape), validity(array))


def _words(array: Any) -> CodedChunk:
    valid = validity(array)
    codes = items(array.buffers()[1], np.dtype(array.type.index_type.to_pandas_dtype()), array.offset, len(array))
    words = _bytes(array.dictionary, None, None)
    return CodedChunk(codes, words, valid)


def _bytes(array: Any, mapped: npt.NDArray[np.uint8] | None, valid: Flags | None) -> BytesChunk:
    pyarrow = require("pyarrow", "reading Arrow data")
    types, kind, count = pyarrow.types, array.type, len(array)
    if "_view" in str(kind):
        array, kind = _without_views(array), pyarrow.large_binary()
    valid = both(valid, validity(array))
    if types.is_fixed_size_binary(kind):
        width, data = kind.byte_width, array.buffers()[1]
        table: npt.NDArray[Any] = np.arange(array.offset, array.offset + count + 1, dtype=np.int64) * width
    else:
        is_large = types.is_large_binary(kind) or types.is_large_string(kind)
        dtype, (_, offsets, data) = (_INT64 if is_large else _INT32), array.buffers()
        table = items(offsets, dtype, array.offset, count + 1) if count else np.zeros(1, dtype)
    size = 0 if data is None else data.size
    if mapped is not None and size and is_within(data, mapped):
        return BytesChunk(mapped, data.address - mapped.ctypes.data, size, table, valid)
    base = np.frombuffer(data, np.uint8) if size else np.empty(0, np.uint8)
    return BytesChunk(base, 0, size, table, valid)


def _without_views(array: Any) -> Any:
    """Views may name the same bytes again and again, so what comes out is counted first."""
    pyarrow = require("pyarrow", "reading Arrow data")
    array.validate(full=True)
    lengths = items(array.buffers()[1], _INT32, array.offset * 4, len(array) * 4)[::4]  # of the 16 bytes of each view
    size = int(lengths.sum(dtype=np.int64))
    if size > _MAX_VIEW_BYTES:
        raise ValueError(f"values take {format_bytes(size)}, and {format_bytes(_MAX_VIEW_BYTES)} is the most")
    try:
        return array.cast(pyarrow.large_binary())
    except pyarrow.ArrowNotImplementedError:  # older pyarrow
        return pyarrow.array(
            array.to_pylist(), pyarrow.large_string() if "string" in str(array.type) else pyarrow.large_binary()
        )


def is_within(buffer: Any, mapped: npt.NDArray[np.uint8]) -> bool:
    """The memory of a buffer is a part of the mapped file."""
    start = mapped.ctypes.data
    return bool(start <= buffer.address and buffer.address + buffer.size <= start + mapped.size)
