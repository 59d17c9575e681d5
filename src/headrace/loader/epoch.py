"""The batches of one epoch: which samples, what happens to them, what happens when one is damaged."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import LoadCounts
from headrace.counter_random import random_bits
from headrace.errors import CorruptSampleError
from headrace.loader.job import BadSamples, Job, counts_by_name
from headrace.loader.stages import BatchClock
from headrace.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from headrace.loader.options import ErrorPolicy
    from headrace.loader.plan import FieldPlan
    from headrace.loader.stats import LoaderStats
    from headrace.loader.trace import Trace
    from headrace.order import BatchPlan, Order
    from headrace.types import IndexArray, Interleaving, Output, Source

__all__ = ["Epoch", "SampleErrors"]

_TRIES = 100
_WARNINGS = {
    "tile_index": "{where}: the index of the JPEG is not used ({problem}), and the picture is decoded without it, as "
    "others like it will be. Make a new one with: headrace index --embed",
    "damage": "{where}: the JPEG is damaged ({problem}), but libjpeg-turbo decoded it; others like it are not told of. "
    "Look at the file with: headrace verify",
}
_SUBSTITUTE = 0x6E01  # what the random words begin with, so that they never meet those of the ops


@dataclass(slots=True)
class SampleErrors:
    """The damaged samples that were met, and what to do about them; shared by the loader's threads."""

    policy: ErrorPolicy
    errors: list[CorruptSampleError] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of_other_samples(self) -> SampleErrors:
        """The same list and policy for an epoch in which the samples' numbers mean others."""
        return SampleErrors(self.policy, self.errors, lock=self.lock)

    def note(self, error: CorruptSampleError) -> None:
        """Take notice of a damaged sample; raises when the policy says so."""
        if self.policy == "raise" or error.sample is None:
            raise error
        with self.lock:
            if error.sample in self.bad:
                return
            if callable(self.policy):
                self.policy(error)
            self.bad.add(error.sample)
            self.errors.append(error)


@dataclass(frozen=True, slots=True)
class Epoch:
    """Makes the batches of one epoch."""

    order: Order
    batches: BatchPlan
    plans: tuple[FieldPlan, ...]
    job: Job  # of no samples; every batch gets its own
    problems: SampleErrors
    stats: LoaderStats
    output: Output | None
    source_of: Callable[[int], AbstractContextManager[Source | None]]
    interleaving: Interleaving | None = None
    trace: Trace | None = None

    def begin(self, step: int, most: int | None = None) -> Any:
        """Read and decode; for several steps at a time. With ``most`` no more than so many samples of the batch."""
        clock, start_s = BatchClock(self.trace, step), time.perf_counter()
        with self.source_of(step) as source:
            clock.add("read", start_s)
            return self._begin_samples(self.batches.batch(self.order, step)[:most], source, clock)

    def begin_together(self, steps: range) -> list[Any]:
        """Read and decode several batches as one, and part them: what ``begin`` gives for each of the steps.

        For outputs that do not depend on the batch that a sample is in, as far as they are made here, and where bytes
        come without a Source.
        """
        wanted = [self.batches.batch(self.order, step) for step in steps]
        clock, start_s = BatchClock(self.trace, steps[0]), time.perf_counter()
        with contextlib.ExitStack() as stack:
            for step in steps:
                stack.enter_context(self.source_of(step))
            clock.add("read", start_s)
            job, parts = self._begin_samples(np.concatenate(wanted), None, clock)
        bounds = np.cumsum([0, *map(len, wanted)]).tolist()
        begun = []
        for step, (first, last) in zip(steps, itertools.pairwise(bounds), strict=True):
            own = replace(job, indices=job.indices[first:last], clock=BatchClock(self.trace, step))
            begun.append(
                (own, [plan.part(value, first, last, job) for plan, value in zip(self.plans, parts, strict=True)])
            )
        return begun

    def _begin_samples(self, wanted: IndexArray, source: Source | None, clock: BatchClock) -> tuple[Job, list[Any]]:
        start_s = time.perf_counter()
        begun = None
        while begun is None:
            fresh: dict[str, Any] = {"jpeg_counts": LoadCounts(), "jpeg_notes": [], "clock": clock}
            job = replace(self.job, indices=self._spared(wanted), source=source, **fresh)
            begun = self._begin(job)
        skipped = 0 if job.indices is wanted else int((job.indices != wanted).sum())
        self._count(job, skipped, time.perf_counter() - start_s)
        return (job if source is None else replace(job, source=None)), begun

    def _count(self, job: Job, skipped: int, begin_s: float) -> None:
        """Count what was begun, and warn once of each kind of trouble with JPEGs."""
        with self.problems.lock:
            self.stats.samples_skipped += skipped
            self.stats.begin_s += begin_s
            self.stats.add(job.clock)
            for name, count in counts_by_name(job.jpeg_counts).items():
                self.stats.jpegs[name] += count
            first = {note.kind: note for note in reversed(job.jpeg_notes) if note.kind not in self.stats.warned}
            self.stats.warned |= first.keys()
        for kind, note in first.items():
            where = f"{job.dataset.path}, sample {note.sample}, field {note.field!r}"
            warnings.warn(_WARNINGS[kind].format(where=where, problem=note.problem), RuntimeWarning, stacklevel=2)

    def _begin(self, job: Job) -> list[Any] | None:
        """One attempt; None when damaged samples were found, and noted."""
        try:
            return [plan.begin(job) for plan in self.plans]
        except BadSamples as found:
            errors = found.errors
        except CorruptSampleError as error:
            errors = [error]
        finally:
            job.dataset.check_file()
        if not job.dataset.is_local:
            self._distrust(job, errors)
        for damaged in errors:
            self.problems.note(damaged)
        return None

    def _distrust(self, job: Job, errors: list[CorruptSampleError]) -> None:
        """What was damaged on its way here must not be found damaged again: it is not kept."""
        samples = np.array([error.sample for error in errors if error.sample is not None], np.int64)
        announced = job.dataset.announce(samples, [plan.field for plan in self.plans])
        if announced is not None:
            announced.distrust()
            announced.close()

    def finish(self, step: int, begun: Any) -> Batch:
        """Run what is Python; one step after the other."""
        start_s = time.perf_counter()
        job, parts = begun
        job.clock.clear()
        values: dict[str, Any] = {}
        for plan, part in zip(self.plans, parts, strict=True):
            values |= plan.finish(part, job)
        batch = Batch(tuple(values), tuple(values.values()))
        if self.output is not None and not self.output.is_device:
            sent_s = time.perf_counter()
            batch = self.output.receive(self.output.send(batch, self.modules))
            job.clock.add("copy", sent_s)
        with self.problems.lock:
            self.stats.finish_s += time.perf_counter() - start_s
            self.stats.add(job.clock)
        return batch

    @property
    def modules(self) -> dict[str, tuple[Any, ...]]:
        """The modules of torch that each output goes through."""
        return {name: modules for plan in self.plans for name, modules in plan.outputs().items() if modules}

    def _spared(self, indices: IndexArray) -> IndexArray:
        """The same samples, damaged ones replaced.

        What comes instead depends on seed, epoch and sample alone, not on what was found to be damaged before: it is
        the first intact one of a fixed series. So the samples that were asked for must be given, not substitutes.
        """
        bad = self.problems.bad
        if not bad:
            return indices
        spared = indices.copy()
        for position, sample in enumerate(indices.tolist()):
            if sample in bad:
                spared[position] = self._substitute(sample, bad)
        return spared

    def _substitute(self, sample: int, bad: set[int]) -> int:
        for attempt in range(_TRIES):
            bits = random_bits(self.job.seed, self.job.epoch, _SUBSTITUTE, sample, attempt)
            other = self._drawn(sample, int(bits))
            if other not in bad:
                return other
        raise CorruptSampleError(
            self.job.dataset.path,
            sample=sample,
            problem=f"the sample is damaged, and so are {_TRIES} others that were drawn to take its place",
            fix="Restore the file from a copy, or leave the damaged samples out with indices=.",
        )

    def _drawn(self, sample: int, bits: int) -> int:
        """Any sample of the epoch; where sources come in a pattern, any of the same source."""
        if self.interleaving is None:
            place = bits % len(self.order)
            return int(self.order.slice(place, place + 1)[0])
        source = int(self.interleaving.locate(np.array([sample], np.int64))[0][0])
        number = bits % self.interleaving.totals[source]
        return int(self.interleaving.places_of(source, np.array([number], np.int64))[0])
