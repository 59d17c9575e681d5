"""When blocks are used next: compared with a walk through all steps, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.loader import block_uses
from headrace.loader.block_uses import EpochReads, uses_of_blocks
from headrace.loader.use_times import StepTimes
from headrace.order import ArrayOrder
from headrace.storage import BLOCK_BYTES
from headrace.types import StoredSpans


class _Samples:
    """Samples of some thirds of a block, one after the other in two files; samples may be left out."""

    def __init__(self, sizes: list[int], in_first: int) -> None:
        self.sizes = np.array(sizes, np.uint64) * np.uint64(BLOCK_BYTES // 3)
        self.offsets = self.sizes.cumsum() - self.sizes
        self.offsets[in_first:] -= self.sizes[:in_first].sum()
        self.is_first = np.arange(len(sizes)) < in_first
        self.knows = True

    def stored_spans(self, indices: Any, fields: Any) -> list[StoredSpans] | None:
        assert fields == ("a",)
        found = []
        for path, is_here in (("one", self.is_first[indices]), ("two", ~self.is_first[indices])):
            owners, samples = np.flatnonzero(is_here), indices[is_here]
            found.append(StoredSpans(path, 10**12, owners, self.offsets[samples], self.sizes[samples]))
        return found if self.knows else None

    def blocks(self, sample: int) -> set[tuple[str, int]]:
        if not self.sizes[sample]:
            return set()
        start, end = int(self.offsets[sample]), int(self.offsets[sample] + self.sizes[sample])
        name = "one" if self.is_first[sample] else "two"
        return {(name, number) for number in range(start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1)}


def _steps(samples: _Samples, reads: EpochReads, first: int) -> list[set[tuple[str, int]]]:
    """The blocks that each step brings."""
    found: list[set[tuple[str, int]]] = [set() for _ in range(reads.steps)]
    begun: dict[int, int] = {}
    for place, sample in enumerate(reads.order.slice(0, 10**9).tolist()):
        step = place // reads.global_batch
        if not first <= step < reads.steps:
            continue
        if reads.pages is not None:
            step = begun.setdefault(int(reads.pages[sample]), step)
        found[step] |= samples.blocks(sample)
    return found


@pytest.mark.parametrize("chunk", [1, 8, 1 << 18])
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("has_pages", [False, True])
def test_as_a_walk_through_all_steps_finds_them(
    has_pages: bool, first: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_uses, "_SAMPLES_AT_ONCE", chunk)
    rng = np.random.default_rng(first)
    n, batch = 60, 4
    samples = _Samples(rng.integers(0, 9, n).tolist(), 35)
    pages = np.arange(n) // 7 if has_pages else None
    # the second leaves out a third of the samples
    orders = [ArrayOrder(rng.permutation(n)), ArrayOrder(rng.integers(0, 40, n))]
    reads, following = (EpochReads(samples, ("a",), order, batch, n // batch, pages) for order in orders)
    steps = n // batch
    now, then = StepTimes(0.0, steps, steps), StepTimes(1000.0, 1000.0 + steps, steps)
    uses_of = uses_of_blocks(reads, following, first, now, then)

    this, later = _steps(samples, reads, first), _steps(samples, following, 0)
    times = [(float(k), used) for k, used in enumerate(this)] + [(1000.0 + k, used) for k, used in enumerate(later)]
    never = 1000.0 + steps
    met = 0
    for step in range(first, steps):
        use, next_uses = uses_of(-5, step) or (None, None)
        assert use == step
        assert callable(next_uses)
        for path in ("one", "two"):
            mine = sorted(number for name, number in this[step] if name == path)
            expected = {b: next((t for t, used in times if t > step and (path, b) in used), never) for b in mine}
            assert next_uses(path, [*mine, 10**6]) == expected
            met += len(mine)
        assert next_uses("another", [0]) == {}
    assert met > 50


def test_of_what_nobody_knows_nothing_is_said() -> None:
    samples = _Samples([1] * 10, 5)
    samples.knows = False
    reads = EpochReads(samples, ("a",), ArrayOrder(np.arange(10)), 2, 5)
    times = StepTimes(0.0, 5.0, 5)
    assert uses_of_blocks(reads, reads, 0, times, times)(0, 0) is None


def test_spans_that_cannot_be_right_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = _Samples([3] * 10, 10)
    reads = EpochReads(samples, ("a",), ArrayOrder(np.arange(10)), 2, 5)
    now, then = StepTimes(0.0, 5.0, 5), StepTimes(5.0, 10.0, 5)
    samples.sizes[3], samples.offsets[4] = np.uint64(2**64 - 1), np.uint64(2**63)
    uses = uses_of_blocks(reads, reads, 0, now, then)(0, 1)
    assert uses is not None
    assert callable(uses[1])
    assert uses[1]("one", [2, 3, 4]) == {2: 6.0}
    samples.offsets[:], samples.sizes[:] = 0, 10**12  # all bytes in common
    monkeypatch.setattr(block_uses, "_MOST_USES", 10**6)
    assert uses_of_blocks(reads, reads, 0, now, then)(0, 1) is None


def test_an_epoch_without_steps() -> None:
    samples = _Samples([1] * 3, 3)
    reads = EpochReads(samples, ("a",), ArrayOrder(np.arange(3)), 4, 0)
    times = StepTimes(0.0, 0.0, 0)
    uses = uses_of_blocks(reads, reads, 0, times, times)(0, 0)
    assert uses is not None
    assert callable(uses[1])
    assert uses[1]("one", [0]) == {}
