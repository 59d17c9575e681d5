"""A manifest as a dataset: a record of text for each sample, with values, or paths of files that hold them."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import numpy as np

from headrace import _native
from headrace.annex import FILES, TILE_INDEX, FileSums, read_tile_index, tile_index_section
from headrace.codecs.image import SUFFIXES
from headrace.errors import CorruptSampleError, FormatError
from headrace.fields import Bytes, Float, Image, Int, NDArray, Text, problem_with_name
from headrace.formats.column_dataset import ColumnDataset
from headrace.formats.contract import BaseDataset, index_chunks
from headrace.formats.decodes import Coded, override_schema
from headrace.formats.manifests.path_files import PathFiles
from headrace.formats.manifests.records import KEY, MISSING, BadRecordError
from headrace.formats.spans import SpanDataset
from headrace.formats.spans.span_file import BadSpanError
from headrace.formats.threads import map_ahead
from headrace.formats.tile_index import tile_index_of, tile_index_problems
from headrace.progress import format_count
from headrace.types import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import NoReturn, Self

    import numpy.typing as npt

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.formats.report import Found
    from headrace.formats.spans import IndexedFile
    from headrace.types import Buffer, Field, ImageSpans, IndexArray, Ragged, Source

__all__ = ["ManifestDataset", "ManifestOptions", "RecordKind"]

_FIRST_RECORDS = 1000
_FIRST_BYTES = 16 << 20
_FIRST_FILES = 16
_CHUNK = 4096
_KEPT_BATCHES = 4
_KEPT_BYTES = 8 << 20
_FILES_AT_ONCE = 64
_CHANGED = "Restore the manifest; or, if it was changed on purpose, make a new annex with: headrace index --fresh"
_REPLACED = "Restore it; or, if it was replaced on purpose, make a new annex with: headrace index --fresh"


class RecordKind(Protocol):
    """How the records of one kind of manifest are read."""

    def names(self, rows: list[Mapping[str, Any]]) -> list[str]:
        """All columns, in order, as the first rows show them."""
        ...

    def parse(self, records: list[bytes]) -> list[Mapping[str, Any]]:
        """Values of records by column; BadRecordError names one that cannot be read."""
        ...

    def guess(self, values: list[Any]) -> Field:
        """What a column is, by its first values."""
        ...

    def value(self, field: Field, value: Any) -> Any:
        """A parsed value as the field gives it; ValueError when it is something else."""
        ...


class ManifestOptions(TypedDict, total=False):
    """What every manifest takes when it is opened.

    Attributes:
        fields: fields by name that replace those that were found. Values of Image and Bytes fields are paths of files.
        decode: what the bytes of files are, see ``headrace.formats.decodes``.
        allow_pickle: needed for ``decode="pickle"``.
        key: the column with the names of the samples; by default ``__key__``, where there is one.
        root: the folder that paths start from; by default the manifest's own.
        allow_outside: paths may lead out of that folder.
        checksums: compare records with the checksums of the annex, where it has some.
        annex: False: do not look for an annex, and write none.
        keep_index: keep the places of the records of a large manifest in an annex beside it.
        cold: see ``SpanFile``.
        follow_links: also read an annex that is a symbolic link.
    """

    fields: Mapping[str, Field] | None
    decode: Decode | Mapping[str, Decode] | None
    allow_pickle: bool
    key: str | None
    root: PathLike | None
    allow_outside: bool
    checksums: bool
    annex: bool
    keep_index: bool
    cold: bool | None
    follow_links: bool


class ManifestDataset(SpanDataset):
    """Samples of a manifest.

    Columns of texts that are paths of files are pictures, or bytes, by the endings of the first ones. Each record that
    a batch needs is parsed once, whatever number of its fields are read.

    Args:
        indexed: the file and where its records are.
        kind: how records are read.
        options: as they were given, and those of the subclass.
    """

    _checks_files = False
    """Compare files with the checksums of the annex as they are read; by default only ``verify`` does."""

    def __init__(self, indexed: IndexedFile, kind: RecordKind, options: Mapping[str, Any]) -> None:
        path = indexed.file.path
        self._kind = kind
        self._recent: tuple[tuple[bytes, dict[str, list[Any]]], ...] = ()
        root = options.get("root") or os.path.dirname(os.path.abspath(path))
        self._path_files = PathFiles(root, allow_outside=options.get("allow_outside", False))
        rows = _first_rows(indexed, kind)
        names = kind.names(rows)
        self._key = _key_column(path, names, options.get("key"))
        described = None if indexed.description is None else dict(indexed.description.fields)
        shown = [name for name in names if name != KEY or self._key != KEY]
        found = self._guessed(rows, shown) if described is None else described
        fields, decode = options.get("fields"), options.get("decode")
        schema = override_schema(
            path, found, fields=fields, decode=decode, allow_pickle=options.get("allow_pickle", False)
        )
        _check_names(path, schema)
        if not schema and len(indexed.index):
            raise FormatError(path, problem="its records have no values", fix="Write one value for each at least.")
        self._file_fields = {name for name in schema if _is_file_field(name, found, schema, fields or {})}
        keep = {"checksums": True, **options}
        if options.get("root") is not None:
            keep["root"] = self._path_files.root
        classes = None if indexed.description is None else indexed.description.class_names
        super().__init__(indexed, schema=schema, options=keep, class_names=classes)

    def _guessed(self, rows: list[Mapping[str, Any]], names: list[str]) -> dict[str, Field]:
        found: dict[str, Field] = {}
        for name in names:
            values = [row.get(name, MISSING) for row in rows]
            found[name] = self._kind.guess(values)
            if isinstance(found[name], Text) and values:
                found[name] = self._file_field(values) or found[name]
        return found

    def _file_field(self, values: list[str]) -> Field | None:
        first = list(dict.fromkeys(values[:_FIRST_FILES]))
        if not all(self._path_files.is_file(value) for value in first):
            return None
        endings = {os.path.splitext(value)[1].lower() for value in first}
        return Image() if endings <= SUFFIXES else Bytes()

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None when they have none."""
        return self._keys if self._keys is not None or self._key is None else self._names_read

    @cached_property
    def _names_read(self) -> list[str]:
        names: list[str] = []
        for chunk in index_chunks(len(self), _CHUNK):
            for i, row in zip(chunk.tolist(), self._rows_of(chunk), strict=True):
                name = row.get(self._key or KEY)
                if not isinstance(name, str | int):
                    fix = f"Give every record a {self._key or KEY}, or leave key= away."
                    self._refuse(i, self._key or KEY, "the name of the sample is missing, or no text", fix=fix)
                names.append(str(name))
        return names

    # Reading

    def _rows_of(self, indices: IndexArray) -> list[Mapping[str, Any]]:
        index, table = self.indexed.index, self._checksums if self._options["checksums"] else None
        offsets = np.ascontiguousarray(index.offsets[indices, 0])
        sizes = np.ascontiguousarray(index.sizes[indices, 0])
        checksums = None if table is None else np.ascontiguousarray(table[indices, 0])
        try:
            return self._kind.parse(self.indexed.file.read(offsets, sizes, checksums))
        except BadSpanError as error:
            self._refuse(int(indices[error.position]), None, error.problem, fix=_CHANGED)
        except BadRecordError as error:
            self._refuse(int(indices[error.position]), None, str(error), at=error.at, fix=error.fix)

    def _refuse(self, sample: int, field: str | None, problem: str, *, at: int = 0, fix: str = "") -> NoReturn:
        offset = int(self.indexed.index.offsets[sample, 0]) + at
        is_inside = offset <= self.indexed.file.size_bytes
        raise CorruptSampleError(
            self.path, sample=sample, field=field, offset=offset if is_inside else None, problem=problem, fix=fix
        ) from None

    def _parsed(self, indices: IndexArray, field: str) -> list[Any]:
        """Parsed values of a column. They are handed out once, so that nobody can change what others get."""
        wanted = indices.tobytes()
        for known, columns in self._recent:
            if known == wanted and (values := columns.pop(field, None)) is not None:
                return values
        rows = self._rows_of(indices)
        columns = {name: [row.get(name, MISSING) for row in rows] for name in self._schema}
        values = columns.pop(field)
        if len(columns) and int(self.indexed.index.sizes[indices, 0].sum()) <= _KEPT_BYTES:
            others = [entry for entry in self._recent if entry[0] != wanted][: _KEPT_BATCHES - 1]
            self._recent = ((wanted, columns), *others)
        return values

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        kind, parsed = self._schema[field], self._parsed(indices, field)
        take = self._content if field in self._file_fields else self._kind.value
        values = []
        for i, value in zip(indices.tolist(), parsed, strict=True):
            try:
                values.append(take(kind, value))
            except ValueError as error:
                self._refuse(i, field, str(error))
        if self._checks_files and (column := self._sums_column(field)) is not None:
            for position, problem in self._wrong_files(indices, field, column, values).items():
                self._refuse(int(indices[position]), field, problem)
        if isinstance(kind, Int | Float) and field not in self._file_fields:
            return np.array(values, np.int64 if isinstance(kind, Int) else np.float64)
        return values

    def _content(self, field: Field, value: Any) -> bytes:
        if not isinstance(value, str):
            found = "nothing" if value is MISSING else f"a {type(value).__name__}"
            raise ValueError(f"the path of a file was expected, found {found}; open with fields= if it is none")
        return self._path_files.read(value)

    def place_of(self, index: int, field: str) -> Place | None:
        """The file that a record names, or the record itself."""
        self._check_field(field)
        if field in self._file_fields:
            (value,) = self._parsed(np.array([index], np.int64), field)
            if isinstance(value, str):
                return Place(*self._path_files.place(value))
        return super().place_of(index, field)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        return BaseDataset.read_ragged(self, indices, field, source)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded pictures of a batch, read from their files; with tile indices where there are some.

        The checksums are those of the files as they are now: by them the decoder does not use an index of other bytes.
        """
        spans = ColumnDataset.image_spans(self, indices, field, source)
        column, tile_index = self._sums_column(field), self.tile_index
        if column is None or tile_index is None:
            return spans
        sums = _native.crc32c_spans(spans.base, spans.offsets, spans.sizes)
        return replace(spans, checksums=sums, tile_indices=tile_index.locate(indices, column))

    # What the annex says about the files

    @cached_property
    def _file_sums(self) -> FileSums | None:
        return None if self.indexed.annex is None else FileSums.read(self.indexed.annex)

    def _sums_column(self, field: str) -> int | None:
        sums = self._file_sums
        is_known = sums is not None and field in self._file_fields and field in sums.fields
        return sums.fields.index(field) if is_known and sums is not None else None

    @cached_property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs among the files, or None."""
        annex, sums = self.indexed.annex, self._file_sums
        return None if annex is None or sums is None else read_tile_index(annex, len(sums.fields))

    @property
    def has_checksums(self) -> bool:
        """The annex has checksums of every record, and of every file."""
        has_sums = all(self._sums_column(field) is not None for field in self._file_fields)
        return super().has_checksums and has_sums

    def with_checksums(self, is_checked: bool) -> Self:
        """The same dataset, its records and files checked as they are read, or not."""
        other = super().with_checksums(is_checked)
        if is_checked == other._checks_files:
            return other
        other = copy.copy(self) if other is self else other
        other._checks_files = is_checked
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return *super().__reduce__(), {"_checks_files": self._checks_files}

    def _wrong_files(self, indices: IndexArray, field: str, column: int, stored: Sequence[Any]) -> dict[int, str]:
        """What is wrong with files, by position: they are not those that the annex was made of."""
        assert self._file_sums is not None
        table = self._file_sums
        sizes, sums = table.sizes[indices, column].tolist(), table.checksums[indices, column].tolist()
        found = {}
        for i, (data, size, checksum) in enumerate(zip(stored, sizes, sums, strict=True)):
            if len(data) != size or _native.crc32c(data) != checksum:
                name = self._parsed(indices[i : i + 1], field)[0]
                found[i] = (
                    f"the file {name!r} is not the one that the annex describes: {format_count(size, 'byte')} with "
                    f"checksum {checksum:#010x} expected, found {len(data):,} with {_native.crc32c(data):#010x}. "
                    f"{_REPLACED}"
                )
        return found

    def _value_problems(
        self, indices: IndexArray, field: str, stored: Sequence[Any] | npt.NDArray[Any]
    ) -> tuple[int, dict[int, str]]:
        column, tile_index = self._sums_column(field), self.tile_index
        if column is None:
            return 0, {}
        found = self._wrong_files(indices, field, column, list(stored))
        if tile_index is not None:
            sizes = np.fromiter(map(len, stored), np.uint64, len(stored))
            sums = np.fromiter(map(_native.crc32c, stored), np.uint32, len(stored))
            found = tile_index_problems(tile_index, indices, column, sizes, sums) | found
        return len(indices), found

    def more_sections(self, schema: Mapping[str, Field], jpeg_index: bool) -> dict[str, Iterable[Buffer]]:
        """Size and checksum of every file, and the tile indices of those that are JPEGs."""
        fields = [name for name in schema if name in self._file_fields and isinstance(schema[name], Bytes | Image)]
        if not fields:
            return {}

        def make(indices: IndexArray) -> list[tuple[int, int, bytes]]:
            columns = [self._stored(indices, name) for name in fields]
            rows = [data for row in zip(*columns, strict=True) for data in row]
            return [(len(data), _native.crc32c(data), tile_index_of(data) if jpeg_index else b"") for data in rows]

        made = [one for some in map_ahead(make, index_chunks(len(self), _FILES_AT_ONCE)) for one in some]
        sizes, sums, packed = zip(*made, strict=True) if made else ((), (), ())
        shape = (len(self), len(fields))
        known = FileSums(tuple(fields), np.array(sizes, "<u8").reshape(shape), np.array(sums, "<u4").reshape(shape))
        sections: dict[str, Iterable[Buffer]] = {FILES: known.section()}
        if any(packed):
            lengths = np.fromiter(map(len, packed), np.uint32, len(packed))
            sections[TILE_INDEX] = tile_index_section(len(fields), lengths, packed)
        return sections

    @property
    def reading(self) -> str:
        """How its bytes are read, in words."""
        files = f", {', '.join(sorted(self._file_fields))} from the file of each sample" if self._file_fields else ""
        return super().reading + files

    def _in_words(self, indices: IndexArray, field: str) -> list[object]:
        if field in self._file_fields:
            return list(self._parsed(indices, field))
        kind = self._schema[field]
        if isinstance(kind, NDArray):
            return ["x".join(map(str, kind.shape))] * len(indices)
        return ColumnDataset._in_words(self, indices, field)

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = super()._check(indices, decode)
        found.checksums += len(indices) if self._checksums is not None and self._options["checksums"] else 0
        return found


def _first_rows(indexed: IndexedFile, kind: RecordKind) -> list[Mapping[str, Any]]:
    index = indexed.index
    sizes = np.array(index.sizes[:_FIRST_RECORDS, 0], np.uint64)
    count = max(1, int(np.searchsorted(np.cumsum(sizes), _FIRST_BYTES, "right")))
    offsets = np.array(index.offsets[:count, 0], np.uint64)
    try:
        return kind.parse(indexed.file.read(offsets, sizes[:count]))
    except BadSpanError as error:
        problem = f"sample {error.position}: {error.problem}"
        raise FormatError(indexed.file.path, problem=problem, fix=_CHANGED) from None
    except BadRecordError as error:
        at = int(offsets[error.position]) + error.at
        problem = f"sample {error.position}: {error}"
        raise FormatError(indexed.file.path, offset=at, problem=problem, fix=error.fix) from None


def _key_column(path: str, names: list[str], key: str | None) -> str | None:
    if key is not None and key not in names:
        raise ValueError(f"{path} has no column {key!r} with names; its columns are {', '.join(names)}")
    return key or (KEY if KEY in names else None)


def _check_names(path: str, schema: Mapping[str, Field]) -> None:
    for name in schema:
        if problem := problem_with_name(name):
            raise FormatError(path, problem=f"no field can be called that: {problem}", fix="Give the column a name.")


def _is_file_field(
    name: str, found: Mapping[str, Field], schema: Mapping[str, Field], fields: Mapping[str, Field]
) -> bool:
    if isinstance(schema[name], Bytes | Image | Coded):
        return True
    return isinstance(found[name], Bytes | Image) and name not in fields  # decode= says what the file holds
