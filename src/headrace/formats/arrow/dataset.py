"""Parquet files, Arrow files and streams, and folders that Hugging Face has saved, as datasets."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import crc32c, gather
from headrace.codecs import jpeg
from headrace.errors import ClosedError, CorruptSampleError, FormatError, HeadraceError
from headrace.fields import Bytes, Image, Json, NDArray
from headrace.formats.annexed_dataset import AnnexedDataset, index_columns
from headrace.formats.arrow.chunks import BytesChunk, CodedChunk
from headrace.formats.arrow.columns import check_fields, find_columns, no_columns
from headrace.formats.arrow.huggingface import data_files, read_info
from headrace.formats.arrow.ipc_parts import open_ipc
from headrace.formats.arrow.parquet_parts import ParquetParts
from headrace.formats.arrow.parts import SeveralParts, told
from headrace.formats.arrow.table_reader import TableReader
from headrace.formats.contract import normalize_indices
from headrace.formats.decodes import override_schema
from headrace.formats.tile_index import SideFacts
from headrace.progress import format_bytes
from headrace.storage import absolute, is_remote
from headrace.types import ImageSpans, Ragged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.formats.arrow.parts import Parts
    from headrace.formats.decodes import Decode
    from headrace.types import Announcement, Field, IndexArray, Indices, Progress, Report, Source, TakeArray

__all__ = ["ArrowDataset", "ParquetDataset", "TableDataset", "index_arrow", "index_parquet"]

CACHE_BYTES = 512 << 20
_FINGERPRINT_BYTES = 1 << 16
_FINGERPRINT_PLACES = 16
_INT64_MAX = np.uint64(2**63 - 1)


class TableDataset(AnnexedDataset):
    """Samples that are the rows of a table, and fields that are its columns; what all formats of Arrow share.

    Attributes:
        left_out: a line for each column that is no field, and why.
        metadata: what the user said about the whole dataset when headrace wrote it.
    """

    def __init__(self, path: str, parts: Parts, *, info: bytes = b"", **options: Any) -> None:
        self._options = options
        with told(path, "the schema"):
            columns = find_columns(path, parts.schema, info)
        if not columns.fields:
            raise no_columns(path, columns)
        known: dict[str, Any] = {name: options[name] for name in ("fields", "decode", "allow_pickle")}
        schema = override_schema(path, columns.fields, **known)
        check_fields(path, parts.schema, columns, schema)
        self._reader: TableReader | None = TableReader(path, parts, schema, columns.numbers, options["kept_bytes"])
        super().__init__(path, length=int(parts.counts.sum()), schema=schema, class_names=columns.class_names)
        self.left_out, self.metadata = columns.left_out, columns.metadata
        self._columns, self._inferred = columns, columns.fields
        self._absolute = absolute(path)

    @property
    def reader(self) -> TableReader:
        """What reads the columns."""
        if self._reader is None:
            raise ClosedError(f"{self.path}: already closed")
        return self._reader

    @property
    def parts(self) -> Parts:
        """Row groups or record batches."""
        return self.reader.parts

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        if self._reader is not None:
            for file in self._reader.parts.files():
                file.close()
        self._reader = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._absolute, self._options), self._state

    @cached_property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, from the column ``__key__``; None when there is none."""
        if self._columns.key_column is None:
            return None
        names: list[str] = []
        for part in range(len(self.parts.counts)):
            chunk = self.reader.load(part, self._columns.key_column, Bytes())[0]
            assert isinstance(chunk, BytesChunk)
            rows = np.arange(self.parts.counts[part], dtype=np.int64)
            base, starts, sizes, is_bad = chunk.spans(rows)
            missing = chunk.missing(rows)
            if is_bad.any() or (missing is not None and missing.any()):
                raise FormatError(self.path, problem=f"{self.parts.word} {part} has samples without a name")
            stored = gather(base, starts.astype(np.uint64), sizes.astype(np.uint64))
            names += [one.decode("utf-8", "surrogateescape") for one in stored]
        self.check_file()
        return names

    @cached_property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field; of a column with a dictionary, its words."""
        return self._class_names | {name: self._words(name) for name in self._columns.words}

    def _words(self, field: str) -> list[str]:
        found: dict[str, None] = {}
        for part in range(len(self.parts.counts)):
            chunk = self.reader.chunk(part, field)
            if isinstance(chunk, CodedChunk):
                base, starts, sizes, _ = chunk.words.spans(np.arange(len(chunk.words.table) - 1))
                stored = gather(base, starts.astype(np.uint64), sizes.astype(np.uint64))
                found |= dict.fromkeys(one.decode("utf-8", "replace") for one in stored)
        return list(found)

    @property
    def reading(self) -> str:
        """How its bytes are read, in words."""
        if self.parts.is_mapped:
            return "from the mapped file"
        return f"each {self.parts.word} as a whole, {format_bytes(self.reader.cache.max_bytes)} of them kept"

    def page_numbers(self) -> IndexArray:
        """The row group or record batch of each sample, also of a mapped file: the order is the same everywhere."""
        return np.repeat(np.arange(len(self.parts.counts), dtype=np.int64), self.parts.counts)

    def check_file(self) -> None:
        """Raise FormatError if a file was cut short while it was in use."""
        for file in self.parts.files():
            file.check()

    @property
    def is_local(self) -> bool:
        """All of its files lie on this machine."""
        return self.reader.is_local

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring the row groups or record batches of samples, ahead of their use."""
        return self.reader.announce(indices, fields)

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return crc32c(repr((len(self), list(self._schema.items()))).encode(), self._content_sum)

    @cached_property
    def _content_sum(self) -> int:
        value = crc32c(self.parts.counts.tobytes())
        for file in self.parts.files():
            total = file.size_bytes
            places = np.linspace(0, max(0, total - _FINGERPRINT_BYTES), _FINGERPRINT_PLACES).astype(int)
            sizes = np.minimum(_FINGERPRINT_BYTES // _FINGERPRINT_PLACES, total - places)
            offsets = np.array([*places, max(0, total - _FINGERPRINT_BYTES)], np.uint64)
            lengths = np.array([*sizes, min(total, _FINGERPRINT_BYTES)], np.uint64)
            base, starts = file.region(offsets, lengths)
            value = crc32c(repr(total).encode(), value)
            for start, size in zip(starts.tolist(), lengths.tolist(), strict=True):
                value = crc32c(base[start : start + size], value)
            file.check()
        return value

    # Values

    @contextlib.contextmanager
    def _checked_file(self) -> Iterator[None]:
        """Around reading: a file that was cut short meanwhile is told as such, whatever else came out."""
        try:
            yield
        except HeadraceError:
            self.check_file()
            raise
        self.check_file()

    def _stored(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        reader = self.reader
        with self._checked_file():
            if reader.ways[field] == "array":
                return reader.arrays(indices, field, np.empty)
            if reader.ways[field] == "nested":
                return reader.nested(indices, field)
            found = reader.byte_list(indices, field)
            if not isinstance(self._schema[field], Json):
                return found
            gaps = reader.missing(indices, field).tolist()
            return [None if gap else data for gap, data in zip(gaps, found, strict=True)]

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field as one array, which ``take`` makes."""
        is_plain = isinstance(self._check_field(field), NDArray) and self.reader.ways[field] == "array"
        if not is_plain or self._checks:
            return super().read_arrays(indices, field, take, source)
        with self._checked_file():
            return self.reader.arrays(indices, field, take)

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples."""
        self._check_field(field)
        if self.reader.ways[field] != "bytes" or self._checks:
            return super().read_bytes(indices, field)
        with self._checked_file():
            return self.reader.byte_list(normalize_indices(indices, len(self)), field)

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        self._check_field(field)
        if self.reader.ways[field] != "bytes" or self._checks:
            return super().read_ragged(indices, field, source)
        with self._checked_file():
            return self.reader.ragged(indices, field)

    # Pictures

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures where they lie, with the tile indices of JPEGs where there are some."""
        self._check_field(field)
        with self._checked_file():
            spans = None if self.reader.ways[field] != "bytes" else self._jpegs(indices, field)
            if spans is None:  # a picture that is no JPEG among them: they are decoded
                spans = super().image_spans(indices, field, source)
        return self._with_annex(spans, indices, field)

    def _jpegs(self, indices: IndexArray, field: str) -> ImageSpans | None:
        base, offsets, sizes = self.reader.region(indices, field)
        facts = np.zeros((len(indices), 2), np.uint32)
        for i, (start, size) in enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True)):
            data = memoryview(base[start : start + size])
            if not jpeg.is_jpeg(data):
                return None
            try:
                info = jpeg.read_info(data)
            except ValueError as error:
                raise CorruptSampleError(self.path, sample=int(indices[i]), field=field, problem=str(error)) from error
            if not jpeg.is_plain(info):
                return None
            facts[i] = info.width, info.height
        modes = np.zeros(len(indices), np.uint8)
        return ImageSpans(base, offsets, sizes, modes, facts[:, 0].copy(), facts[:, 1].copy())

    @property
    def file_fields(self) -> list[str]:
        """Fields with pictures, and then those with bytes."""
        return [*self._fields_of(Image), *self._fields_of(Bytes)]

    def _fields_of(self, kind: type[Any]) -> list[str]:
        return [
            name for name, one in self._inferred.items() if isinstance(one, kind) and self.reader.ways[name] == "bytes"
        ]

    @property
    def side_facts(self) -> SideFacts:
        """What an annex beside the file is bound to."""
        path = self.path if is_remote(self.path) else self.path.rstrip(os.sep)
        return SideFacts(path, len(self), self.parts.size_bytes, self._content_sum, self._options["follow_links"])

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Read every value, and compare the checksums and tile indices of the annex; with ``decode`` also decode it."""
        report = super().verify(decode=decode, workers=workers, progress=progress)
        return replace(report, size_bytes=self.parts.size_bytes)


class ParquetDataset(TableDataset):
    """A Parquet file, whoever wrote it.

    Args:
        path: the file.
        fields: name to field, for columns that are something else than they look like.
        decode: what the columns of bytes are, of all or by name; see ``headrace.formats.decodes``.
        allow_pickle: needed for ``decode="pickle"``, which runs code that the file contains.
        kept_bytes: bytes of decoded row groups that are kept; the newest of each field always is.
        checksums: compare the checksums of pages that have some.
        follow_links: also use an annex beside the file that is a symbolic link.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        fields: Mapping[str, Field] | None = None,
        decode: Decode | Mapping[str, Decode] | None = None,
        allow_pickle: bool = False,
        kept_bytes: int = CACHE_BYTES,
        checksums: bool = True,
        follow_links: bool = False,
    ) -> None:
        name = os.fspath(path)
        super().__init__(
            name,
            ParquetParts(name, checksums=checksums),
            fields=fields,
            decode=decode,
            allow_pickle=allow_pickle,
            kept_bytes=_checked_size(kept_bytes),
            checksums=checksums,
            follow_links=follow_links,
        )


class ArrowDataset(TableDataset):
    """An Arrow file or stream, a Feather file, or a folder that ``save_to_disk`` of Hugging Face has left.

    Args:
        path: the file or folder.
        fields: name to field, for columns that are something else than they look like.
        decode: what the columns of bytes are, of all or by name; see ``headrace.formats.decodes``.
        allow_pickle: needed for ``decode="pickle"``, which runs code that the file contains.
        kept_bytes: bytes of record batches that are kept where they are compressed; the newest of each field always is.
        follow_links: also read files of a folder, and an annex, that are symbolic links.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        fields: Mapping[str, Field] | None = None,
        decode: Decode | Mapping[str, Decode] | None = None,
        allow_pickle: bool = False,
        kept_bytes: int = CACHE_BYTES,
        follow_links: bool = False,
    ) -> None:
        name, max_bytes = os.fspath(path), _checked_size(kept_bytes)
        is_folder = os.path.isdir(name)
        super().__init__(
            name,
            _folder_parts(name, max_bytes, follow_links) if is_folder else open_ipc(name, max_bytes=max_bytes),
            info=read_info(name) if is_folder else b"",
            fields=fields,
            decode=decode,
            allow_pickle=allow_pickle,
            kept_bytes=max_bytes,
            follow_links=follow_links,
        )


def _folder_parts(folder: str, max_bytes: int, follow_links: bool) -> Parts:
    files = data_files(folder)
    if not files:
        raise FormatError(folder, problem="no data files are named in its state.json", fix="Save the dataset again.")
    missing = next((path for path in files if not os.path.lexists(path)), None)
    if missing is not None:
        problem = f"{os.path.basename(missing)} is missing, which its state.json names"
        raise FormatError(folder, problem=problem, fix="Copy the folder again.")
    return SeveralParts(folder, [open_ipc(path, max_bytes=max_bytes, nofollow=not follow_links) for path in files])


def _checked_size(kept_bytes: int) -> int:
    if isinstance(kept_bytes, bool) or not isinstance(kept_bytes, int) or kept_bytes < 0:
        raise ValueError(f"kept_bytes must be a number of bytes, got {kept_bytes!r}")
    return kept_bytes


def _reopen(cls: type[Any], path: str, options: dict[str, Any]) -> Any:
    return cls(path, **options)


index_parquet = partial(index_columns, ParquetDataset)
"""Gives a Parquet file an annex, beside it; see ``headrace.index``."""
index_arrow = partial(index_columns, ArrowDataset)
"""The same for an Arrow file, or a folder that Hugging Face has saved."""
