from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.storage.spans import MergedSpans, missing_parts, touched_blocks, touches, with_interval

SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), min_size=1, max_size=20)


def _arrays(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in spans], np.uint64), np.array([n for _, n in spans], np.uint64)


def _bytes_of(spans: list[tuple[int, int]]) -> set[int]:
    return {byte for start, size in spans for byte in range(start, start + size)}


@given(SPANS)
def test_blocks_are_those_that_are_touched(spans: list[tuple[int, int]]) -> None:
    assert touched_blocks(*_arrays(spans), 10) == sorted({byte // 10 for byte in _bytes_of(spans)})


@given(SPANS, st.sets(st.integers(0, 25)))
def test_spans_that_touch_some_blocks(spans: list[tuple[int, int]], blocks: set[int]) -> None:
    expected = [bool({byte // 10 for byte in _bytes_of([span])} & blocks) for span in spans]
    assert touches(*_arrays(spans), 10, sorted(blocks)).tolist() == expected


@given(SPANS, SPANS, st.integers(0, 20))
def test_spans_inside_of_merged_ones(spans: list[tuple[int, int]], others: list[tuple[int, int]], gap: int) -> None:
    merged = MergedSpans(*_arrays(spans), gap)
    for (start, size), is_inside in zip(others, merged.has(*_arrays(others)).tolist(), strict=True):
        assert is_inside == (size == 0 or any(a <= start and start + size <= b for a, b in merged.ranges))


@given(SPANS, st.integers(0, 20))
def test_merged_spans_have_all_bytes_in_their_places(spans: list[tuple[int, int]], gap: int) -> None:
    offsets, sizes = _arrays(spans)
    merged = MergedSpans(offsets, sizes, gap)
    buffer = [byte for start, end in merged.ranges for byte in range(start, end)]
    assert len(buffer) == merged.size_bytes
    assert len(set(buffer)) == len(buffer)
    assert merged.covers(offsets, sizes)
    for (start, size), place in zip(spans, merged.positions(offsets).tolist(), strict=True):
        assert size == 0 or buffer[place : place + size] == list(range(start, start + size))
    assert not merged.covers(np.array([300], np.uint64), np.array([1], np.uint64))


@given(SPANS, st.integers(0, 200), st.integers(0, 60))
def test_intervals_and_what_they_miss(spans: list[tuple[int, int]], start: int, size: int) -> None:
    known: list[tuple[int, int]] = []
    for first, length in spans:
        if length:
            known = with_interval(known, first, first + length)
    covered = {byte for first, last in known for byte in range(first, last)}
    assert covered == _bytes_of(spans)
    missing = {byte for first, last in missing_parts(known, start, start + size) for byte in range(first, last)}
    assert missing == set(range(start, start + size)) - covered
