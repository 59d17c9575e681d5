from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace._native import RangeReader
from headrace.errors import FormatError
from headrace.read import RangeSource

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 100_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranges") / "data"
    path.write_bytes(np.random.default_rng(0).bytes(SIZE))
    return path


def make_source(path: Path, **options: Any) -> RangeSource:
    return RangeSource(str(path), RangeReader(str(path), **options), np.empty)


def spans_of(*pairs: tuple[int, int]) -> tuple[Any, Any]:
    pairs_or_none = np.array(pairs, np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(pairs_or_none[:, 0]), np.ascontiguousarray(pairs_or_none[:, 1])


@pytest.mark.parametrize("options", [{}, {"direct": True}, {"engine": "threads"}])
def test_spans_come_one_after_the_other(file: Path, options: Any) -> None:
    data = file.read_bytes()
    base, places = make_source(file, **options).locate(*spans_of((5, 10), (0, 0), (SIZE - 3, 3), (5, 7), (4095, 9000)))
    assert places.tolist() == [0, 10, 10, 13, 20]
    assert base.tobytes() == data[5:15] + data[-3:] + data[5:12] + data[4095:13_095]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 20_000)), max_size=20))
def test_any_spans(file: Path, pairs: list[tuple[int, int]]) -> None:
    pairs = [(start, min(size, SIZE - start)) for start, size in pairs]
    data = file.read_bytes()
    base, places = make_source(file).locate(*spans_of(*pairs))
    for (start, size), place in zip(pairs, places.tolist(), strict=True):
        assert base[place : place + size].tobytes() == data[start : start + size]


def test_every_answer_has_memory_of_its_own(file: Path) -> None:
    source, data = make_source(file), file.read_bytes()
    first, _ = source.locate(*spans_of((0, 1000)))
    second, _ = source.locate(*spans_of((1000, 1000)))
    assert (first.tobytes(), second.tobytes()) == (data[:1000], data[1000:2000])


@pytest.mark.parametrize("span", [(SIZE - 5, 6), (SIZE, 1), (10 * SIZE, 8)])
def test_spans_that_the_file_does_not_have(file: Path, span: tuple[int, int]) -> None:
    with pytest.raises(FormatError, match=rf"{span[1]} bytes? cannot be read .*at byte {span[0]}") as caught:
        make_source(file).locate(*spans_of((0, 3), span))
    assert "Was the file changed or cut while it was in use?" in str(caught.value)
    assert (caught.value.offset, caught.value.path) == (span[0], str(file))
