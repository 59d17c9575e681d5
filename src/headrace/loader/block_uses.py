"""When each block of a store's objects is used next, where a block holds samples of many steps.

A cache on the local disk lets go of the block that is needed last. In random order, and in a mixture, the samples of a
block come in many steps of this epoch and of the next. Both orders are known, and so is where samples lie. So the
steps are walked through backwards, some hundred thousand samples at a time: what a step uses is used next in the step
in which it was met last. For its last use in this epoch the next epoch is looked through from its beginning, until
every block was met. What is kept are 8 bytes for each block of each step: for a sample at most, where samples are no
larger than blocks, and much less where they are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.storage import BLOCK_BYTES, spans_in_blocks
from headrace.types import StoredSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.loader.use_times import StepTimes, UsesOf
    from headrace.order import Order
    from headrace.types import IndexArray, Located

    _Uses: TypeAlias = tuple[IndexArray, IndexArray]
    Numbers: TypeAlias = npt.NDArray[np.int32]
    _Chunk: TypeAlias = Callable[[], tuple[IndexArray, IndexArray]]

__all__ = ["EpochReads", "uses_of_blocks"]

_SAMPLES_AT_ONCE = 1 << 18
_MOST_USES = 1 << 23  # of blocks by as many samples
_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class EpochReads:
    """What an epoch reads.

    Args:
        dataset: as it is in that epoch.
        fields: that are read.
        order: of the epoch.
        global_batch: samples of a step, over all ranks.
        steps: of the epoch.
        pages: the page of each sample, where all of a page is brought when its first sample is needed.
    """

    dataset: Located
    fields: tuple[str, ...]
    order: Order
    global_batch: int
    steps: int
    pages: IndexArray | None = None

    def chunks(self, first: int = 0) -> list[_Chunk]:
        """Functions that give the samples from a step on, and the steps that bring them; no step is in two of them."""
        if self.pages is not None:
            return self._chunks_of_pages(self.pages, first)
        size = self.global_batch
        end = min(self.steps * size, len(self.order))
        places = range(first * size, end, max(1, _SAMPLES_AT_ONCE // size) * size)

        def chunk(start: int, stop: int) -> tuple[IndexArray, IndexArray]:
            return self.order.slice(start, stop), np.arange(start, stop, dtype=np.int64) // size

        return [partial(chunk, start, stop) for start, stop in pairwise([*places, end])]

    def _chunks_of_pages(self, pages: IndexArray, first: int) -> list[_Chunk]:
        begin, end = first * self.global_batch, min(self.steps * self.global_batch, len(self.order))
        samples = self.order.slice(begin, end)
        _, places, numbers = np.unique(pages[samples], return_index=True, return_inverse=True)
        steps = ((begin + places) // self.global_batch)[numbers]
        by_step = np.argsort(steps, kind="stable")
        samples, steps = samples[by_step], steps[by_step]
        cuts = np.unique(np.searchsorted(steps, steps[::_SAMPLES_AT_ONCE])).tolist()

        def chunk(start: int, stop: int) -> tuple[IndexArray, IndexArray]:
            return samples[start:stop], steps[start:stop]

        return [partial(chunk, start, stop) for start, stop in pairwise([*cuts, len(steps)])]


class _Blocks:
    """Numbers for the blocks of all files, in the order in which these were met."""

    def __init__(self) -> None:
        self.bases: dict[str, int] = {}
        self.count = 0

    def uses(self, reads: EpochReads, samples: IndexArray, steps: IndexArray) -> _Uses | None:
        """The steps and the blocks that they use, each pair once, by step and block; None where nobody knows."""
        found = reads.dataset.stored_spans(samples, reads.fields)
        if found is None:
            return None
        found = [_inside(spans) for spans in found]
        if sum(len(spans.sizes) + int((spans.sizes // np.uint64(BLOCK_BYTES)).sum()) for spans in found) > _MOST_USES:
            return None  # no honest samples are so large, or have so many bytes in common
        pairs = np.concatenate([np.empty(0, np.int64), *(self._pairs(spans, steps) for spans in found)])
        pairs.sort()
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
        return pairs >> 32, pairs & 0xFFFFFFFF

    def _pairs(self, spans: StoredSpans, steps: IndexArray) -> npt.NDArray[np.int64]:
        if spans.path not in self.bases:
            self.bases[spans.path] = self.count
            self.count += -(-spans.size_bytes // BLOCK_BYTES)
        which, numbers = spans_in_blocks(spans.offsets, spans.sizes, BLOCK_BYTES)
        return (steps[spans.owners[which]] << 32) + (numbers + self.bases[spans.path])


def _inside(spans: StoredSpans) -> StoredSpans:
    """Without those that cannot be right; whoever reads them tells."""
    limit = np.uint64(spans.size_bytes)
    is_inside = (spans.offsets <= limit) & (spans.sizes <= limit - np.minimum(spans.offsets, limit))
    if is_inside.all():
        return spans
    offsets, sizes = spans.offsets[is_inside], spans.sizes[is_inside]
    return StoredSpans(spans.path, spans.size_bytes, spans.owners[is_inside], offsets, sizes)


class _BlockUses:
    """The blocks of each step from a first one on, and the steps that use them next: those of the next epoch behind.

    Args:
        blocks: their numbers.
        first: the first step.
        counts: how many blocks each step uses.
        used: the blocks, step after step, ascending in each.
        nexts: for each of them the step that uses it next.
    """

    def __init__(self, blocks: _Blocks, first: int, counts: IndexArray, used: Numbers, nexts: Numbers) -> None:
        self._blocks, self._first = blocks, first
        self._ends = np.append(0, counts.cumsum())
        self._used, self._nexts = used, nexts

    def next_steps(self, step: int, path: str, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Of these blocks of a file those that a step uses, and the step that uses each next."""
        base = self._blocks.bases.get(path)
        if base is None or not 0 <= step - self._first < len(self._ends) - 1:
            return
        here = slice(*self._ends[step - self._first : step - self._first + 2].tolist())
        used, nexts = self._used[here], self._nexts[here]
        places = np.searchsorted(used, np.add(numbers, base))
        for number, place in zip(numbers, places.tolist(), strict=True):
            if place < len(used) and used[place] == number + base:
                yield number, int(nexts[place])


def uses_of_blocks(reads: EpochReads, following: EpochReads, first: int, now: StepTimes, then: StepTimes) -> UsesOf:
    """When the blocks of each step are used, and when next.

    Args:
        reads: what this epoch reads.
        following: what the next one reads.
        first: the step with which this epoch begins.
        now: times of this epoch.
        then: times of the next one.
    """
    found = _find_uses(reads, following, first)
    if found is None:
        return lambda *_: None

    def times(step: int, path: str, numbers: Sequence[int]) -> Mapping[int, float]:
        return {
            number: now.of(later) if later < reads.steps else then.of(later - reads.steps)
            for number, later in found.next_steps(step, path, numbers)
        }

    return lambda _, step: (now.of(step), partial(times, step))


def _find_uses(reads: EpochReads, following: EpochReads, first: int) -> _BlockUses | None:
    blocks, met = _Blocks(), np.empty(0, np.int32)
    counts = np.zeros(max(0, reads.steps - first), np.int64)
    used_in, next_in = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for chunk in reversed(reads.chunks(first)):
        uses = blocks.uses(reads, *chunk())
        if uses is None:
            return None
        met = _grown(met, blocks.count)
        counts += np.bincount(uses[0] - first, minlength=len(counts))
        used_in.append(uses[1].astype(np.int32))
        next_in.append(_next_steps(*uses, met))
    used, nexts = _joined(used_in), _joined(next_in)
    is_last = nexts == _NEVER
    nexts[is_last] = _first_steps(following, blocks, met, reads.steps)[used[is_last]]
    return _BlockUses(blocks, first, counts, used, nexts)


def _next_steps(steps: IndexArray, used: IndexArray, met: Numbers) -> Numbers:
    """The step that uses each of these next; ``met`` has the first step of those behind, and is brought up to date."""
    by_block = np.argsort(used, kind="stable")
    block, step = used[by_block], steps[by_block].astype(np.int32)
    is_last = np.append(block[1:] != block[:-1], np.ones(min(1, len(block)), np.bool_))
    following = np.append(step[1:], step[:1])
    following[is_last] = met[block[is_last]]
    met[block[::-1]] = step[::-1]  # of a block that is named several times the last one counts
    nexts = np.empty(len(used), np.int32)
    nexts[by_block] = following
    return nexts


def _first_steps(reads: EpochReads, blocks: _Blocks, wanted: Numbers, before: int) -> Numbers:
    """The first step of an epoch that uses each block, counted on from ``before``; of no other blocks than wanted."""
    firsts = np.full(len(wanted), before + reads.steps, np.int32)  # what it does not use comes after all else
    is_open = wanted != _NEVER
    for chunk in reads.chunks():
        uses = blocks.uses(reads, *chunk()) if is_open.any() else None
        if uses is None:
            break
        steps, used = (column[::-1] for column in uses)
        steps, used = steps[used < len(wanted)], used[used < len(wanted)]
        is_fresh = is_open[used]
        firsts[used[is_fresh]] = before + steps[is_fresh]
        is_open[used] = False
    return firsts


def _joined(chunks: list[Numbers]) -> Numbers:
    """All of them, the last one first; they are let go."""
    joined = np.concatenate(chunks[::-1])
    chunks.clear()
    return joined


def _grown(met: Numbers, count: int) -> Numbers:
    return np.append(met, np.full(count - len(met), _NEVER, np.int32))
