"""What is in an HDF5 file: asked of the HDF5 library once, checked, and never asked again.

The library reads the structure alone. Links out of the file are not followed, datasets whose data are in other files
or behind filters that would need a plug-in are not read. Numbers that it gives are checked against the mapped file.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import FormatError, HeadraceError
from headrace.fields import problem_with_name
from headrace.formats.hdf5.chunk_cache import ChunkCache
from headrace.formats.hdf5.column import Column, Meaning
from headrace.formats.hdf5.filters import ALLOWED, BY_LIBRARY, Filter
from headrace.formats.hdf5.heap import REFERENCE, Heap
from headrace.formats.hdf5.items import ChunkedItems, ChunkTable, FlatItems, Items, LibraryFile, LibraryItems
from headrace.progress import format_count
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DESCRIPTION", "KEYS", "MAX_BLOCK_BYTES", "Structure", "open_by_library", "read_structure"]

KEYS, DESCRIPTION, ATTRIBUTE = "__key__", "__headrace__", "headrace"
MAX_BLOCK_BYTES = 1 << 30
_MAX_OBJECTS = 100_000
_MAX_DEPTH = 64
_MAX_DESCRIPTION = 64 << 20
_FEW_ROWS = 1 << 20
_MOST_PACKED = 1100  # deflate makes at most about 1032 bytes of one
_LIBRARY_BLOCK_BYTES = 1 << 20


@dataclass(slots=True)
class Structure:
    """The columns of a file by name, in its order; what is no column, and why; what a writer said about it."""

    columns: dict[str, Column] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    keys: Column | None = None
    description: str | bytes | None = None


class _LeftOutError(Exception):
    """Why something is no column."""


def open_by_library(path: str) -> Any:
    """Open a file for reading, without locks."""
    h5py = require("h5py", "an HDF5 file")
    with _explained(path):
        return h5py.File(path, "r", locking=False)


def read_structure(path: str, mapped: npt.NDArray[np.uint8], cache_size: int) -> tuple[Structure, LibraryFile]:
    """Describe all of a file; FormatError when the library cannot read it."""
    file = LibraryFile(path)
    opened = open_by_library(path)
    try:
        with _explained(path):
            walk = _Walk(opened, path, mapped, file, ChunkCache(cache_size))
            walk.read_group(opened.id, "", 0)
            walk.read_description(opened)
            return walk.found, file
    finally:
        with contextlib.suppress(Exception):  # a damaged file may not even be closed
            opened.close()


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (HeadraceError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # what the library raises for a damaged file depends on where the damage is
        problem = f"the HDF5 library cannot read it ({type(error).__name__}: {error})"
        raise FormatError(path, problem=problem, fix="It is damaged or cut short; copy it again.") from error


class _Walk:
    """One walk over all groups of an open file."""

    def __init__(
        self, opened: Any, path: str, mapped: npt.NDArray[np.uint8], file: LibraryFile, cache: ChunkCache
    ) -> None:
        self._h5py = require("h5py", "an HDF5 file")
        self.found = Structure()
        self._path, self._mapped, self._file, self._cache = path, mapped, file, cache
        plist = opened.id.get_create_plist()
        self._is_usual = plist.get_sizes() == (8, 8) and plist.get_userblock() == 0
        self._heap = Heap(mapped)
        self._seen: set[int] = set()
        self._count = 0

    # -- groups and links

    def read_group(self, group: Any, prefix: str, depth: int) -> None:
        address = self._h5py.h5o.get_info(group).addr
        if address in self._seen or depth > _MAX_DEPTH:
            self.found.left_out[prefix.rstrip("/")] = "the group is reached twice, or lies too deep"
            return
        self._seen.add(address)
        for stored in self._names(group):
            self._count += 1
            if self._count > _MAX_OBJECTS:
                problem = f"it has more than {format_count(_MAX_OBJECTS, 'dataset')} and groups"
                raise FormatError(self._path, problem=problem, fix="Take those that you need into another file.")
            name = prefix + stored.decode("utf-8", "surrogateescape")
            try:
                self._read_link(group, stored, name, depth)
            except _LeftOutError as reason:
                self.found.left_out[name] = str(reason)

    def _names(self, group: Any) -> list[bytes]:
        """In the order in which they were made, where the file knows it, or else sorted."""
        h5 = self._h5py.h5
        is_tracked = group.get_create_plist().get_link_creation_order() & self._h5py.h5p.CRT_ORDER_TRACKED
        names: list[bytes] = []

        def take(name: bytes) -> bool | None:
            names.append(name)
            return True if len(names) > _MAX_OBJECTS else None

        group.links.iterate(take, idx_type=h5.INDEX_CRT_ORDER if is_tracked else h5.INDEX_NAME)
        return names

    def _read_link(self, group: Any, stored: bytes, name: str, depth: int) -> None:
        h5l = self._h5py.h5l
        kind = group.links.get_info(stored).type
        if kind != h5l.TYPE_HARD:
            raise _LeftOutError({h5l.TYPE_SOFT: "a soft link", h5l.TYPE_EXTERNAL: "a link to another file"}.get(
                kind, "a link of an unknown kind") + ", which is not followed")
        if problem := problem_with_name(name):
            raise _LeftOutError(f"no field can be called that: {problem}")
        opened = self._h5py.h5o.open(group, stored)
        if isinstance(opened, self._h5py.h5g.GroupID):
            self.read_group(opened, f"{name}/", depth + 1)
        elif not isinstance(opened, self._h5py.h5d.DatasetID):
            raise _LeftOutError("a type, and no data")
        elif name == KEYS:
            self.found.keys = self._column(opened, name)
        elif name != DESCRIPTION:
            self.found.columns[name] = self._column(opened, name)

    def read_description(self, opened: Any) -> None:
        """What headrace has written about the fields."""
        if ATTRIBUTE in opened.attrs:
            text = opened.attrs[ATTRIBUTE]
        elif DESCRIPTION in opened and opened.get(DESCRIPTION, getlink=True).__class__ is self._h5py.HardLink:
            dataset = opened[DESCRIPTION]
            if dataset.shape != () or dataset.dtype.kind not in "SO" or dataset.id.get_create_plist().get_nfilters():
                return
            text = dataset[()]
        else:
            return
        if isinstance(text, str | bytes):
            self.found.description = text

    # -- datasets

    def _column(self, dataset: Any, name: str) -> Column:
        shape = dataset.shape
        if not shape:
            raise _LeftOutError("it has no first axis")
        plist = dataset.get_create_plist()
        filters = self._filters(dataset, plist)
        kind = dataset.get_type()
        dtype, meaning, is_plain, padding = self._meaning(kind, shape)
        has_heap = meaning in ("text", "bytes", "lists")
        item = self._item(kind, dtype, meaning)
        self._check_size(shape, item, name)
        by_library = not self._is_usual or not is_plain or any(one.number in BY_LIBRARY for one in filters)
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
            mapped=self._mapped,
            heap=heap,
            padding=padding,
        )

    def _filters(self, dataset: Any, plist: Any) -> tuple[Filter, ...]:
        h5d = self._h5py.h5d
        if plist.get_layout() == h5d.VIRTUAL:
            raise _LeftOutError("it is virtual: its data lie in other datasets or files")
        if plist.get_layout() not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
            raise _LeftOutError("its layout is unknown")
        if plist.get_external_count():
            raise _LeftOutError("its data lie in another file")
        found = []
        for position in range(plist.get_nfilters()):
            number, _, values, label = plist.get_filter(position)
            if number not in ALLOWED or (number in BY_LIBRARY and not self._h5py.h5z.filter_avail(number)):
                called = label.decode("utf-8", "replace") or "without a name"
                raise _LeftOutError(f"its chunks need the filter {number} ({called[:40]!r}), and no plug-ins are loaded")
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
                raise _LeftOutError("complex numbers are only read as arrays of several axes")
            return dtype, of_rank, is_plain, None  # type: ignore[return-value]
        if number not in (h5t.STRING, h5t.OPAQUE, h5t.VLEN):
            raise _LeftOutError("its items are references, arrays or of a kind that is not read")
        if len(shape) != 1:
            raise _LeftOutError("texts and values of any length are read with one axis only")
        if number == h5t.STRING and kind.is_variable_str():
            return np.dtype("u1"), "text", True, None
        if number == h5t.STRING:
            return np.dtype("u1"), "fixed", True, b" " if kind.get_strpad() == h5t.STR_SPACEPAD else b"\0"
        if number == h5t.OPAQUE:
            return np.dtype("u1"), "fixed", True, None
        if kind.get_super().get_class() not in (h5t.INTEGER, h5t.FLOAT):
            raise _LeftOutError("its items are lists of something else than numbers")
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
            raise _LeftOutError(f"its items are of a kind that numpy does not have ({error})") from None
        if dtype.kind not in "iufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
            raise _LeftOutError("its items are records or of a kind that is not read" if dtype.names else
                                f"its items are of a kind that is not read ({dtype})")
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
            raise _LeftOutError(f"its shape is {shape}: there is nothing in a row")
        if shape[0] > max(_FEW_ROWS, _MOST_PACKED * len(self._mapped)):
            rows = format_count(shape[0], "row")
            raise _LeftOutError(f"it says {rows}, and the file has {format_count(len(self._mapped), 'byte')}")
        if math.prod(shape[1:]) * item.itemsize > MAX_BLOCK_BYTES:
            raise _LeftOutError(f"one row of it has more than {MAX_BLOCK_BYTES} bytes")

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
        if plist.get_layout() == h5d.COMPACT:
            return self._library_items(dataset, name, shape, item if can_fill else np.dtype(object))
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
            raise _LeftOutError(f"the chunks of one row have {largest}, and {MAX_BLOCK_BYTES} are the most")
        if math.prod(grid) > 1 << 60 or dataset.get_num_chunks() > len(self._mapped):
            raise _LeftOutError("it says more chunks than the file can have")
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
                problem = f"dataset {name!r}: chunk {number} has {size} bytes from byte {offset} on"
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
                raise _LeftOutError(f"the chunks of one row have more than {MAX_BLOCK_BYTES} bytes")
        return LibraryItems(
            file=self._file,
            name=name,
            stored_name=name.encode("utf-8", "surrogateescape"),
            number=self._count,
            dtype=item,
            shape=shape,
            block_rows=rows,
            cache=self._cache,
        )
