"""Samples of a dataset into a file of another format, or as files into a tar, zip or folder."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from headrace.codecs.image import SUFFIXES
from headrace.fields import Image
from headrace.formats.barecat.index.rows import Metadata
from headrace.formats.sample_files import SampleFilesWriter
from headrace.formats.write import fill
from headrace.transfer.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from headrace.formats.contract import Format
    from headrace.formats.report import Transfer
    from headrace.transfer.sinks import Sink
    from headrace.types import Dataset, Field, Progress, SampleSequence, Writer

__all__ = ["FilesWriter", "SampleOptions", "SampleOrigin", "open_origin", "write_samples"]


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
class SampleOptions:
    """Which samples are written, and how; see ``headrace.convert``."""

    field: str | None = None
    names: bool = True
    workers: int | None = None
    shuffle_seed: int | None = None


def open_origin(
    path: str, source: Format, target: Format | None, decode: str | None, *, follow_links: bool = False
) -> Dataset:
    """Open a dataset so that its samples are what the target can hold best.

    Args:
        path: of the dataset.
        source: its format.
        target: the format that is written; None for files.
        decode: what the samples are, for formats that do not say so themselves.
        follow_links: also read shards and an annex that are symbolic links.
    """
    options = source.link_options(follow_links)
    if decode is not None:
        if not source.decodes:
            raise ValueError(f"decode is for formats such as .ffr; {path} says itself what its samples are")
        return source.open_checked(path, decode=decode, **options)
    if target is None:
        return source.open_checked(path, **options)
    if source.holds_files and target.max_fields == 1 and "bytes" in source.decodes:
        return source.open_checked(path, decode="bytes", **options)  # every file, as it is
    dataset = source.open_checked(path, **options)
    if "image" in source.decodes and not target.decodes and dataset.keys:
        is_pictures = all(os.path.splitext(key)[1].lower() in SUFFIXES for key in dataset.keys)
        return source.open_checked(path, decode="image", **options) if is_pictures else dataset
    return dataset


def write_samples(
    origin: SampleOrigin,
    target: Format | None,
    name: str,
    create: Callable[[dict[str, Field], int | None, dict[str, Any]], Writer[Any]],
    options: SampleOptions,
    progress: Progress | None,
) -> int:
    """Write samples of one origin; gives how many.

    Args:
        origin: where they come from.
        target: the format that is written; None for files.
        name: of what is written, for errors.
        create: makes the writer from fields, the number of samples and names of classes.
        options: which samples, and how.
        progress: called as the work advances.
    """
    fields = _choose_fields(origin, options.field, target, name)
    position = None if len(fields) == len(origin.schema) else list(origin.schema).index(next(iter(fields)))
    classes = {field: names for field, names in origin.class_names.items() if field in fields}
    takes_classes = target is None or "class_names" in target.writer_options
    about: dict[str, Any] = {"class_names": classes} if classes and takes_classes else {}
    return fill(
        lambda length: create(fields, length, about),
        _Chosen(origin.sources(), position),
        workers=options.workers,
        worker_kind="thread",
        shuffle_seed=options.shuffle_seed,
        names=list(origin.keys) if options.names and origin.keys is not None else None,
        progress=progress or False,
    )


def _choose_fields(origin: SampleOrigin, field: str | None, target: Format | None, name: str) -> dict[str, Field]:
    schema = dict(origin.schema)
    if field is not None and field not in schema:
        raise KeyError(f"no field {field!r} in {origin.path}; the fields are {', '.join(schema)}")
    chosen = schema if field is None else {field: schema[field]}
    if target is None:
        return chosen
    if target.max_fields is not None and len(chosen) > target.max_fields:
        most = "one field" if target.max_fields == 1 else f"{target.max_fields} fields"
        raise ValueError(f"{name} can hold {most}; say which by field (--field): one of {', '.join(chosen)}")
    if target.holds_raw_pictures:
        return chosen
    return {name: replace(kind, mode="jpg") if isinstance(kind, Image) else kind for name, kind in chosen.items()}


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Samples without names; with a position only one value of each."""

    samples: SampleSequence
    position: int | None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        sample = self.samples[index]
        return sample if self.position is None else (sample[self.position],)


class FilesWriter(SampleFilesWriter):
    """Writes samples as files into a tar, zip or folder, with the names and endings that an archive would give them.

    Args:
        open_sink: makes what takes the files.
        fields: fields that have bytes, and at most one number: an Int field called ``label``.
        result: counts what was written.
        length: number of samples, if known.
        class_names: ``{"label": [...]}``, names of the directories.
    """

    def __init__(
        self,
        open_sink: Callable[[], Sink],
        fields: Mapping[str, Field],
        result: Transfer,
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(fields, length=length, class_names=class_names)
        self._result = result
        self._names: dict[str, bool] = {}  # of what was written; True for directories
        self._sink = open_sink()

    def _put(self, path: str, data: bytes) -> None:
        self._make_dirs(path)
        if path in self._names:
            raise ValueError(f"two samples would both become {path}; leave the names out (names=False, --no-names)")
        self._names[path] = False
        self._sink.put(Entry(path, False, len(data), Metadata(), partial(io.BytesIO, data)))
        self._result.files += 1
        self._result.size_bytes += len(data)

    def _make_dirs(self, path: str) -> None:
        cut = path.find("/")
        while cut >= 0:
            directory = path[:cut]
            if directory not in self._names:
                self._names[directory] = True
                self._sink.put(Entry(directory, True, 0, Metadata()))
                self._result.dirs += 1
            elif not self._names[directory]:
                raise ValueError(f"{directory} would be a file, and a directory for {path}")
            cut = path.find("/", cut + 1)

    def _finish(self) -> None:
        self._sink.finish()

    def abort(self, error: BaseException | None = None) -> None:
        """Throw away what was written; a folder keeps what it has."""
        self._sink.abort(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(error)
