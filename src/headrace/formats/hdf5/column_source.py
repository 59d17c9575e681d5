"""How a dataset of an HDF5 file becomes a column: its type, its layout, its filters, where its bytes are.

Every number that the library gives is checked against the mapped file, and against what may be asked of memory.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import FormatError
from headrace.formats.hdf5.column import Column, Meaning
from headrace.formats.hdf5.filters import ALLOWED, BY_LIBRARY, Filter
from headrace.formats.hdf5.heap import REFERENCE, Heap
from headrace.formats.hdf5.items import ChunkedItems, ChunkTable, FlatItems, Items, LibraryItems
from headrace.progress import format_count
from headrace.registry import require

if TYPE_CHECKING:
    from headrace.formats.hdf5.chunk_cache import ChunkCache
    from headrace.formats.hdf5.library import LibraryFile
    from headrace.formats.spans import SpanFile

__all__ = ["MAX_BLOCK_BYTES", "ColumnSource", "LeftOutError"]

MAX_BLOCK_BYTES = 1 << 30
_FEW_ROWS = 1 << 20
_MOST_PACKED = 1100  # deflate makes at most about 1032 bytes of one
_LIBRARY_BLOCK_BYTES = 1 << 20


class LeftOutError(Exception):
    """Why something is no column."""


class ColumnSource:
    """Makes columns of the datasets of one file.

    Args:
        path: of the file, for errors.
        file: the file.
        library: opens it by the library, for what only that can read.
        cache: keeps chunks of all columns.
        is_usual: addresses have 8 bytes and count from the beginning of the file; otherwise the library reads it all.
    """

    def __init__(self, path: str, file: SpanFile, library: LibraryFile, cache: ChunkCache, *, is_usual: bool) -> None:
        self._h5py = require("h5py", "an HDF5 file")
        self._path, self._file, self._library, self._cache = path, file, library, cache
        self._mapped = file.mapped
        self._is_usual = is_usual
        self._heap = Heap(file.mapped)
        self._count = 0

    def column(self, dataset: Any, name: str) -> Column:
        """Describe a dataset; LeftOutError when it cannot be a field."""
        self._count += 1
        shape = dataset.shape
        if not shape:
            raise LeftOutError("it has no first axis")
        plist = dataset.get_create_plist()
        filters = self._filters(dataset, plist)
        kind = dataset.get_type()
        dtype, meaning, is_plain, padding = self._meaning(kind, shape)
        has_heap = meaning in ("text", "bytes", "lists")
        item = self._item(kind, dtype, meaning)
        self._check_size(shape, item, name)
        by_library = not self._is_usual or not is_plain or any(one.number in BY_LIBRARY for one in filters)
        by_library |= plist.get_layout() == self._h5py.h5d.COMPACT
        if by_library:
            items: Items = self._library_items(dataset, name, shape, np.dtype(object) if has_heap else item)
        else:
            items = self._items(dataset, plist, name, shape, item, filters, can_fill=not has_heap)
        heap = self._heap if has_heap and not by_library else None
        return Column(
            path=self._path,
            name=name,
            meaning=meaning,
            dtype=dtype,
            shape=shape,
            items=items,
            file=self._file,
            heap=heap,
            padding=padding,
        )

    def _filters(self, dataset: Any, plist: Any) -> tuple[Filter, ...]:
        h5d = self._h5py.h5d
        if plist.get_layout() == h5d.VIRTUAL:
            raise LeftOutError("it is virtual: its data lie in other datasets or files")
        if plist.get_layout() not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
            raise LeftOutError("its layout is unknown")
        if plist.get_external_count():
            raise LeftOutError("its data lie in another file")
        found = []
        for position in range(plist.get_nfilters()):
            number, _, values, label = plist.get_filter(position)
            if number not in ALLOWED or (number in BY_LIBRARY and not self._h5py.h5z.filter_avail(number)):
                called = label.decode("utf-8", "replace") or "without a name"
                raise LeftOutError(f"its chunks need the filter {number} ({called[:40]!r}), and no plug-ins are loaded")
            found.append(Filter(number, tuple(values)))
        return tuple(found)

    def _meaning(self, kind: Any, shape: tuple[int, ...]) -> tuple[np.dtype[Any], Meaning, bool, bytes | None]:
        """Dtype and meaning of items; whether their bytes are what numpy takes; what fills up texts of one length."""
        h5t = self._h5py.h5t
        of_rank = "numbers" if len(shape) == 1 else "arrays"
        number = kind.get_class()
        if number in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND):
            dtype, is_plain = self._number_type(kind)
            if dtype.kind == "c" and of_rank == "numbers":
                raise LeftOutError("complex numbers are only read as arrays of several axes")
            return dtype, of_rank, is_plain, None  # type: ignore[return-value]
        if number not in (h5t.STRING, h5t.OPAQUE, h5t.VLEN):
            raise LeftOutError("its items are references, arrays or of a kind that is not read")
        if len(shape) != 1:
            raise LeftOutError("texts and values of any length are read with one axis only")
        if number == h5t.STRING and kind.is_variable_str():
            return np.dtype("u1"), "text", True, None
        if number == h5t.STRING:
            return np.dtype("u1"), "fixed", True, b" " if kind.get_strpad() == h5t.STR_SPACEPAD else b"\0"
        if number == h5t.OPAQUE:
            return np.dtype("u1"), "fixed", True, None
        if kind.get_super().get_class() not in (h5t.INTEGER, h5t.FLOAT):
            raise LeftOutError("its items are lists of something else than numbers")
        dtype, is_plain = self._number_type(kind.get_super())
        return dtype, "bytes" if dtype == np.uint8 else "lists", is_plain, None

    def _number_type(self, kind: Any) -> tuple[np.dtype[Any], bool]:
        h5t = self._h5py.h5t
        try:
            dtype = kind.dtype
            if kind.get_class() == h5t.ENUM:
                is_bool, kind = dtype == np.bool_, kind.get_super()
                dtype = kind.dtype
                is_plain = bool(kind.equal(h5t.py_create(dtype)))
                return (np.dtype(bool) if is_bool and is_plain else dtype), is_plain
        except (TypeError, ValueError) as error:
            raise LeftOutError(f"its items are of a kind that numpy does not have ({error})") from None
        if dtype.kind not in "iufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
            raise LeftOutError(
                "its items are records or of a kind that is not read"
                if dtype.names
                else f"its items are of a kind that is not read ({dtype})"
            )
        return dtype, bool(kind.equal(h5t.py_create(dtype)))

    def _item(self, kind: Any, dtype: np.dtype[Any], meaning: Meaning) -> np.dtype[Any]:
        """What one item is in the file."""
        if meaning == "fixed":
            return np.dtype(f"V{kind.get_size()}")
        if meaning in ("text", "bytes", "lists"):
            return REFERENCE
        return np.dtype("i1") if dtype == np.bool_ else dtype

    def _check_size(self, shape: tuple[int, ...], item: np.dtype[Any], name: str) -> None:
        if 0 in shape[1:]:
            raise LeftOutError(f"its shape is {shape}: there is nothing in a row")
        if shape[0] > max(_FEW_ROWS, _MOST_PACKED * len(self._mapped)):
            rows = format_count(shape[0], "row")
            raise LeftOutError(f"it says {rows}, and the file has {format_count(len(self._mapped), 'byte')}")
        if math.prod(shape[1:]) * item.itemsize > MAX_BLOCK_BYTES:
            raise LeftOutError(f"one row of it has more than {MAX_BLOCK_BYTES} bytes")

    def _items(
        self,
        dataset: Any,
        plist: Any,
        name: str,
        shape: tuple[int, ...],
        item: np.dtype[Any],
        filters: tuple[Filter, ...],
        *,
        can_fill: bool,
    ) -> Items:
        h5d = self._h5py.h5d
        fill = np.zeros((), item)
        if can_fill and item.kind != "V":
            with contextlib.suppress(Exception):  # none, or of another type
                value = np.zeros((), item)
                plist.get_fill_value(value)
                fill = value
        if plist.get_layout() == h5d.CHUNKED:
            return self._chunked_items(dataset, plist.get_chunk(), name, shape, item, filters, fill)
        offset, size = dataset.get_offset(), math.prod(shape) * item.itemsize
        if offset is None or size == 0:
            return FlatItems(np.broadcast_to(fill, shape))
        if offset + size > len(self._mapped):
            problem = f"dataset {name!r} has {format_count(size, 'byte')} from byte {offset} on"
            end = f"the file ends at byte {len(self._mapped)}"
            raise FormatError(self._path, problem=f"{problem}, and {end}", offset=offset, fix="Copy the file again.")
        return FlatItems(self._mapped[offset : offset + size].view(item).reshape(shape))

    def _chunked_items(
        self,
        dataset: Any,
        chunk: tuple[int, ...],
        name: str,
        shape: tuple[int, ...],
        item: np.dtype[Any],
        filters: tuple[Filter, ...],
        fill: npt.NDArray[Any],
    ) -> Items:
        grid = [-(-side // step) for side, step in zip(shape, chunk, strict=True)]
        sizes = (math.prod(chunk), chunk[0] * math.prod(shape[1:]))
        if max(sizes) * item.itemsize > MAX_BLOCK_BYTES:
            largest = format_count(max(sizes) * item.itemsize, "byte")
            raise LeftOutError(f"the chunks of one row have {largest}, and {MAX_BLOCK_BYTES} are the most")
        if math.prod(grid) > 1 << 60 or dataset.get_num_chunks() > len(self._mapped):
            raise LeftOutError("it says more chunks than the file can have")
        table = self._chunk_table(dataset, name, chunk, grid, 0 if filters else math.prod(chunk) * item.itemsize)
        return ChunkedItems(
            path=self._path,
            name=name,
            number=self._count,
            mapped=self._mapped,
            dtype=item,
            shape=shape,
            chunk=tuple(chunk),
            table=table,
            filters=filters,
            fill=fill,
            cache=self._cache,
        )

    def _chunk_table(
        self, dataset: Any, name: str, chunk: tuple[int, ...], grid: list[int], least_size: int
    ) -> ChunkTable:
        found: list[tuple[int, int, int, int]] = []

        def take(info: Any) -> None:
            number = 0
            for place, step, count in zip(info.chunk_offset, chunk, grid, strict=True):
                number = number * count + place // step
            if info.byte_offset is not None and all(
                place // step < count for place, step, count in zip(info.chunk_offset, chunk, grid, strict=True)
            ):
                found.append((number, info.byte_offset, info.size, info.filter_mask))

        dataset.chunk_iter(take)
        found.sort()
        for number, offset, size, _ in found:
            if offset + size > len(self._mapped) or size < least_size:
                problem = f"dataset {name!r}: chunk {number} has {format_count(size, 'byte')} from byte {offset} on"
                fix = f"The file has {format_count(len(self._mapped), 'byte')}; copy it again."
                raise FormatError(self._path, problem=f"{problem}, which cannot be", offset=offset, fix=fix)
        columns = np.array(found, np.int64).reshape(-1, 4).T
        return ChunkTable(columns[0].copy(), columns[1].copy(), columns[2].copy(), columns[3].astype(np.uint32))

    def _library_items(self, dataset: Any, name: str, shape: tuple[int, ...], item: np.dtype[Any]) -> LibraryItems:
        plist = dataset.get_create_plist()
        row = max(1, math.prod(shape[1:]) * item.itemsize)
        rows = max(1, _LIBRARY_BLOCK_BYTES // row)
        if plist.get_layout() == self._h5py.h5d.CHUNKED:
            chunk = plist.get_chunk()
            rows = chunk[0]
            if max(math.prod(chunk) * item.itemsize, rows * row) > MAX_BLOCK_BYTES:
                raise LeftOutError(f"the chunks of one row have more than {MAX_BLOCK_BYTES} bytes")
        return LibraryItems(
            file=self._library,
            name=name,
            stored_name=name.encode("utf-8", "surrogateescape"),
            number=self._count,
            dtype=item,
            shape=shape,
            block_rows=rows,
            cache=self._cache,
        )
