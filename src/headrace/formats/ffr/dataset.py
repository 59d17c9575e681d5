"""An .ffr file, several, a folder of parts, or a packed folder as a dataset."""

from __future__ import annotations

import os
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.errors import CorruptSampleError, FormatError, ImageError
from headrace.fields import Image
from headrace.formats.contract import BaseDataset, normalize_indices
from headrace.formats.decodes import field_for
from headrace.formats.ffr.layout import SUFFIX, missing_part, part_paths
from headrace.formats.ffr.packed_index import INDEX_MAGIC, list_files, read_index, walk
from headrace.formats.ffr.reader import FfrReader
from headrace.formats.tile_index import (
    SideFacts,
    refuse_annex_options,
    side_problems,
    tile_index_or_warning,
    with_problems,
    with_tile_index,
    write_tile_index,
)
from headrace.progress import format_count
from headrace.storage import absolute, is_remote, join_announcements
from headrace.types import Place, Ragged, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.decodes import Decode
    from headrace.types import (
        Announcement,
        Field,
        ImageSpans,
        IndexArray,
        Indices,
        Progress,
        Report,
        Source,
        StoredSpans,
    )

__all__ = ["FfrDataset", "index_ffr"]

_FINGERPRINT_BYTES = 1 << 16


class FfrDataset(BaseDataset):
    """Samples of .ffr files, written by headrace or by FFRecord.

    Args:
        path: a file, a list of files, or a folder whose .ffr files are the parts of one dataset, sorted by path.
        decode: what the samples are: None or ``"bytes"``, ``"json"``, ``"text"``, ``"npy"``, ``"msgpack"``,
            ``"image"`` (also ``"jpeg"``), or ``"pickle"``, see ``allow_pickle``. The field is called ``image`` for
            pictures and ``data`` for everything else.
        allow_pickle: needed for ``decode="pickle"``. Unpickling runs code that the file contains: whoever wrote the
            file can do anything that you can. Only for files that you, or people you trust, have written.
        checksums: check the header when opening, and every sample that is read.
        cold: see ``FfrReader``.
        packed: a packed folder: its files are the samples, their paths the ``keys``. None: looks.
    """

    holds_picture_files = True

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        *,
        decode: Decode | None = None,
        allow_pickle: bool = False,
        checksums: bool = True,
        cold: bool | None = None,
        packed: bool | None = None,
        follow_links: bool = False,
    ) -> None:
        name, field = field_for(decode, allow_pickle=allow_pickle)
        self._field, self._names = field, (name,)
        self._schema = MappingProxyType({name: field})
        self._source = os.fspath(path) if isinstance(path, str | os.PathLike) else [os.fspath(part) for part in path]
        self._absolute = _absolute(self._source)
        self._options: dict[str, Any] = {
            "decode": decode,
            "allow_pickle": allow_pickle,
            "checksums": checksums,
            "cold": cold,
            "packed": packed,
            "follow_links": follow_links,
        }
        self.reader = FfrReader(_find_parts(self._source), checksums=checksums, cold=cold)
        self._folders: list[str] = []
        self._keys, self._order = self._read_names(packed)

    def _read_names(self, packed: bool | None) -> tuple[list[str] | None, IndexArray | None]:
        marked = [path for file, path in enumerate(self.reader.paths) if self._is_marked(file)]
        is_packed = bool(marked) if packed is None else packed
        if not is_packed:
            return None, None
        if len(self.reader.paths) > 1:
            raise FormatError(
                (marked or self.reader.paths)[0],
                problem="a packed folder cannot be a part of a dataset of several files",
                fix="Open it alone, or with packed=False to see its index as a sample.",
            )
        tree = read_index(self.reader)
        self._folders = [path for path, value in walk(tree) if not isinstance(value, int)]
        files = list_files(tree)
        numbers = np.fromiter(files.values(), np.int64, len(files))
        is_plain = len(numbers) == len(self.reader) - 1 and np.array_equal(numbers, np.arange(len(numbers)))
        return list(files), (None if is_plain else numbers)

    def _is_marked(self, file: int) -> bool:
        layout = self.reader.layouts[file]
        if layout.num_samples == 0:
            return False
        start, size = int(layout.offsets(self.reader.header(file))[-1]), len(INDEX_MAGIC)
        if not layout.header_end <= start <= layout.size_bytes - size:
            return False
        base, (at,) = self.reader.stored(file).region(np.array([start], np.uint64), np.array([size], np.uint64))
        return base[int(at) : int(at) + size].tobytes() == INDEX_MAGIC

    @property
    def path(self) -> str:
        """Where it was opened; of a list, its first file."""
        return self._source if isinstance(self._source, str) else self._source[0]

    @property
    def schema(self) -> Mapping[str, Field]:
        """The one field."""
        return self._schema

    @property
    def keys(self) -> list[str] | None:
        """Paths of the files of a packed folder; otherwise samples have no names."""
        return self._keys

    @property
    def folders(self) -> list[str]:
        """Folders of a packed folder, empty ones too."""
        return self._folders

    def __len__(self) -> int:
        return len(self.reader) if self._keys is None else len(self._keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._absolute, self._options)

    def close(self) -> None:
        """Let go of the files. Views that were handed out stay valid."""
        self.reader.close()

    @property
    def reading(self) -> str:
        """How samples are read, in words."""
        return self.reader.reading

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine."""
        return self.reader.is_local

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what these samples need, ahead of their use; None where there is nothing to bring."""
        if self.is_local or self._names[0] not in fields:
            return None
        announced = [self._announce_values(indices, fields)]
        if isinstance(self._field, Image) and self.tile_index is not None:
            announced.append(self.tile_index.announce(self.numbers(indices), 0))
        return join_announcements(announced)

    def _announce_values(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        return self.reader.announce(self.numbers(indices))

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        if self.is_local or self._names[0] not in fields:
            return []
        found = self.reader.stored_spans(self.numbers(indices))
        if isinstance(self._field, Image) and self.tile_index is not None:
            found += self.tile_index.stored_spans(self.numbers(indices), 0)
        return found

    @property
    def has_checksums(self) -> bool:
        """Every sample is checked as it is read."""
        return self.reader.is_checked

    def with_checksums(self, is_checked: bool) -> FfrDataset:
        """The same dataset, its samples checked as they are read, or not."""
        if is_checked == self.reader.is_checked:
            return self
        return FfrDataset(self._source, **(self._options | {"checksums": is_checked}))

    def check_file(self) -> None:
        """Raise FormatError if a file was cut short while it was in use."""
        _ = self.reader.table
        self.reader.check_files(range(len(self.reader.paths)))

    @cached_property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return self._fingerprint_of_files(crc32c(repr([list(self._schema.items()), self._keys is not None]).encode()))

    def _fingerprint_of_files(self, value: int) -> int:
        for file, layout in enumerate(self.reader.layouts):
            value = crc32c(repr((layout.num_samples, layout.header_checksum, layout.size_bytes)).encode(), value)
            head = self.reader.header(file)
            value = crc32c(head[:_FINGERPRINT_BYTES], crc32c(head[-_FINGERPRINT_BYTES:], value))
        return value

    def numbers(self, indices: Indices) -> IndexArray:
        """Where samples of the dataset stand in the files: the same numbers, but for some packed folders."""
        where = normalize_indices(indices, len(self))
        return where if self._order is None else self._order[where]

    def _check_field(self, field: str) -> None:
        if field not in self._schema:
            raise KeyError(f"no field {field!r} in {self.path}; the only field is {self._names[0]}")

    def place_of(self, index: int, field: str) -> Place:
        """Where a sample lies, and in which of the files."""
        self._check_field(field)
        spans = self.reader.locate(self.numbers([index]))
        if spans.is_bad()[0]:
            raise CorruptSampleError(self.path, sample=index, field=field, problem="its offsets cannot be right")
        return Place(self.reader.paths[int(spans.files[0])], int(spans.offsets[0]), int(spans.sizes[0]))

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read stored samples, many in one call; with checksums every one is checked."""
        self._check_field(field)
        return self.reader.read_bytes(self.numbers(indices))

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored samples one after the other, read by one native call."""
        self._check_field(field)
        numbers = self.numbers(indices)
        sizes = self.reader.sizes(numbers)
        offsets = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        self.reader.read_into(numbers, out)
        return Ragged(out, offsets)

    @cached_property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs among the stored samples, by which crops are decoded without the rest, or None."""
        return None if isinstance(self._source, list) else tile_index_or_warning(self.side_facts)

    @property
    def side_facts(self) -> SideFacts:
        """What tile indices of JPEGs beside the files are bound to."""
        reader = self.reader
        path, fingerprint = self.path, self._fingerprint_of_files(0)
        path = path if is_remote(path) else path.rstrip(os.sep)
        return SideFacts(path, len(reader), reader.size_bytes, fingerprint, self._options["follow_links"])

    def _stored(self, start: int, stop: int) -> list[bytes]:
        return self.reader.read_bytes(np.arange(start, stop, dtype=np.int64))

    def index_jpegs(self, progress: Progress | None = None) -> str:
        """Write indices of all samples that are JPEGs beside the files; gives the path of the annex."""
        if isinstance(self._source, list):
            raise ValueError("a list of files has no place for tile indices; index the folder, or each file")
        return write_tile_index(self.side_facts, self._stored, progress)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, with the tile indices of JPEGs where there are some."""
        return with_tile_index(super().image_spans(indices, field, source), self.tile_index, self.numbers(indices))

    def view(self, index: int, field: str) -> npt.NDArray[np.uint8]:
        """A read-only array straight on a sample's bytes: nothing is copied, and no checksum is computed."""
        self._check_field(field)
        return self.reader.views(self.numbers([index]))[0]

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded samples."""
        values = self.read_bytes(indices, field)
        return values if self._field.kind == "bytes" else self._decode(indices, values)

    def _samples(self, indices: IndexArray) -> list[Sample]:
        return [Sample(self._names, (value,)) for value in self.read_values(indices, self._names[0])]

    def _decode(self, indices: IndexArray, stored: list[bytes]) -> list[Any]:
        values = []
        for i, data in zip(indices.tolist(), stored, strict=True):
            try:
                values.append(self.decode_one(data))
            except (ImageError, ValueError, RecursionError) as error:
                problem = f"the value cannot be decoded ({error})"
                raise CorruptSampleError(self.path, sample=i, field=self._names[0], problem=problem) from error
        return values

    def decode_one(self, data: bytes) -> Any:
        """Decode one stored sample."""
        if isinstance(self._field, Image):
            raw = Image(mode="raw")
            encoded = raw.encode(data, 0)
            return raw.decode(encoded.facts, memoryview(encoded.payload or b""))
        return self._field.decode((), memoryview(data))

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """Sizes of the samples, nothing read."""
        spans = self.reader.locate(self.numbers(indices))
        facts = zip(spans.sizes.tolist(), spans.is_bad().tolist(), strict=True)
        return [{self._names[0]: "DAMAGED" if is_bad else f"{size}B"} for size, is_bad in facts]

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check every sample's place and checksum; with ``decode`` also that it decodes."""
        from headrace.formats.ffr.verify import verify_ffr

        try:
            report = verify_ffr(self, decode=decode, workers=workers, progress=progress)
            if isinstance(self._source, list) or not report.ok:  # what is wrong with the samples comes first
                return report
            return with_problems(report, side_problems(self.side_facts, self._stored))
        finally:
            self.check_file()


def index_ffr(
    path: PathLike, *, progress: Progress | None = None, follow_links: bool = False, **options: object
) -> str:
    """Give an .ffr tile indices of its JPEGs, beside it; see ``headrace.index``."""
    refuse_annex_options(path, "ffr", options)
    with FfrDataset(path, follow_links=follow_links) as dataset:
        return dataset.index_jpegs(progress)


def _absolute(source: str | list[str]) -> str | list[str]:
    return absolute(source) if isinstance(source, str) else [absolute(part) for part in source]


def _find_parts(source: str | list[str]) -> list[str]:
    if isinstance(source, list):
        return source
    if is_remote(source) or not os.path.isdir(source):
        return [source]
    paths = part_paths(source)
    if not paths:
        raise FormatError(source, problem=f"no {SUFFIX} files are in this folder")
    if (missing := missing_part(paths)) is not None:
        raise FormatError(
            source,
            problem=f"{missing} is missing, beside {format_count(len(paths), 'other part')}",
            fix="Copy it again; or open the parts that are there as a list of files.",
        )
    return paths


def _reopen(paths: str | list[str], options: dict[str, Any]) -> FfrDataset:
    return FfrDataset(paths, **options)
