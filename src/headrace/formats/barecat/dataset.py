"""An archive as a dataset: fields from the endings of names, label from the first directory, names as keys."""

from __future__ import annotations

import contextlib
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.arrays import distinct
from headrace.codecs import image as image_codec
from headrace.errors import CorruptFileError, CorruptSampleError, FormatError, ImageError
from headrace.fields import Int, NDArray
from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.batches import (
    Places,
    announce_places,
    check_spans,
    gather_places,
    gather_ragged,
    is_cold,
    stored_spans,
)
from headrace.formats.barecat.names import shard_path
from headrace.formats.barecat.pictures import Pictures
from headrace.formats.contract import BaseDataset, join_images, normalize_indices
from headrace.formats.members import field_for, grouped_members, labels_of, ungrouped_members
from headrace.formats.tile_index import (
    refuse_annex_options,
    side_problems,
    with_problems,
    with_tile_index,
    write_tile_index,
)
from headrace.formats.values import decode_value
from headrace.storage import absolute, join_announcements
from headrace.types import ImageSpans, Place, Ragged, Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.types import Announcement, Field, IndexArray, Indices, Progress, Report, Source, StoredSpans

__all__ = ["BarecatDataset", "index_archive", "verify_path"]


class BarecatDataset(BaseDataset):
    """A .barecat archive as a sequence of samples, sorted by path.

    Without ``group`` every file is a sample. If there are pictures, they are the samples and other files do not count;
    otherwise all files are, as text, JSON, arrays (.npy) or bytes. If every sample lies in a directory, the first one
    is its label.

    Args:
        path: the archive.
        group: files whose paths differ only in what follows the first dot of the name are one sample, with a field for
            each ending (``a/1.jpg`` and ``a/1.json`` have the fields ``jpg`` and ``json``).
        checksums: check everything that is read.
        cold: how the files of a batch are read, see ``Archive``.
        decode: ``"bytes"`` makes every file a sample of its bytes, whatever its name, without a label.
        follow_links: also read shards and an annex that are symbolic links.
    """

    holds_picture_files = True

    def __init__(
        self,
        path: PathLike,
        *,
        group: bool = False,
        checksums: bool = True,
        cold: bool | None = None,
        decode: Literal["bytes"] | None = None,
        follow_links: bool = False,
    ) -> None:
        if decode not in (None, "bytes") or (decode and group):
            raise ValueError(f"decode must be 'bytes', without group, or None; got {decode!r}")
        self.archive = Archive(path, checksums=checksums, cold=cold, follow_links=follow_links)
        self._options = dict[str, Any](group=group, checksums=checksums, cold=cold, decode=decode)
        self._options["follow_links"] = follow_links
        rows = list(self.archive.index.places_by_path())
        if not rows:
            raise FormatError(self.archive.path, problem="the archive has no files, so there are no samples")
        members = (
            grouped_members(self.archive.path, rows) if group else ungrouped_members(rows, as_bytes=decode == "bytes")
        )
        self._keys: list[str] = members.keys
        self._names: dict[str, list[str]] = members.names
        self._places = {field: Places.of([row[1:] for row in found]) for field, found in members.rows.items()}
        self._headers: dict[str, npt.NDArray[np.uint32]] = {}
        self.pictures = Pictures(self.archive, is_checked=checksums)
        self._picture_numbers: dict[str, IndexArray] = {}
        schema: dict[str, Field] = {
            field: field_for(kind, partial(self._read_first, field)) for field, kind in members.kinds.items()
        }
        has_label = decode is None and "label" not in schema  # a file that ends in .label counts more than a directory
        self._classes, self._labels = labels_of(self._keys) if has_label else ([], None)
        if self._labels is not None:
            schema["label"] = Int()
        self._schema = MappingProxyType(schema)

    def _read_first(self, field: str) -> bytes:
        return self.archive[self._names[field][0]]

    @property
    def path(self) -> str:
        """Where it was opened."""
        return self.archive.path

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""
        return self._schema

    @property
    def keys(self) -> list[str]:
        """Paths of the files, or what the files of a group have in common."""
        return self._keys

    @property
    def class_names(self) -> dict[str, list[str]]:
        """Names of the classes by field, empty when there are none."""
        return {"label": self._classes} if self._labels is not None else {}

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked."""
        return all((places.crc32c >= 0).all() for places in self._places.values())

    def with_checksums(self, is_checked: bool) -> BarecatDataset:
        """The same dataset, its values checked as they are read, or not."""
        if is_checked == self._options["checksums"]:
            return self
        return BarecatDataset(self.path, **(self._options | {"checksums": is_checked}))

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        value = crc32c("\0".join(self._keys).encode())
        for places in self._places.values():
            value = crc32c(places.crc32c.tobytes(), crc32c(places.size.tobytes(), value))
        return value

    def __len__(self) -> int:
        return len(self._keys)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(BarecatDataset, **self._options), (absolute(self.path),)

    @property
    def reading(self) -> str:
        """How the files of a batch are read, in words."""
        return self.archive.shards.describe()

    @property
    def is_local(self) -> bool:
        """The archive lies on this machine."""
        return self.archive.shards.is_local

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring the files of samples, ahead of their use."""
        if self.is_local:
            return None
        stored = [self._places[field] for field in fields if field in self._places]
        return join_announcements(announce_places(self.archive.shards, places.take(indices)) for places in stored)

    def stored_spans(self, indices: IndexArray, fields: Sequence[str]) -> list[StoredSpans]:
        """What ``announce`` of these samples would bring."""
        if self.is_local:
            return []
        stored = [self._places[field] for field in fields if field in self._places]
        return [spans for places in stored for spans in stored_spans(self.archive.shards, places.take(indices))]

    def close(self) -> None:
        """Let go of the files."""
        self.archive.close()

    # Reading

    def _stored(self, field: str) -> Places:
        try:
            return self._places[field]
        except KeyError:
            if field in self._schema:
                raise ValueError(f"field {field!r} has no stored bytes; it comes from the directories") from None
            raise KeyError(f"no field {field!r} in {self.path}; the fields are {', '.join(self._schema)}") from None

    def place_of(self, index: int, field: str) -> Place | None:
        """Where a file lies, and in which shard; a label is the name of a folder."""
        if field in self._schema and field not in self._places:
            return None
        shard, offset, size, _ = self._stored(field).table[index].tolist()
        return Place(shard_path(self.path, shard), offset, size)

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read whole files, many at once; what has a checksum is checked."""
        return self._read(normalize_indices(indices, len(self)), field)

    def _read(self, indices: IndexArray, field: str) -> list[bytes]:
        places = self._stored(field).take(indices)
        with _Naming(self, indices, field):
            return gather_places(
                self.path, self.archive.shards, places, self._name_of(indices, field), is_checked=self._is_checked
            )

    @property
    def _is_checked(self) -> bool:
        return bool(self._options["checksums"])

    def _name_of(self, indices: IndexArray, field: str) -> Callable[[int], str]:
        return lambda position: self._names[field][int(indices[position])]

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other, copied by one native call for each shard."""
        places = self._stored(field).take(indices)
        with _Naming(self, indices, field):
            return self._gather_ragged(places, self._name_of(indices, field))

    def _gather_ragged(self, places: Places, name_of: Callable[[int], str], from_disk: bool | None = None) -> Ragged:
        shards, is_checked = self.archive.shards, self._is_checked
        return gather_ragged(self.path, shards, places, name_of, is_checked=is_checked, from_disk=from_disk)

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; labels without touching a file."""
        if field == "label" and self._labels is not None:
            return self._labels[indices]
        values = self._values(indices, field)
        return np.stack(values) if isinstance(self._schema[field], NDArray) and values else values

    def _values(self, indices: IndexArray, field: str) -> list[Any]:
        if field == "label" and self._labels is not None:
            labels: list[Any] = self._labels[indices].tolist()
            return labels
        decoded = []
        for i, data in zip(indices.tolist(), self._read(indices, field), strict=True):
            try:
                decoded.append(self._decode(field, data))
            except (ImageError, ValueError, RecursionError) as error:
                name = self._names[field][i]
                raise CorruptSampleError(
                    self.path, sample=i, field=field, problem=f"{name} cannot be decoded ({error})"
                ) from error
        return decoded

    def _decode(self, field: str, data: bytes) -> Any:
        return decode_value(self._schema[field], data)

    def _samples(self, indices: IndexArray) -> list[Sample]:
        names = tuple(self._schema)
        return [Sample(names, row) for row in zip(*(self._values(indices, name) for name in names), strict=True)]

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures: where they are if they lie in memory and in one shard, else together."""
        places = self._stored(field).take(indices)
        name_of = self._name_of(indices, field)
        numbers = distinct(places.shard)
        checksums = None
        with _Naming(self, indices, field):
            from_disk = is_cold(self.archive.shards, places)
            is_known = not self._is_checked or bool((places.crc32c >= 0).all())
            if len(numbers) == 1 and is_known and not from_disk:
                end = int((places.offset + places.size).max())
                shard = self.archive.shards.shard(int(numbers[0]), end)
                check_spans(self.path, shard, places, name_of)
                base, offsets = shard.region(places.offset.astype(np.uint64), places.size.astype(np.uint64))
                shard.check()
                checksums = places.crc32c.astype(np.uint32) if self._is_checked else None
            else:
                ragged = self._gather_ragged(places, name_of, from_disk)
                base, offsets = ragged.values, ragged.offsets[:-1].astype(np.uint64)
        sizes = places.size.astype(np.uint64)
        headers = self._find_headers(field, indices, base, offsets, sizes)
        if headers is None:
            return join_images(self.path, field, indices, self._read(indices, field))
        spans = ImageSpans(base, offsets, sizes, headers[0].astype(np.uint8), headers[1], headers[2], checksums)
        tile_index = self.tile_index
        return spans if tile_index is None else with_tile_index(spans, tile_index, self._numbers(field)[indices])

    def _numbers(self, field: str) -> IndexArray:
        if field not in self._picture_numbers:
            self._picture_numbers[field] = self.pictures.numbers(self._names[field])
        return self._picture_numbers[field]

    @property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs in the archive, by which crops are decoded without the rest, or None."""
        return self.pictures.tile_index

    def index_jpegs(self, progress: Progress | None = None) -> str:
        """Write indices of all JPEGs of the archive beside it; gives the path of the annex."""
        return write_tile_index(self.pictures.facts, self.pictures.stored, progress)

    def _find_headers(
        self,
        field: str,
        indices: IndexArray,
        base: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.uint64],
        sizes: npt.NDArray[np.uint64],
    ) -> npt.NDArray[np.uint32] | None:
        """Modes, widths and heights, remembered from epoch to epoch; None when a picture has to go through Pillow."""
        known = self._headers.setdefault(field, np.zeros((len(self), 3), np.uint32))
        view = memoryview(base)
        for position in np.flatnonzero(known[indices, 1] == 0).tolist():
            start, size = int(offsets[position]), int(sizes[position])
            data = view[start : start + size]
            try:
                found = image_codec.find_native(data)
            except ImageError as error:
                i = int(indices[position])
                problem = f"{self._names[field][i]}: {error}"
                raise CorruptSampleError(self.path, sample=i, field=field, problem=problem) from error
            if found is None:
                return None
            known[indices[position]] = found
        return np.ascontiguousarray(known[indices].T)

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check the index, the shards and every checksum; with ``decode`` also that every value decodes."""
        from headrace.formats.barecat.verify import verify_archive

        places = {name: (i, field) for field, names in self._names.items() for i, name in enumerate(names)}
        check = (lambda name, data: self._decode(places[name][1], data)) if decode else None
        report = verify_archive(
            self.archive, quick=False, workers=workers, progress=progress, sample_of=places.get, decode=check
        )
        if not report.ok:  # what is wrong with the files comes first
            return report
        return with_problems(report, side_problems(self.pictures.facts, self.pictures.stored))


class _Naming:
    """Turns the error about a file into one about a sample."""

    def __init__(self, dataset: BarecatDataset, indices: IndexArray, field: str) -> None:
        self._facts = dataset, indices, field

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CorruptFileError):
            dataset, indices, field = self._facts
            names = dataset._names[field]
            sample = next((int(i) for i in indices if names[int(i)] == error.name), int(indices[0]))
            problem = f"{error.name}: {error.problem}"
            raise CorruptSampleError(
                dataset.path, sample=sample, field=field, problem=problem, fix=error.fix
            ) from error


def index_archive(
    path: PathLike, *, progress: Progress | None = None, follow_links: bool = False, **options: object
) -> str:
    """Give an archive tile indices of its JPEGs, beside it; see ``headrace.index``."""
    refuse_annex_options(path, "barecat", options)
    with BarecatDataset(path, follow_links=follow_links) as dataset:
        return dataset.index_jpegs(progress)


def verify_path(
    path: PathLike, *, decode: bool, workers: int | None, progress: Progress | None, follow_links: bool = False
) -> Report:
    """Check an archive, as a dataset if it is one: an empty or damaged one is none, and is checked all the same."""
    try:
        dataset = BarecatDataset(path, follow_links=follow_links)
    except FormatError:
        with Archive(path, follow_links=follow_links) as archive:
            return archive.verify(workers=workers, progress=progress)
    with contextlib.closing(dataset):
        return dataset.verify(decode=decode, workers=workers, progress=progress)
