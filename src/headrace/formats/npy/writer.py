"""Writes .npy files, whose header is completed at the end, and .npz files, whose arrays wait until all are complete."""

from __future__ import annotations

import logging
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.fields import Float, Int, NDArray, from_spec, to_spec
from headrace.formats.description import Description
from headrace.formats.npy.dataset import DESCRIPTION, KEYS, OFFSETS, VALUES
from headrace.formats.npy.header import build_header
from headrace.formats.row_writer import RowWriter
from headrace.formats.values import encode_value
from headrace.storage import AtomicFile, Spool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.row_writer import Row
    from headrace.types import Field

__all__ = ["NpyWriter", "NpzWriter"]

_log = logging.getLogger("headrace")
_ROOM = 10**18  # more samples than there will be, so that the header can be completed in place
_IN_MEMORY_BYTES = 8 << 20
_COPY_BYTES = 1 << 20
_ALIGNMENT = 64
_ZIP64_BYTES = 20
_PADDING = 0xD935  # what zip tools call an extra field that only moves the bytes behind it


def _store(field: Field, value: Any, index: int) -> Any:
    """What goes into the file: a number, the bytes of an array, or the bytes of a file."""
    if isinstance(field, Int | Float):
        return field.encode(value, index).facts[0]
    return field.encode(value, index).payload if isinstance(field, NDArray) else encode_value(field, value, index)[1]


def _dtype_of(field: Field) -> np.dtype[Any] | None:
    if isinstance(field, NDArray):
        return field.dtype
    if isinstance(field, Int | Float):
        return np.dtype("<i8" if isinstance(field, Int) else "<f8")
    return None


def _shape_of(field: Field) -> tuple[int, ...]:
    return field.shape if isinstance(field, NDArray) else ()


def _packed(field: Field, column: Sequence[Any]) -> bytes:
    """The stored values of a field of fixed size, one after the other."""
    return b"".join(column) if isinstance(field, NDArray) else np.array(column, _dtype_of(field)).tobytes()


class NpyWriter(RowWriter):
    """Writes one field of numbers or arrays as a .npy.

    Args:
        path: where the file goes.
        fields: one Int, Float, NDArray or Tensor. Its name is not kept: a .npy has no place for it.
        length: not needed.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
        >>> headrace.write(path, [3, 1, 2], fields={"n": headrace.Int()})
        >>> np.load(path)
        array([3, 1, 2])
    """

    def __init__(self, path: PathLike, fields: Mapping[str, Field], *, length: int | None = None) -> None:
        super().__init__(fields, _store)
        if len(fields) != 1:
            raise ValueError(f"a .npy holds one field, and there are {', '.join(fields)}; write a .npz")
        ((name, self._field),) = fields.items()
        dtype = _dtype_of(self._field)
        if dtype is None or dtype.kind == "V":
            raise ValueError(f"field {name!r} ({self._field.kind}) is no array that a .npy can hold; write a .npz")
        self._dtype = dtype
        self._is_told = False
        self._file = AtomicFile(path)
        self._header_bytes = len(build_header(dtype, (_ROOM, *_shape_of(self._field))))
        self._file.write([bytes(self._header_bytes)])

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        if names is not None and not self._is_told:
            self._is_told = True
            _log.warning("%s: a .npy has no place for the names of samples; a .npz has", self._file.path)
        self._file.write([_packed(self._field, [row[0] for row in rows])])

    def _finish(self) -> None:
        shape = (len(self), *_shape_of(self._field))
        self._file.write_at(0, build_header(self._dtype, shape, size_bytes=self._header_bytes))
        self._file.commit()

    def _discard(self) -> None:
        self._file.abort()


class NpzWriter(RowWriter):
    """Writes any fields as a .npz that numpy reads, too.

    Numbers and arrays are one array each. Everything else is two: ``name.values`` with all bytes, ``name.offsets`` with
    the place where each value begins. What the fields are, class names and metadata are in ``__headrace__``, names of
    samples in ``__key__.values`` and ``__key__.offsets``.

    Args:
        path: where the file goes.
        fields: name to field, in order.
        length: not needed.
        class_names: names of the classes by field.
        metadata: anything that JSON can hold.
        compressed: pack by deflate, as ``numpy.savez_compressed`` does; such arrays cannot be mapped.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
        compressed: bool = False,
    ) -> None:
        super().__init__(fields, _store)
        self._about = Description(fields=self.fields, class_names=class_names or {}, metadata=metadata)
        _check_fields(self._about)
        self._is_compressed = compressed
        self._file = AtomicFile(path)
        folder = os.path.dirname(self._file.path) or "."
        self._members = {name: _Member(field, folder) for name, field in self.fields.items()}
        self._keys = _Member(None, folder)

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        for member, column in zip(self._members.values(), zip(*rows, strict=True), strict=True):
            member.add(column)
        if names is not None:
            self._keys.add([name.encode("utf-8", "surrogateescape") for name in names])

    def _finish(self) -> None:
        with self._file.stream() as stream, zipfile.ZipFile(stream, "w", allowZip64=True) as target:
            for name, member in self._members.items():
                self._write_member(target, name, member)
            if self._has_names:
                self._write_member(target, KEYS, self._keys)
            text = self._about.to_text().encode("ascii")
            self._write_array(target, DESCRIPTION, np.dtype("u1"), (len(text),), iter([text]))
        self._file.commit()
        self._close_members()

    def _write_member(self, target: zipfile.ZipFile, name: str, member: _Member) -> None:
        if member.field is not None and (dtype := _dtype_of(member.field)) is not None:
            self._write_array(target, name, dtype, (len(self), *_shape_of(member.field)), member.pieces())
            return
        offsets = member.offsets()
        self._write_array(target, name + VALUES, np.dtype("u1"), (int(offsets[-1]),), member.pieces())
        self._write_array(target, name + OFFSETS, offsets.dtype, offsets.shape, iter([offsets.tobytes()]))

    def _write_array(
        self, target: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterator[bytes]
    ) -> None:
        info = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, as numpy does it: the same data are the same bytes
        info.external_attr = 0o600 << 16
        info.compress_type = zipfile.ZIP_DEFLATED if self._is_compressed else zipfile.ZIP_STORED
        begin = target.fp.tell() + 30 + len(info.filename.encode()) + _ZIP64_BYTES + 4  # type: ignore[union-attr]
        padding = -begin % _ALIGNMENT  # so that items lie where the machine reads them best
        info.extra = _PADDING.to_bytes(2, "little") + padding.to_bytes(2, "little") + bytes(padding)
        with target.open(info, "w", force_zip64=True) as out:
            out.write(build_header(dtype, shape))
            for piece in pieces:
                out.write(piece)

    def _discard(self) -> None:
        self._file.abort()
        self._close_members()

    def _close_members(self) -> None:
        for member in (*self._members.values(), self._keys):
            member.close()


class _Member:
    """The values of one field until the file is written; ``field`` is None for names."""

    def __init__(self, field: Field | None, folder: str) -> None:
        self.field = field
        self._bytes = Spool(folder, max_bytes=_IN_MEMORY_BYTES)
        self._sizes: list[np.ndarray[Any, np.dtype[np.int64]]] = []

    def add(self, column: Sequence[Any]) -> None:
        if self.field is not None and _dtype_of(self.field) is not None:
            self._bytes.write(_packed(self.field, column))
            return
        self._sizes.append(np.fromiter(map(len, column), np.int64, len(column)))
        self._bytes.write(b"".join(column))

    def offsets(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Where each value begins, and the last one ends."""
        sizes = np.concatenate([np.zeros(1, np.int64), *self._sizes])
        return np.cumsum(sizes).astype("<i8")

    def pieces(self) -> Iterator[bytes]:
        """All bytes, some at a time."""
        self._bytes.seek(0)
        while piece := self._bytes.read(_COPY_BYTES):
            yield piece

    def close(self) -> None:
        self._bytes.close()


def _check_fields(about: Description) -> None:
    """ValueError when the fields could not be read back."""
    if not about.fields:
        raise ValueError("fields is empty: a .npz needs one field at least")
    members: list[str] = [DESCRIPTION, KEYS + VALUES, KEYS + OFFSETS]
    for name, field in about.fields.items():
        if not _is_known(field):
            raise ValueError(f"field {name!r} ({field.kind}) is of a kind that a .npz cannot describe; decode it first")
        members += [name] if _dtype_of(field) is not None else [name + VALUES, name + OFFSETS]
    if len(set(members)) < len(members):
        twice = next(name for name in members if members.count(name) > 1)
        raise ValueError(f"two arrays would be called {twice!r}; give the fields other names")
    for name in about.class_names:
        if name not in about.fields:
            raise ValueError(f"class_names has {name!r}, which is no field; the fields are {', '.join(about.fields)}")
    try:
        about.to_text()
    except (TypeError, ValueError) as error:
        raise ValueError(f"metadata must be something that JSON can hold ({error})") from None


def _is_known(field: Field) -> bool:
    dtype = _dtype_of(field)
    try:
        return from_spec(to_spec(field)) == field and (dtype is None or dtype.kind != "V")
    except (ValueError, TypeError):
        return False
