"""Values of samples from the columns of a table, many at once: each part is asked once, whatever their order.

Contract: any number of threads read. Parts that have to be decoded are kept in a cache; those in a mapped file are used
where they lie.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from headrace._native import gather, gather_into
from headrace.arrays import distinct
from headrace.errors import CorruptSampleError
from headrace.fields import Image, Int, Json, NDArray
from headrace.formats.arrow.chunk_maker import is_within, make_chunk
from headrace.formats.arrow.chunks import BytesChunk, CodedChunk, NumberChunk, ValueChunk
from headrace.formats.arrow.column_types import kind_of
from headrace.formats.arrow.mapped_columns import MappedColumn, column_form
from headrace.formats.arrow.part_cache import PartCache
from headrace.formats.arrow.parts import told
from headrace.registry import require
from headrace.storage import join_announcements
from headrace.types import Ragged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.formats.arrow.chunks import Chunk
    from headrace.formats.arrow.parts import Parts
    from headrace.types import Announcement, Field, IndexArray, TakeArray

__all__ = ["Place", "TableReader"]

_INT64_MAX = np.uint64(2**63 - 1)


class Place(NamedTuple):
    """Samples whose bytes lie in one region of memory: their positions in a batch, and where each begins and ends."""

    base: npt.NDArray[np.uint8]
    where: IndexArray
    starts: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]


class TableReader:
    """Reads the fields of a table.

    Args:
        path: of the dataset, for errors.
        parts: of the table.
        fields: name to field.
        numbers: name to number of the column.
        kept_bytes: bytes of decoded parts that are kept.
    """

    def __init__(
        self, path: str, parts: Parts, fields: Mapping[str, Field], numbers: Mapping[str, int], kept_bytes: int
    ) -> None:
        self.path, self.parts, self.cache = path, parts, PartCache(kept_bytes)
        self._fields, self._numbers = fields, numbers
        self.starts = np.zeros(len(parts.counts) + 1, np.int64)
        np.cumsum(parts.counts, out=self.starts[1:])
        self.is_local = all(file.is_local for file in parts.files())
        self.ways = {name: self._way_of(name) for name in fields}
        self._mapped = {name: self._mapped_columns(name) for name in fields} if parts.is_mapped else {}

    def _way_of(self, field: str) -> Literal["array", "bytes", "nested"]:
        """How a field is stored."""
        types = require("pyarrow", "reading Arrow data").types
        arrow_type, kind = self.parts.schema.field(self._numbers[field]).type, self._fields[field]
        how = kind_of(arrow_type)
        if isinstance(kind, Json) and how not in ("bytes", "words", "picture"):
            return "nested"
        is_raw = isinstance(kind, NDArray) and types.is_fixed_size_binary(arrow_type)
        return "array" if is_raw or how in ("int", "float", "array", "list") else "bytes"

    # Parts

    def chunk(self, part: int, field: str) -> Chunk:
        """A column of a part."""
        column, kind = self._numbers[field], self._fields[field]
        return self.cache.get(field, part, lambda: self.load(part, column, kind))

    def load(self, part: int, column: int, kind: Field) -> tuple[Chunk, int]:
        """A column of a part that is not kept, and the memory that it takes."""
        parts = self.parts
        array, mapped = parts.load(part, column)
        with told(parts.path, f"{parts.word} {part}, column {parts.schema.field(column).name!r}"):
            chunk = make_chunk(array, kind, mapped)
        every = [one for one in array.buffers() if one is not None]
        outside = sum(one.size for one in every if mapped is None or not is_within(one, mapped))
        return chunk, max(outside, chunk.size_bytes if isinstance(chunk, ValueChunk) else 0)

    def _grouped(self, indices: IndexArray, field: str) -> Iterator[tuple[Chunk, IndexArray, IndexArray]]:
        """Chunks that hold samples, with the positions of these among the indices and their rows."""
        coming = self.announce(indices, [field])  # all of them at once: each takes a round trip
        try:
            yield from self._chunks_of(indices, field)
        finally:
            if coming is not None:
                coming.close()

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring the parts that hold samples, where they lie in a store and are not kept."""
        if self.is_local:
            return None
        parts = distinct(np.searchsorted(self.starts, indices, side="right") - 1).tolist()
        return join_announcements(
            self.parts.announce(part, self._numbers[field])
            for part in parts
            for field in fields
            if not self.cache.has(field, part)
        )

    def _chunks_of(self, indices: IndexArray, field: str) -> Iterator[tuple[Chunk, IndexArray, IndexArray]]:
        for part, where in _groups(np.searchsorted(self.starts, indices, side="right") - 1):
            chunk, rows = self.chunk(part, field), indices[where] - self.starts[part]
            if not isinstance(chunk, ValueChunk) and (missing := chunk.missing(rows)) is not None:
                self._refuse(missing, indices[where], field)
            yield chunk, where, rows

    def _refuse(self, missing: npt.NDArray[np.bool_], indices: IndexArray, field: str) -> None:
        kind = self._fields[field]
        if isinstance(kind, Json) or not missing.any():
            return
        problem = f"the value is missing (null), and a field of kind {kind.kind} has one in every sample"
        fix = f"Fill the column, or leave out the sample; fields={{{field!r}: headrace.Json()}} gives None."
        if isinstance(kind, Image):
            problem = "the picture is missing (null); perhaps only the path of its file was stored"
            fix = "Store the pictures themselves in the file."
        index = int(indices[int(np.argmax(missing))])
        raise CorruptSampleError(self.path, sample=index, field=field, problem=problem, fix=fix)

    # Columns in mapped files

    def _mapped_columns(self, field: str) -> list[MappedColumn]:
        """A column in each of the files; none if it has to be read another way."""
        number = self._numbers[field]
        form = column_form(self.parts.schema.field(number).type, self._fields[field])
        if form is None:
            return []
        files, first, found = self.parts.files(), 0, []
        for file, count in zip(files, self.parts.parts_of_files(), strict=True):
            found.append(MappedColumn(file.mapped, count, form, functools.partial(self._array, first, number)))
            first += count
        return found

    def _array(self, first: int, column: int, part: int) -> Any:
        return self.parts.load(first + part, column)[0]

    def _in_files(
        self, indices: IndexArray, field: str
    ) -> list[tuple[MappedColumn, IndexArray, IndexArray, IndexArray]] | None:
        """Columns of files that hold samples: positions, parts and rows; None if it has to be read another way."""
        columns = self._mapped.get(field)
        if not columns:
            return None
        parts = np.searchsorted(self.starts, indices, side="right") - 1
        rows, ends = indices - self.starts[parts], np.cumsum(self.parts.parts_of_files())
        found = []
        for file, where in _groups(np.searchsorted(ends, parts, side="right")):
            column, some = columns[file], parts[where] - (ends[file - 1] if file else 0)
            if not column.learn(some):
                self._mapped[field] = []
                return None
            missing = column.missing(some, rows[where])
            if missing is not None:
                self._refuse(missing, indices[where], field)
            found.append((column, where, some, rows[where]))
        return found

    # Values

    def arrays(self, indices: IndexArray, field: str, take: TakeArray) -> npt.NDArray[Any]:
        """Numbers, or arrays of one shape, in memory that ``take`` gives."""
        kind, out = self._fields[field], None
        mapped = self._in_files(indices, field)
        if mapped is not None and len(mapped) == 1:
            column, _, parts, rows = mapped[0]
            out = column.numbers(parts, rows, take)
        else:
            pieces = self._numbers_in(mapped) if mapped is not None else self._numbers_of(indices, field)
            for where, values in pieces:
                if out is None:
                    out = take((len(indices), *values.shape[1:]), values.dtype)
                out[where] = values
        if out is None:
            return np.empty((0, *kind.shape), kind.dtype) if isinstance(kind, NDArray) else np.empty(0, np.int64)
        if isinstance(kind, Int) and out.dtype == np.uint64:
            self._check_range(out, indices, field)
        return out

    def _numbers_in(self, mapped: list[Any]) -> Iterator[tuple[IndexArray, npt.NDArray[Any]]]:
        for column, where, parts, rows in mapped:
            yield where, column.numbers(parts, rows, np.empty)

    def _numbers_of(self, indices: IndexArray, field: str) -> Iterator[tuple[IndexArray, npt.NDArray[Any]]]:
        for chunk, where, rows in self._grouped(indices, field):
            assert isinstance(chunk, NumberChunk)
            yield where, chunk.values[rows]

    def _check_range(self, values: npt.NDArray[Any], indices: IndexArray, field: str) -> None:
        is_large = values > _INT64_MAX
        if not is_large.any():
            return
        position = int(np.argmax(is_large))
        problem = f"{values[position]} does not fit into 64 bits with a sign"
        fix = f"Open with fields={{{field!r}: headrace.Float()}} for the nearest float."
        raise CorruptSampleError(self.path, sample=int(indices[position]), field=field, problem=problem, fix=fix)

    def nested(self, indices: IndexArray, field: str) -> list[Any]:
        """Nested values, as Python has them."""
        out: list[Any] = [None] * len(indices)
        for chunk, where, rows in self._grouped(indices, field):
            assert isinstance(chunk, ValueChunk)
            with told(self.path, f"field {field!r} of sample {int(indices[where[0]])} or one behind it"):
                values = chunk.take(rows)
            for position, value in zip(where.tolist(), values, strict=True):
                out[position] = value
        return out

    def missing(self, indices: IndexArray, field: str) -> npt.NDArray[np.bool_]:
        """Which samples have no value in a field."""
        out = np.zeros(len(indices), np.bool_)
        for chunk, where, rows in self._grouped(indices, field):
            missing = None if isinstance(chunk, ValueChunk) else chunk.missing(rows)
            if missing is not None:
                out[where] = missing
        return out

    # Bytes

    def places(self, indices: IndexArray, field: str) -> list[Place]:
        """Where the bytes of samples are, checked."""
        mapped = self._in_files(indices, field)
        if mapped is not None:
            return [
                self._checked(column.mapped, where, column.spans(parts, rows), indices, field)
                for column, where, parts, rows in mapped
            ]
        found: dict[int, list[Place]] = {}
        for chunk, where, rows in self._grouped(indices, field):
            assert isinstance(chunk, BytesChunk | CodedChunk)
            base, *spans = chunk.spans(rows)
            found.setdefault(id(base), []).append(self._checked(base, where, spans, indices, field))
        return [same[0] if len(same) == 1 else _joined(same) for same in found.values()]

    def _checked(
        self, base: npt.NDArray[np.uint8], where: IndexArray, spans: Any, indices: IndexArray, field: str
    ) -> Place:
        starts, sizes, is_bad = spans
        if is_bad.any():
            index = int(indices[where[int(np.argmax(is_bad))]])
            problem = "the value lies outside of the data"
            raise CorruptSampleError(self.path, sample=index, field=field, problem=problem)
        return Place(base, where, starts.astype(np.uint64), sizes.astype(np.uint64))

    def byte_list(self, indices: IndexArray, field: str) -> list[bytes]:
        """Bytes of samples, each on its own."""
        places = self.places(indices, field)
        if len(places) == 1:
            ((base, where, starts, sizes),) = places
            back = np.argsort(where)
            return gather(base, starts[back], sizes[back])
        out: list[bytes] = [b""] * len(indices)
        for base, where, starts, sizes in places:
            for position, data in zip(where.tolist(), gather(base, starts, sizes), strict=True):
                out[position] = data
        return out

    def ragged(self, indices: IndexArray, field: str) -> Ragged:
        """Bytes of samples, one after the other."""
        return _copied(self.places(indices, field), len(indices))

    def region(
        self, indices: IndexArray, field: str
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """One region with the bytes of samples: the mapped file if they are all in it, a copy otherwise."""
        places = self.places(indices, field)
        if len(places) == 1:
            ((base, where, starts, sizes),) = places
            back = np.argsort(where)
            return base, starts[back], sizes[back]
        values, offsets = _copied(places, len(indices))
        return values, offsets[:-1].astype(np.uint64), np.diff(offsets).astype(np.uint64)


def _groups(numbers: IndexArray) -> Iterator[tuple[int, IndexArray]]:
    """Each number that occurs, ascending, and the positions where it does."""
    if len(numbers) == 0:
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    cuts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    for first, last in itertools.pairwise(cuts):
        yield int(ordered[first]), order[first:last]


def _joined(places: list[Place]) -> Place:
    where, starts, sizes = (np.concatenate([place[i] for place in places]) for i in (1, 2, 3))
    return Place(places[0].base, where, starts, sizes)


def _copied(places: list[Place], count: int) -> Ragged:
    sizes = np.zeros(count, np.uint64)
    for _, where, _, some in places:
        sizes[where] = some
    offsets = np.zeros(count + 1, np.uint64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    for base, where, starts, some in places:
        gather_into(base, starts, some, out, offsets[where])
    return Ragged(out, offsets.astype(np.int64))
