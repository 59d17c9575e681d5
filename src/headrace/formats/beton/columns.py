"""How each field looks in a .beton: type id, argument bytes, and its member of the metadata record.

=================  =======  ==========================================================  ====  =========
field              type id  member of the record                                        size  alignment
=================  =======  ==========================================================  ====  =========
Float, Int         0, 1     the value itself, f64 or i64                                8     8
Image              2        mode u8 (0 jpg, 1 raw), width u16, height u16, data_ptr u64  13    1
Bytes, Json, Text  3, 5, 3  ptr u64, size u64                                           16    1
NDArray, Tensor    4, 6     ptr u64                                                     8     8
=================  =======  ==========================================================  ====  =========

The 1024 argument bytes are zero but for arrays: 32 sides u64 (unused 0), length u64 of the text that follows,
then ASCII JSON of numpy's ``dtype.descr``. Type 255 is a user's own field; if its arguments are those of an
array it is read as one, which is what a class derived from FFCV's NDArrayField writes.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import fields as f
from headrace.errors import FormatError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.types import Encoded, Facts, Field

__all__ = ["ARGUMENTS_SIZE", "Column", "column_for", "read_column", "record_dtype"]

ARGUMENTS_SIZE = 1024
CUSTOM = 255
_SHAPE = struct.Struct("<32QQ")
_TYPE_IDS = {"float": 0, "int": 1, "image": 2, "bytes": 3, "text": 3, "ndarray": 4, "json": 5, "tensor": 6}

_IMAGE = np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("data_ptr", "<u8")])
_SIZED = np.dtype([("ptr", "<u8"), ("size", "<u8")])
_RECORDS: dict[str, np.dtype[Any]] = {
    "float": np.dtype("<f8"),
    "int": np.dtype("<i8"),
    "image": _IMAGE,
    "bytes": _SIZED,
    "text": _SIZED,
    "json": _SIZED,
    "ndarray": np.dtype("<u8"),
    "tensor": np.dtype("<u8"),
}
_MAX_VALUE_BYTES = 0xFFFFFFFF  # page sizes are u32
_POINTER_AT = {"image": 5, "bytes": 0, "text": 0, "json": 0, "ndarray": 0, "tensor": 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One field of a .beton.

    ``slot`` counts the fields with a payload; it is None for scalars. ``member`` is the name in the record.
    """

    name: str
    field: Field
    type_id: int
    member: str
    slot: int | None

    @property
    def record(self) -> np.dtype[Any]:
        """The dtype of the member."""
        return _RECORDS[self.field.kind]

    @property
    def pointer_at(self) -> int:
        """Where the pointer stands inside the member."""
        return _POINTER_AT[self.field.kind]

    def arguments(self) -> bytes:
        """The 1024 argument bytes."""
        if not isinstance(self.field, f.NDArray):
            return bytes(ARGUMENTS_SIZE)
        text = json.dumps(self.field.dtype.descr).encode("ascii")
        shape = self.field.shape + (0,) * (32 - len(self.field.shape))
        return (_SHAPE.pack(*shape, len(text)) + text).ljust(ARGUMENTS_SIZE, b"\0")

    def to_member(self, encoded: Encoded) -> Any:
        """The member's value for an encoded value, its pointer still zero."""
        kind = self.field.kind
        if kind == "image":
            return (*encoded.facts, 0)
        if self.record is _SIZED:
            return (0, len(encoded.payload or b""))
        return encoded.facts[0] if encoded.facts else 0

    def to_facts(self, member: Any) -> Facts:
        """The field's facts, from a member as Python values."""
        if self.field.kind == "image":
            mode, width, height, _ = member
            return (mode, width, height)
        return () if self.slot is not None else (member,)


def column_for(name: str, field: Field, *, index: int, slot: int | None) -> Column:
    """Make the column that stores a field."""
    if field.kind not in _TYPE_IDS:
        raise TypeError(f"field {name!r}: a .beton has no type for {field.kind!r} fields")
    return Column(name=name, field=field, type_id=_TYPE_IDS[field.kind], member=f"f{index}", slot=slot)


def record_dtype(columns: tuple[Column, ...]) -> np.dtype[Any]:
    """The dtype of one metadata record: members in field order, each aligned as numpy aligns it."""
    return np.dtype([(c.member, c.record) for c in columns], align=True)


def read_column(
    path: str, descriptor: bytes, *, offset: int, index: int, slot: int, custom: Mapping[str, Field]
) -> Column:
    """Parse one field descriptor; ``slot`` is the next free one."""
    type_id, raw_name, arguments = descriptor[0], descriptor[1:17], descriptor[17:]
    try:
        name = raw_name.partition(b"\0")[0].decode("ascii")
    except UnicodeDecodeError:
        raise FormatError(
            path, offset=offset + 1, problem=f"the name of field {index} is not ASCII: {raw_name!r}"
        ) from None
    field = custom.get(name) or _field_of(path, name, type_id, arguments, offset)
    if field.kind not in _RECORDS:
        raise TypeError(f"custom_fields[{name!r}]: a .beton cannot hold {field.kind!r} fields")
    return Column(name=name, field=field, type_id=type_id, member=f"f{index}", slot=slot if field.has_payload else None)


def _field_of(path: str, name: str, type_id: int, arguments: bytes, offset: int) -> Field:
    plain: dict[int, Field] = {0: f.Float(), 1: f.Int(), 2: f.Image(), 3: f.Bytes(), 5: f.Json()}
    if type_id in plain:
        return plain[type_id]
    if type_id in (4, 6, CUSTOM):
        try:
            return _array_field(arguments, f.Tensor if type_id == 6 else f.NDArray)
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            if type_id != CUSTOM:
                raise FormatError(
                    path,
                    offset=offset + 17,
                    problem=f"field {name!r} has no readable shape and dtype ({error})",
                ) from None
        raise FormatError(
            path,
            offset=offset,
            problem=f"field {name!r} is a user-defined type (id 255), and nothing in the file says how to read it",
            fix=f"Open the file with custom_fields={{{name!r}: ...}}.",
        )
    raise FormatError(
        path,
        offset=offset,
        problem=f"field {name!r} has type id {type_id}; known are 0 to 6 and 255",
        fix="The file is damaged, or was written by a newer version.",
    )


def _array_field(arguments: bytes, cls: type[f.NDArray]) -> f.NDArray:
    *shape, length = _SHAPE.unpack_from(arguments)
    while shape and shape[-1] == 0:
        shape.pop()
    if length > ARGUMENTS_SIZE - _SHAPE.size:
        raise ValueError(f"dtype text of {format_count(length, 'byte')}")
    descr = json.loads(arguments[_SHAPE.size : _SHAPE.size + length].decode("ascii"))
    if not isinstance(descr, list) or len(descr) != 1 or len(descr[0]) != 2:
        raise ValueError(f"dtype {descr!r} is not a single plain dtype")
    field = cls(f.dtype_from_text(descr[0][1]), shape)
    if field.size_bytes > _MAX_VALUE_BYTES:
        raise ValueError(
            f"{field.dtype} of shape {field.shape} takes {format_count(field.size_bytes, 'byte')}, more than any page"
        )
    return field
