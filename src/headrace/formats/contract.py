"""What all formats share: how a format presents itself, and the common half of datasets and writers."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard, overload

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.codecs import image as image_codec
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError, FormatError, ImageError, WriteError
from headrace.fields import NDArray, problem_with_name
from headrace.formats.sample_tiles import dataset_html, show_samples
from headrace.formats.samples_ahead import samples_ahead
from headrace.progress import format_count
from headrace.storage import is_remote, stored_exists, stored_size
from headrace.types import Dataset, ImageSpans, Ragged, Writer, missing_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.barecat.archive import Archive
    from headrace.formats.gallery import Gallery
    from headrace.formats.report import Transfer
    from headrace.types import (
        Announcement,
        Field,
        IndexArray,
        Indices,
        LendingSamples,
        Place,
        Progress,
        RepairReport,
        Report,
        Sample,
        SampleBlocks,
        SampleSequence,
        Source,
        Summary,
        TakeArray,
    )

__all__ = [
    "MAX_WORKERS",
    "BaseDataset",
    "BaseWriter",
    "Format",
    "byte_chunks",
    "can_fetch_many",
    "can_lend",
    "check_contract",
    "check_field_names",
    "count_workers",
    "fetch_many",
    "index_chunks",
    "normalize_indices",
    "values_in_order",
]


MAX_WORKERS = 1024
"""More threads or processes than any machine makes use of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """How a format is found and used, and what it can hold; one object per format, named in the entry points.

    The verbs know no format by name: whatever differs between formats is asked of this object. Only the first four
    are needed; a format that says no more is still packed, converted, listed, extracted, checked and loaded.

    Args:
        name: what users call it.
        suffixes: endings of file names, in lower case.
        matches: looks at a path and its first bytes (empty for a directory) when the suffix says nothing.
        open: opens a path as a Dataset.
        create: makes a Writer for a path, fields and ``length=``, or None for formats that are only read.
        writer_options: names of what else ``create`` takes; ``class_names``, ``metadata``, ``annex`` and
            ``jpeg_index`` mean the same in every format.
        max_fields: how many fields a sample can have, or None for any number.
        field_kinds: what kinds of fields it can hold (``Field.kind``), or None for all.
        check_fields: raises ValueError when fields cannot be held for other reasons, such as their names; what else
            its writer refuses, it refuses before anything is written.
        holds_names: the names of samples are kept.
        holds_raw_pictures: a picture may be stored as pixels, without the header of an image file.
        holds_picture_files: a picture may be a file of any kind, such as a PNG, which is kept as it is.
        decodes: what the reader's option ``decode`` may be, for formats whose samples are bytes that do not say
            themselves what they are.
        has_files_beside: parts of it lie beside the path, such as shards or an annex, and may be links: ``open``,
            ``open_archive``, ``summarize``, ``verify`` and ``index`` take ``follow_links``. For all other formats
            that option changes nothing, and they need not know it.
        has_cache: ``open`` takes ``kept_bytes``, bytes of unpacked values that are kept for later.
        reads_stores: ``open`` takes URLs of object stores; other formats are not asked, and an error says what to do.
        takes_lists: ``open`` takes a list of files, too, as one dataset; lists of other formats are opened one by one
            and put one after the other.
        holds_files: it holds files of any kind under paths, with their directories, modes and times.
        pack: packs all files of ``folder=`` into ``path=`` as they are, for formats that can, and may give a Transfer
            that says what was done; None for those into which a folder of pictures goes through ``create``.
        pack_options: names of what else ``pack`` takes; ``dry_run`` means to write nothing and say what would be
            written.
        open_archive: opens a path as an archive that can be listed and changed, for formats of many files.
        new_archive: makes an archive that gets its name at the end of the block.
        exists: tells whether there is a dataset under a path, for formats whose files have other names.
        size_bytes: how much a path holds.
        summarize: what ``headrace info`` says; by default fields, counts and sizes.
        verify: checks a path, for formats of which more can be checked than what opens as a Dataset.
        index: gives a path an annex, see ``headrace.index``; None for formats that have none.
        index_has_checksums: such an annex has checksums of all values; False where it has other things alone.
        repair: puts a path in order that a killed writer has left, see ``headrace.repair``; by default, hidden files
            that nobody needs any more are removed.
    """

    name: str
    suffixes: tuple[str, ...]
    matches: Callable[[str, bytes], bool]
    open: Callable[..., Dataset]
    create: Callable[..., Writer[Any]] | None = None
    writer_options: frozenset[str] = frozenset()
    max_fields: int | None = None
    field_kinds: frozenset[str] | None = None
    check_fields: Callable[[Mapping[str, Field]], object] | None = None
    holds_names: bool = True
    holds_raw_pictures: bool = True
    holds_picture_files: bool = True
    decodes: tuple[str, ...] = ()
    has_files_beside: bool = False
    has_cache: bool = False
    reads_stores: bool = False
    takes_lists: bool = False
    holds_files: bool = False
    pack: Callable[..., Transfer | None] | None = None
    pack_options: frozenset[str] = frozenset()
    open_archive: Callable[..., Archive] | None = None
    new_archive: Callable[..., AbstractContextManager[Archive]] | None = None
    exists: Callable[[str], bool] = stored_exists
    size_bytes: Callable[[str], int] = stored_size
    summarize: Callable[..., Summary] | None = None
    verify: Callable[..., Report] | None = None
    index: Callable[..., str] | None = None
    index_has_checksums: bool = True
    repair: Callable[[PathLike], RepairReport] | None = None

    def open_checked(self, path: PathLike | Sequence[PathLike], **options: Any) -> Dataset:
        """Open a path; TypeError when what comes is not a whole Dataset, FormatError for a field with a bad name."""
        if not self.has_files_beside:
            options.pop("follow_links", None)
        self.check_reads(path)
        dataset = self.open(path, **options)
        check_contract(dataset, Dataset, f"what the format {self.name!r} opens", BaseDataset)
        check_field_names(dataset.path, dataset.schema)
        return dataset

    def check_reads(self, path: PathLike | Sequence[PathLike]) -> None:
        """FormatError for a URL of a store that this format cannot read from."""
        paths = [path] if isinstance(path, str | os.PathLike) else path
        remote = None if self.reads_stores else next((one for one in paths if is_remote(one)), None)
        if remote is not None:
            raise FormatError(
                remote,
                problem=f"the format {self.name} cannot be read from a store",
                fix="Copy it to this machine, or convert it into one that can, such as .beton, .tar or .parquet.",
            )

    def link_options(self, follow_links: bool) -> dict[str, bool]:
        """``follow_links`` for a function of this format; nothing if no files lie beside: it changes nothing then."""
        return {"follow_links": True} if follow_links and self.has_files_beside else {}

    def check_new(self, path: PathLike, *, force: bool) -> None:
        """FileExistsError when there is something under a path already, and it is not to be replaced."""
        if not force and self.exists(os.fspath(path)):
            raise FileExistsError(f"{os.fspath(path)} exists; give force=True to replace it")

    def create_checked(
        self, path: PathLike, fields: Mapping[str, Field], *, length: int | None = None, **options: Any
    ) -> Writer[Any]:
        """Make a writer; ValueError when the format is only read, TypeError for options that it does not take."""
        if self.create is None:
            raise ValueError(f"{os.fspath(path)}: this format cannot be written")
        if unknown := sorted(set(options) - self.writer_options):
            known = ", ".join(sorted(self.writer_options)) or "no options"
            raise TypeError(f"{os.fspath(path)}: a {self.name} does not take {', '.join(unknown)}; it takes {known}")
        for name in fields:
            if problem := problem_with_name(name):
                raise ValueError(f"{os.fspath(path)}: no field can be called that: {problem}")
        writer = self.create(path, fields, length=length, **options)
        check_contract(writer, Writer, f"what the format {self.name!r} creates", BaseWriter)
        return writer


def check_field_names(path: PathLike, names: Iterable[str]) -> None:
    """Raise FormatError for a name that no field may have: files are named after fields when they are extracted."""
    for name in names:
        if problem := problem_with_name(name):
            raise FormatError(path, problem=f"no field can be called that: {problem}", fix="The file may be hostile.")


def check_contract(value: object, contract: type, what: str, base: type) -> None:
    """Raise TypeError that names all that a value lacks."""
    if missing := missing_members(value, contract):
        raise TypeError(
            f"{what} ({type(value).__name__}) is not a whole {contract.__name__}: it lacks {', '.join(missing)}. "
            f"Let it inherit from headrace.formats.contract.{base.__name__}, and write the rest."
        )


def normalize_indices(indices: Indices, length: int) -> IndexArray:
    """Turn indices into an array in range(length); negative ones count from the end.

    Example:
        >>> normalize_indices([3, -1], 5).tolist()
        [3, 4]
    """
    array = np.asarray(indices)
    if array.ndim != 1:
        raise TypeError(f"indices must be one-dimensional, got shape {array.shape}")
    if array.dtype == np.bool_:
        if len(array) != length:
            raise IndexError(f"a mask must have {format_count(length, 'entry')}, got {len(array):,}")
        return np.flatnonzero(array)
    if len(array) == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, got {array.dtype}")
    low, high = int(array.min()), int(array.max())
    if low < -length or high >= length:
        raise _out_of_range(low if low < -length else high, length)
    wide: npt.NDArray[np.int64] = array.astype(np.int64)
    return np.where(wide < 0, wide + length, wide) if low < 0 else wide


def count_workers(workers: int | None) -> int:
    """How many threads or processes to start: as many as asked for, by default one for each core.

    Example:
        >>> count_workers(3)
        3
    """
    if workers is None:
        return len(os.sched_getaffinity(0))
    if isinstance(workers, bool) or not hasattr(workers, "__index__"):
        raise TypeError(f"workers must be a whole number, got {workers!r}")
    if workers < 0:
        raise ValueError(f"workers must not be negative, got {workers}")
    if workers > MAX_WORKERS:
        raise ValueError(f"workers must be at most {MAX_WORKERS}, got {workers}")
    return int(workers)


def index_chunks(length: int, size: int) -> Iterator[IndexArray]:
    """All indices below a length in order, up to ``size`` at a time.

    Example:
        >>> [chunk.tolist() for chunk in index_chunks(5, 2)]
        [[0, 1], [2, 3], [4]]
    """
    for start in range(0, length, size):
        yield np.arange(start, min(start + size, length), dtype=np.int64)


def byte_chunks(sizes: npt.NDArray[np.uint64], *, size_bytes: int, most: int) -> Iterator[IndexArray]:
    """All indices in order, at a time as many as have together ``size_bytes``, from one up to ``most``.

    Example:
        >>> [chunk.tolist() for chunk in byte_chunks(np.array([2, 2, 9, 1], np.uint64), size_bytes=4, most=8)]
        [[0, 1], [2], [3]]
    """
    ends, start = np.cumsum(np.minimum(sizes, np.uint64(size_bytes))), 0  # sizes of a hostile file do not overflow
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + size_bytes, "right"))
        end = max(start + 1, min(end, start + most))
        yield np.arange(start, end, dtype=np.int64)
        start = end


def _out_of_range(index: int, length: int) -> IndexError:
    return IndexError(f"sample {index} is out of range, the dataset has {format_count(length, 'sample')}")


class BaseWriter(ABC):
    """The context half of a Writer: what was written is finished, or thrown away when something went wrong."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file and give it its name."""

    @abstractmethod
    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class BaseDataset(ABC):
    """The sequence half of a Dataset: subclasses say how many samples there are and decode lists of them."""

    holds_picture_files = False
    """What is stored of a picture is always a whole file, of whatever kind."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where it was opened."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None when they have none."""
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _samples(self, indices: IndexArray) -> list[Sample]:
        """Decode samples; the indices are checked and not negative."""

    @property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field, empty when there are none."""
        return {}

    @property
    def folders(self) -> Sequence[str]:
        """Folders that are part of it, empty ones too, for formats that keep them."""
        return ()

    def sources(self) -> SampleSequence:
        """The samples as a writer takes them: pictures as they are stored, so that none is encoded twice."""
        return _StoredSamples(self)

    def rows(self, indices: IndexArray) -> list[dict[str, object]]:
        """What a listing says about each sample, by field: numbers and texts, and the sides of pictures."""
        return [{name: _brief(value) for name, value in dict(sample).items()} for sample in self._samples(indices)]

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the dataset is another one; a loader's state is tied to it."""
        return crc32c(repr((len(self), list(self.schema.items()))).encode())

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded values of one field; an array where they have one dtype and shape.

        Args:
            indices: the samples.
            field: which field.
            source: where the file's bytes are, for formats with pages; by default the mapped file.
        """
        values = [sample[field] for sample in self._samples(indices)]
        kind = self.schema[field]
        if isinstance(kind, NDArray):
            return np.array(values, kind.dtype).reshape(-1, *kind.shape)
        dtype = {"int": np.int64, "float": np.float64}.get(kind.kind)
        return values if dtype is None else np.array(values, dtype)

    def read_arrays(
        self, indices: IndexArray, field: str, take: TakeArray, source: Source | None = None
    ) -> npt.NDArray[Any]:
        """Values of an array field as one array.

        Args:
            indices: the samples.
            field: which field.
            take: makes an array of a shape and dtype, for formats that can fill one; its memory may be used again.
            source: see read_values.
        """
        return np.asarray(self.read_values(indices, field, source))

    def read_ragged(self, indices: IndexArray, field: str, source: Source | None = None) -> Ragged:
        """Stored bytes of one field, one value after the other."""
        parts = self.read_bytes(indices, field)
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return Ragged(np.frombuffer(bytearray(b"".join(parts)), np.uint8), offsets)

    def image_spans(self, indices: IndexArray, field: str, source: Source | None = None) -> ImageSpans:
        """The undecoded bytes of pictures, checked for place and size but not decoded."""
        return join_images(self.path, field, indices, self.read_bytes(indices, field))

    def page_numbers(self) -> IndexArray | None:
        """Number of the page each sample lies on, or None when the format has no pages."""
        return None

    @property
    def page_size(self) -> int | None:
        """Bytes of a page, or None when the format has no pages."""
        return None

    @property
    def reading(self) -> str:
        """How its bytes are read where no pages are read ahead of use, in words."""
        return "from the mapped file"

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine."""
        return True

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """Begin to bring what these samples need, ahead of their use; None where there is nothing to bring.

        Args:
            indices: the samples.
            fields: those of their fields that will be read.
        """
        return None

    def _announce_values(self, indices: IndexArray, fields: Sequence[str]) -> Announcement | None:
        """As ``announce``, without what only a loader needs: tile indices."""
        return self.announce(indices, fields)

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked against a checksum."""
        return False

    @property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, by which crops are decoded without the rest of their pictures, or None."""
        return None

    @property
    def jpegs_indexed(self) -> int:
        """JPEGs that have a tile index, by which crops are decoded without the rest of their pictures."""
        return 0 if self.tile_index is None else self.tile_index.count

    def check_file(self) -> None:
        """Raise FormatError when the file was cut short while it was read, so that what came out means nothing."""

    def with_checksums(self, is_checked: bool) -> Dataset:
        """The same dataset, its values checked as they are read, or not; where there are no checksums, itself."""
        return self

    def for_epoch(self, epoch: int) -> Dataset:
        """The dataset as a loader reads it in an epoch: itself, unless its samples are others in every epoch."""
        return self

    def origin_of(self, index: int) -> tuple[str, int]:
        """The path that a sample comes from, and its number there, for datasets that are made of others."""
        return self.path, index

    def place_of(self, index: int, field: str) -> Place | None:
        """Where the stored bytes of a value lie, or None where they are not in one piece, or not known."""
        return None

    @abstractmethod
    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read the stored, undecoded bytes of one field of many samples."""

    @abstractmethod
    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check the structure and every checksum; with ``decode`` also that every value decodes."""

    @overload
    def __getitem__(self, key: int | str) -> Sample: ...
    @overload
    def __getitem__(self, key: slice | Indices) -> list[Sample]: ...
    def __getitem__(self, key: int | str | slice | Indices) -> Sample | list[Sample]:
        length = len(self)
        if isinstance(key, slice):
            return self._brought_samples(np.arange(*key.indices(length), dtype=np.int64))
        if hasattr(key, "__index__") and np.ndim(key) == 0:
            index = key.__index__()
            if not -length <= index < length:
                raise _out_of_range(index, length)
            return self._brought_samples(np.array([index % length], np.int64))[0]
        if isinstance(key, str):
            return self._brought_samples(np.array([self._position_of(key)], np.int64))[0]
        many: Any = key
        return self._brought_samples(normalize_indices(many, length))

    def _brought_samples(self, indices: IndexArray) -> list[Sample]:
        """Samples; all that must be fetched for them is fetched at the same time."""
        announced = None if self.is_local else self._announce_values(indices, tuple(self.schema))
        try:
            return self._samples(indices)
        finally:
            if announced is not None:
                announced.close()

    def _position_of(self, name: str) -> int:
        keys = self.keys
        with contextlib.suppress(ValueError):
            if keys is not None:
                return keys.index(name)
        if name in self.schema:
            problem = f"{name!r} is a field, and a dataset is a row of samples; write dataset[0][{name!r}]"
        elif keys is None:
            problem = f"the samples have no names, only numbers up to {len(self) - 1}"
        else:
            problem = f"no sample is called {name!r}; dataset.keys has all names, and samples have numbers, too"
        raise KeyError(f"{self.path}: {problem}")

    def __iter__(self) -> Iterator[Sample]:
        if not self.is_local:
            yield from samples_ahead(self)
            return
        for i in range(len(self)):
            yield self[i]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {field.kind}" for name, field in self.schema.items())
        return f"<{type(self).__name__} {self.path!r}: {format_count(len(self), 'sample')} ({fields})>"

    def show(
        self, samples: int | str | slice | Indices | None = None, *, count: int = 12, side: int = 128
    ) -> Gallery | None:
        """Look at samples: a notebook draws what this gives, anywhere else they are printed.

        Args:
            samples: which ones, as ``dataset[...]`` takes them; by default some from all over the dataset.
            count: how many at most.
            side: the longest side of a picture in a notebook, in pixels.
        """
        chosen = None if samples is None else self._positions_of(samples)
        return show_samples(self, chosen, count=count, side=side)

    def _positions_of(self, samples: int | str | slice | Indices) -> Sequence[int]:
        if isinstance(samples, slice):
            return range(len(self))[samples]
        if isinstance(samples, str):
            return [self._position_of(samples)]
        chosen: Any = [samples] if np.ndim(samples) == 0 else samples
        found: list[int] = normalize_indices(chosen, len(self)).tolist()
        return found

    def _repr_html_(self) -> str:
        return dataset_html(self)


@dataclass(frozen=True, slots=True)
class _StoredSamples:
    """Samples with pictures as the bytes of their files where these are stored, everything else decoded."""

    dataset: BaseDataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        (sample,) = self.__getitems__([index])
        return sample

    def __getitems__(self, indices: Sequence[int]) -> Iterator[Any]:
        """Many of them; each field is read by one call."""
        dataset, where = self.dataset, normalize_indices(indices, len(self))
        if all(field.kind != "image" for field in dataset.schema.values()):
            yield from dataset._samples(where)
            return
        columns = {
            name: dataset.read_bytes(where, name) if field.kind == "image" else dataset.read_values(where, name)
            for name, field in dataset.schema.items()
        }
        for position, index in enumerate(where.tolist()):
            yield tuple(self._value(index, name, column[position]) for name, column in columns.items())

    def _value(self, index: int, name: str, value: Any) -> Any:
        is_whole = self.dataset.schema[name].kind != "image" or self.dataset.holds_picture_files
        if is_whole or jpeg.is_jpeg(value):
            return value
        return self.dataset.read_values(np.array([index], np.int64), name)[0]


def fetch_many(samples: SampleSequence, indices: Sequence[int]) -> Iterable[Any]:
    """Many samples, by one call where that is possible."""
    return samples.__getitems__(indices) if can_fetch_many(samples) else map(samples.__getitem__, indices)


def can_fetch_many(samples: object) -> TypeGuard[SampleBlocks]:
    """Samples have ``__getitems__`` (a check of the whole protocol would take longer than a fetch)."""
    return hasattr(samples, "__getitems__")


def can_lend(samples: object) -> TypeGuard[LendingSamples]:
    """Samples have ``lend``."""
    return hasattr(samples, "lend")


def _brief(value: object) -> object:
    return "x".join(map(str, value.shape[:2][::-1])) if isinstance(value, np.ndarray) else value


def values_in_order(sample: Any, names: list[str], index: int) -> Sequence[Any]:
    """The values of a sample, given as a tuple, a mapping or the bare value of a single field."""
    if isinstance(sample, dict) or (hasattr(sample, "keys") and hasattr(sample, "__getitem__")):
        if set(sample.keys()) != set(names):
            raise WriteError(
                f"sample {index} has the fields {sorted(map(str, sample.keys()))}, expected {names}", sample=index
            )
        return [sample[name] for name in names]
    if isinstance(sample, tuple) or (isinstance(sample, list) and len(names) > 1):
        if len(sample) != len(names):
            raise WriteError(
                f"sample {index} has {format_count(len(sample), 'value')}, expected {len(names)} ({', '.join(names)})",
                sample=index,
            )
        return sample
    if len(names) == 1:
        return [sample]
    raise WriteError(
        f"sample {index} is a {type(sample).__name__}; expected a tuple or dict of {', '.join(names)}",
        sample=index,
    )


def join_images(path: str, field: str, indices: IndexArray, files: list[bytes]) -> ImageSpans:
    """Put image files into one region; what the native core does not decode becomes raw pixels first."""
    facts = np.zeros((len(files), 3), np.uint32)
    parts: list[bytes] = []
    for position, (i, data) in enumerate(zip(indices.tolist(), files, strict=True)):
        try:
            mode, width, height, payload = _as_image(data)
        except ImageError as error:
            raise CorruptSampleError(path, sample=i, field=field, problem=str(error)) from error
        facts[position] = mode, width, height
        parts.append(payload)
    sizes = np.fromiter(map(len, parts), np.uint64, len(parts))
    offsets = np.zeros(len(parts), np.uint64)
    np.cumsum(sizes[:-1], out=offsets[1:])
    base = np.frombuffer(b"".join(parts), np.uint8)
    return ImageSpans(base, offsets, sizes, facts[:, 0].astype(np.uint8), facts[:, 1].copy(), facts[:, 2].copy())


def _as_image(data: bytes) -> tuple[int, int, int, bytes]:
    found = image_codec.find_native(data)
    if found is not None:
        return *found, data
    pixels = image_codec.decode(data)
    return 1, pixels.shape[1], pixels.shape[0], pixels.tobytes()
