"""Writers of Parquet and Arrow files: rows are gathered to a row group or record batch, and written as one.

What each field becomes: Int int64, Float float64, Text string, Bytes binary, Json its text, an array lists of fixed
length (or its bytes, for dtypes that Arrow has not), a picture the struct of ``bytes`` and ``path`` that Hugging Face
reads as Image. Names of samples are the column ``__key__``. The schema has the texts ``headrace`` (the exact fields,
classes, metadata) and ``huggingface`` (pictures and classes).
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import WriteError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.arrow.columns import DESCRIPTION_KEY, KEYS
from headrace.formats.arrow.huggingface import to_metadata
from headrace.formats.description import Description
from headrace.formats.row_writer import RowWriter
from headrace.formats.values import encode_value
from headrace.registry import require
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.types import Field

__all__ = ["ArrowWriter", "ParquetWriter", "check_fields", "store_value"]

_GROUP_BYTES = 16 << 20
_BATCH_BYTES = 8 << 20
_MAX_GROUP_ROWS = 1 << 20
_PLAIN = (Int, Float, Text, Bytes, Json, NDArray, Image)


def store_value(field: Field, value: Any, index: int) -> Any:
    """What a table stores of a value: a number, an array, or bytes."""
    if isinstance(field, Int | Float):
        return field.encode(value, index).facts[0]
    if isinstance(field, NDArray):
        return np.frombuffer(field.encode(value, index).payload or b"", field.dtype).reshape(field.shape)
    return encode_value(field, value, index)[1]


class TableWriter(RowWriter):
    """Gathers rows, and hands them to ``_write`` as a table.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        group_bytes: rows are written when there are so many bytes of them,
        group_rows: or when there are so many.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        class_names: Mapping[str, Sequence[str]] | None,
        metadata: Any,
        group_bytes: int | None,
        group_rows: int,
    ) -> None:
        super().__init__(fields, store_value)
        self._path = os.fspath(path)
        check_fields(self.fields)
        require("pyarrow", f"writing {os.path.basename(self._path)}")
        classes = {name: list(names) for name, names in (class_names or {}).items() if name in self.fields}
        self._about = {
            DESCRIPTION_KEY: Description(fields=self.fields, class_names=classes, metadata=metadata).to_text(),
            b"huggingface": to_metadata(self.fields, classes),
        }
        self._group_bytes, self._group_rows = group_bytes, group_rows
        self._rows: list[Row] = []
        self._names: list[str] = []
        self._held_bytes = 0
        self._file: AtomicFile | None = AtomicFile(self._path)
        self._sink: Any = None
        self._writer: Any = None

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        for i, row in enumerate(rows):
            self._rows.append(row)
            self._names += [] if names is None else [names[i]]
            self._held_bytes += sum(value.nbytes if isinstance(value, np.ndarray) else _size(value) for value in row)
            is_full = self._group_bytes is not None and self._held_bytes >= self._group_bytes
            if is_full or len(self._rows) >= self._group_rows:
                self._flush()

    def _flush(self) -> None:
        pyarrow = require("pyarrow", "writing Arrow data")
        self._start()
        rows, names = self._rows, self._names
        self._rows, self._names, self._held_bytes = [], [], 0
        if not rows:
            return
        columns = [_column(field, [row[i] for row in rows]) for i, field in enumerate(self.fields.values())]
        try:
            if self._has_names:
                columns.append(pyarrow.array(names, pyarrow.string()))
            batch = pyarrow.record_batch(columns, schema=self._schema())
        except (UnicodeEncodeError, pyarrow.ArrowException) as error:
            raise WriteError(f"{self._path}: a name or a value cannot be stored ({error})") from error
        self._write(batch)

    def _schema(self) -> Any:
        pyarrow = require("pyarrow", "writing Arrow data")
        columns = [pyarrow.field(name, _type_of(field)) for name, field in self.fields.items()]
        if self._has_names:
            columns.append(pyarrow.field(KEYS, pyarrow.string()))
        return pyarrow.schema(columns, self._about)

    def _start(self) -> None:
        if self._writer is None:
            assert self._file is not None
            self._sink = self._file.stream()
            self._writer = self._open(self._sink, self._schema())

    @abstractmethod
    def _open(self, sink: Any, schema: Any) -> Any:
        """The writer of pyarrow."""

    @abstractmethod
    def _write(self, batch: Any) -> None:
        """Write a record batch."""

    def _finish(self) -> None:
        self._flush()
        self._writer.close()
        self._sink.close()
        assert self._file is not None
        self._file.commit()

    def _discard(self) -> None:
        writer, sink, file = self._writer, self._sink, self._file
        self._writer = self._sink = self._file = None
        for one in (writer, sink):  # what they still hold goes into the file before that is thrown away
            if one is not None:
                _close_quietly(one)
        if file is not None:
            file.abort()


class ParquetWriter(TableWriter):
    """Writes samples into a Parquet file.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        length: number of samples; not needed.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        row_group_size: samples of a row group, which is what readers read at once; by default as many as have 16 MiB.
        compression: ``"zstd"``, ``"snappy"``, ``"gzip"``, ``"brotli"``, ``"lz4"`` or ``"none"``, for all columns but
            pictures, which are compressed already.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
        row_group_size: int | None = None,
        compression: str = "zstd",
    ) -> None:
        if row_group_size is not None and (isinstance(row_group_size, bool) or not 1 <= row_group_size < 1 << 31):
            raise ValueError(f"row_group_size must be a number of samples from 1 on, got {row_group_size!r}")
        if compression not in ("zstd", "snappy", "gzip", "brotli", "lz4", "none"):
            raise ValueError(f"compression must be zstd, snappy, gzip, brotli, lz4 or none, got {compression!r}")
        self._compression = compression
        super().__init__(
            path,
            fields,
            class_names=class_names,
            metadata=metadata,
            group_bytes=_GROUP_BYTES if row_group_size is None else None,
            group_rows=row_group_size or _MAX_GROUP_ROWS,
        )

    def _open(self, sink: Any, schema: Any) -> Any:
        parquet = require("pyarrow.parquet", "writing .parquet files")
        compression = {_leaf(column): self._compression for column in schema}
        compression |= {f"{name}.{part}": "none" for name in self._pictures() for part in ("bytes", "path")}
        return parquet.ParquetWriter(
            sink,
            schema,
            compression=compression,
            use_dictionary=[name for name, field in self.fields.items() if isinstance(field, Int | Text)] or False,
            write_statistics=[name for name, field in self.fields.items() if isinstance(field, Int | Float)],
            write_page_checksum=True,
        )

    def _pictures(self) -> list[str]:
        return [name for name, field in self.fields.items() if isinstance(field, Image)]

    def _write(self, batch: Any) -> None:
        table = require("pyarrow", "writing .parquet files").Table.from_batches([batch])
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))


class ArrowWriter(TableWriter):
    """Writes samples into an Arrow file (also Feather, version 2), not compressed, so that it can be mapped.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        length: number of samples; not needed.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
    ) -> None:
        super().__init__(
            path,
            fields,
            class_names=class_names,
            metadata=metadata,
            group_bytes=_BATCH_BYTES,
            group_rows=_MAX_GROUP_ROWS,
        )

    def _open(self, sink: Any, schema: Any) -> Any:
        return require("pyarrow.ipc", "writing .arrow files").new_file(sink, schema)

    def _write(self, batch: Any) -> None:
        self._writer.write_batch(batch)


def check_fields(fields: Mapping[str, Field]) -> None:
    """ValueError when a table cannot hold them."""
    if not fields:
        raise ValueError("a table needs one field at least")
    for name, field in fields.items():
        if name == KEYS:
            raise ValueError(f"{KEYS!r} is the column of the samples' names, and no field can be called that")
        if not isinstance(field, _PLAIN):
            raise ValueError(f"fields[{name!r}] ({field.kind}) cannot be stored in a table; use Bytes()")


def _size(value: Any) -> int:
    return len(value) if isinstance(value, bytes) else 8


def _type_of(field: Field) -> Any:
    pyarrow = require("pyarrow", "writing Arrow data")
    if isinstance(field, NDArray):
        return _array_type(field)
    if isinstance(field, Image):
        return pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    if isinstance(field, Text | Json):
        return pyarrow.string()
    return {"int": pyarrow.int64(), "float": pyarrow.float64()}.get(field.kind, pyarrow.binary())


def _array_type(field: NDArray) -> Any:
    pyarrow = require("pyarrow", "writing Arrow data")
    if field.dtype.kind not in "biuf" or not field.dtype.isnative or field.dtype.itemsize > 8:
        return pyarrow.binary(field.size_bytes)
    kind = pyarrow.from_numpy_dtype(field.dtype)
    for side in reversed(field.shape):
        kind = pyarrow.list_(kind, side)
    return kind


def _column(field: Field, values: list[Any]) -> Any:
    pyarrow = require("pyarrow", "writing Arrow data")
    kind = _type_of(field)
    if isinstance(field, NDArray):
        return _array_column(field, np.stack(values).astype(field.dtype, copy=False), kind)
    if isinstance(field, Image):
        parts = [pyarrow.array(values, pyarrow.binary()), pyarrow.nulls(len(values), pyarrow.string())]
        return pyarrow.StructArray.from_arrays(parts, fields=list(kind))
    if isinstance(field, Text | Json):
        return pyarrow.array(values, pyarrow.binary()).cast(kind)
    return pyarrow.array(values, kind)


def _array_column(field: NDArray, values: Any, kind: Any) -> Any:
    pyarrow = require("pyarrow", "writing Arrow data")
    if pyarrow.types.is_fixed_size_binary(kind):
        return pyarrow.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pyarrow.py_buffer(values.tobytes())])
    column = pyarrow.array(values.reshape(-1))
    for axis in range(len(field.shape), 0, -1):
        column = pyarrow.FixedSizeListArray.from_arrays(column, field.shape[axis - 1])
        assert len(column) == len(values) * math.prod(field.shape[: axis - 1])
    return column


def _leaf(column: Any) -> str:
    """The path of a column as Parquet has it: lists have a part ``list.element`` for each level."""
    types = require("pyarrow", "writing Arrow data").types
    path, kind = column.name, column.type
    while types.is_fixed_size_list(kind):
        path, kind = f"{path}.list.element", kind.value_type
    return str(path)


def _close_quietly(held: Any) -> None:
    """Let pyarrow go of a file that will not be kept."""
    try:
        held.close()
    except Exception:  # a full disk, say; that was told when it first happened
        return
