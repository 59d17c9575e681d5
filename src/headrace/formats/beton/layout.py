"""The frame of a .beton file, every number checked before it is used.

Byte layout, little-endian; docs/formats/beton.md is the long form::

    header       24 bytes: version u16 (2), num_fields u16, page_size u32, num_samples u64, alloc_table_ptr u64
    descriptors  num_fields x 1041 bytes: type_id u8, name 16s, arguments 1024s
    metadata     num_samples records
    data pages   from the next multiple of page_size on; all data of a sample on one page
    annex        optional; FFCV never looks here
    table        from alloc_table_ptr to the end of the file: rows of sample_id u64, ptr u64, size u64
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c
from headrace.errors import FormatError
from headrace.fields import problem_with_name
from headrace.formats.beton.columns import ARGUMENTS_SIZE, Column, column_for, read_column, record_dtype
from headrace.formats.contract import check_field_names
from headrace.progress import format_count
from headrace.types import Field

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from headrace.storage import StoredFile
    from headrace.types import Buffer


__all__ = [
    "DEFAULT_PAGE_SIZE",
    "FINGERPRINT_BYTES",
    "FRAME_BYTES",
    "MAX_PAGE_SIZE",
    "MIN_PAGE_SIZE",
    "ROW_SIZE",
    "Layout",
    "align",
    "columns_for",
    "fingerprint",
    "looks_like_beton",
    "read_layout",
    "with_table_at",
]

VERSION = 2
HEADER = struct.Struct("<HHIQQ")
DESCRIPTOR_SIZE = 1 + 16 + ARGUMENTS_SIZE
ROW_SIZE = 24
MIN_PAGE_SIZE = 1 << 21
MAX_PAGE_SIZE = 1 << 31
DEFAULT_PAGE_SIZE = 1 << 23
FINGERPRINT_BYTES = 1 << 16
FRAME_BYTES = 1 << 16
"""What is fetched of an object at first: header and descriptors of almost every file."""
_INTERRUPTED = "The write was probably interrupted; write the dataset again."
_DAMAGED = "The file is damaged or was not completely copied; restore it from a copy."


def align(offset: int, alignment: int) -> int:
    """Round up to a multiple."""
    return -(-offset // alignment) * alignment


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where everything is in one file."""

    page_size: int
    num_samples: int
    alloc_table_ptr: int
    columns: tuple[Column, ...]
    record: np.dtype[Any]

    @property
    def metadata_start(self) -> int:
        """First byte of the metadata."""
        return HEADER.size + DESCRIPTOR_SIZE * len(self.columns)

    @property
    def metadata_end(self) -> int:
        """First byte after the metadata."""
        return self.metadata_start + self.num_samples * self.record.itemsize

    @property
    def data_start(self) -> int:
        """First byte that may belong to a data page."""
        return align(self.metadata_end, self.page_size)

    @property
    def payload_columns(self) -> tuple[Column, ...]:
        """The columns whose values have a payload, in slot order."""
        return tuple(c for c in self.columns if c.slot is not None)

    @property
    def usual_table_ptr(self) -> int:
        """A place where the allocation table may begin when nothing stands between it and the last page."""
        return align(self.alloc_table_ptr, self.page_size) if self.payload_columns else self.metadata_end

    def number_at(self, index: int, column: Column) -> tuple[int, int]:
        """(offset, size) of a number in the metadata of a sample."""
        assert self.record.fields is not None
        dtype, at = self.record.fields[column.member][:2]
        return self.metadata_start + index * self.record.itemsize + at, dtype.itemsize

    def pointer_holes(self) -> list[tuple[int, int]]:
        """(offset, size) of every pointer inside a record; checksums take them as zero."""
        members = self.record.fields
        return [] if members is None else [(members[c.member][1] + c.pointer_at, 8) for c in self.payload_columns]

    def pack(self) -> bytes:
        """Header and descriptors."""
        head = HEADER.pack(VERSION, len(self.columns), self.page_size, self.num_samples, self.alloc_table_ptr)
        parts = [bytes([c.type_id]) + c.name.encode("ascii").ljust(16, b"\0") + c.arguments() for c in self.columns]
        return b"".join([head, *parts])


def fingerprint(frame: Buffer, table: npt.NDArray[np.uint8]) -> int:
    """What ties an annex to a file: a checksum of header, descriptors and the end of the allocation table."""
    return crc32c(table[max(0, len(table) - FINGERPRINT_BYTES) :], crc32c(frame))


def columns_for(fields: Mapping[str, Field]) -> tuple[Column, ...]:
    """Check a writer's fields and make their columns."""
    if not fields:
        raise ValueError("fields is empty; a dataset needs at least one field")
    if len(fields) > 0xFFFF:
        raise ValueError(f"{format_count(len(fields), 'field')} are too many, the format ends at 65535")
    columns: list[Column] = []
    slot = 0
    for index, (name, field) in enumerate(fields.items()):
        if problem := problem_with_name(name):
            raise ValueError(f"no field can be called that: {problem}")
        if not name.isascii():
            raise ValueError(f"field name {name!r} must be non-empty ASCII text")
        if len(name) > 16:
            raise ValueError(
                f"field name {name!r} has {len(name)} characters, the format ends at 16; use for example {name[:16]!r}"
            )
        if isinstance(field, type) or not isinstance(field, Field):
            raise TypeError(f"fields[{name!r}] must be a field such as Int(), got {field!r}")
        columns.append(column_for(name, field, index=index, slot=slot if field.has_payload else None))
        slot += field.has_payload
    return tuple(columns)


def looks_like_beton(path: str, head: bytes) -> bool:
    """Tell by the first bytes: there is no magic number, so several facts must fit."""
    if len(head) < HEADER.size:
        return False
    version, num_fields, page_size, _, _ = HEADER.unpack_from(head)
    return bool(version == VERSION and num_fields > 0 and page_size >= 4096 and page_size & (page_size - 1) == 0)


def read_layout(file: StoredFile, custom_fields: Mapping[str, Field]) -> Layout:
    """Parse and check header, descriptors and extents of a file."""
    path, size = file.path, file.size_bytes
    if size < HEADER.size:
        raise FormatError(
            path,
            offset=size,
            problem=f"a beton header needs {HEADER.size} bytes, the file has {size}",
            fix=_INTERRUPTED,
        )
    version, num_fields, page_size, num_samples, alloc_table_ptr = HEADER.unpack(file.hold(0, HEADER.size))
    if version != VERSION:
        raise FormatError(
            path,
            offset=0,
            problem=f"beton version 2 expected, found {version}",
            fix="This is not a .beton file, or its header is damaged.",
        )
    if page_size == 0 or page_size & (page_size - 1):
        raise FormatError(path, offset=4, problem=f"page size must be a power of two, found {page_size}", fix=_DAMAGED)
    if num_fields == 0:
        raise FormatError(path, offset=2, problem="the file has no fields", fix=_DAMAGED)
    columns = _read_columns(file, num_fields, custom_fields)
    layout = Layout(
        page_size=page_size,
        num_samples=num_samples,
        alloc_table_ptr=alloc_table_ptr,
        columns=columns,
        record=record_dtype(columns),
    )
    _check_extents(path, layout, size)
    return layout


def _read_columns(file: StoredFile, num_fields: int, custom_fields: Mapping[str, Field]) -> tuple[Column, ...]:
    path, end = file.path, HEADER.size + DESCRIPTOR_SIZE * num_fields
    if end > file.size_bytes:
        raise FormatError(
            path,
            offset=file.size_bytes,
            problem=(
                f"field descriptors need {format_count(end, 'byte')} for {format_count(num_fields, 'field')}, "
                f"the file has {file.size_bytes}"
            ),
            fix=_INTERRUPTED,
        )
    frame = file.hold(0, end)
    columns: dict[str, Column] = {}
    slot = 0
    for index in range(num_fields):
        offset = HEADER.size + DESCRIPTOR_SIZE * index
        descriptor = frame[offset : offset + DESCRIPTOR_SIZE].tobytes()
        column = read_column(path, descriptor, offset=offset, index=index, slot=slot, custom=custom_fields)
        check_field_names(path, [column.name])
        if column.name in columns:
            raise FormatError(
                path,
                offset=offset + 1,
                problem=f"two fields are called {column.name!r}",
                fix="FFCV cuts names to 16 characters; write the dataset again with shorter names.",
            )
        columns[column.name] = column
        slot += column.slot is not None
    unknown = set(custom_fields) - set(columns)
    if unknown:
        raise ValueError(f"custom_fields names fields that the file does not have: {', '.join(sorted(unknown))}")
    return tuple(columns.values())


def _check_extents(path: str, layout: Layout, size: int) -> None:
    if layout.alloc_table_ptr == 0:
        raise FormatError(
            path,
            offset=16,
            problem="the header has no allocation table: the file was never finished",
            fix=_INTERRUPTED,
        )
    if layout.alloc_table_ptr > size:
        raise FormatError(
            path,
            offset=16,
            problem=(
                f"the allocation table should begin at byte {layout.alloc_table_ptr}, "
                f"the file has {format_count(size, 'byte')}"
            ),
            fix=_DAMAGED,
        )
    if layout.metadata_end > layout.alloc_table_ptr:
        raise FormatError(
            path,
            offset=8,
            problem=(
                f"metadata of {format_count(layout.num_samples, 'sample')}, {layout.record.itemsize} bytes each, "
                f"end at byte {layout.metadata_end}, but the allocation table begins at {layout.alloc_table_ptr}"
            ),
            fix=_DAMAGED,
        )
    rows, rest = divmod(size - layout.alloc_table_ptr, ROW_SIZE)
    expected = layout.num_samples * len(layout.payload_columns)
    is_custom = any(c.type_id == 255 for c in layout.columns)
    if rest or (rows != expected and not is_custom):
        raise FormatError(
            path,
            offset=size,
            problem=(
                f"the allocation table has {format_count(rows, 'row')} and {format_count(rest, 'byte')}, "
                f"{format_count(expected, 'row')} of {ROW_SIZE} bytes expected"
            ),
            fix=_DAMAGED,
        )


def with_table_at(layout: Layout, alloc_table_ptr: int) -> Layout:
    """The same layout with its table elsewhere."""
    return replace(layout, alloc_table_ptr=alloc_table_ptr)
