"""Writing HDF5 files with h5py: a chunked dataset for each field, in a file that gets its name at the end."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.errors import WriteError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.description import Description
from headrace.formats.hdf5.column_source import MAX_BLOCK_BYTES
from headrace.formats.hdf5.new_stream import NewStream
from headrace.formats.hdf5.structure import ATTRIBUTE, DESCRIPTION, KEYS
from headrace.formats.row_writer import Row, RowWriter
from headrace.formats.values import encode_value
from headrace.progress import format_count
from headrace.registry import require
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.types import Field

__all__ = ["Hdf5Writer", "check_fields"]

_CHUNK_BYTES = 512 << 10
_REFERENCE_ROWS = 4096  # 16 bytes each
_REFERENCE_BYTES = 16 << 20  # of values of any length that wait to be written
_MAX_ATTRIBUTE = 60_000


class Hdf5Writer(RowWriter):
    """Writes an HDF5 file; a slash in the name of a field makes groups.

    Args:
        path: where the file goes.
        fields: name to field, in order; arrays of numbers, no dates or texts.
        length: number of samples, if known.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        compression: ``"gzip"`` packs numbers and arrays; bytes of any length are stored as they are.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
        compression: Literal["gzip"] | None = None,
    ) -> None:
        if compression not in (None, "gzip"):
            raise ValueError(f"compression must be None or 'gzip', got {compression!r}")
        super().__init__(fields, _store)
        check_fields(fields)
        if unknown := sorted(set(class_names or {}) - set(fields)):
            raise ValueError(f"class_names has {', '.join(unknown)}, and the fields are {', '.join(fields)}")
        described = Description(fields=self.fields, class_names=class_names or {}, metadata=metadata)
        self._description = described.to_text()
        self._h5py = require("h5py", "writing an HDF5 file")
        self._target = AtomicFile(path)
        self._file: Any = None
        self._stream = NewStream(self._target)
        try:
            # The library wants a name or an object; a file that is not finished has no name.
            with self._watched():
                self._file = _new_file(self._h5py, self._stream)
        except BaseException:
            self._discard()
            raise
        self._columns = {
            name: _Column(self._h5py, self._file, name, one, compression) for name, one in self.fields.items()
        }
        self._names = _Column(self._h5py, self._file, KEYS, Text(), None)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise what the disk said, not what the library made of it."""
        try:
            yield
        except Exception:
            self._stream.check()
            raise
        self._stream.check()

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        stored = None if names is None else [_stored_name(name, len(self) + i) for i, name in enumerate(names)]
        with self._watched():
            for column, values in zip(self._columns.values(), zip(*rows, strict=True), strict=True) if rows else ():
                column.add(values)
            if stored is not None:
                self._names.add(stored)

    def _finish(self) -> None:
        with self._watched():
            for column in self._columns.values():
                column.finish()
            if self._has_names:
                self._names.finish()
            self._describe(self._description.encode())
            self._let_go()
        self._target.commit()

    def _describe(self, text: bytes) -> None:
        """Of fixed length: the library hangs when it reads a text of any length from a damaged file."""
        dtype = self._h5py.string_dtype("utf-8", len(text))
        if len(text) <= _MAX_ATTRIBUTE:
            self._file.attrs.create(ATTRIBUTE, np.array(text, dtype), dtype=dtype)
        else:
            self._file.create_dataset(DESCRIPTION, data=np.array(text, dtype), dtype=dtype)

    def _discard(self) -> None:
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # what is thrown away need not be whole
            self._let_go()
        self._target.abort()

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _new_file(h5py: Any, stream: NewStream) -> Any:
    """A file without the time at which it was made, so that the same samples give the same bytes."""
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    order = h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED
    creation.set_link_creation_order(order)
    creation.set_attr_creation_order(order)
    creation.set_obj_track_times(False)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_libver_bounds(h5py.h5f.LIBVER_V18, h5py.h5f.LIBVER_LATEST)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, stream)
    return h5py.File(h5py.h5f.create(b"new", h5py.h5f.ACC_TRUNC, fapl=access, fcpl=creation))


@dataclass(slots=True)
class _Column:
    """One dataset: values wait until they fill a chunk."""

    h5py: Any
    file: Any
    name: str
    kind: Field
    compression: str | None
    waiting: list[Any] = field(default_factory=list)
    size_bytes: int = 0
    dataset: Any = None
    count: int = 0

    def add(self, values: Sequence[Any]) -> None:
        self.waiting += values
        if _is_any_length(self.kind):
            self.size_bytes += sum(map(len, values))
            if self.size_bytes >= _REFERENCE_BYTES or len(self.waiting) >= _REFERENCE_ROWS:
                self._write(len(self.waiting))
            return
        rows = self._chunk_rows()
        if len(self.waiting) >= rows:
            self._write(len(self.waiting) // rows * rows)

    def finish(self) -> None:
        self._write(len(self.waiting))

    def _chunk_rows(self) -> int:
        if _is_any_length(self.kind):
            return _REFERENCE_ROWS
        dtype, shape = _form(self.kind)
        return max(1, _CHUNK_BYTES // (dtype.itemsize * math.prod(shape)))

    def _write(self, count: int) -> None:
        values, self.waiting = self.waiting[:count], self.waiting[count:]
        if self.dataset is None:
            self._create(max(1, min(count, self._chunk_rows())))
        if not values:
            return
        self.dataset.resize(self.count + count, axis=0)
        space = self.dataset.id.get_space()
        space.select_hyperslab(
            (self.count, *[0] * (space.get_simple_extent_ndims() - 1)), (count, *self.dataset.shape[1:])
        )
        array = self._as_array(values)
        self.dataset.id.write(self.h5py.h5s.create_simple(array.shape), space, array)
        self.count += count
        self.size_bytes = 0

    def _create(self, rows: int) -> None:
        h5py = self.h5py
        options: dict[str, Any] = {}
        shape: tuple[int, ...] = ()
        if isinstance(self.kind, Text | Json):
            dtype = h5py.string_dtype()
        elif _is_any_length(self.kind):
            dtype = h5py.vlen_dtype(np.uint8)
        else:
            dtype, shape = _form(self.kind)
            options = {"compression": "gzip", "compression_opts": 4, "shuffle": True} if self.compression else {}
        self.dataset = self.file.create_dataset(
            self.name, (0, *shape), dtype, chunks=(rows, *shape), maxshape=(None, *shape), **options
        )

    def _as_array(self, values: list[Any]) -> np.ndarray[Any, Any]:
        if not _is_any_length(self.kind):
            dtype, shape = _form(self.kind)
            return np.array(values, dtype).reshape(-1, *shape)
        is_text = isinstance(self.kind, Text | Json)
        out = np.empty(len(values), self.dataset.dtype)
        for i, value in enumerate(values):  # one by one: numpy and h5py make a table of arrays of the same length
            out[i] = value if is_text else np.frombuffer(value, np.uint8)
        return out


def _is_any_length(one: Field) -> bool:
    return isinstance(one, Text | Json | Bytes | Image)


def _form(one: Field) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if isinstance(one, NDArray):
        return one.dtype, one.shape
    return np.dtype("<i8" if isinstance(one, Int) else "<f8"), ()


def check_fields(fields: Mapping[str, Field]) -> None:
    """ValueError when an HDF5 file cannot hold them."""
    _check_names(list(fields))
    for name, one in fields.items():
        _check_field(name, one)


def _check_names(names: list[str]) -> None:
    for name in names:
        parts = name.split("/")
        if parts[0] in (KEYS, DESCRIPTION):
            raise ValueError(f"no field of an HDF5 file can be called {name!r}: names and descriptions are kept there")
        above = {"/".join(parts[:k]) for k in range(1, len(parts))}
        if both := above & set(names):
            raise ValueError(f"{both.pop()!r} and {name!r} cannot both be fields: a group is no dataset")


def _check_field(name: str, one: Field) -> None:
    if isinstance(one, NDArray):
        widest = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}.get(one.dtype.kind, 0)
        if one.dtype.itemsize > widest:
            raise ValueError(
                f"fields[{name!r}]: arrays of {one.dtype} cannot be stored in an HDF5 file, only of numbers"
            )
        if one.size_bytes > MAX_BLOCK_BYTES:
            raise ValueError(
                f"fields[{name!r}]: a value has {format_count(one.size_bytes, 'byte')}, the most is {MAX_BLOCK_BYTES}"
            )
    elif not isinstance(one, Int | Float | Text | Json | Bytes | Image):
        raise ValueError(f"fields[{name!r}]: an HDF5 file cannot hold values of {one!r}")


def _store(one: Field, value: Any, index: int) -> Any:
    if isinstance(one, Int | Float):
        return one.encode(value, index).facts[0]
    if isinstance(one, NDArray):
        return np.frombuffer(one.encode(value, index).payload or b"", one.dtype).reshape(one.shape)
    data = encode_value(one, value, index)[1]
    if isinstance(one, Text) and b"\0" in data:
        raise ValueError("the text has a NUL in it, and texts in HDF5 end at the first one; store it as Bytes")
    return data


def _stored_name(name: str, index: int) -> bytes:
    if "\0" in name:
        raise WriteError(f"sample {index}: its name has a NUL in it", sample=index)
    return name.encode("utf-8", "surrogateescape")
