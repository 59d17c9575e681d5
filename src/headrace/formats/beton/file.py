"""An opened .beton: its bytes, what stands in them, and where values are, each checked before it is used.

A ``BetonFile`` never changes after it was opened, so any number of threads may use it. A local one holds a mapping and
no file descriptor; the mapping ends when nobody holds the file or a view of its bytes any more. Of an object in a store
it holds frame, metadata, table and annex; payloads come as they are asked for. Who reads takes the file once and uses
it to the end, whatever happens to the dataset meanwhile.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.annex import (
    CHECKSUMS,
    CLASSES,
    METADATA,
    REPAIR,
    SCHEMA,
    TRAILER_SIZE,
    Annex,
    Names,
    TileIndex,
    hold_sections,
    open_side,
    read_checksums,
    read_json,
    read_names,
    read_tile_index,
)
from headrace.errors import AnnexError, CorruptSampleError
from headrace.fields import Text, from_spec
from headrace.formats.beton.layout import FRAME_BYTES, ROW_SIZE, Layout, align, fingerprint, read_layout
from headrace.formats.beton.spans import Spans, image_spans
from headrace.progress import format_count
from headrace.storage import join_announcements, open_stored
from headrace.types import StoredSpans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.formats.beton.columns import Column
    from headrace.types import Announcement, Field, IndexArray, Source

__all__ = ["BetonFile"]

_Pictures: TypeAlias = tuple[
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint8],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
]

_ANNEX_END_BYTES = 64 << 10
_RESTORE = "Restore the file from a copy, or leave the sample out."


class BetonFile:
    """The bytes of one .beton and what they mean.

    Args:
        path: the file.
        annex: use the annex if there is one; False ignores it.
        checksums: take the checksums from it.
        custom_fields: how to read user-defined fields (type id 255), by name.
    """

    def __init__(
        self,
        path: str,
        *,
        annex: bool,
        checksums: bool,
        custom_fields: Mapping[str, Field] | None,
        follow_links: bool = False,
    ) -> None:
        self.path = path
        self._follow_links = follow_links
        self.stored = open_stored(path)
        self.size_bytes = self.stored.size_bytes
        self.stored.hold(0, min(FRAME_BYTES, self.size_bytes))
        self.layout: Layout = read_layout(self.stored, custom_fields or {})
        self.frame = self.stored.hold(0, self.layout.metadata_start)
        records, table = self._read_tables()
        self._sizes = _native.AllocationTable(table)
        self.table_bytes = table
        self.table: npt.NDArray[np.uint64] = table.view("<u8").reshape(-1, ROW_SIZE // 8)
        self.records: npt.NDArray[np.void] = records.view(self.layout.record)
        self._records_flat = records
        self._record_bytes = records.reshape(self.layout.num_samples, self.layout.record.itemsize)
        self._pointer_holes = self.layout.pointer_holes()
        self.columns = {c.name: c for c in self.layout.columns}
        self.names = tuple(self.columns)
        self._payloads = len(self.layout.payload_columns)
        self.pictures = [c.name for c in self.layout.columns if c.field.kind == "image"]
        self.annex: Annex | None = self._find_annex() if annex else None
        if self.annex is not None:
            hold_sections(self.annex, (SCHEMA, CHECKSUMS) if checksums else (SCHEMA,), len(self.pictures))
        self.stored_schema: Any = read_json(self.annex, SCHEMA) if self.annex else None
        self.schema = self._read_schema(is_described=not custom_fields)
        width = 1 + len(self.layout.payload_columns)
        self.checksums = read_checksums(self.annex, width) if self.annex and checksums else None
        self._native_columns: dict[str, _native.BetonColumn] = {}
        self.check()

    def _read_tables(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Metadata and allocation table; what must be fetched comes at the same time, with the end of an annex."""
        layout = self.layout
        offsets = np.array([layout.metadata_start], np.uint64)
        sizes = np.array([layout.metadata_end], np.uint64) - offsets
        announced = self.stored.announce(offsets, sizes)
        try:
            tail = max(layout.metadata_end, layout.alloc_table_ptr - _ANNEX_END_BYTES)
            table = self.stored.hold(tail, self.size_bytes)[layout.alloc_table_ptr - tail :]
            base, (start,) = self.stored.region(offsets, sizes)
            return base[int(start) : int(start) + int(sizes[0])], table
        finally:
            if announced is not None:
                announced.close()

    def _find_annex(self) -> Annex | None:
        layout = self.layout
        facts = {
            "num_samples": layout.num_samples,
            "dataset_size": self.size_bytes,
            "dataset_fingerprint": self.fingerprint,
        }
        annex = Annex.find(self.stored, first=layout.metadata_end, end=layout.alloc_table_ptr, **facts)
        if annex is None and layout.alloc_table_ptr != layout.usual_table_ptr:
            raise AnnexError(
                self.path,
                offset=layout.alloc_table_ptr - TRAILER_SIZE,
                problem="what stands between the last page and the allocation table is not an annex",
                fix=REPAIR,
            )
        if annex is None and (side := open_side(self.path, follow_links=self._follow_links)) is not None:
            annex = Annex.find(side, **facts)
            if annex is None:
                raise AnnexError(side.path, problem="this is not an annex", fix="Remove it, or make a new one.")
        return annex

    def _read_schema(self, *, is_described: bool) -> Mapping[str, Field]:
        stored = self.stored_schema
        if self.annex is None or stored is None or not is_described:
            return MappingProxyType({c.name: c.field for c in self.layout.columns})
        try:
            described = {name: from_spec(spec) for name, spec in stored}
        except (ValueError, TypeError, AttributeError) as error:
            raise self.annex.fail(SCHEMA, f"cannot be understood ({error})") from None
        if tuple(described) != self.names:
            raise self.annex.fail(SCHEMA, f"has the fields {list(described)}, the file has {list(self.names)}")
        for name, column in self.columns.items():
            if not _agree(column.field, described[name]):
                raise self.annex.fail(SCHEMA, f"does not fit the file: field {name!r} is {column.field}")
        return MappingProxyType(described)

    def __len__(self) -> int:
        return self.layout.num_samples

    @cached_property
    def keys(self) -> Names | None:
        """Names of the samples, or None."""
        return read_names(self.annex) if self.annex else None

    @cached_property
    def class_names(self) -> dict[str, list[str]]:
        """Names of the classes by field."""
        value = read_json(self.annex, CLASSES) if self.annex else None
        if self.annex is None or value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(names, list) for names in value.values()):
            raise self.annex.fail(CLASSES, "is not a list of names for each field")
        return value

    @cached_property
    def metadata(self) -> Any:
        """What the user stored about the whole dataset, or None."""
        return read_json(self.annex, METADATA) if self.annex else None

    @cached_property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, or None."""
        return read_tile_index(self.annex, len(self.pictures)) if self.annex else None

    @property
    def fingerprint(self) -> int:
        """32 bits of the frame and the allocation table."""
        return fingerprint(self.frame, self.table_bytes)

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine, those of its annex too."""
        return self.stored.is_local and (self.annex is None or self.annex.file.is_local)

    @property
    def has_embedded_annex(self) -> bool:
        """An annex, even a damaged or ignored one, stands inside the file."""
        return Annex.is_marked(self.stored, self.layout.alloc_table_ptr)

    @cached_property
    def data_end(self) -> int:
        """First byte after the data pages."""
        if self.annex is not None and self.annex.path == self.path:
            return self.layout.alloc_table_ptr - self.annex.size_bytes
        if self.has_embedded_annex and len(self.table):  # ignored: then the last page ends behind the last payload
            last = self.table[np.argmax(self.table[:, 1])]
            end = align(int(last[1]) + int(last[2]), self.layout.page_size)
            return min(end, self.layout.alloc_table_ptr)
        return self.layout.alloc_table_ptr

    def check(self) -> None:
        """Raise FormatError if a part of the file could not be read, because somebody has cut it short."""
        self.stored.check()

    def column(self, name: str) -> Column:
        """The column of a field; KeyError names those there are."""
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError(f"no field {name!r} in {self.path}; the fields are {', '.join(self.names)}") from None

    def payload_column(self, name: str) -> Column:
        """The column of a field whose values have bytes of their own."""
        column = self.column(name)
        if column.slot is None:
            raise ValueError(f"field {name!r} is a number in the metadata; read it with column({name!r})")
        return column

    def members(self, column: Column, indices: IndexArray) -> list[Any]:
        """Members of the metadata records as Python values."""
        values: list[Any] = self.records[column.member][indices].tolist()
        return values

    def locate(self, indices: IndexArray, column: Column) -> Spans:
        """Find and check the spans of one field's payloads; a bad one gets a problem, never an exception."""
        members = self.records[column.member][indices]
        if column.field.kind == "image":
            guesses = indices * self._payloads + (column.slot or 0)
            spans = image_spans(members, self._sizes, guesses.astype(np.uint64))
        elif members.dtype.names:
            spans = Spans(members["ptr"].astype(np.uint64), members["size"].astype(np.uint64))
        else:
            size = getattr(column.field, "size_bytes")  # noqa: B009  # only arrays have bare pointers
            spans = Spans(members.astype(np.uint64), np.full(len(members), size, np.uint64))
        spans.keep_inside(self.layout.data_start, self.data_end)
        return spans

    def _native_column(self, column: Column) -> _native.BetonColumn:
        known = self._native_columns.get(column.name)
        if known is None:
            layout = self.layout
            assert layout.record.fields is not None
            at = layout.record.fields[column.member][1]
            known = _native.BetonColumn(
                self._records_flat, layout.record.itemsize, at, layout.data_start, self.data_end
            )
            self._native_columns[column.name] = known
        return known

    def checked_pictures(self, indices: IndexArray, column: Column) -> _Pictures:
        """Pointers, sizes, modes, widths and heights of pictures; raises for the first that is bad."""
        samples = np.ascontiguousarray(indices, np.int64)
        found = self._native_column(column).pictures(self._sizes, samples, self._payloads, column.slot or 0)
        if found is not None:
            return found
        spans = self.locate(indices, column)  # knows the words for what is wrong
        self.raise_first(spans, indices, column)
        facts = self.records[column.member][indices]
        sides = (facts["width"].astype(np.uint32), facts["height"].astype(np.uint32))
        return spans.pointers, spans.sizes, facts["mode"].copy(), *sides

    def picture_measures(self, indices: IndexArray, column: Column) -> tuple[npt.NDArray[Any], ...]:
        """Sizes, widths and heights of pictures, as the records have them where they are bad."""
        samples = np.ascontiguousarray(indices, np.int64)
        found = self._native_column(column).pictures(self._sizes, samples, self._payloads, column.slot or 0)
        if found is not None:
            return found[1], found[3], found[4]
        facts = self.records[column.member][indices]
        return self.locate(indices, column).sizes, facts["width"], facts["height"]

    def find_arrays(self, indices: IndexArray, column: Column, size: int) -> Spans | None:
        """Spans of arrays of one size; None when one is bad, or they have more bytes together than the file."""
        if len(indices) * size > self.data_end - self.layout.data_start:
            return None
        pointers = self._native_column(column).arrays(np.ascontiguousarray(indices, np.int64), size)
        return None if pointers is None else Spans(pointers, np.full(len(pointers), size, np.uint64))

    def place(
        self, pointers: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64], source: Source | None = None
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Where the bytes of spans are: a region and an offset into it for each."""
        return self.stored.region(pointers, sizes) if source is None else source.locate(pointers, sizes)

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring payloads, and the tile indices of pictures."""
        if self.is_local:
            return None
        announced, tiles = [self.announce_values(indices, fields)], self.tile_index
        if tiles is not None:
            announced += [tiles.announce(indices, self.pictures.index(n)) for n in fields if n in self.pictures]
        return join_announcements(announced)

    def announce_values(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring payloads; of what is damaged nothing is brought, and reading it tells."""
        columns = [column for column in map(self.column, fields) if column.slot is not None]
        if not columns:
            return None
        # All fields together: what lies close together in the file comes by one request.
        spans = [self.locate(indices, column) for column in columns]
        pointers = np.concatenate([span.pointers for span in spans])
        return self.stored.announce(pointers, np.concatenate([span.sizes for span in spans]))

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        owners, tiles = np.arange(len(indices)), self.tile_index
        columns = [column for column in map(self.column, fields) if column.slot is not None]
        places = [(spans.pointers, spans.sizes) for spans in (self.locate(indices, column) for column in columns)]
        found = [StoredSpans(self.stored.path, self.size_bytes, owners, *place) for place in places]
        if tiles is not None:
            pictures = [self.pictures.index(name) for name in fields if name in self.pictures]
            found += [spans for number in pictures for spans in tiles.stored_spans(indices, number)]
        return found

    def checked_spans(
        self, indices: IndexArray, column: Column, source: Source | None = None
    ) -> tuple[Spans, npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Spans and their place, every payload compared with its checksum; raises for the first that is bad."""
        spans = self.locate(indices, column)
        self.check_overlap(spans, indices, column)
        base, pointers = self.place(spans.pointers, spans.sizes, source)
        if self.checksums is not None:
            found = _native.crc32c_spans(base, pointers, spans.sizes)
            self.compare_checksums(spans, indices, column, found)
        self.raise_first(spans, indices, column)
        return spans, base, pointers

    def check_overlap(self, spans: Spans, indices: IndexArray, column: Column) -> None:
        """Raise CorruptSampleError when samples have more bytes together than the file: a copy would take them all."""
        there = max(self.data_end - self.layout.data_start, 0)
        if int(spans.sizes.sum()) <= there:
            return
        _, first = np.unique(indices, return_index=True)  # the same sample may be wanted several times
        total = int(spans.sizes[first].sum())
        if total > there:
            others = format_count(len(first) - 1, "other sample")
            problem = f"this and {others} have {format_count(total, 'byte')} together, the data pages {there}"
            raise self.bad_sample(int(indices[0]), column, problem, None)

    def decode_one(self, column: Column, member: Any, stored: npt.NDArray[np.uint8]) -> Any:
        """Decode one payload."""
        return self.schema[column.name].decode(column.to_facts(member), memoryview(stored))

    def compare_checksums(
        self, spans: Spans, indices: IndexArray, column: Column, found: npt.NDArray[np.uint32]
    ) -> None:
        """Note every payload whose checksum is not the stored one."""
        if self.checksums is None or column.slot is None:
            return
        expected = self.checksums[indices, 1 + column.slot]
        bad = found != expected
        if bad.any():
            for position in np.flatnonzero(bad).tolist():
                spans.problems.setdefault(
                    position, f"checksum {expected[position]:#010x} expected, found {found[position]:#010x}"
                )

    def bad_records(self, indices: IndexArray) -> IndexArray:
        """Those of the samples whose metadata record does not match its checksum."""
        if self.checksums is None:
            return indices[:0]
        numbers = np.ascontiguousarray(indices, np.int64)
        if _native.find_wrong_row(self._record_bytes, self._pointer_holes, numbers, self.checksums) < 0:
            return indices[:0]
        bad: npt.NDArray[np.bool_] = self.record_checksums(indices) != self.checksums[indices, 0]
        return indices[bad]

    def record_checksums(self, indices: IndexArray) -> npt.NDArray[np.uint32]:
        """Checksums of metadata records, their pointers taken as zero."""
        # As bytes, not as records: numpy may leave the padding of a copied record undefined.
        return _native.crc32c_rows(self._record_bytes[indices], self._pointer_holes)

    def check_records(self, indices: IndexArray) -> None:
        """Raise CorruptSampleError for the first metadata record that does not match its checksum."""
        bad = self.bad_records(indices)
        if len(bad):
            i = int(bad[0])
            raise CorruptSampleError(
                self.path,
                sample=i,
                offset=self._record_at(i),
                problem="the metadata record (numbers and sizes) does not match its checksum",
                fix=_RESTORE,
            )

    def check_table(self, limit: int) -> list[tuple[int, str, int]]:
        """Rows of the allocation table that are wrong: (row, what, the other row of an overlap)."""
        return self._sizes.check(self.layout.data_start, self.data_end, self.layout.page_size, len(self), limit)

    def raise_first(self, spans: Spans, indices: IndexArray, column: Column) -> None:
        """Raise CorruptSampleError for the first problem, if there is one."""
        if spans.problems:
            position = min(spans.problems)
            pointer = int(spans.pointers[position]) or None
            raise self.bad_sample(int(indices[position]), column, spans.problems[position], pointer)

    def bad_sample(self, index: int, column: Column, problem: str, offset: int | None) -> CorruptSampleError:
        """Make the error for one damaged value."""
        if offset is None:
            offset = self._record_at(index)
        return CorruptSampleError(
            self.path, sample=index, field=column.name, offset=offset, problem=problem, fix=_RESTORE
        )

    def _record_at(self, index: int) -> int:
        return self.layout.metadata_start + index * self.layout.record.itemsize


def _agree(stored: Field, described: Field) -> bool:
    if isinstance(described, Text):
        return stored.kind == "bytes"
    if stored.kind == "image":
        return described.kind == "image"
    return stored == described
