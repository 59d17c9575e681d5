"""``headrace.write``: samples from anywhere into a file, with any number of workers."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeGuard

import numpy as np

from headrace.errors import FormatError, ImageError, WriteError
from headrace.formats.contract import count_workers, normalize_indices
from headrace.formats.lent_columns import LentColumns
from headrace.formats.local_target import local_target, target_path
from headrace.formats.new_writer import new_writer
from headrace.formats.open import find_format
from headrace.formats.sample_size import size_of
from headrace.formats.sharded_writer import ShardLimits, ShardNames
from headrace.progress import ProgressBar, format_count
from headrace.types import Chunk, Dataset

if TYPE_CHECKING:
    from headrace.errors import PathLike
    from headrace.formats.encode_pool import Encode, Pending
    from headrace.types import Encoder, Field, IndexArray, Indices, Progress, SampleSequence, Writer

__all__ = ["BROKEN", "Block", "BrokenSamples", "WorkerKind", "fill", "write"]

WorkerKind: TypeAlias = Literal["auto", "thread", "process"]

_CHUNK_BYTES = 2 << 20
_MAX_CHUNK_BYTES = 8 << 20  # where samples are larger than those before them
_UNDER_WAY_BYTES = 32 << 20
_MAX_CHUNK_SAMPLES = 1024
_MAX_DRAWN_BYTES = 32 << 20
BROKEN = (ImageError, FormatError, OSError)
"""What encoding a picture raises that cannot be stored."""
_ADVICE = "Try fewer workers, or worker_kind='thread'."


@dataclass(frozen=True, slots=True)
class Block:
    """Samples ``first_index`` and following: as values, or as indices of a dataset still to be fetched."""

    first_index: int
    samples: list[Any] | None
    sources: list[int]

    def without(self, count: int) -> Block:
        """What follows after the first samples."""
        samples = None if self.samples is None else self.samples[count:]
        return Block(self.first_index + count, samples, self.sources[count:])


def write(
    path: PathLike,
    samples: Dataset | SampleSequence | Iterable[Any],
    *,
    fields: Mapping[str, Field] | None = None,
    workers: int | None = None,
    worker_kind: WorkerKind = "auto",
    indices: Indices | None = None,
    shuffle_seed: int | None = None,
    names: Sequence[str] | None = None,
    shard_size: int | str | None = None,
    shard_samples: int | None = None,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | bool = False,
    **options: Any,
) -> None:
    """Write samples into a file; it appears when it is complete, or not at all.

    A file that exists is an error, unless ``force`` is given; then it is replaced at the end, in one step.

    With ``shard_size`` or ``shard_samples`` a set of files is written, each of them whole; they get their names when
    all are complete. ``headrace.open`` reads the set as one dataset, by a pattern such as ``train-*.beton``.

    To a URL (``s3://``, ``gs://``, ``az://``) it is written in the temporary folder (``TMPDIR``) first, then uploaded,
    and compared with what the store has; the same holds there: complete or absent. The files of a set appear in a store
    one after the other; until all are there a note beside them says so, and ``headrace.open`` refuses their pattern.

    Args:
        path: where to, a path or a URL; the ending decides the format. The names of a set have a number in them:
            ``train-%06d.beton``, or ``train-*.beton``, which is the same.
        samples: anything with ``len()`` and ``[i]``, or anything that can be iterated (a length is not needed).
            A sample is a tuple in field order, a mapping, or the bare value when there is one field.
        fields: name to field, in order; may be left out when ``samples`` is a headrace dataset.
        workers: how many samples are fetched and encoded at a time; by default one for each core.
        worker_kind: ``"thread"`` or ``"process"``. By default processes (forked) for a dataset class of your
            own, whose ``__getitem__`` is Python that threads cannot run side by side; threads for everything else.
        indices: which samples, in which order (only with ``[i]``).
        shuffle_seed: shuffle them with this seed (only with ``[i]``).
        names: a name for each sample, in the order of the source.
        shard_size: bytes of the samples in one file of a set, a number or text such as ``"500M"``; a larger sample has
            a file of its own. A .barecat without a number in its name takes it as the limit of its own shards.
        shard_samples: number of samples in one file of a set.
        force: replace a file that exists, as ``--force`` of the command does; of a set, all its files.
        storage_options: how the store of a URL is reached, see ``headrace.open``.
        progress: True for a progress bar, or a function to call with (done, total, size_bytes).
        **options: what the format's writer takes, such as ``page_size``, ``class_names``, ``metadata``.

    Raises:
        FileExistsError: there is something under the path already.
        RemoteError: a store does not answer, or has other bytes than were sent.
        WriteError: a sample could not be fetched or encoded; the original exception is its cause.
        WorkerDiedError: a worker process was killed.

    Example:
        >>> import os, tempfile, numpy as np, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.beton")
        >>> pictures = [(np.full((8, 8, 3), i, np.uint8), i) for i in range(4)]
        >>> headrace.write(path, pictures, fields={"image": headrace.Image(mode="raw"), "label": headrace.Int()})
        >>> headrace.open(path)[2].image[0, 0].tolist()
        [2, 2, 2]
    """
    if fields is None:
        fields = _schema_of(samples)
    if isinstance(samples, Dataset):
        if names is None and options.get("annex", True):
            names = samples.keys
        samples = samples.sources()
        worker_kind = "thread" if worker_kind == "auto" else worker_kind
    target = find_format(path, must_exist=False)
    limits = ShardLimits.of(shard_size, shard_samples)
    if ShardNames.of(path) is None and "shard_size" in target.writer_options and shard_samples is None:
        options |= {} if limits is None else {"shard_size": limits.size_bytes}  # its own shards, of one file
        limits = None
    where = target_path(path, storage_options)
    with local_target(where, force=force, progress=progress, is_set=limits is not None) as place:
        if limits is None:
            target.check_new(place, force=force)
        fill(
            lambda length: new_writer(
                target, place, fields, length=length, limits=limits, force=force, options=options
            ),
            samples,
            label=f"writing {os.path.basename(place)}",
            workers=workers,
            worker_kind=worker_kind,
            indices=indices,
            shuffle_seed=shuffle_seed,
            names=names,
            progress=progress,
        )


def fill(
    create: Callable[[int | None], Writer[Chunk]],
    samples: SampleSequence | Iterable[Any],
    *,
    label: str = "writing",
    workers: int | None = None,
    worker_kind: WorkerKind = "auto",
    indices: Indices | None = None,
    shuffle_seed: int | None = None,
    names: Sequence[str] | None = None,
    broken: BrokenSamples | None = None,
    start: int = 0,
    progress: Progress | bool = False,
) -> int:
    """Write samples with any writer; gives how many.

    Args:
        create: makes the writer, for a number of samples if it is known.
        samples: as for ``write``, as are the other options.
        label: what a progress bar says.
        workers: see ``write``.
        worker_kind: see ``write``.
        indices: see ``write``.
        shuffle_seed: see ``write``.
        names: see ``write``.
        broken: takes the samples that cannot be encoded; by default the first of them ends the writing.
        start: how many samples, in the order of writing, are there already; only with ``[i]``.
        progress: see ``write``.
    """
    supply = _Supply.of(samples, indices, shuffle_seed, names)
    count = count_workers(workers)
    with contextlib.ExitStack() as stack:
        if progress is True:
            progress = stack.enter_context(ProgressBar(label))
        writer = stack.enter_context(create(supply.length))
        kind = _resolve_kind(worker_kind, samples, supply)
        return _run(writer, supply, count, kind, broken, progress or None, start)


def _schema_of(samples: object) -> Mapping[str, Field]:
    schema: Mapping[str, Field] | None = getattr(samples, "schema", None)
    if schema is None:
        raise TypeError("fields is missing: say what the samples hold, for example fields={'label': Int()}")
    return schema


def _resolve_kind(kind: str, samples: object, supply: _Supply) -> Literal["thread", "process"]:
    if kind not in ("auto", "thread", "process"):
        raise ValueError(f"worker_kind must be 'auto', 'thread' or 'process', got {kind!r}")
    if kind == "process" and supply.dataset is None:
        raise ValueError("worker_kind='process' needs samples with len() and [i]; an iterable is drawn by one thread")
    if kind != "auto":
        return "process" if kind == "process" else "thread"
    is_in_memory = isinstance(samples, Sequence | np.ndarray)
    return "thread" if supply.dataset is None or is_in_memory else "process"


@dataclass(frozen=True, slots=True)
class _Supply:
    """What is written: samples by number and an order, or an iterator."""

    dataset: SampleSequence | None
    order: IndexArray | None
    iterator: Iterator[Any] | None
    names: Sequence[str] | None
    length: int | None

    @classmethod
    def of(
        cls,
        samples: SampleSequence | Iterable[Any],
        indices: Indices | None,
        shuffle_seed: int | None,
        names: Sequence[str] | None,
    ) -> _Supply:
        if _is_indexable(samples):
            order = np.arange(len(samples)) if indices is None else normalize_indices(indices, len(samples))
            if shuffle_seed is not None:
                order = np.random.default_rng(shuffle_seed).permutation(order)
            if names is not None and len(names) != len(samples):
                raise ValueError(
                    f"names has {format_count(len(names), 'entry')}, there are {format_count(len(samples), 'sample')}"
                )
            return cls(samples, order, None, names, len(order))
        if not isinstance(samples, Iterable):
            raise TypeError(f"samples must be indexable or iterable, got {type(samples).__name__}")
        if indices is not None or shuffle_seed is not None:
            raise TypeError("indices and shuffle_seed need samples with len() and [i]; this is only iterable")
        return cls(None, None, iter(samples), names, None)

    def take(self, first: int, count: int) -> Block | None:
        """The next ``count`` samples from position ``first`` on."""
        if self.order is not None:
            sources = self.order[first : first + count].tolist()
            return Block(first, None, sources) if sources else None
        samples: list[Any] = []
        try:
            size_bytes = 0
            for sample in islice(self.iterator or (), count):
                samples.append(sample)  # what was drawn before a failure counts
                size_bytes += size_of(sample)
                if size_bytes >= _MAX_DRAWN_BYTES:
                    break
        except Exception as error:
            index = first + len(samples)
            problem = f"sample {index}: the iterator failed: {type(error).__name__}: {error}"
            raise WriteError(problem, sample=index) from error
        if self.names is not None and samples and first + len(samples) > len(self.names):
            raise ValueError(f"names has {format_count(len(self.names), 'entry')}, and there are more samples")
        return Block(first, samples, list(range(first, first + len(samples)))) if samples else None

    def names_of(self, sources: list[int]) -> list[str] | None:
        """Names of samples, by their numbers in the source."""
        return None if self.names is None else [self.names[i] for i in sources]


def _is_indexable(samples: SampleSequence | Iterable[Any]) -> TypeGuard[SampleSequence]:
    return hasattr(samples, "__getitem__") and hasattr(samples, "__len__") and not isinstance(samples, Mapping)


@dataclass(frozen=True, slots=True)
class _Salvage(Generic[Chunk]):
    """Encodes samples together, or each alone where one of them cannot be encoded; that one is an error then."""

    encoder: Encoder[Chunk]

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> list[Chunk | WriteError]:
        kept = samples if isinstance(samples, LentColumns) else list(samples)
        try:
            return [self.encoder(kept, first_index=first_index)]
        except WriteError as error:
            if not isinstance(error.__cause__, BROKEN):
                raise
            return [self._alone(sample, index) for index, sample in enumerate(kept, first_index)]

    def _alone(self, sample: Any, index: int) -> Chunk | WriteError:
        try:
            return self.encoder([sample], first_index=index)
        except WriteError as error:
            return error


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of the first ``samples`` samples of a block."""

    samples: int
    encoded: Any


@dataclass(frozen=True, slots=True)
class _Bounded:
    """Encodes as many of the samples that it is given as may lie in memory together, and at least one."""

    encode: Encode[Any]

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> _Outcome:
        if isinstance(samples, LentColumns):
            return _Outcome(len(samples), self.encode(samples, first_index=first_index))
        taken = [0]
        encoded = self.encode(_first_of(samples, taken), first_index=first_index)
        return _Outcome(taken[0], encoded)


def _first_of(samples: Iterable[Any], taken: list[int]) -> Iterator[Any]:
    size_bytes = 0
    for sample in samples:
        taken[0] += 1
        yield sample
        size_bytes += size_of(sample)
        if size_bytes >= _MAX_CHUNK_BYTES:
            return


@dataclass(frozen=True, slots=True)
class BrokenSamples:
    """Samples that cannot be encoded, by their numbers in the source.

    With ``is_skipped`` they are left out. Otherwise nothing is written, but all samples are tried: so one attempt tells
    of all that are broken.
    """

    is_skipped: bool
    found: dict[int, WriteError] = field(default_factory=dict)


def _run(
    writer: Writer[Chunk],
    supply: _Supply,
    workers: int,
    kind: Literal["thread", "process"],
    broken: BrokenSamples | None,
    progress: Progress | None,
    start: int,
) -> int:
    from headrace.formats import encode_pool as pools  # loads the machinery of threads and processes

    encode: Any = writer.encoder if broken is None else _Salvage(writer.encoder)
    work: pools.Work[_Outcome] = pools.Work(
        _Bounded(encode), supply.dataset, takes_lent=getattr(writer.encoder, "takes_lent", False)
    )
    # One sample at first, alone: it tells how large they are.
    position, done, count, usual_bytes = start, start, 1, _UNDER_WAY_BYTES
    most = 1 if workers <= 1 else 2 * workers  # one worker: what was read is written while it is still in the cache
    with pools.open_pool(workers, kind, work, advice=_ADVICE) as submit:
        under_way: deque[tuple[Block, Pending[_Outcome]]] = deque()
        is_exhausted = False
        while under_way or not is_exhausted:
            while not is_exhausted and len(under_way) < most:
                if under_way and usual_bytes * (position - done + count) > _UNDER_WAY_BYTES:
                    break
                block = supply.take(position, count)
                is_exhausted = block is None
                if block is not None:
                    position += len(block.sources)
                    under_way.append((block, submit(block)))
            if under_way:
                block, pending = under_way.popleft()
                outcome = pending.result()
                if outcome.samples < len(block.sources):
                    rest = block.without(outcome.samples)
                    under_way.appendleft((rest, submit(rest)))
                sources = block.sources[: outcome.samples]
                done += len(sources)
                for numbers, chunk in _parts(outcome.encoded, sources, broken):
                    writer.append_chunk(chunk, names=supply.names_of(numbers))
                    usual_bytes = max(1, int(chunk.sizes.sum()) // len(chunk))
                    # Not more than twice as many as before: a slow source is to be seen advancing.
                    count = max(1, min(2 * count, _MAX_CHUNK_SAMPLES, _CHUNK_BYTES // usual_bytes))
                if progress is not None:
                    progress(done, supply.length, writer.size_bytes)
    if supply.iterator is not None and supply.names is not None and position != len(supply.names):
        raise ValueError(
            f"names has {format_count(len(supply.names), 'entry')}, there are {format_count(position, 'sample')}"
        )
    if broken is not None and broken.found:
        if not broken.is_skipped or len(broken.found) == position:
            raise next(iter(broken.found.values()))
        return position - len(broken.found)
    return position


def _parts(encoded: Any, sources: list[int], broken: BrokenSamples | None) -> Iterator[tuple[list[int], Any]]:
    """Chunks that are to be written, each with the numbers of its samples in the source."""
    if broken is None:
        yield sources, encoded
        return
    groups = [sources] if len(encoded) == 1 else [[source] for source in sources]
    for group, chunk in zip(groups, encoded, strict=True):
        if isinstance(chunk, WriteError):
            broken.found[group[0]] = chunk
        elif broken.is_skipped or not broken.found:
            yield group, chunk
