"""Measures a loader for a few seconds, with a consumer that does nothing, and single pictures without a loader."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from headrace._native import ImageLoader
from headrace.arrays import distinct
from headrace.errors import HeadraceError
from headrace.loader.job import BadSamples, Job
from headrace.loader.slots import SlotPool
from headrace.loader.stats import needed_seconds
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.loader.fused import FusedRun
    from headrace.loader.loader import Loader
    from headrace.loader.stats import LoaderStats
    from headrace.types import IndexArray

__all__ = [
    "Measured",
    "Pictures",
    "drop_from_page_cache",
    "measure",
    "native_seconds",
    "sample_pictures",
    "spans_of",
    "within",
]

_PICTURES = 32
_ROUNDS = 5
_WARMING = 0.25  # of the time, not counted
_LEAST_PICTURES, _MOST_PIXELS = 4, 1 << 23  # beyond the first, no more are looked at than have so many pixels
_LONG_S = 0.5  # rounds end, after two of them


@dataclass(frozen=True, slots=True)
class Measured:
    """What a loader did in a while: its stats, and bytes that came from disks.

    ``ready_s`` is how long the threads of the process ran, or could have run if a core had been free.
    """

    stats: LoaderStats
    ready_s: float
    disk_bytes: int

    @property
    def rate(self) -> float:
        """Samples per second."""
        return self.stats.samples / max(self.stats.loop_s, 1e-9)

    @property
    def possible_rate(self) -> float:
        """Samples per second that the slowest part of the work allows, without what a loop costs to begin."""
        return self.stats.samples / max(*needed_seconds(self.stats).values(), 1e-9)

    @property
    def threads_s(self) -> float:
        """Seconds that all threads worked or waited for bytes."""
        return sum(self.stats.stages.values())

    @property
    def waits_for_disk(self) -> bool:
        """The threads spent much of their time asleep in the middle of their work, while bytes came from a disk."""
        is_read = self.disk_bytes > 0.2 * self.stats.bytes_read
        return is_read and self.ready_s < 0.6 * self.threads_s


def measure(loader: Loader, seconds: float) -> Measured:
    """Run a loader, over as many epochs as it takes; a loader without batches is a ValueError."""
    if not len(loader):
        raise ValueError(f"{loader!r} has no batches, so there is nothing to measure; give it a smaller batch_size")
    begun = _Moment.now(loader)
    warm_s = begun.time_s + _WARMING * seconds  # until then memory is touched for the first time
    end_s = begun.time_s + seconds
    is_warm = False
    while (now_s := time.perf_counter()) < end_s:
        for _ in loader:
            now_s = time.perf_counter()
            if now_s >= end_s:
                break
            if not is_warm and now_s >= warm_s:
                begun, is_warm = _Moment.now(loader), True
    return begun.until_now(loader)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What there was to see at a moment."""

    time_s: float
    stats: LoaderStats
    ready_s: float
    disk_bytes: int

    @classmethod
    def now(cls, loader: Loader) -> Self:
        return cls(time.perf_counter(), loader.stats.copy(), _ready_seconds(), _disk_bytes())

    def until_now(self, loader: Loader) -> Measured:
        stats = loader.stats.since(self.stats)
        return Measured(stats, _ready_seconds() - self.ready_s, _disk_bytes() - self.disk_bytes)


def _ready_seconds() -> float:
    """How long the threads of this process have run, and have waited for a core where the system tells."""
    waited_ns = 0
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/self/task/{thread}/schedstat") as file:
            waited_ns += int(file.read().split()[1])
    return time.process_time() + waited_ns * 1e-9


def _disk_bytes() -> int:
    """Bytes that this process has had from disks, not from the page cache."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("read_bytes:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock * 512


def within(stats: LoaderStats, changed: Mapping[str, float]) -> float:
    """How many times as fast the loop would be if parts of the work took so many times as long.

    Args:
        stats: as it was measured.
        changed: of ``"native"``, ``"python"``, ``"read"`` and ``"copy"``, the share of its time that is left.
    """
    needed_s = needed_seconds(stats)
    left_s = [seconds * changed.get(_kind(name), 1.0) for name, seconds in needed_s.items()]
    return max(needed_s.values()) / max(*left_s, 1e-12)


def _kind(name: str) -> str:
    if name in ("check", "decode", "resize", "ops"):
        return "native"
    return "python" if name.startswith("python") or name == "collate" else name


@dataclass(frozen=True, slots=True)
class Pictures:
    """Some pictures of a field, as they are stored, and what is done to them first."""

    field: str
    run: FusedRun
    job: Job
    spans: ImageSpans

    def stored(self) -> list[bytes]:
        """The bytes of each."""
        spans = self.spans
        places = zip(spans.offsets.tolist(), spans.sizes.tolist(), strict=True)
        return [spans.base[start : start + size].tobytes() for start, size in places]


def sample_pictures(loader: Loader) -> list[Pictures]:
    """Pictures from all over a dataset, for each field of pictures that is loaded; damaged ones are left out."""
    found = []
    for plan in loader._plans:
        run = plan.chain.first_run()
        if plan.kind != "image" or run is None:
            continue
        spots = np.linspace(0, loader.samples - 1, min(loader.samples, _PICTURES)).astype(np.int64)
        chosen = distinct(spots)
        samples = chosen if loader._indices is None else loader._indices[chosen]
        whole = [int(sample) for sample in samples if _is_fine(loader, plan.field, run, int(sample))]
        if whole:
            job = _job(loader, np.array(_few(loader, plan.field, whole), np.int64))
            found.append(Pictures(plan.field, run, job, loader.dataset.image_spans(job.indices, plan.field)))
    return found


def _few(loader: Loader, field: str, samples: Sequence[int]) -> list[int]:
    """As many as can be decoded in a moment."""
    few: list[int] = []
    pixels = 0
    for sample in samples:
        spans = loader.dataset.image_spans(np.array([sample], np.int64), field)
        pixels += int(spans.widths[0]) * int(spans.heights[0])
        if len(few) >= _LEAST_PICTURES and pixels > _MOST_PIXELS:
            break
        few.append(sample)
    return few


def _is_fine(loader: Loader, field: str, run: FusedRun, sample: int) -> bool:
    job = _job(loader, np.array([sample], np.int64))
    try:
        run.run(loader.dataset.image_spans(job.indices, field), job)
    except (BadSamples, HeadraceError):
        return False
    return True


def _job(loader: Loader, samples: IndexArray) -> Job:
    options = loader.options
    is_fast = options.precision == "fast"
    native = ImageLoader(1)
    return Job(loader.dataset, samples, options.seed, 0, native, SlotPool(2), jpeg=options.cpu_jpeg, is_fast=is_fast)


def native_seconds(pictures: Pictures, ways: Sequence[tuple[ImageSpans, bool]]) -> list[float]:
    """How long one thread takes for the pictures in several ways, each the best of some rounds by turns.

    Args:
        pictures: what is done.
        ways: the bytes of the pictures, and whether colours are converted the fast way.
    """
    best = [float("inf")] * len(ways)
    begun_s = time.perf_counter()
    for count in range(_ROUNDS):
        if count >= 2 and time.perf_counter() - begun_s > _LONG_S:
            break
        for number, (spans, is_fast) in enumerate(ways):
            job = replace(pictures.job, is_fast=is_fast)
            start_s = time.perf_counter()
            pictures.run.run(spans, job)
            best[number] = min(best[number], time.perf_counter() - start_s)
    return best


def spans_of(files: Sequence[bytes], modes: Sequence[int], sides: Sequence[tuple[int, int]]) -> ImageSpans:
    """Pictures in memory as a dataset would give them; sides are width and height."""
    sizes = np.array([len(file) for file in files], np.uint64)
    offsets = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sizes)[:-1].astype(np.uint64)])
    base = np.frombuffer(b"".join(files), np.uint8)
    widths, heights = np.array(sides, np.uint32).reshape(-1, 2).T
    return ImageSpans(
        base,
        offsets,
        sizes,
        np.array(modes, np.uint8),
        np.ascontiguousarray(widths),
        np.ascontiguousarray(heights),
    )


def drop_from_page_cache(path: str) -> bool:
    """Let the system forget what it has cached of a file; False where it does not."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
