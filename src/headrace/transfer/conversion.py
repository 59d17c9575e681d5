"""One conversion: what the two sides can hold decides the way."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any

from headrace.annex import side_exists
from headrace.formats.disk_files import lies_in
from headrace.formats.file_lists import is_pattern
from headrace.formats.folder import FORMAT as FOLDER
from headrace.formats.folder import NO_PICTURE, FolderDataset
from headrace.formats.local_target import local_target
from headrace.formats.open import all_formats, find_format, format_of_name, locate
from headrace.formats.pack import pack
from headrace.formats.ray_tasks import check_engine, open_tasks
from headrace.formats.report import Transfer
from headrace.formats.sharded_writer import ShardLimits, ShardNames
from headrace.progress import ProgressBar
from headrace.storage import RemotePath, absolute, is_remote, name_part, summarize_left_out
from headrace.transfer.arrangement import LostFilesError, belongs_to_pictures
from headrace.transfer.checked_writer import HiddenTarget
from headrace.transfer.choice import select
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
from headrace.transfer.files_comparison import FileSums
from headrace.transfer.files_writer import FilesWriter, files_per_sample
from headrace.transfer.new_files import NewFiles
from headrace.transfer.samples import SampleOptions, open_origin
from headrace.transfer.sinks import NoSink, open_sink
from headrace.transfer.tar import TarSink
from headrace.transfer.tar_parts import put_archive, put_folder
from headrace.transfer.task_shards import TaskShards
from headrace.transfer.ways import Ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from headrace.formats.contract import Format
    from headrace.formats.open import Place
    from headrace.formats.ray_tasks import EngineName
    from headrace.transfer.entry import Entry
    from headrace.transfer.file_samples import Contents
    from headrace.transfer.samples import SampleOrigin, Selection
    from headrace.transfer.sinks import Sink
    from headrace.types import Dataset, Field, Progress, Writer

__all__ = ["Conversion"]

_STREAM_ENDINGS = tuple(ending for ending, kind in KINDS.items() if kind in STREAM_KINDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """One call of ``convert``."""

    source: str | BinaryIO
    target: str | BinaryIO
    source_kind: str | None
    target_kind: str | None
    decode: str | None
    samples: SampleOptions
    shard_size: int | None
    shard_samples: int | None
    verify: bool
    resume: bool
    exact_times: bool
    max_bytes: int | None
    follow_links: bool
    force: bool
    dry_run: bool
    on_left_out: Callable[[str], None]
    progress: Progress | bool
    options: dict[str, Any]
    located: list[Place] = dataclass_field(default_factory=list)
    """What ``_set`` has found."""
    engine: EngineName = "local"
    address: str | None = None
    told: list[int] = dataclass_field(default_factory=lambda: [0])
    """How many lines about what is left out were told."""

    def run(self) -> Transfer:
        """Choose by what the two sides can hold."""
        if isinstance(self.target, RemotePath):
            self._check_url(self.target)
            if self._shards is None:
                return self._upload(self.target)
        origin, goal = self._source_format(), self._target_format()
        self._refuse_options(origin, goal)
        gives_files = origin is None or origin.holds_files or os.path.isdir(self._path)
        gives_files &= not self._sources
        takes_files = (goal is None or goal.holds_files) and self._shards is None
        if gives_files and takes_files:
            return self._carry_files()
        own = self._own_format
        if self._shards is not None:
            goal = goal or own  # each file of the set says what its samples are
        if goal is None:
            assert origin is not None
            return self._samples_to_files(origin, own)
        assert isinstance(self.target, str)
        self._check_target(goal, self.target)
        if origin is None:
            return self._files_to_samples(goal, self.target)
        return self._samples_to_samples(origin, goal, self.target)

    def _check_url(self, target: RemotePath) -> None:
        if format_of_name(target) is None and self._target_kind() == "folder":
            raise ValueError(f"{target} would be a folder of a store; write one file, such as {target.rstrip('/')}.tar")
        if self.source == target:
            raise ValueError(f"{target} is the source itself; name another file")

    def _upload(self, target: RemotePath) -> Transfer:
        """To a store: made here, then uploaded; a set uploads each of its files itself."""
        with local_target(target, force=self.force, progress=self.progress, is_dry=self.dry_run) as place:
            return replace(self, target=place).run()

    @property
    def _sources(self) -> tuple[str, ...]:
        """The files that a pattern stands for; none where the source is one file, a folder or a stream."""
        place = self._set
        return place.paths if place is not None and place.is_set and not os.path.isdir(self._path) else ()

    @property
    def _set(self) -> Place | None:
        """What a pattern, or a folder of a store, leads to; it is looked up once."""
        if not isinstance(self.source, str) or self.source_kind is not None:
            return None
        if not is_pattern(self.source) and not (is_remote(self.source) and self.source.endswith("/")):
            return None
        if not self.located:
            self.located.append(locate(self.source))
        return self.located[0]

    @property
    def _path(self) -> str:
        """The source where it is a path or a URL; a stream has none."""
        return self.source if isinstance(self.source, str) else ""

    @property
    def _shards(self) -> ShardNames | None:
        """The names of the files that are written, where there are to be several."""
        is_asked = isinstance(self.target, str) and (self.shard_size is not None or self.shard_samples is not None)
        return ShardNames.of(str(self.target)) if is_asked else None

    def _source_format(self) -> Format | None:
        """The format of the source; None for a tar, a zip or a stream."""
        if not isinstance(self.source, str):
            return None
        if self._sources and self._set is not None:
            return self._set.format
        named = format_of_name(self.source)
        is_there = is_remote(self.source) or os.path.exists(self.source)  # opening an object says whether it is there
        if not (is_there or (named is not None and named.exists(self.source))):
            raise FileNotFoundError(f"{self.source} does not exist")
        is_container = self.source_kind is not None or name_part(self.source).lower().endswith(_STREAM_ENDINGS)
        if is_container and not os.path.isdir(self.source):
            return named if self.source_kind is None and self._is_described(named) else None
        return find_format(self.source)

    def _is_described(self, named: Format | None) -> bool:
        """A tar or zip says itself what the fields of its samples are."""
        if named is None or not side_exists(self._path):
            return False
        with named.open_checked(self._path, **named.link_options(self.follow_links)) as dataset:
            return bool(getattr(dataset, "is_described", False))

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

    @property
    def _own_format(self) -> Format | None:
        """The format of a tar or zip that keeps samples as they are, with all their fields; None for other targets."""
        if not isinstance(self.target, str) or self.target_kind is not None or os.path.isdir(self.target):
            return None
        named = format_of_name(self.target)
        return named if named is not None and named.create is not None and named.open_archive is None else None

    def _refuse_options(self, origin: Format | None, goal: Format | None) -> None:
        is_set = (goal or self._own_format) is not None and self._shards is not None
        takes_size = goal is not None and "shard_size" in goal.writer_options
        if self.shard_size is not None and not is_set and not takes_size:
            raise ValueError(
                "shard_size= or --shard-size is for what is written to a .barecat, or to many files with a number in "
                "their names, such as train-%06d.beton"
            )
        if self.shard_samples is not None and not is_set:
            raise ValueError(
                "shard_samples= or --shard-samples is for many files with a number in their names, such as "
                "train-%06d.beton"
            )
        if self.resume and (not is_set or not isinstance(self.source, str) or self.samples.skip_broken):
            raise ValueError(
                "resume= or --resume is for a set of files with a number in their names and a limit, such as "
                "train-%06d.beton with --shard-size; not from a stream, and not with --skip-broken"
            )
        if check_engine(self.engine, self.address) == "ray" and not (is_set and isinstance(self.source, str)):
            raise ValueError(
                "engine='ray' or --engine ray is for a set of files, each of which one task makes: give the target a "
                "number in its name, such as train-%06d.beton, and shard_size or shard_samples; not from a stream"
            )
        if self.verify and (self.samples.skip_broken or not isinstance(self.target, str)):
            raise ValueError("verify= or --verify is for files that can be read again, and not with --skip-broken")
        if self.exact_times and (goal is not None or not self._target_kind().startswith("tar")):
            raise ValueError("exact_times= or --exact-times is for what is written to a tar")
        if self.max_bytes is not None and origin is not None:
            raise ValueError("max_bytes= or --max-size is for what is read from tar and zip")
        is_folder = origin is not None and origin.holds_files and os.path.isdir(self._path)
        if self.follow_links and (origin is None or is_folder):
            raise ValueError("follow_links= or --follow-links is for what is read from a .barecat, .beton or .ffr")

    def _check_target(self, goal: Format, path: str) -> None:
        sources = self._sources or ((self.source,) if isinstance(self.source, str) else ())
        is_there = [source for source in sources if os.path.exists(source)] if os.path.exists(path) else []
        if any(os.path.samefile(source, path) for source in is_there):
            raise ValueError(f"{path} is the source itself; name another file")
        if self._shards is None and goal.exists(path):
            self._refuse_existing(path)

    def _bar(self, unit: str) -> contextlib.AbstractContextManager[Progress | None]:
        if self.progress is True:
            return ProgressBar("converting", unit=unit)
        return contextlib.nullcontext(self.progress or None)

    def _carry_files(self) -> Transfer:
        """From files to files, one entry after the other."""
        given: dict[str, object] = {
            "field": self.samples.fields,
            "decode": self.decode,
            "shuffle": self.samples.shuffle_seed,
        }
        given |= {"no-names": None if self.samples.names else True, "workers": self.samples.workers}
        given |= {"skip-broken": self.samples.skip_broken or None, "map": self.samples.renamed}
        given |= {"limit": self.samples.limit, "image-mode": self.samples.pictures}
        given |= self.options
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
        with self._file_target() as place:
            sink: Sink | NoSink = NoSink() if self.dry_run else self._open_sink(place)
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
            if self.verify and not self.dry_run:
                again = read_entries(source, [], kind=kind, max_bytes=self.max_bytes, follow_links=follow_links)
                self._compare_files(FileSums.of(again), place)
        self._tell(result)
        return result

    @contextlib.contextmanager
    def _file_target(self) -> Iterator[str | BinaryIO]:
        """Where files are written: what is to be read again first gets no name until it was."""
        target = self.target
        if not (self.verify and isinstance(target, str)) or self.dry_run or self._target_kind() == "folder":
            yield target
            return
        self._check_files_target()
        hidden = HiddenTarget(target, force=self.force)
        try:
            yield hidden.path
            hidden.hand_over()
        except BaseException:
            hidden.remove()
            raise

    def _compare_files(self, sums: FileSums, place: str | BinaryIO) -> None:
        assert isinstance(place, str)
        is_hidden = place != self.target
        outcome = "Nothing was put in place." if is_hidden else "What was written is left where it is."
        sums.compare(place, kind=self.target_kind, name=str(self.target), outcome=outcome)

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

    def _open_sink(self, place: str | BinaryIO) -> Sink:
        kind, exact_times = self.target_kind, self.exact_times
        return open_sink(place, kind=kind, shard_size=self.shard_size, exact_times=exact_times, force=self.force)

    def _open_origin(self, origin: Format, goal: Format | None) -> Dataset:
        in_order, follow_links = self.samples.shuffle_seed is None, self.follow_links
        return open_origin(self._path, origin, goal, self.decode, in_order=in_order, follow_links=follow_links)

    def _samples_to_files(self, origin: Format, own: Format | None) -> Transfer:
        """From a dataset to a tar, zip, folder or stream; fields that files have no place for need a format's own."""
        result, sums = Transfer(), FileSums() if self.verify else None

        with self._open_origin(origin, None) as dataset, self._bar("samples") as bar:
            try:
                chosen = select(dataset, self.samples, None, self._ways)
            except ValueError:
                if own is None or not isinstance(self.target, str):
                    raise
                self._check_target(own, self.target)
                self._write(dataset, own, self.target, bar, result)
                return result
            self._tell(result, chosen.left_out)
            if self.dry_run:
                self._check_files_target()
                chosen.estimate(result)
                result.files, result.samples = (result.samples or 0) * files_per_sample(chosen.fields), None
                return result
            with self._file_target() as place:

                def create(fields: dict[str, Field], length: int | None, about: dict[str, Any]) -> Writer[Any]:
                    options = about | self.options
                    return FilesWriter(lambda: self._open_sink(place), fields, result, sums, length=length, **options)

                chosen.write(create, bar, result)
                if sums is not None:
                    self._compare_files(sums, place)
        return result

    def _files_to_samples(self, goal: Format, path: str) -> Transfer:
        """From a tar, zip or stream to a dataset."""
        if self.decode not in (None, "bytes"):
            raise ValueError(f"decode must be 'bytes' or left out for files, got {self.decode!r}")
        result = Transfer()
        with contextlib.ExitStack() as stack, self._bar("samples") as bar:
            self._write(self._unpacked_samples(goal, path, stack, bar, result), goal, path, bar, result)
        return result

    def _unpacked_samples(
        self, goal: Format, path: str, stack: contextlib.ExitStack, bar: Progress | None, result: Transfer
    ) -> SampleOrigin:
        folder = os.path.dirname(os.path.abspath(path)) or tempfile.gettempdir()
        if self.dry_run or is_remote(path):
            folder = tempfile.gettempdir()
        contents = FileContents(self.source, kind=self.source_kind, folder=folder, stack=stack)
        contents.load(result, max_bytes=self.max_bytes, progress=bar)
        as_bytes = self.decode == "bytes" or goal.max_fields == 1
        return self._file_samples(contents, as_bytes=as_bytes)

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
        result, chosen, source = Transfer(), self.samples, self._path
        is_folder = origin.holds_files and os.path.isdir(source)
        is_plain = replace(chosen, shuffle_seed=None, skip_broken=False, workers=None) == SampleOptions()
        is_plain &= self.decode is None and not (self.options or self.verify or self.shard_size or self.shard_samples)
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
            self._write(self._stored_samples(origin, goal, stack, result), goal, path, bar, result)
        return result

    def _stored_samples(
        self, origin: Format, goal: Format, stack: contextlib.ExitStack, result: Transfer
    ) -> SampleOrigin:
        source, is_set = self._path, bool(self._sources)
        if origin.open_archive is not None and self.decode is None and goal.max_fields != 1 and not is_set:
            archive = stack.enter_context(open_archive(source, follow_links=self.follow_links))
            return self._file_samples(ArchiveContents(archive))
        if origin is FOLDER and self.decode is None and not is_set:
            return self._folder_samples(FolderDataset(source), result)
        return stack.enter_context(self._open_origin(origin, goal))

    def open_selection(self, stack: contextlib.ExitStack) -> Selection:
        """What goes into a set of files, opened again: in the process of a task."""
        origin, goal, result = self._source_format(), self._target_format() or self._own_format, Transfer()
        assert goal is not None
        if origin is None:
            samples = self._unpacked_samples(goal, str(self.target), stack, None, result)
        else:
            samples = self._stored_samples(origin, goal, stack, result)
        return select(samples, self.samples, goal, self._ways)

    def _for_tasks(self) -> Conversion:
        """The same for a process elsewhere, which tells nobody and works with one thread."""
        return replace(
            self,
            source=absolute(self._path),
            target=absolute(self.target) if isinstance(self.target, str) else self.target,
            samples=replace(self.samples, workers=1),
            on_left_out=_tell_nobody,
            progress=False,
            told=[0],
        )

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
        chosen = select(origin, self.samples, goal, self._ways)
        apart = origin.left_out if isinstance(origin, FileSamples) else []
        self._tell(result, [*apart, *chosen.left_out])
        result.fields = {name: kind.kind for name, kind in chosen.fields.items()}
        if self.dry_run:
            chosen.estimate(result)
            return
        is_set, options = self._shards is not None, dict(self.options)
        if self.shard_size is not None and not is_set:
            options["shard_size"] = self.shard_size  # its own shards, of one file
        new = NewFiles(
            target=goal,
            path=path,
            limits=ShardLimits.of(self.shard_size, self.shard_samples) if is_set else None,
            force=self.force,
            is_verified=self.verify,
            is_resumed=self.resume,
            options=options,
        )
        if self.engine == "local":
            new.write(chosen, bar, result)
            return
        workers = self.samples.workers
        with open_tasks(address=self.address, workers=workers, needed_by="convert(engine='ray')") as tasks:
            new.write(chosen, bar, result, TaskShards(tasks, self._for_tasks().open_selection))


def _tell_nobody(line: str) -> None:
    """What is left out is told where the work was begun."""
