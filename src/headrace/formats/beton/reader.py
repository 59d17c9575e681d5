"""Reading .beton files.

A dataset holds the opened file until ``close()`` and nothing else that changes, so any number of threads may use it:
every method takes the file once, at its beginning, and then gives a result, or raises ClosedError because there is
none. It survives fork; pickling stores the path and the options, and unpickling opens the file again. If somebody cuts
the file short meanwhile, what is missing reads as zeros, and every read that follows says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.errors import ClosedError, ImageError
from headrace.fields import JPG, NDArray
from headrace.formats.beton.file import BetonFile
from headrace.formats.contract import BaseDataset, normalize_indices
from headrace.progress import format_count
from headrace.storage import absolute, room_for
from headrace.types import ImageSpans, Measures, Place, Ragged, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from headrace.annex import Annex, Names, TileIndex
    from headrace.errors import PathLike
    from headrace.formats.beton.columns import Column
    from headrace.formats.beton.layout import Layout
    from headrace.formats.beton.spans import Spans
    from headrace.types import (
        Announcement,
        Field,
        IndexArray,
        Indices,
        Progress,
        Report,
        Source,
        StoredSpans,
        TakeArray,
    )

__all__ = ["BetonDataset", "StoredSamples"]


class BetonDataset(BaseDataset):
    """A .beton file, written by headrace or by FFCV, as a sequence of samples.

    Args:
        path: the file.
        annex: use the annex if there is one; False ignores it.
        checksums: check every value that is read against its checksum, where the file has them.
        custom_fields: how to read user-defined fields (type id 255), by name.
        follow_links: also use an annex that is a symbolic link.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        annex: bool = True,
        checksums: bool = True,
        custom_fields: Mapping[str, Field] | None = None,
        follow_links: bool = False,
    ) -> None:
        self._path = os.fspath(path)
        self._options: dict[str, Any] = {
            "annex": annex,
            "checksums": checksums,
            "custom_fields": custom_fields,
            "follow_links": follow_links,
        }
        file = BetonFile(self._path, **self._options)
        self._file: BetonFile | None = file
        self._schema = file.schema
        self.layout: Layout = file.layout
        self.stored_schema: Any = file.stored_schema

    @property
    def file(self) -> BetonFile:
        """The opened file."""
        file = self._file
        if file is None:
            raise ClosedError(f"{self._path}: the dataset is closed; open it again")
        return file

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self._path

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""
        return self._schema

    @property
    def annex(self) -> Annex | None:
        """The annex, or None when there is none or it is ignored."""
        return self.file.annex

    @property
    def keys(self) -> Names | None:
        """Names of the samples, or None when the file has none."""
        return self.file.keys

    @property
    def class_names(self) -> dict[str, list[str]]:
        """Names of the classes by field, empty when the file has none."""
        return self.file.class_names

    @property
    def metadata(self) -> Any:
        """What the user stored about the whole dataset, or None."""
        return self.file.metadata

    @property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, by which crops are decoded without the rest of their pictures, or None."""
        return self.file.tile_index

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked."""
        return self.file.checksums is not None

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """The bytes of the whole file, read-only; an object of a store is fetched whole."""
        file = self.file
        return file.stored.hold(0, file.size_bytes)

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine."""
        return self.file.is_local

    @property
    def reading(self) -> str:
        """How its bytes are read where no pages are read ahead of use, in words."""
        return super().reading if self.file.stored.is_local else "fetched from the store"

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what these samples need, ahead of their use; None where there is nothing to bring."""
        return self.file.announce(indices, fields)

    def _announce_values(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        return self.file.announce_values(indices, fields)

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        return [] if self.is_local else self.file.stored_spans(indices, fields)

    @property
    def table(self) -> npt.NDArray[np.uint64]:
        """The allocation table, read-only: columns sample_id, ptr, size."""
        return self.file.table

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return self.file.fingerprint

    @property
    def page_size(self) -> int | None:
        """Bytes of a page."""
        return self.layout.page_size

    def with_checksums(self, is_checked: bool) -> BetonDataset:
        """The same dataset, its values checked as they are read, or not."""
        if is_checked == self._options["checksums"]:
            return self
        return BetonDataset(self._path, **(self._options | {"checksums": is_checked}))

    def __len__(self) -> int:
        return self.layout.num_samples

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (absolute(self._path), self._options)

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid, and reads under way in other threads end well."""
        self._file = None

    def check_file(self) -> None:
        """Raise FormatError if a part of the file could not be read, because somebody has cut it short.

        Every method that reads does this by itself. Who uses ``view`` or ``column`` uses the file's own bytes and
        asks when done.
        """
        file = self._file
        if file is not None:
            file.check()

    def column(self, name: str) -> npt.NDArray[Any]:
        """All values of an Int or Float field as one read-only array, without a copy."""
        file = self.file
        column = file.column(name)
        if column.slot is not None:
            raise ValueError(f"field {name!r} is not a number; read it with dataset[i] or read_bytes")
        return file.records[column.member]

    def image_facts(self, name: str) -> npt.NDArray[np.void]:
        """Mode, width, height and pointer of all pictures of a field, read-only."""
        file = self.file
        return file.records[file.column(name).member]

    def members(self, column: Column, indices: IndexArray) -> list[Any]:
        """Members of the metadata records as Python values."""
        return self.file.members(column, indices)

    def locate(self, indices: IndexArray, column: Column) -> Spans:
        """Find and check the spans of one field's payloads; a bad one gets a problem, never an exception."""
        return self.file.locate(indices, column)

    def place_of(self, index: int, field: str) -> Place:
        """Where a payload lies, and on which page; of a number, its place in the metadata."""
        file = self.file
        column = file.column(field)
        if column.slot is None:
            return Place(file.path, *file.layout.number_at(index, column))
        spans = file.locate(np.array([index], np.int64), column)
        offset = int(spans.pointers[0])
        return Place(file.path, offset, int(spans.sizes[0]), offset // file.layout.page_size)

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples.

        The whole batch is copied by one native call with the GIL released; where the file has checksums every
        value is checked on the way.
        """
        file = self.file
        column = file.payload_column(field)
        where = normalize_indices(indices, len(file))
        try:
            return _stored(file, where, column)
        finally:
            file.check()

    def view(self, index: int, field: str) -> npt.NDArray[Any]:
        """A read-only array straight on the file's bytes: raw images, NDArray, Tensor and Bytes fields.

        Nothing is copied and no checksum is computed. The array keeps the mapping alive. Of an object in a store
        it is a copy.
        """
        file = self.file
        column = file.payload_column(field)
        where = normalize_indices([index], len(file))
        spans = file.locate(where, column)
        file.raise_first(spans, where, column)
        (member,) = file.members(column, where)
        return file.schema[field].view(column.to_facts(member), _bytes_of(file, spans))

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """Numbers, sizes, and the sides of pictures, from the metadata alone."""
        file = self.file
        rows: list[dict[str, object]] = [{} for _ in indices]
        for column in file.layout.columns:
            members = file.members(column, indices)
            texts = members if column.slot is None else _sizes_in_words(file, indices, column, members)
            for row, text in zip(rows, texts, strict=True):
                row[column.name] = text
        return rows

    def sources(self) -> StoredSamples:
        """The samples as a writer takes them: JPEG pictures as their bytes, everything else decoded."""
        return StoredSamples(self)

    def stored_samples(self, indices: Sequence[int]) -> list[Sample]:
        """Samples with JPEG pictures as their bytes; each field is read by one call."""
        file = self.file
        where = normalize_indices(indices, len(file))
        try:
            columns = [_sources(file, where, column) for column in file.layout.columns]
            file.check_records(where)
            return [Sample(file.names, row) for row in zip(*columns, strict=True)]
        finally:
            file.check()

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape."""
        file = self.file
        column = file.column(field)
        try:
            file.check_records(indices)
            if column.slot is None:
                numbers: npt.NDArray[Any] = file.records[column.member][indices]
                return numbers
            if isinstance(column.field, NDArray):
                return _arrays(file, indices, column, np.empty, source)
            return _decoded(file, indices, column, source)
        finally:
            file.check()

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field, copied into an array that ``take`` makes."""
        file = self.file
        column = file.column(field)
        if not isinstance(column.field, NDArray):
            raise ValueError(f"field {field!r} has no arrays of one shape; read it with read_values")
        try:
            file.check_records(indices)
            return _arrays(file, indices, column, take, source)
        finally:
            file.check()

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other, copied by one native call."""
        file = self.file
        try:
            spans, base, pointers = file.checked_spans(indices, file.column(field), source)
            offsets = np.zeros(len(indices) + 1, np.int64)
            np.cumsum(spans.sizes, out=offsets[1:])
            out = np.empty(int(offsets[-1]), np.uint8)
            _native.gather_into(base, pointers, spans.sizes, out, offsets[:-1].astype(np.uint64))
            return Ragged(out, offsets)
        finally:
            file.check()

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, where they are; with their checksums where there are any."""
        file = self.file
        column = file.column(field)
        try:
            pointers, sizes, modes, widths, heights = file.checked_pictures(indices, column)
            base, offsets = file.place(pointers, sizes, source)
            checksums = None
            if file.checksums is not None and column.slot is not None:
                file.check_records(indices)
                checksums = np.ascontiguousarray(file.checksums[indices, 1 + column.slot])
            tile_index = (
                None if file.tile_index is None else file.tile_index.locate(indices, file.pictures.index(field))
            )
            return ImageSpans(base, offsets, sizes, modes, widths, heights, checksums, tile_index)
        finally:
            file.check()

    def measure(self, indices: IndexArray, field: str) -> Measures | None:
        """How large the values of a field are, from the metadata alone; of a damaged one, what they say."""
        file = self.file
        column = file.column(field)
        if column.slot is None:
            return None
        if column.field.kind != "image":
            return Measures(file.locate(indices, column).sizes)
        return Measures(*file.picture_measures(indices, column))

    def page_numbers(self) -> IndexArray | None:
        """Number of the page each sample lies on, or None when no field has a payload."""
        file = self.file
        columns = file.layout.payload_columns
        if not columns:
            return None
        member = file.records[columns[0].member]
        names = member.dtype.names
        pointers = member if names is None else member["data_ptr" if "data_ptr" in names else "ptr"]
        pages: IndexArray = (pointers // np.uint64(file.layout.page_size)).astype(np.int64)
        return pages

    def page_fill(self) -> npt.NDArray[np.float64] | None:
        """How much of each page samples take, from 0 to 1; None when no field has a payload."""
        layout, table = self.file.layout, self.table
        if not layout.payload_columns or not len(table):
            return None
        pages = max(0, (self.file.data_end - layout.data_start) // layout.page_size)
        numbers = (table[:, 1].astype(np.int64) - layout.data_start) // layout.page_size
        known = (numbers >= 0) & (numbers < pages)  # a damaged table may lead anywhere
        used = np.bincount(numbers[known], table[known, 2].astype(np.float64), minlength=pages)
        fill: npt.NDArray[np.float64] = used / layout.page_size
        return fill

    def _samples(self, indices: IndexArray) -> list[Sample]:
        file = self.file
        try:
            values = [_decoded(file, indices, column) for column in file.layout.columns]
            file.check_records(indices)
            return [Sample(file.names, row) for row in zip(*values, strict=True)]
        finally:
            file.check()

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check the structure and every checksum; with ``decode`` also that every value decodes."""
        from headrace.formats.beton.verify import verify_beton

        file = self.file
        try:
            return verify_beton(file, decode=decode, workers=workers, progress=progress)
        finally:
            file.check()


@dataclass(frozen=True, slots=True)
class StoredSamples:
    """What ``BetonDataset.sources`` gives."""

    dataset: BetonDataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        return self.dataset.stored_samples([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Many of them; each field is read by one call."""
        return self.dataset.stored_samples(indices)


def _sizes_in_words(file: BetonFile, indices: IndexArray, column: Column, members: list[Any]) -> list[str]:
    spans = file.locate(indices, column)
    texts = [f"{size}B" for size in spans.sizes.tolist()]
    for position in spans.problems:
        texts[position] = "DAMAGED"
    if column.field.kind != "image":
        return texts
    return [f"{member[1]}x{member[2]}:{text}" for member, text in zip(members, texts, strict=True)]


def _sources(file: BetonFile, indices: IndexArray, column: Column) -> list[Any]:
    """Values of one field as a writer takes them."""
    if column.field.kind != "image":
        return _decoded(file, indices, column)
    is_jpg = np.array([member[0] == JPG for member in file.members(column, indices)], np.bool_)
    values: list[Any] = [None] * len(indices)
    for places, read in ((np.flatnonzero(is_jpg), _stored), (np.flatnonzero(~is_jpg), _decoded)):
        found = read(file, indices[places], column) if len(places) else []
        for place, value in zip(places.tolist(), found, strict=True):
            values[place] = value
    return values


def _bytes_of(file: BetonFile, spans: Spans) -> npt.NDArray[np.uint8]:
    """The bytes of one span, read-only."""
    base, (start,) = file.place(spans.pointers, spans.sizes)
    found = base[int(start) : int(start) + int(spans.sizes[0])]
    if not file.stored.is_local:  # the rest of what was fetched need not stay
        file.check()
        found = found.copy()
        found.flags.writeable = False
    return found


def _stored(file: BetonFile, indices: IndexArray, column: Column) -> list[bytes]:
    """Payloads as they are; checksums are computed as they are copied."""
    spans = file.locate(indices, column)
    file.check_overlap(spans, indices, column)
    if file.checksums is None:
        file.raise_first(spans, indices, column)
    base, places = file.place(spans.pointers, spans.sizes)
    if file.checksums is None:
        return _native.gather(base, places, spans.sizes)
    found = np.empty(len(indices), np.uint32)
    values = _native.gather(base, places, spans.sizes, found)
    file.compare_checksums(spans, indices, column, found)
    file.raise_first(spans, indices, column)
    return values


def _decoded(file: BetonFile, indices: IndexArray, column: Column, source: Source | None = None) -> list[Any]:
    """Values of one field, decoded one by one."""
    members = file.members(column, indices)
    if column.slot is None:
        return members
    spans, base, places = file.checked_spans(indices, column, source)
    values = []
    for position, (member, place, size) in enumerate(zip(members, places.tolist(), spans.sizes.tolist(), strict=True)):
        try:
            values.append(file.decode_one(column, member, base[place : place + size]))
        except (ImageError, ValueError, RecursionError) as error:
            problem, pointer = f"the value cannot be decoded ({error})", int(spans.pointers[position])
            raise file.bad_sample(int(indices[position]), column, problem, pointer) from error
    return values


def _arrays(
    file: BetonFile, indices: IndexArray, column: Column, take: TakeArray, source: Source | None
) -> npt.NDArray[Any]:
    """Arrays of one shape, copied into one by one native call; checksums are computed as they are copied."""
    field, count = column.field, len(indices)
    assert isinstance(field, NDArray)
    located = file.find_arrays(indices, column, field.size_bytes)
    if located is None:
        spans, base, offsets = file.checked_spans(indices, column, source)  # raises, or compares checksums
    else:
        spans = located
        base, offsets = file.place(spans.pointers, spans.sizes, source)
    what = f"{format_count(count, 'array')} of field {column.name!r}"
    with room_for(count * field.size_bytes, what, fix="Read fewer at once, in smaller batches."):
        out = take((count, *field.shape), field.dtype)
    found = None if file.checksums is None or located is None else np.empty(count, np.uint32)
    places = np.arange(count, dtype=np.uint64) * np.uint64(field.size_bytes)
    _native.gather_into(base, offsets, spans.sizes, out.view(np.uint8).reshape(-1), places, found)
    if found is not None:
        file.compare_checksums(spans, indices, column, found)
        file.raise_first(spans, indices, column)
    return out


def _reopen(path: str, options: dict[str, Any]) -> BetonDataset:
    return BetonDataset(path, **options)
