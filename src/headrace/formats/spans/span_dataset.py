"""A dataset whose values are spans of one file."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.annex import read_tile_index
from headrace.codecs import image as image_codec
from headrace.errors import AnnexError, CorruptSampleError, FormatError, HeadraceError
from headrace.fields import Image
from headrace.formats.column_dataset import ColumnDataset
from headrace.formats.contract import index_chunks, join_images
from headrace.formats.samples_ahead import samples_ahead
from headrace.formats.spans.span_file import BadSpanError
from headrace.formats.tile_index import tile_index_problems
from headrace.storage import absolute, join_announcements
from headrace.types import ImageSpans, Measures, Place, Problem, Ragged, StoredSpans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import NoReturn, Self

    from headrace.annex import TileIndex
    from headrace.formats.report import Found
    from headrace.formats.spans.indexed_file import IndexedFile
    from headrace.types import Announcement, Buffer, Field, IndexArray, Progress, Report, Sample, Source

__all__ = ["SpanDataset"]

_AHEAD_BYTES, _MOST_AHEAD = 4 << 20, 256
_RESTORE = "Restore the file from a copy, or leave the sample out."


class SpanDataset(ColumnDataset):
    """Samples of one file, each value a span of its bytes.

    A subclass opens an IndexedFile, says what fields there are, and gives all options of its own ``__init__`` (path
    excepted) as ``options``: with them it is opened again in another process. Where stored bytes are not what
    ``decode_value`` takes, it overrides ``_stored``, and gives what ColumnDataset asks for.

    Args:
        indexed: the file and where its samples are.
        schema: the fields by name, in order.
        options: of the subclass; ``checksums`` must be one of them.
        columns: the column of the index of each field that is called otherwise.
        keys: names of the samples; by default those of the index.
        class_names: names of the classes by field.
    """

    def __init__(
        self,
        indexed: IndexedFile,
        *,
        schema: Mapping[str, Field],
        options: Mapping[str, Any],
        columns: Mapping[str, str] | None = None,
        keys: Sequence[str] | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        index = indexed.index
        keys = index.names if keys is None else keys
        super().__init__(indexed.file.path, length=len(index), schema=schema, keys=keys, class_names=class_names)
        self.indexed = indexed
        self._options = dict(options)
        numbers = {name: i for i, name in enumerate(index.columns)}
        named = {name: (columns or {}).get(name, name) for name in schema}
        self._columns = {name: numbers[column] for name, column in named.items() if column in numbers}
        self._absolute = absolute(indexed.file.path)

    # What it is

    @property
    def metadata(self) -> Any:
        """Whatever was said about the whole dataset when it was written, or None."""
        return None if self.indexed.description is None else self.indexed.description.metadata

    @property
    def is_described(self) -> bool:
        """The file, or its annex, says exactly what the fields are."""
        return self.indexed.description is not None

    @cached_property
    def _checksums(self) -> npt.NDArray[np.uint32] | None:
        return self.indexed.checksums()

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked against a checksum of the annex."""
        return self._checksums is not None

    def with_checksums(self, is_checked: bool) -> Self:
        """The same dataset, its values checked as they are read, or not."""
        if is_checked == self._options["checksums"]:
            return self
        return type(self)(self._absolute, **(self._options | {"checksums": is_checked}))  # type: ignore[arg-type]

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return _native.crc32c(repr((len(self), list(self.schema.items()))).encode(), self.indexed.file.fingerprint)

    @property
    def reading(self) -> str:
        """How its bytes are read, in words."""
        return self.indexed.file.reading

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **self._options), (self._absolute,)

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        self.indexed.close()

    def check_file(self) -> None:
        """Raise FormatError if the file was cut short while it was in use."""
        self.indexed.file.check()

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine."""
        annex = self.indexed.annex
        return self.indexed.file.is_local and (annex is None or annex.file.is_local)

    # Reading

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what these samples need, ahead of their use; None where there is nothing to bring."""
        if self.is_local:
            return None
        tiles = self.tile_index
        announced = [self._announce_values(indices, fields)]
        if tiles is not None:
            announced += [tiles.announce(indices, self._pictures.index(n)) for n in fields if n in self._pictures]
        return join_announcements(announced)

    def _announce_values(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        # All fields together: what lies close together in the file comes by one request.
        places = [place for place in (self._wanted(indices, name) for name in fields) if place is not None]
        if not places:
            return None
        offsets, sizes = (np.concatenate(column) for column in zip(*places, strict=True))
        return self.indexed.file.announce(offsets, sizes)

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        if self.is_local:
            return []
        owners, file, tiles = np.arange(len(indices)), self.indexed.file, self.tile_index
        places = [place for place in (self._wanted(indices, name) for name in fields) if place is not None]
        found = [StoredSpans(file.path, file.size_bytes, owners, *place) for place in places]
        if tiles is not None:
            pictures = [self._pictures.index(name) for name in fields if name in self._pictures]
            found += [spans for number in pictures for spans in tiles.stored_spans(indices, number)]
        return found

    def _wanted(self, indices: IndexArray, field: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]] | None:
        """The spans of the file that a read of these values will ask for, or None."""
        return self._places(indices, field)[:2] if field in self._columns else None

    def _column(self, field: str) -> int:
        self._check_field(field)
        if field not in self._columns:
            raise ValueError(f"field {field!r} has no stored bytes; read it with read_values")
        return self._columns[field]

    def _places(
        self, indices: IndexArray, field: str
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint32] | None]:
        """Offsets, sizes and, where values are checked, checksums."""
        column, index = self._column(field), self.indexed.index
        table = self._checksums if self._options["checksums"] else None
        checksums = None if table is None else np.ascontiguousarray(table[indices, column])
        return (
            np.ascontiguousarray(index.offsets[indices, column]),
            np.ascontiguousarray(index.sizes[indices, column]),
            checksums,
        )

    def place_of(self, index: int, field: str) -> Place | None:
        """The span of a value, or of the record that it is a part of; None for a file that was unpacked."""
        self._check_field(field)
        file, table = self.indexed.file, self.indexed.index
        if file.is_unpacked:
            return None
        span = self._wanted(np.array([index], np.int64), field)
        if span is None:
            if len(table.columns) > 1:
                return None
            span = table.offsets[index], table.sizes[index]
        return Place(file.path, int(span[0][0]), int(span[1][0]))

    def _fail(self, indices: IndexArray, field: str, error: BadSpanError) -> NoReturn:
        sample = int(indices[error.position])
        offset = int(self.indexed.index.offsets[sample, self._columns[field]])
        is_inside = offset <= self.indexed.file.size_bytes
        raise CorruptSampleError(
            self.path,
            sample=sample,
            field=field,
            offset=offset if is_inside else None,
            problem=error.problem,
            fix=_RESTORE,
        ) from None

    def __iter__(self) -> Iterator[Sample]:
        """All samples in order; some are read at a time, as many as are small together."""
        if not self.is_local:
            yield from samples_ahead(self)
            return
        mean = max(1, int(self.indexed.index.sizes.sum()) // max(1, len(self)))
        for chunk in index_chunks(len(self), min(_MOST_AHEAD, max(1, _AHEAD_BYTES // mean))):
            try:
                samples = self._samples(chunk)
            except HeadraceError:  # those before the bad one come first
                for i in chunk.tolist():
                    yield self[i]
            else:
                yield from samples

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        try:
            return self.indexed.file.read(*self._places(indices, field))
        except BadSpanError as error:
            self._fail(indices, field, error)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other, copied by one native call."""
        try:
            return self.indexed.file.read_ragged(*self._places(indices, field))
        except BadSpanError as error:
            self._fail(indices, field, error)

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """Sizes of what is stored, nothing read; numbers as they are."""
        columns = {name: self._in_words(indices, name) for name in self._schema}
        return [{name: column[i] for name, column in columns.items()} for i in range(len(indices))]

    def _in_words(self, indices: IndexArray, field: str) -> list[object]:
        if field not in self._columns or not self._schema[field].has_payload:
            values = self.read_values(indices, field)
            return list(values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values)
        return [f"{size}B" for size in self.indexed.index.sizes[indices, self._columns[field]].tolist()]

    def measure(self, indices: IndexArray, field: str) -> Measures | None:
        """How many bytes the values of a field take, from the index; the sides of pictures are in their headers."""
        if field not in self._columns or not self._schema[field].has_payload:
            return None
        return Measures(self.indexed.index.sizes[indices, self._columns[field]])

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, where they are; with the tile indices of JPEGs where there are some."""
        offsets, sizes, checksums = self._places(indices, field)
        try:
            base, starts = self.indexed.file.region(offsets, sizes)
        except BadSpanError as error:
            self._fail(indices, field, error)
        modes, widths, heights = image_codec.find_native_spans(base, starts, sizes)
        self.indexed.file.check()
        if not widths.all():  # something that the native core does not decode is among them
            return join_images(self.path, field, indices, self.read_bytes(indices, field))
        tile_index = self.tile_index
        tiles = None if tile_index is None else tile_index.locate(indices, self._pictures.index(field))
        return ImageSpans(base, starts, sizes, modes, widths, heights, checksums, tiles)

    @cached_property
    def _pictures(self) -> list[str]:
        return [name for name, field in self._schema.items() if isinstance(field, Image) and name in self._columns]

    @cached_property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, by which crops are decoded without the rest, or None."""
        annex = self.indexed.annex
        if annex is None or not self._pictures:
            return None
        try:
            return read_tile_index(annex, len(self._pictures))
        except AnnexError:  # they are of other fields than these; they are there for speed alone
            return None

    def more_sections(self, schema: Mapping[str, Field], jpeg_index: bool) -> dict[str, Iterable[Buffer]]:
        """Sections of its annex besides those that all such files have; ``schema`` is as the annex will describe it."""
        return {}

    # Checking

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Compare every checksum that there is; with ``decode`` also decode every value."""
        try:
            report = super().verify(decode=decode, workers=workers, progress=progress)
        finally:
            self.check_file()
        # Either the file was changed or the annex was; without it nobody could tell what is damaged.
        return self._with_problem(report, self.indexed.annex_problem)

    def _with_problem(self, report: Report, message: str | None) -> Report:
        if message is None:
            return report
        return replace(report, problems=(Problem(sample=None, field=None, message=message), *report.problems))

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = super()._check(indices, decode)
        found.size_bytes += int(self.indexed.index.sizes[indices].sum())
        if self._checksums is not None and self._options["checksums"]:
            found.checksums += len(indices) * len(self._columns)
        bad = {problem.sample for problem in found.problems}
        for number, name in enumerate(self._pictures if self.tile_index is not None else []):
            assert self.tile_index is not None
            offsets, sizes, _ = self._places(indices, name)
            try:
                base, starts = self.indexed.file.region(offsets, sizes)
            except (BadSpanError, FormatError):
                continue
            sums = _native.crc32c_spans(base, starts, sizes)
            for position, message in tile_index_problems(self.tile_index, indices, number, sizes, sums).items():
                if int(indices[position]) not in bad:  # what is wrong with the sample itself says more
                    found.problems.append(Problem(sample=int(indices[position]), field=name, message=message))
        return found
