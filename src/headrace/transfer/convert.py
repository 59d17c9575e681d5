"""``headrace.convert``: files and samples between formats, tar, zip, folders and streams."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from headrace.formats.disk_files import lies_in
from headrace.formats.file_lists import is_pattern
from headrace.formats.folder import FORMAT as FOLDER
from headrace.formats.folder import NO_PICTURE, FolderDataset
from headrace.formats.open import all_formats, find_format, format_of_name, locate
from headrace.formats.pack import pack
from headrace.formats.report import Transfer
from headrace.formats.sharded_writer import ShardLimits, ShardNames, new_writer
from headrace.progress import ProgressBar
from headrace.storage import summarize_left_out
from headrace.transfer.arrangement import LostFilesError, belongs_to_pictures
from headrace.transfer.containers import (
    KINDS,
    STREAM_KINDS,
    count_entries,
    kind_of,
    open_archive,
    read_entries,
    translate_errors,
)
from headrace.transfer.file_samples import ArchiveContents, FileContents, FileSamples, FolderContents
from headrace.transfer.samples import FilesWriter, SampleOptions, Ways, files_per_sample, open_origin, select
from headrace.transfer.sinks import NoSink, open_sink
from headrace.transfer.tar import TarSink
from headrace.transfer.tar_parts import put_archive, put_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.transfer.entry import Entry
    from headrace.transfer.file_samples import Contents
    from headrace.transfer.samples import SampleOrigin
    from headrace.transfer.sinks import Sink
    from headrace.types import Dataset, Field, Progress, Writer

__all__ = ["convert"]

_log = logging.getLogger("headrace")
_STREAM_ENDINGS = tuple(ending for ending, kind in KINDS.items() if kind in STREAM_KINDS)


def convert(
    source: PathLike | BinaryIO,
    target: PathLike | BinaryIO,
    *,
    source_kind: str | None = None,
    target_kind: str | None = None,
    field: str | Sequence[str] | None = None,
    decode: str | None = None,
    names: bool = True,
    workers: int | None = None,
    shuffle_seed: int | None = None,
    skip_broken: bool = False,
    shard_size: int | None = None,
    exact_times: bool = False,
    max_bytes: int | None = None,
    follow_links: bool = False,
    force: bool = False,
    dry_run: bool = False,
    on_left_out: Callable[[str], None] | None = None,
    progress: Progress | bool = False,
    **options: Any,
) -> Transfer:
    """Write a dataset, archive, tar, zip or folder as another; the target appears when it is complete, or not at all.

    The source comes first, as in ``cp``. Where both sides hold files (.barecat, .tar, .tar.gz, .tar.bz2, .tar.xz,
    .tar.zst, .zip, a folder), all files and directories are carried with modes and times; links inside a tar become
    files, and names that lead out of the target are refused. Where one side holds samples (.beton, .ffr and other
    formats), samples are carried: JPEG pictures and bytes as they are stored, in a tar, zip or folder as one file for
    each field that has bytes. A packed folder whose files are all pictures becomes a dataset with an ``image`` field.
    Files that have the name of a picture, but for what follows the first dot, are fields of its sample: ``7.jpg`` is
    the image, ``7.cls`` the label, ``7.txt`` the text, ``7.json`` the json.

    What cannot be held, or was not asked for, is named before anything is written. Where fields would be lost unasked,
    that is an error.

    Args:
        source: what is read; also a pattern such as ``train-*.beton``, and then the samples of all files are carried.
            A tar may also come from a stream that is open for reading bytes; its links are left out, because a stream
            is read once.
        target: what is made; its ending decides the format. A folder keeps what it has when something goes wrong. A
            tar or zip may also go to a stream, which stays open.
        source_kind: what the source is where no ending says so: ``"tar"``, ``"tar.gz"``, ``"zip"`` and so on.
        target_kind: what the target will be where no ending says so.
        field: only this field of the samples, or these. Needed when the target cannot hold all of them.
        decode: what the samples of an .ffr are, see ``FfrDataset``; by default pictures where all names say so and
            the target says itself what its samples are, and bytes otherwise. Of files, ``"bytes"`` takes all as they
            are.
        names: keep the names of the samples.
        workers: threads that encode samples; by default one for each core.
        shuffle_seed: store the samples in an order shuffled with this seed.
        skip_broken: leave out pictures that cannot be stored; by default they are an error that names all of them.
        shard_size: limit of the shards of a .barecat; or, if the name of the target has a number in it, such as
            ``train-%06d.beton``, bytes of the samples in one of many files.
        exact_times: keep fractions of seconds in a tar, which takes a kilobyte more for each file; by default times are
            in whole seconds, as tar(1) writes them.
        max_bytes: refuse more content of a tar or zip than this; by default 1 GiB, or 200 times its size.
        follow_links: also read shards and an annex of the source that are symbolic links.
        force: replace the target.
        dry_run: write nothing, and say what would be written; sizes of samples are estimated from a few.
        on_left_out: called with a line for each thing, or each kind of thing, that is left out, as soon as it is
            known; by default that goes to the log.
        progress: True for a progress bar, or a function to call with (done, total, size_bytes).
        **options: what the target format's writer takes, such as ``page_size``.

    Returns:
        What was carried: ``samples`` is their number where samples were written, and None where files were;
        ``skipped`` says what was left out, and ``broken`` which pictures cannot be stored.

    Raises:
        BrokenPicturesError: pictures cannot be stored; nothing was written.
        ValueError: fields or files that belong to samples would be lost; ``field`` says which one is wanted.

    Example:
        >>> import os, pathlib, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> _ = pathlib.Path(folder, "in").mkdir(), pathlib.Path(folder, "in", "a.txt").write_text("hello")
        >>> headrace.convert(f"{folder}/in", f"{folder}/x.tar").files
        1
        >>> headrace.convert(f"{folder}/x.tar", f"{folder}/x.beton").samples
        1
        >>> headrace.open(f"{folder}/x.beton")[0]
        Sample(text='hello')
    """
    if shard_size is not None:
        options["shard_size"] = shard_size
    conversion = _Conversion(
        source=os.fspath(source) if isinstance(source, str | os.PathLike) else source,
        target=os.fspath(target) if isinstance(target, str | os.PathLike) else target,
        source_kind=source_kind,
        target_kind=target_kind,
        decode=decode,
        samples=SampleOptions(
            fields=_names_of(field), names=names, workers=workers, shuffle_seed=shuffle_seed, skip_broken=skip_broken
        ),
        exact_times=exact_times,
        max_bytes=max_bytes,
        follow_links=follow_links,
        force=force,
        dry_run=dry_run,
        on_left_out=on_left_out or _log_left_out,
        progress=progress,
        options=options,
    )
    return conversion.run()


def _names_of(field: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if field is None:
        return None
    names = (field,) if isinstance(field, str) else tuple(field)
    if not names:
        raise ValueError("field is an empty list; name a field, or leave it out for all of them")
    return names


def _log_left_out(line: str) -> None:
    _log.warning("left out: %s", line)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Conversion:
    """One call of ``convert``."""

    source: str | BinaryIO
    target: str | BinaryIO
    source_kind: str | None
    target_kind: str | None
    decode: str | None
    samples: SampleOptions
    exact_times: bool
    max_bytes: int | None
    follow_links: bool
    force: bool
    dry_run: bool
    on_left_out: Callable[[str], None]
    progress: Progress | bool
    options: dict[str, Any]
    told: list[int] = dataclass_field(default_factory=lambda: [0])
    """How many lines about what is left out were told."""

    def run(self) -> Transfer:
        """Choose by what the two sides can hold."""
        origin, goal = self._source_format(), self._target_format()
        self._refuse_options(origin, goal)
        gives_files = origin is None or origin.holds_files or os.path.isdir(str(self.source))
        gives_files &= not self._sources
        takes_files = goal is None or goal.holds_files
        if gives_files and takes_files:
            return self._carry_files()
        if goal is None:
            assert origin is not None
            return self._samples_to_files(origin)
        assert isinstance(self.target, str)
        self._check_target(goal, self.target)
        if origin is None:
            return self._files_to_samples(goal, self.target)
        return self._samples_to_samples(origin, goal, self.target)

    @property
    def _sources(self) -> tuple[str, ...]:
        """The files that a pattern stands for; none where the source is one file, a folder or a stream."""
        if not isinstance(self.source, str) or self.source_kind is not None or not is_pattern(self.source):
            return ()
        place = locate(self.source)
        return place.paths if place.is_set and not os.path.isdir(self.source) else ()

    @property
    def _shards(self) -> ShardNames | None:
        """The names of the files that are written, where there are to be several."""
        is_asked = isinstance(self.target, str) and "shard_size" in self.options
        return ShardNames.of(str(self.target)) if is_asked else None

    def _source_format(self) -> Format | None:
        """The format of the source; None for a tar, a zip or a stream."""
        if not isinstance(self.source, str):
            return None
        if self._sources:
            return locate(self.source).format
        named = format_of_name(self.source)
        if not (os.path.exists(self.source) or (named is not None and named.exists(self.source))):
            raise FileNotFoundError(f"{self.source} does not exist")
        is_container = self.source_kind is not None or self.source.lower().endswith(_STREAM_ENDINGS)
        return None if is_container and not os.path.isdir(self.source) else find_format(self.source)

    def _target_format(self) -> Format | None:
        """The format of the target; None for a tar, a zip, a folder or a stream."""
        if not isinstance(self.target, str) or self.target_kind is not None or os.path.isdir(self.target):
            return None
        named = format_of_name(self.target)
        if self.target.lower().endswith(_STREAM_ENDINGS):
            return None  # files, or samples as files
        if named is None or named.create is None:
            samples = [known for known in all_formats() if known.create is not None and not known.holds_files]
            kind_of(self.target, others=[ending for known in samples for ending in known.suffixes])
            return None
        return named

    def _refuse_options(self, origin: Format | None, goal: Format | None) -> None:
        is_set = goal is not None and self._shards is not None
        if "shard_size" in self.options and not is_set and (goal is None or "shard_size" not in goal.writer_options):
            raise ValueError(
                "shard_size= or --shard-size is for what is written to a .barecat, or to many files with a number in "
                "their names, such as train-%06d.beton"
            )
        if self.exact_times and (goal is not None or not self._target_kind().startswith("tar")):
            raise ValueError("exact_times= or --exact-times is for what is written to a tar")
        if self.max_bytes is not None and origin is not None:
            raise ValueError("max_bytes= or --max-size is for what is read from tar and zip")
        is_folder = origin is not None and origin.holds_files and os.path.isdir(str(self.source))
        if self.follow_links and (origin is None or is_folder):
            raise ValueError("follow_links= or --follow-links is for what is read from a .barecat, .beton or .ffr")

    def _check_target(self, goal: Format, path: str) -> None:
        sources = self._sources or ((self.source,) if isinstance(self.source, str) else ())
        is_there = [source for source in sources if os.path.exists(source)] if os.path.exists(path) else []
        if any(os.path.samefile(source, path) for source in is_there):
            raise ValueError(f"{path} is the source itself; name another file")
        if goal.exists(path):
            self._refuse_existing(path)

    def _bar(self, unit: str) -> contextlib.AbstractContextManager[Progress | None]:
        if self.progress is True:
            return ProgressBar("converting", unit=unit)
        return contextlib.nullcontext(self.progress or None)

    def _carry_files(self) -> Transfer:
        """From files to files, one entry after the other."""
        given = {"field": self.samples.fields, "decode": self.decode, "shuffle": self.samples.shuffle_seed}
        given |= {"no-names": None if self.samples.names else True, "workers": self.samples.workers}
        given |= {"skip-broken": self.samples.skip_broken or None}
        given |= {name: value for name, value in self.options.items() if name != "shard_size"}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name.replace('-', '_')}= or --{name} is for samples, and these are files")
        source, target = self.source, self.target
        if isinstance(source, str) and isinstance(target, str) and os.path.isdir(source) and lies_in(target, source):
            raise ValueError(f"{target} lies in {source}, which is read; write it elsewhere")
        result = Transfer()
        kind, follow_links = self.source_kind, self.follow_links
        entries = read_entries(source, result.skipped, kind=kind, max_bytes=self.max_bytes, follow_links=follow_links)
        if self.dry_run:
            self._check_files_target()
        sink: Sink | NoSink = NoSink() if self.dry_run else self._open_sink()
        try:
            with (
                self._bar("files") as bar,
                translate_errors(source),
                count_entries(source, bar, kind=kind, follow_links=follow_links) as report,
            ):
                self._put_all(entries, sink, result, report)
            sink.finish()
        except BaseException as error:
            sink.abort(error)
            raise
        self._tell(result)
        return result

    def _put_all(
        self, entries: Iterator[Entry], sink: Sink | NoSink, result: Transfer, report: Progress | None
    ) -> None:
        if isinstance(sink, TarSink) and isinstance(self.source, str):
            kind = self.source_kind or kind_of(self.source)
            if kind == "folder":
                put_folder(sink, self.source, result, report)
                return
            if kind == "archive":
                with open_archive(self.source, follow_links=self.follow_links) as archive:
                    put_archive(sink, archive, result, report)
                return
        for entry in entries:
            sink.put(entry)
            result.dirs += entry.is_dir
            result.files += not entry.is_dir
            result.size_bytes += entry.size
            if report is not None:
                report(result.files, None, result.size_bytes)

    def _target_kind(self) -> str:
        """What kind of files are written: a tar, a zip or a folder."""
        return self.target_kind or (kind_of(self.target) if isinstance(self.target, str) else "")

    def _check_files_target(self) -> None:
        target = self.target
        if isinstance(target, str) and self._target_kind() != "folder" and os.path.exists(target):
            self._refuse_existing(target)

    def _refuse_existing(self, path: str) -> None:
        if not self.force:
            raise FileExistsError(f"{path} exists; give --force to replace it")

    def _tell(self, result: Transfer, left_out: Sequence[str] = ()) -> None:
        """Say what is left out, with nothing said twice."""
        for line in summarize_left_out(result.skipped[self.told[0] :]):
            self.on_left_out(line)
        for line in left_out:
            self.on_left_out(line)
        result.skipped += left_out
        self.told[0] = len(result.skipped)

    @property
    def _ways(self) -> Ways:
        source, target = (end if isinstance(end, str) else "-" for end in (self.source, self.target))
        return Ways(source, target, self.source_kind)

    def _open_sink(self) -> Sink:
        limit, exact_times = self.options.get("shard_size"), self.exact_times
        return open_sink(
            self.target, kind=self.target_kind, shard_size=limit, exact_times=exact_times, force=self.force
        )

    def _open_origin(self, origin: Format, goal: Format | None) -> Dataset:
        return open_origin(str(self.source), origin, goal, self.decode, follow_links=self.follow_links)

    def _samples_to_files(self, origin: Format) -> Transfer:
        """From a dataset to a tar, zip, folder or stream."""
        result = Transfer()

        def create(fields: dict[str, Field], length: int | None, about: dict[str, Any]) -> Writer[Any]:
            return FilesWriter(self._open_sink, fields, result, length=length, **about, **self.options)

        with self._open_origin(origin, None) as dataset, self._bar("samples") as bar:
            chosen = select(dataset, self.samples, None, self._ways)
            self._tell(result, chosen.left_out)
            if self.dry_run:
                self._check_files_target()
                chosen.estimate(result)
                result.files, result.samples = (result.samples or 0) * files_per_sample(chosen.fields), None
            else:
                chosen.write(create, bar, result)
        return result

    def _files_to_samples(self, goal: Format, path: str) -> Transfer:
        """From a tar, zip or stream to a dataset."""
        if self.decode not in (None, "bytes"):
            raise ValueError(f"decode must be 'bytes' or left out for files, got {self.decode!r}")
        result = Transfer()
        folder = os.path.dirname(os.path.abspath(path)) or tempfile.gettempdir()
        if self.dry_run:
            folder = tempfile.gettempdir()
        with contextlib.ExitStack() as stack, self._bar("samples") as bar:
            contents = FileContents(self.source, kind=self.source_kind, folder=folder, stack=stack)
            contents.load(result, max_bytes=self.max_bytes, progress=bar)
            as_bytes = self.decode == "bytes" or goal.max_fields == 1
            self._write(self._file_samples(contents, as_bytes=as_bytes), goal, path, bar, result)
        return result

    def _file_samples(self, contents: Contents, *, as_bytes: bool = False) -> FileSamples:
        try:
            return FileSamples(contents, as_bytes=as_bytes, only_pictures=self.samples.fields == ("image",))
        except LostFilesError as error:
            ways = self._ways
            raise ValueError(
                f"{contents.path}: {error}; they cannot all be fields. Leave out all but the pictures: "
                f"{ways.with_field('image')}. Or keep all files: {ways.keeping(None)}"
            ) from None

    def _samples_to_samples(self, origin: Format, goal: Format, path: str) -> Transfer:
        """From a dataset, archive or folder to a dataset or archive."""
        result, chosen, source = Transfer(), self.samples, str(self.source)
        is_folder, is_set = origin.holds_files and os.path.isdir(source), bool(self._sources)
        is_plain = chosen.fields is None and self.decode is None and chosen.names and not self.options
        with self._bar("samples") as bar, contextlib.ExitStack() as stack:
            if goal.pack is not None and is_folder and is_plain:
                # All files, as they are.
                result = pack(
                    path,
                    source,
                    shuffle_seed=chosen.shuffle_seed,
                    skip_broken=chosen.skip_broken,
                    dry_run=self.dry_run,
                    force=True,
                    progress=bar or False,
                )
                self._tell(result)
                if not self.dry_run:
                    with goal.open_checked(path) as dataset:
                        result.samples, result.size_bytes = len(dataset), goal.size_bytes(path)
                return result
            if origin.open_archive is not None and self.decode is None and goal.max_fields != 1 and not is_set:
                archive = stack.enter_context(open_archive(source, follow_links=self.follow_links))
                samples: SampleOrigin = self._file_samples(ArchiveContents(archive))
            elif origin is FOLDER and self.decode is None and not is_set:
                samples = self._folder_samples(FolderDataset(source), result)
            else:
                samples = stack.enter_context(self._open_origin(origin, goal))
            self._write(samples, goal, path, bar, result)
        return result

    def _folder_samples(self, dataset: FolderDataset, result: Transfer) -> SampleOrigin:
        """Pictures of a folder, together with files that belong to them if there are any."""
        ending = f": {NO_PICTURE}"
        names = [line.removesuffix(ending) for line in dataset.left_out if line.endswith(ending)]
        if self.samples.fields == ("image",) or not belongs_to_pictures(names, dataset.keys):
            result.skipped += dataset.left_out
            return dataset
        result.skipped += [line for line in dataset.left_out if not line.endswith(ending)]
        return self._file_samples(FolderContents(dataset.path, dataset.keys + names))

    def _write(self, origin: SampleOrigin, goal: Format, path: str, bar: Progress | None, result: Transfer) -> None:
        def create(fields: dict[str, Field], length: int | None, about: dict[str, Any]) -> Writer[Any]:
            options = about | self.options
            limits = None if shards is None else ShardLimits.of(options.pop("shard_size"), None)
            return new_writer(goal, path, fields, length=length, limits=limits, force=self.force, options=options)

        shards = self._shards
        chosen = select(origin, self.samples, goal, self._ways)
        apart = origin.left_out if isinstance(origin, FileSamples) else []
        self._tell(result, [*apart, *chosen.left_out])
        result.fields = {name: kind.kind for name, kind in chosen.fields.items()}
        if self.dry_run:
            chosen.estimate(result)
            return
        result.samples = chosen.write(create, bar, result)
        written = [path] if shards is None else list(takewhile(goal.exists, map(shards.path, count())))
        result.size_bytes = sum(map(goal.size_bytes, written))
