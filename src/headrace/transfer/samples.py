"""Samples of a dataset into a file of another format, or as files into a tar, zip or folder."""

from __future__ import annotations

import io
import os
import shlex
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from headrace.codecs.image import SUFFIXES
from headrace.errors import BrokenPicturesError, WriteError
from headrace.fields import Image
from headrace.formats.metadata import Metadata
from headrace.formats.open import all_formats, open_dataset
from headrace.formats.pack import broken_lines
from headrace.formats.sample_files import SampleFiles, SampleFilesWriter
from headrace.formats.write import BROKEN, BrokenSamples, fill
from headrace.progress import format_count
from headrace.transfer.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from headrace.formats.contract import Format
    from headrace.formats.report import Transfer
    from headrace.transfer.sinks import Sink
    from headrace.types import Dataset, Encoded, Field, Progress, SampleSequence, Writer

__all__ = [
    "FilesWriter",
    "SampleOptions",
    "SampleOrigin",
    "Selection",
    "Ways",
    "files_per_sample",
    "open_origin",
    "select",
]

_FILE_FACTS = ("class_names",)  # what files can say: names of directories
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
class SampleOptions:
    """Which samples are written, and how; see ``headrace.convert``."""

    fields: tuple[str, ...] | None = None
    names: bool = True
    workers: int | None = None
    shuffle_seed: int | None = None
    skip_broken: bool = False


def open_origin(
    path: str, source: Format, target: Format | None, decode: str | None, *, follow_links: bool = False
) -> Dataset:
    """Open a dataset so that its samples are what the target can hold best.

    Args:
        path: of the dataset, or a pattern of paths.
        source: its format.
        target: the format that is written; None for files.
        decode: what the samples are, for formats that do not say so themselves.
        follow_links: also read shards and an annex that are symbolic links.
    """
    options: dict[str, Any] = source.link_options(follow_links)
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
    """What of an origin goes into a target: fields, what the writer is told about them, and what is left out."""

    origin: SampleOrigin
    options: SampleOptions
    fields: dict[str, Field]
    about: dict[str, Any]
    left_out: list[str]

    @property
    def samples(self) -> SampleSequence:
        """The samples with the fields that were chosen."""
        schema = list(self.origin.schema)
        positions = None if len(self.fields) == len(schema) else [schema.index(name) for name in self.fields]
        return _Chosen(self.origin.sources(), positions)

    def write(
        self,
        create: Callable[[dict[str, Field], int | None, dict[str, Any]], Writer[Any]],
        progress: Progress | None,
        result: Transfer,
    ) -> int:
        """Write them with what ``create`` makes of fields, a number of samples and facts; gives how many.

        Pictures that cannot be stored are noted in the result if they may be left out.

        Raises:
            BrokenPicturesError: there are some, and they may not; all of them are named.
        """
        options, keys, samples = self.options, self.origin.keys, self.samples
        broken = BrokenSamples(is_skipped=options.skip_broken)
        try:
            count = fill(
                lambda length: create(self.fields, length, self.about),
                samples,
                workers=options.workers,
                worker_kind="thread",
                shuffle_seed=options.shuffle_seed,
                names=list(keys) if options.names and keys is not None else None,
                broken=broken,
                progress=progress or False,
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
        samples, size_bytes = self.samples, 0
        tried = range(0, len(samples), max(1, len(samples) // _TRIED))
        broken: dict[int, WriteError] = {}
        for number in tried:
            try:
                for field, value in zip(self.fields.values(), samples[number], strict=True):
                    size_bytes += len(_encode(field, value, number).payload or b"")
            except WriteError as error:
                if not isinstance(error.__cause__, BROKEN):
                    raise
                broken[number] = error
        result.samples, result.broken = len(samples), self._broken_lines(broken)
        result.size_bytes = size_bytes * len(samples) // max(1, len(tried) - len(broken))


def _encode(field: Field, value: Any, number: int) -> Encoded:
    try:
        return field.encode(value, number)
    except Exception as error:
        raise WriteError(f"sample {number}: {type(error).__name__}: {error}", sample=number) from error


def files_per_sample(fields: Mapping[str, Field]) -> int:
    """How many files a sample becomes; ValueError where a field cannot become one."""
    return len(SampleFiles(fields, length=None, class_names=None).encoder.endings)


def select(origin: SampleOrigin, options: SampleOptions, target: Format | None, ways: Ways) -> Selection:
    """Choose what goes into a target.

    Args:
        origin: where samples come from.
        options: which samples, and how.
        target: the format that is written; None for files.
        ways: commands that an error may name.

    Raises:
        ValueError: the target cannot hold all fields, and the options do not say which.
    """
    schema, wanted = dict(origin.schema), options.fields
    for name in wanted or ():
        if name not in schema:
            raise KeyError(f"no field {name!r} in {origin.path}; the fields are {', '.join(schema)}")
    chosen = {name: kind for name, kind in schema.items() if wanted is None or name in wanted}
    if target is not None and target.max_fields is not None and len(chosen) > target.max_fields:
        most = "one field" if target.max_fields == 1 else format_count(target.max_fields, "field")
        raise ValueError(
            f"{ways.target} can hold {most}, and {origin.path} has {', '.join(chosen)}. Leave the others out: "
            f"{ways.with_field(next(iter(chosen)))}. Or keep all of them: {ways.keeping(len(chosen))}"
        )
    count = len(origin.sources())
    left_out = [
        f"field {name} ({format_count(count, 'value')}): only {', '.join(chosen)} was asked for"
        for name in schema
        if name not in chosen
    ]
    about: dict[str, Any] = {}
    facts = {"class_names": {name: names for name, names in origin.class_names.items() if name in chosen}}
    facts["metadata"] = getattr(origin, "metadata", None) or {}
    for name, value in facts.items():
        if not value:
            continue
        if name in (_FILE_FACTS if target is None else target.writer_options):
            about[name] = value
        else:
            left_out.append(f"{name.replace('_', ' ')} ({', '.join(value)}): {ways.target} has no place for it")
    if options.names is False and origin.keys is not None:
        left_out.append(f"names of {format_count(count, 'sample')}: they were not asked for")
    if target is not None and not target.holds_raw_pictures:
        chosen = {name: replace(kind, mode="jpg") if isinstance(kind, Image) else kind for name, kind in chosen.items()}
    return Selection(origin=origin, options=options, fields=chosen, about=about, left_out=left_out)


@dataclass(frozen=True, slots=True)
class Ways:
    """Commands that go on where a conversion would lose something.

    Example:
        >>> Ways("my x.beton", "y.ffr").keeping(2)
        "headrace convert 'my x.beton' y.beton"
    """

    source: str
    target: str
    source_kind: str | None = None

    def with_field(self, name: str) -> str:
        """The same with one field."""
        return f"{self._command(self.target)} --field {shlex.quote(name)}"

    def keeping(self, fields: int | None) -> str:
        """Into a file of a format that holds so many fields, or any files."""
        wants_archive = fields is None  # one that keeps whatever files there are, and can be changed
        best_first = sorted(
            all_formats(),
            key=lambda known: (wants_archive and known.open_archive is None, "jpeg_index" not in known.writer_options),
        )
        for known in best_first:
            is_enough = fields is None or known.max_fields is None or known.max_fields >= fields
            if known.create is not None and is_enough and known.holds_files == (fields is None):
                stem, ending = os.path.splitext(self.target)[0], known.suffixes[0]
                return self._command(f"{stem}-all{ending}" if stem + ending == self.source else stem + ending)
        return f"{self._command('DST')} into a format that holds them"

    def _command(self, target: str) -> str:
        kind = f" --from {self.source_kind}" if self.source_kind else ""
        return f"headrace convert {shlex.quote(self.source)} {shlex.quote(target)}{kind}"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Samples without names; with positions only these values of each."""

    samples: SampleSequence
    positions: list[int] | None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        sample = self.samples[index]
        return sample if self.positions is None else tuple(sample[position] for position in self.positions)


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
