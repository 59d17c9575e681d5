"""A set of files made by tasks of a cluster, the same to the byte as one process makes it.

Where only the number of samples says where a file ends, the cuts are known before anything is read: each file is one
task. Where their encoded bytes do, or samples may be left out, tasks encode ranges of samples and keep what comes out
in the cluster; they tell the sizes, from which the cuts are found here, in order; and a file whose samples are all
encoded is written by one more task. Ranges are cut by time and size, and do not change the files.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import BrokenPicturesError
from headrace.formats.ray_tasks import TaskCall
from headrace.formats.sharded_writer import ShardFilling
from headrace.storage import absolute
from headrace.transfer.shard_work import (
    EncodedRange,
    ShardJob,
    ShardMade,
    encode_range,
    local_place,
    make_shard,
    write_shard,
)

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator, Mapping

    from headrace.formats.contract import Format
    from headrace.formats.ray_tasks import RayTasks, Task
    from headrace.formats.report import Transfer
    from headrace.formats.sharded_writer import ShardLimits
    from headrace.transfer.samples import Selection
    from headrace.types import Encoder, Progress

__all__ = ["ShardPlan", "TaskShards"]

_FIRST_RANGE = 16  # samples; those that follow are cut by what they took
_RANGE_S = 2.0
_RANGE_BYTES = 32 << 20
_GROWTH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardPlan:
    """What is to be made, and where.

    Args:
        target: the format.
        options: what its writer takes.
        limits: when a file is full.
        path: of the set.
        place: where a file is written, by its number.
        keep: is told of each file that is complete.
        done: files that are complete already: their first samples and numbers of samples, by number.
        outcome: see ``ShardJob``.
        is_logged: see ``ShardJob``.
    """

    target: Format
    options: dict[str, Any]
    limits: ShardLimits
    path: str
    place: Callable[[int], str]
    keep: Callable[[ShardMade], None]
    done: Mapping[int, tuple[int, int]]
    outcome: str | None
    is_logged: bool


@dataclass(frozen=True, slots=True)
class TaskShards:
    """Makes sets of files by tasks.

    Args:
        tasks: of a cluster.
        open_selection: opens what is to be written, in another process.
    """

    tasks: RayTasks
    open_selection: Callable[[contextlib.ExitStack], Selection]

    def write(self, chosen: Selection, plan: ShardPlan, progress: Progress | None, result: Transfer) -> int:
        """Make all files that are missing; gives how many samples are in the set."""
        total, shared = len(chosen.order), self.tasks.share(self._job(chosen, plan))
        work = _Work(self.tasks, plan, shared, total, progress)
        if not total or (plan.limits.size_bytes is None and not plan.limits.skips):
            _make_all(work)
        else:
            _Cutting(work, ShardFilling.of(plan.limits, chosen.fields)).run()
        if work.broken and (not chosen.options.skip_broken or not work.samples):
            raise BrokenPicturesError(chosen.origin.path, broken=work.broken, total=len(chosen.origin.sources()))
        result.broken = work.broken
        return work.samples

    def _job(self, chosen: Selection, plan: ShardPlan) -> ShardJob:
        return ShardJob(
            key=secrets.token_hex(8),
            open_selection=self.open_selection,
            source=(chosen.fingerprint, len(chosen.origin.sources())),
            format=plan.target.name,
            options=plan.options,
            encoder=_encoder_of(chosen, plan),
            limits=plan.limits,
            path=plan.path,
            outcome=plan.outcome,
            is_logged=plan.is_logged,
        )


def _encoder_of(chosen: Selection, plan: ShardPlan) -> Encoder[Any]:
    """What encodes samples; and what the writer would refuse is refused before there is a task."""
    with local_place(plan.place(0)) as place:
        writer = plan.target.create_checked(place.here, chosen.fields, length=None, **plan.options)
        try:
            return writer.encoder
        finally:
            writer.abort()


@dataclass(slots=True)
class _Work:
    """A set that is being made: what all tasks need, and what came of them."""

    tasks: RayTasks
    plan: ShardPlan
    job: Any
    total: int
    progress: Progress | None
    samples: int = 0
    seen: int = 0
    size_bytes: int = 0
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.samples = self.seen = sum(samples for _, samples in self.plan.done.values())

    def path(self, number: int) -> str:
        return absolute(self.plan.place(number))

    def name(self, number: int) -> str:
        return os.path.basename(self.plan.place(number))

    def keep(self, made: ShardMade) -> None:
        self.plan.keep(made)
        self.samples += made.samples

    def advance(self, samples: int, size_bytes: int) -> None:
        self.seen += samples
        self.size_bytes += size_bytes
        if self.progress is not None:
            self.progress(self.seen, self.total, self.size_bytes)


def _make_all(work: _Work) -> None:
    """A task for each file."""
    count = work.plan.limits.samples or 1
    numbers = [n for n in range(max(1, -(-work.total // count))) if n not in work.plan.done]
    broken: dict[int, list[str]] = {}
    calls = [
        TaskCall(work.name(n), make_shard, (work.job, work.path(n), n, n * count, min((n + 1) * count, work.total)))
        for n in numbers
    ]
    for place, made in work.tasks.map(calls):
        if made.broken:
            broken[place] = made.broken
            continue
        work.keep(made)
        work.advance(made.samples, sum(size for size, _ in made.files.values()))
    work.broken = [line for place in sorted(broken) for line in broken[place]]


class _Range:
    """Samples that a task encodes.

    Args:
        start: the first.
        stop: the one behind the last.
        number: of the file that begins with them; None where they go on with the one before.
        is_last: behind them a file ends.
    """

    def __init__(self, start: int, stop: int, *, number: int | None, is_last: bool) -> None:
        self.start, self.stop, self.number, self.is_last = start, stop, number, is_last
        self.task: Task | None = None
        self.found: EncodedRange | None = None

    def __len__(self) -> int:
        return self.stop - self.start


class _Cutting:
    """Encodes ranges ahead, cuts files in order, and has each written as soon as it is cut.

    What is encoded and not yet written lies in the memory of the cluster, which keeps it on disk where there is too
    much; so no more is begun than half of that memory holds, or two files.
    """

    def __init__(self, work: _Work, filling: ShardFilling) -> None:
        self._work, self._tasks, self._filling = work, work.tasks, filling
        self._count, self._sample_bytes = _FIRST_RANGE, 0
        self._ranges = self._cut_ranges()
        self._next = next(self._ranges, None)
        self._encoding: deque[_Range] = deque()
        self._writing: dict[Any, int] = {}  # bytes of the files that are being written
        self._held_bytes = 0
        self._budget_bytes = max(work.tasks.store_bytes // 2, 2 * (work.plan.limits.size_bytes or 0))
        self._parts: list[tuple[Any, int, int]] = []
        self._number = self._first = self._samples = self._size_bytes = 0

    def run(self) -> None:
        """Do all of it."""
        while True:
            while self._next is not None and self._may_begin(self._next):
                self._begin(self._next)
            if not self._tasks.under_way:
                return
            task, value = self._tasks.next_done()
            if isinstance(value, EncodedRange):
                self._take(task, value)
            else:
                self._held_bytes -= self._writing.pop(task.answer)
                self._work.keep(value)
                self._work.advance(0, 0)

    def _cut_ranges(self) -> Iterator[_Range]:
        for gap, number in _gaps(self._work.plan.done, self._work.total):
            start = gap.start
            while start < gap.stop:
                stop = min(start + self._count, gap.stop)
                yield _Range(start, stop, number=number if start == gap.start else None, is_last=stop == gap.stop)
                start = stop

    def _may_begin(self, block: _Range) -> bool:
        waiting = [one for one in self._encoding if one.found is None]
        if len(waiting) >= 2 * self._tasks.workers:
            return False
        coming = self._sample_bytes * (sum(map(len, waiting)) + len(block))
        return not self._tasks.under_way or self._held_bytes + coming <= self._budget_bytes

    def _begin(self, block: _Range) -> None:
        what = f"samples {block.start} to {block.stop - 1} of {self._work.plan.path}"
        block.task = self._tasks.start(what, encode_range, self._work.job, block.start, block.stop, keeps=True)
        self._encoding.append(block)
        self._next = next(self._ranges, None)

    def _take(self, task: Task, found: EncodedRange) -> None:
        """Note what a task has encoded, and cut all that can be cut now."""
        block = next(one for one in self._encoding if one.task is task)
        size_bytes = int(found.sizes.sum())
        block.found = found
        self._held_bytes += size_bytes
        self._sample_bytes = max(1, size_bytes // len(block))
        fitting = len(block) * min(_RANGE_S / max(found.seconds, 1e-6), _RANGE_BYTES / max(size_bytes, 1))
        self._count = max(1, min(int(fitting), _GROWTH * len(block)))
        self._work.advance(len(block), size_bytes)
        while self._encoding and self._encoding[0].found is not None:
            self._cut(self._encoding.popleft())

    def _cut(self, block: _Range) -> None:
        assert block.found is not None
        assert block.task is not None
        if block.number is not None:
            self._number, self._first = block.number, block.start
            self._filling = ShardFilling(self._filling.limits, self._filling.scalars)
        self._work.broken += block.found.broken
        start, sizes = 0, block.found.sizes.tolist()
        for place, (size, count) in enumerate(zip(sizes, block.found.counts.tolist(), strict=True)):
            if self._filling.begins_next(size, count):
                self._parts.append((block.task.kept, start, place))
                self._write()
                start = place
            self._samples += count
            self._size_bytes += size
        self._parts.append((block.task.kept, start, len(sizes)))
        if block.is_last and self._samples:
            self._write()

    def _write(self) -> None:
        work, number, parts = self._work, self._number, [part for part in self._parts if part[1] < part[2]]
        if work.broken and not work.plan.limits.skips:
            self._held_bytes -= self._size_bytes  # nothing is written any more; all samples are tried
        else:
            arguments = (work.job, work.path(number), number, self._first, work.total, parts)
            task = self._tasks.start(work.name(number), write_shard, *arguments)
            self._writing[task.answer] = self._size_bytes
        self._number += 1
        self._first += self._samples
        self._samples = self._size_bytes = 0
        self._parts = []


def _gaps(done: Mapping[int, tuple[int, int]], total: int) -> Iterator[tuple[range, int]]:
    """Samples that follow each other and are in no file yet, with the number of the first file that they fill."""
    position = number = 0
    for known in sorted(done):
        first, samples = done[known]
        if first > position:
            yield range(position, first), number
        position, number = first + samples, known + 1
    if position < total:
        yield range(position, total), number
