"""Samples of a dataset on their way into a file of another format."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from headrace._native import crc32c
from headrace.codecs import jpeg
from headrace.codecs.image import SUFFIXES
from headrace.errors import BrokenPicturesError, WriteError
from headrace.fields import Image
from headrace.formats.contract import can_lend, fetch_many, values_in_order
from headrace.formats.lent_columns import LentColumns, gives_columns
from headrace.formats.open import open_dataset
from headrace.formats.pack import broken_lines
from headrace.formats.write import BROKEN, BrokenSamples, fill
from headrace.storage import is_remote, release_mapped, stored_size
from headrace.types import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.formats.contract import Format
    from headrace.formats.report import Transfer
    from headrace.types import Dataset, Encoded, Field, IndexArray, Progress, SampleSequence, Writer

__all__ = ["PictureChange", "SampleOptions", "SampleOrigin", "Selection", "open_origin"]

_CACHE_BYTES = 32 << 20
_BEHIND_BYTES = 16 << 20  # after which the memory of mapped files is given back
_TRIED = 64  # samples that an estimate is made from


class SampleOrigin(Protocol):
    """What samples come from: a dataset, or the files of a tar or zip."""

    @property
    def path(self) -> str:
        """Where it was opened."""
        ...

    @property
    def schema(self) -> Mapping[str, Field]:
        """The fields by name, in order."""
        ...

    @property
    def keys(self) -> Sequence[str] | None:
        """Names of the samples, or None."""
        ...

    @property
    def class_names(self) -> Mapping[str, Sequence[str]]:
        """Names of the classes by field."""
        ...

    def sources(self) -> SampleSequence:
        """The samples as a writer takes them."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureChange:
    """How pictures are to be stored, where they are not to stay as they are; see ``Image``."""

    mode: Literal["jpg", "raw", "smart", "proportion"] | None = None
    quality: int | None = None
    max_side: int | None = None
    smart_threshold: int | None = None

    def of(self, field: Image) -> Image:
        """The field with what is asked for."""
        given: dict[str, Any] = {"mode": self.mode, "quality": self.quality, "max_side": self.max_side}
        given["smart_threshold"] = self.smart_threshold
        return replace(field, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleOptions:
    """Which samples are written, and how; see ``headrace.convert``."""

    fields: tuple[str, ...] | None = None
    renamed: Mapping[str, str] | None = None
    pictures: PictureChange | None = None
    names: bool = True
    workers: int | None = None
    shuffle_seed: int | None = None
    limit: int | None = None
    skip_broken: bool = False


def open_origin(
    path: str,
    source: Format,
    target: Format | None,
    decode: str | None,
    *,
    in_order: bool = False,
    follow_links: bool = False,
) -> Dataset:
    """Open a dataset so that its samples are what the target can hold best.

    Args:
        path: of the dataset, or a pattern of paths.
        source: its format.
        target: the format that is written; None for files.
        decode: what the samples are, for formats that do not say so themselves.
        in_order: samples are read one after the other, so that nothing needs to be kept for later.
        follow_links: also read shards and an annex that are symbolic links.
    """
    options: dict[str, Any] = source.link_options(follow_links)
    if in_order and source.has_cache:
        options["kept_bytes"] = _CACHE_BYTES
    if decode is not None:
        if not source.decodes:
            raise ValueError(f"decode is for formats such as .ffr; {path} says itself what its samples are")
        return open_dataset(path, format=source.name, decode=decode, **options)
    if target is None:
        return open_dataset(path, format=source.name, **options)
    if source.holds_files and target.max_fields == 1 and "bytes" in source.decodes:
        return open_dataset(path, format=source.name, decode="bytes", **options)  # every file, as it is
    dataset = open_dataset(path, format=source.name, **options)
    is_bytes = [field.kind for field in dataset.schema.values()] == ["bytes"]
    if is_bytes and "image" in source.decodes and not target.decodes and dataset.keys:
        is_pictures = all(os.path.splitext(key)[1].lower() in SUFFIXES for key in dataset.keys)
        return open_dataset(path, format=source.name, decode="image", **options) if is_pictures else dataset
    return dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What of an origin goes into a target: fields, what the writer is told about them, and what is left out.

    ``columns`` has the name that each chosen field has in the origin, by its name in the target.
    """

    origin: SampleOrigin
    options: SampleOptions
    fields: dict[str, Field]
    columns: dict[str, str]
    about: dict[str, Any]
    left_out: list[str]
    has_names: bool

    @property
    def samples(self) -> SampleSequence:
        """All samples with the fields that were chosen."""
        schema = list(self.origin.schema)
        positions = [schema.index(name) for name in self.columns.values()]
        asks_jpeg = self.options.pictures is not None and self.options.pictures.mode == "jpg"
        recoded = {place: kind for place, kind in enumerate(self.fields.values()) if isinstance(kind, Image)}
        return _Chosen(self.origin.sources(), schema, positions, recoded if asks_jpeg else {})

    @property
    def order(self) -> IndexArray:
        """The numbers of the samples that are written, in the order of writing."""
        order = np.arange(len(self.origin.sources()), dtype=np.int64)
        if self.options.shuffle_seed is not None:
            order = np.random.default_rng(self.options.shuffle_seed).permutation(order)
        return order[: self.options.limit]

    @property
    def fingerprint(self) -> int:
        """A number that changes when the origin is another one."""
        found: int | None = getattr(self.origin, "fingerprint", None)
        if found is not None:
            return found
        path, names = self.origin.path, list(self.origin.keys or ())
        time_ns = 0 if is_remote(path) else os.stat(path).st_mtime_ns
        return crc32c(repr((stored_size(path), time_ns, names)).encode())

    @property
    def names(self) -> Sequence[str] | None:
        """Names of all samples, if they are kept."""
        return self.origin.keys if self.has_names else None

    def write(
        self,
        create: Callable[[dict[str, Field], int | None, dict[str, Any]], Writer[Any]],
        progress: Progress | None,
        result: Transfer,
        *,
        start: int = 0,
        stop: int | None = None,
    ) -> int:
        """Write them with what ``create`` makes of fields, a number of samples and facts; gives how many.

        Pictures that cannot be stored are noted in the result if they may be left out. The first ``start`` samples are
        taken as written; with ``stop`` there are no more than so many.

        Raises:
            BrokenPicturesError: there are some, and they may not; all of them are named.
        """
        samples = self.samples
        broken = BrokenSamples(is_skipped=self.options.skip_broken)
        try:
            count = fill(
                lambda length: create(self.fields, length, self.about),
                samples,
                workers=self.options.workers,
                worker_kind="thread",
                indices=self.order[:stop],
                names=self.names,
                broken=broken,
                start=start,
                progress=_Releasing(progress),
            )
        except WriteError as error:
            if not broken.found:
                raise
            path, lines = self.origin.path, self._broken_lines(broken.found)
            raise BrokenPicturesError(path, broken=lines, total=len(samples)) from error.__cause__
        result.broken = self._broken_lines(broken.found)
        return count

    def _broken_lines(self, found: Mapping[int, WriteError]) -> list[str]:
        return broken_lines(self.origin.path, self.origin.keys, found)

    def estimate(self, result: Transfer) -> None:
        """Count them, and guess their size from a few that are spread over all."""
        samples, order, size_bytes = self.samples, self.order, 0
        tried = order[:: max(1, len(order) // _TRIED)].tolist()
        broken: dict[int, WriteError] = {}
        for number in tried:
            try:
                for field, value in zip(self.fields.values(), samples[number], strict=True):
                    size_bytes += len(_encode(field, value, number).payload or b"")
            except WriteError as error:
                if not isinstance(error.__cause__, BROKEN):
                    raise
                broken[number] = error
        result.samples, result.broken = len(order), self._broken_lines(broken)
        result.size_bytes = size_bytes * len(order) // max(1, len(tried) - len(broken))


@dataclass(slots=True)
class _Releasing:
    """Progress that gives back the memory of mapped files now and then: they are read once, from front to back."""

    progress: Progress | None
    released: int = 0

    def __call__(self, done: int, total: int | None, size_bytes: int) -> None:
        if size_bytes - self.released >= _BEHIND_BYTES:
            self.released = size_bytes
            release_mapped()
        if self.progress is not None:
            self.progress(done, total, size_bytes)


def _encode(field: Field, value: Any, number: int) -> Encoded:
    try:
        return field.encode(value, number)
    except Exception as error:
        raise WriteError(f"sample {number}: {type(error).__name__}: {error}", sample=number) from error


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Samples without names: values of the chosen fields, pictures of other kinds as JPEG where that is asked for."""

    samples: SampleSequence
    schema: list[str]
    positions: list[int]
    recoded: dict[int, Image]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._values(self.samples[index], index)

    def __getitems__(self, indices: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Many of them, by one call where that is possible."""
        return map(self._values, fetch_many(self.samples, indices), indices)

    def lend(self, indices: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """The same, with bytes in memory that is lent, where that is possible."""
        if self.recoded or not can_lend(self.samples):
            return self.__getitems__(indices)
        return map(self._values, self.samples.lend(indices), indices)

    def lend_columns(self, indices: Sequence[int]) -> LentColumns | None:
        """The same, as columns, where that is possible."""
        lent = self.samples.lend_columns(indices) if gives_columns(self.samples) and not self.recoded else None
        return None if lent is None else LentColumns(lent.memory, [lent.columns[i] for i in self.positions])

    def _values(self, sample: Any, index: int) -> tuple[Any, ...]:
        is_in_order = isinstance(sample, tuple | Sample) and len(sample) == len(self.schema)
        values = tuple(sample if is_in_order else values_in_order(sample, self.schema, index))
        is_whole = self.positions == list(range(len(values)))
        chosen = values if is_whole else tuple(values[position] for position in self.positions)
        if not self.recoded:
            return chosen
        fields = self.recoded
        return tuple(_as_jpeg(fields[i], value) if i in fields else value for i, value in enumerate(chosen))


def _as_jpeg(field: Image, value: Any) -> Any:
    """The file of a picture that is no JPEG as one; what is not a file will be encoded anyway."""
    return field.encode(value, 0).payload if isinstance(value, bytes) and not jpeg.is_jpeg(value) else value
