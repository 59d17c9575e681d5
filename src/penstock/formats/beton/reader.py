"""Reading .beton files.

A dataset is immutable after opening, so any number of threads may use it; it holds a mapping and no file
descriptor, so it survives fork; pickling stores the path and the options, and unpickling opens the file again.
If somebody cuts the file short meanwhile, what is missing reads as zeros, and every read that follows says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.annex import (
    CLASSES,
    METADATA,
    REPAIR,
    SCHEMA,
    TRAILER_SIZE,
    Annex,
    Names,
    Tiles,
    read_checksums,
    read_json,
    read_names,
    read_tiles,
    side_path,
)
from penstock.errors import AnnexError, ClosedError, CorruptSampleError, ImageError
from penstock.fields import JPG, NDArray, Text, from_spec
from penstock.formats.base import BaseDataset, normalize_indices
from penstock.formats.beton.layout import ROW_SIZE, Layout, align, fingerprint, read_layout
from penstock.formats.beton.spans import Spans, image_spans
from penstock.storage import check_mapping, map_file
from penstock.types import ImageSpans, Ragged, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.errors import PathLike
    from penstock.formats.beton.columns import Column
    from penstock.types import Field, IndexArray, Indices, Progress, Report, Source

__all__ = ["BetonDataset", "StoredSamples"]

_RESTORE = "Restore the file from a copy, or leave the sample out."


class BetonDataset(BaseDataset):
    """A .beton file, written by penstock or by FFCV, as a sequence of samples.

    Args:
        path: the file.
        annex: use the annex if there is one; False ignores it.
        checksums: check every value that is read against its checksum, where the file has them.
        custom_fields: how to read user-defined fields (type id 255), by name.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        annex: bool = True,
        checksums: bool = True,
        custom_fields: Mapping[str, Field] | None = None,
    ) -> None:
        self._path = os.fspath(path)
        self._options: dict[str, Any] = {
            "annex": annex,
            "checksums": checksums,
            "custom_fields": custom_fields,
        }
        self._mapped: npt.NDArray[np.uint8] | None = map_file(path)
        self.layout: Layout = read_layout(self._path, self._mapped, custom_fields or {})
        layout = self.layout
        table = self._mapped[layout.alloc_table_ptr :]
        self._table = _native.AllocationTable(table)
        self._rows: npt.NDArray[np.uint64] = table.view("<u8").reshape(-1, ROW_SIZE // 8)
        self._metadata: npt.NDArray[np.void] = self._mapped[layout.metadata_start : layout.metadata_end].view(
            layout.record
        )
        self._columns = {c.name: c for c in layout.columns}
        self._names = tuple(self._columns)
        self.annex: Annex | None = self._find_annex() if annex else None
        self.stored_schema: Any = read_json(self.annex, SCHEMA) if self.annex else None
        self._schema = self._read_schema()
        columns = 1 + len(layout.payload_columns)
        self._checksums = read_checksums(self.annex, columns) if self.annex and checksums else None
        self.pictures = [c.name for c in layout.columns if c.field.kind == "image"]
        self.check_file()

    def _find_annex(self) -> Annex | None:
        assert self._mapped is not None
        layout, mapped = self.layout, self._mapped
        facts = {
            "num_samples": layout.num_samples,
            "dataset_size": len(mapped),
            "dataset_fingerprint": fingerprint(mapped[: layout.metadata_start], mapped[layout.alloc_table_ptr :]),
        }
        annex = Annex.find(self._path, mapped, first=layout.metadata_end, end=layout.alloc_table_ptr, **facts)
        if annex is None and layout.alloc_table_ptr != layout.usual_table_ptr:
            raise AnnexError(
                self._path,
                offset=layout.alloc_table_ptr - TRAILER_SIZE,
                problem="what stands between the last page and the allocation table is not an annex",
                fix=REPAIR,
            )
        if annex is None and os.path.exists(side := side_path(self._path)):
            beside = map_file(side)
            annex = Annex.find(side, beside, first=0, end=len(beside), **facts)
            if annex is None:
                raise AnnexError(side, problem="this is not an annex", fix="Remove it, or make a new one.")
        return annex

    def _read_schema(self) -> Mapping[str, Field]:
        schema = {c.name: c.field for c in self.layout.columns}
        stored = self.stored_schema
        if self.annex is None or stored is None or self._options["custom_fields"]:
            return MappingProxyType(schema)
        try:
            described = {name: from_spec(spec) for name, spec in stored}
        except (ValueError, TypeError, AttributeError) as error:
            raise self.annex.fail(SCHEMA, f"cannot be understood ({error})") from None
        if tuple(described) != self._names:
            raise self.annex.fail(SCHEMA, f"has the fields {list(described)}, the file has {list(self._names)}")
        for name, column in self._columns.items():
            if not _agree(column.field, described[name]):
                raise self.annex.fail(SCHEMA, f"does not fit the file: field {name!r} is {column.field}")
        return MappingProxyType(described)

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self._path

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""
        return self._schema

    @cached_property
    def keys(self) -> Names | None:
        """Names of the samples, or None when the file has none."""
        _ = self.mapped
        return read_names(self.annex) if self.annex else None

    @cached_property
    def class_names(self) -> dict[str, list[str]]:
        """Names of the classes by field, empty when the file has none."""
        _ = self.mapped
        value = read_json(self.annex, CLASSES) if self.annex else None
        if self.annex is None or value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(names, list) for names in value.values()):
            raise self.annex.fail(CLASSES, "is not a list of names for each field")
        return value

    @cached_property
    def metadata(self) -> Any:
        """What the user stored about the whole dataset, or None."""
        _ = self.mapped
        return read_json(self.annex, METADATA) if self.annex else None

    @cached_property
    def tiles(self) -> Tiles | None:
        """Indices of the JPEGs, by which crops are decoded without the rest of their pictures, or None."""
        return read_tiles(self.annex, len(self.pictures)) if self.annex else None

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked."""
        return self._checksums is not None

    def with_checksums(self, is_checked: bool) -> BetonDataset:
        """The same dataset, its values checked as they are read, or not."""
        if is_checked == self._options["checksums"]:
            return self
        return BetonDataset(self._path, **(self._options | {"checksums": is_checked}))

    def __len__(self) -> int:
        return self.layout.num_samples

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (os.path.abspath(self._path), self._options)

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        self._mapped = None
        self.annex = None
        self.__dict__.pop("keys", None)
        self._metadata = np.empty(0, self.layout.record)
        self._rows = np.empty((0, ROW_SIZE // 8), np.uint64)
        self._table = _native.AllocationTable(np.empty(0, np.uint8))
        self._checksums = None
        self.__dict__["tiles"] = None

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """The bytes of the whole file, read-only."""
        if self._mapped is None:
            raise ClosedError(f"{self._path}: the dataset is closed; open it again")
        return self._mapped

    def check_file(self) -> None:
        """Raise FormatError if a part of the file could not be read, because somebody has cut it short.

        Every method that reads does this by itself. Who uses ``view`` or ``column`` uses the file's own bytes and
        asks when done.
        """
        if self._mapped is not None:
            check_mapping(self._mapped, self._path)

    def column(self, name: str) -> npt.NDArray[Any]:
        """All values of an Int or Float field as one read-only array, without a copy."""
        column = self._column(name)
        if column.slot is not None:
            raise ValueError(f"field {name!r} is not a number; read it with dataset[i] or read_bytes")
        _ = self.mapped
        return self._metadata[column.member]

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples.

        The whole batch is copied by one native call with the GIL released; where the file has checksums every
        value is checked on the way.
        """
        column = self._column(field)
        where = normalize_indices(indices, len(self))
        if column.slot is None:
            raise ValueError(f"field {field!r} is a number in the metadata; read it with column({field!r})")
        try:
            spans = self.locate(where, column)
            if self._checksums is None:
                self.raise_first(spans, where, column)
                return _native.gather(self.mapped, spans.pointers, spans.sizes)
            found = np.empty(len(where), np.uint32)
            values = _native.gather(self.mapped, spans.pointers, spans.sizes, found)
            self.compare_checksums(spans, where, column, found)
            self.raise_first(spans, where, column)
            return values
        finally:
            self.check_file()

    def view(self, index: int, field: str) -> npt.NDArray[Any]:
        """A read-only array straight on the file's bytes: raw images, NDArray, Tensor and Bytes fields.

        Nothing is copied and no checksum is computed. The array keeps the mapping alive.
        """
        column = self._column(field)
        if column.slot is None:
            raise ValueError(f"field {field!r} is a number in the metadata; read it with column({field!r})")
        where = normalize_indices([index], len(self))
        spans = self.locate(where, column)
        self.raise_first(spans, where, column)
        pointer, size = int(spans.pointers[0]), int(spans.sizes[0])
        member = self._metadata[column.member][where[0]].item()
        return self._schema[field].view(column.to_facts(member), self.mapped[pointer : pointer + size])

    def sources(self) -> StoredSamples:
        """The samples as a writer takes them: JPEG pictures as their bytes, everything else decoded."""
        return StoredSamples(self)

    def stored_sample(self, index: int) -> Sample:
        """One sample with JPEG pictures as their bytes."""
        where = normalize_indices([index], len(self))
        values = []
        try:
            for column in self.layout.columns:
                is_jpg = column.field.kind == "image" and self.members(column, where)[0][0] == JPG
                values.append((self.read_bytes(where, column.name) if is_jpg else self._values(where, column))[0])
            if self._checksums is not None:
                self._check_records(where)
            return Sample(self._names, tuple(values))
        finally:
            self.check_file()

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        mapped, layout = self.mapped, self.layout
        return fingerprint(mapped[: layout.metadata_start], mapped[layout.alloc_table_ptr :])

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape."""
        try:
            return self._read_values(indices, self._column(field), source)
        finally:
            self.check_file()

    def _read_values(self, indices: IndexArray, column: Column, source: Source | None) -> list[Any] | npt.NDArray[Any]:
        if self._checksums is not None:
            self._check_records(indices)
        if column.slot is None:
            return self.column(column.name)[indices]
        if not isinstance(column.field, NDArray):
            return self._values(indices, column, source)
        out = np.empty((len(indices), *column.field.shape), column.field.dtype)
        spans, base, pointers = self._checked_spans(indices, column, source)
        places = np.arange(len(indices), dtype=np.uint64) * np.uint64(column.field.size_bytes)
        _native.gather_into(base, pointers, spans.sizes, out.view(np.uint8).reshape(-1), places)
        return out

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other, copied by one native call."""
        spans, base, pointers = self._checked_spans(indices, self._column(field), source)
        offsets = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(spans.sizes, out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        _native.gather_into(base, pointers, spans.sizes, out, offsets[:-1].astype(np.uint64))
        return Ragged(out, offsets)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, where they are; with their checksums where there are any."""
        column = self._column(field)
        try:
            spans = self.locate(indices, column)
            self.raise_first(spans, indices, column)
            base, pointers = self._place(spans, source)
            facts = self._metadata[column.member][indices]
            sides = (facts["width"].astype(np.uint32), facts["height"].astype(np.uint32))
            checksums = None
            if self._checksums is not None and column.slot is not None:
                self._check_records(indices)
                checksums = np.ascontiguousarray(self._checksums[indices, 1 + column.slot])
            tiles = None if self.tiles is None else self.tiles.locate(indices, self.pictures.index(field))
            return ImageSpans(base, pointers, spans.sizes, facts["mode"].copy(), *sides, checksums, tiles)
        finally:
            self.check_file()

    def page_numbers(self) -> IndexArray | None:
        """Number of the page each sample lies on, or None when no field has a payload."""
        columns = self.layout.payload_columns
        if not columns:
            return None
        member = self._metadata[columns[0].member]
        names = member.dtype.names
        pointers = member if names is None else member["data_ptr" if "data_ptr" in names else "ptr"]
        pages: IndexArray = (pointers // np.uint64(self.layout.page_size)).astype(np.int64)
        return pages

    @property
    def page_size(self) -> int | None:
        """Bytes of a page."""
        return self.layout.page_size

    def _place(self, spans: Spans, source: Source | None) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        return (self.mapped, spans.pointers) if source is None else source.locate(spans.pointers, spans.sizes)

    def _checked_spans(
        self, indices: IndexArray, column: Column, source: Source | None = None
    ) -> tuple[Spans, npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        spans = self.locate(indices, column)
        base, pointers = self._place(spans, source)
        if self._checksums is not None:
            found = _native.crc32c_spans(base, pointers, spans.sizes)
            self.compare_checksums(spans, indices, column, found)
        self.raise_first(spans, indices, column)
        return spans, base, pointers

    def _column(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no field {name!r} in {self._path}; the fields are {', '.join(self._names)}") from None

    def _samples(self, indices: IndexArray) -> list[Sample]:
        try:
            values = [self._values(indices, column) for column in self.layout.columns]
            if self._checksums is not None:
                self._check_records(indices)
            return [Sample(self._names, row) for row in zip(*values, strict=True)]
        finally:
            self.check_file()

    def _values(self, indices: IndexArray, column: Column, source: Source | None = None) -> list[Any]:
        members = self.members(column, indices)
        if column.slot is None:
            return members
        spans, base, places = self._checked_spans(indices, column, source)
        values = []
        for position, (member, place, size) in enumerate(
            zip(members, places.tolist(), spans.sizes.tolist(), strict=True)
        ):
            try:
                values.append(self.decode_one(column, member, base[place : place + size]))
            except (ImageError, ValueError, RecursionError) as error:
                pointer = int(spans.pointers[position])
                raise self.bad_sample(int(indices[position]), column, decode_problem(error), pointer) from error
        return values

    def decode_one(self, column: Column, member: Any, stored: npt.NDArray[np.uint8]) -> Any:
        """Decode one payload."""
        payload = memoryview(stored)
        return self._schema[column.name].decode(column.to_facts(member), payload)

    def locate(self, indices: IndexArray, column: Column) -> Spans:
        """Find and check the spans of one field's payloads; a bad one gets a problem, never an exception."""
        _ = self.mapped  # a closed dataset says so
        members = self._metadata[column.member][indices]
        if column.field.kind == "image":
            slots = len(self.layout.payload_columns)
            spans = image_spans(members, self._table, (indices * slots + (column.slot or 0)).astype(np.uint64))
        elif members.dtype.names:
            spans = Spans(members["ptr"].astype(np.uint64), members["size"].astype(np.uint64))
        else:
            size = getattr(column.field, "size_bytes")  # noqa: B009  # only arrays have bare pointers
            spans = Spans(members.astype(np.uint64), np.full(len(members), size, np.uint64))
        spans.keep_inside(self.layout.data_start, self.data_end)
        return spans

    @property
    def has_embedded_annex(self) -> bool:
        """An annex, even a damaged or ignored one, stands inside the file."""
        return Annex.is_marked(self.mapped, self.layout.alloc_table_ptr)

    @cached_property
    def data_end(self) -> int:
        """First byte after the data pages."""
        if self.annex is not None and self.annex.path == self._path:
            return self.layout.alloc_table_ptr - self.annex.size_bytes
        if self.has_embedded_annex and len(self._rows):  # ignored: then the last page ends behind the last payload
            last = self._rows[np.argmax(self._rows[:, 1])]
            end = align(int(last[1]) + int(last[2]), self.layout.page_size)
            return min(end, self.layout.alloc_table_ptr)
        return self.layout.alloc_table_ptr

    def compare_checksums(
        self, spans: Spans, indices: IndexArray, column: Column, found: npt.NDArray[np.uint32]
    ) -> None:
        """Note every payload whose checksum is not the stored one."""
        if self._checksums is None or column.slot is None:
            return
        expected = self._checksums[indices, 1 + column.slot]
        bad = found != expected
        if bad.any():
            for position in np.flatnonzero(bad).tolist():
                spans.problems.setdefault(
                    position, f"checksum {expected[position]:#010x} expected, found {found[position]:#010x}"
                )

    def bad_records(self, indices: IndexArray) -> IndexArray:
        """Those of the samples whose metadata record does not match its checksum."""
        if self._checksums is None:
            return indices[:0]
        bad: npt.NDArray[np.bool_] = self.record_checksums(indices) != self._checksums[indices, 0]
        return indices[bad]

    def record_checksums(self, indices: IndexArray) -> npt.NDArray[np.uint32]:
        """Checksums of metadata records, their pointers taken as zero."""
        # As bytes, not as records: numpy may leave the padding of a copied record undefined.
        rows = self._metadata.view(np.uint8).reshape(len(self), self.layout.record.itemsize)[indices]
        return _native.crc32c_rows(rows, self.layout.pointer_holes())

    def _check_records(self, indices: IndexArray) -> None:
        bad = self.bad_records(indices)
        if len(bad):
            i = int(bad[0])
            raise CorruptSampleError(
                self._path,
                sample=i,
                offset=self.layout.metadata_start + i * self.layout.record.itemsize,
                problem="the metadata record (numbers and sizes) does not match its checksum",
                fix=_RESTORE,
            )

    def raise_first(self, spans: Spans, indices: IndexArray, column: Column) -> None:
        """Raise CorruptSampleError for the first problem, if there is one."""
        if spans.problems:
            position = min(spans.problems)
            pointer = int(spans.pointers[position]) or None
            raise self.bad_sample(int(indices[position]), column, spans.problems[position], pointer)

    def bad_sample(self, index: int, column: Column, problem: str, offset: int | None) -> CorruptSampleError:
        """Make the error for one damaged value."""
        if offset is None:
            offset = self.layout.metadata_start + index * self.layout.record.itemsize
        return CorruptSampleError(
            self._path, sample=index, field=column.name, offset=offset, problem=problem, fix=_RESTORE
        )

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check the structure and every checksum; with ``decode`` also that every value decodes."""
        from penstock.formats.beton.verify import verify_beton

        try:
            return verify_beton(self, decode=decode, workers=workers, progress=progress)
        finally:
            self.check_file()

    def check_table(self, limit: int) -> list[tuple[int, str, int]]:
        """Rows of the allocation table that are wrong: (row, what, the other row of an overlap)."""
        return self._table.check(self.layout.data_start, self.data_end, self.layout.page_size, len(self), limit)

    @property
    def table(self) -> npt.NDArray[np.uint64]:
        """The allocation table, read-only: columns sample_id, ptr, size."""
        _ = self.mapped
        return self._rows

    def members(self, column: Column, indices: IndexArray) -> list[Any]:
        """Members of the metadata records as Python values."""
        _ = self.mapped  # a closed dataset says so
        values: list[Any] = self._metadata[column.member][indices].tolist()
        return values

    def image_facts(self, name: str) -> npt.NDArray[np.void]:
        """Mode, width, height and pointer of all pictures of a field, read-only."""
        _ = self.mapped
        return self._metadata[self._column(name).member]


@dataclass(frozen=True, slots=True)
class StoredSamples:
    """What ``BetonDataset.sources`` gives."""

    dataset: BetonDataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        return self.dataset.stored_sample(index)


def decode_problem(error: BaseException) -> str:
    """Word the failure of a decoder."""
    return f"the value cannot be decoded ({error})"


def _agree(stored: Field, described: Field) -> bool:
    if isinstance(described, Text):
        return stored.kind == "bytes"
    if stored.kind == "image":
        return described.kind == "image"
    return stored == described


def _reopen(path: str, options: dict[str, Any]) -> BetonDataset:
    return BetonDataset(path, **options)
