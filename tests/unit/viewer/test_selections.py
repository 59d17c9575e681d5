"""Orders and classes against plain Python: every width of numbers, the largest ones, values that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError
from headrace.viewer import overview, selections
from headrace.viewer.columns import labels_of
from headrace.viewer.grid import find_rows
from headrace.viewer.selections import Query, select
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEAST, MOST = -(2**63), 2**63 - 1


def never(done: int, total: int) -> None:
    """Progress that nobody follows."""


@pytest.fixture
def shelf(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shelf]:
    hr.write(tmp_path / "x.beton", [(one,) for one in request.param], fields={"label": hr.Int()})
    with hr.open(tmp_path / "x.beton") as dataset:
        made = Shelf.of([dataset])
        yield made
        made.close()


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_samples_are_ordered_as_python_orders_them(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "_PART", 7)
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    values = rng.integers(info.min, info.max, 100, dtype=dtype, endpoint=True)
    values[::9], values[1::9], values[50:60] = info.min, info.max, 5
    for chosen in (np.arange(100, dtype=np.int32), np.arange(0, 100, 3, dtype=np.int32), np.empty(0, np.int32)):
        up = selections._ordered(values, chosen, False).tolist()
        down = selections._ordered(values, chosen, True).tolist()
        assert up == sorted(chosen.tolist(), key=lambda i: int(values[i]))
        assert down == sorted(chosen.tolist(), key=lambda i: -int(values[i]))


@pytest.mark.parametrize("shelf", [[3, MOST, 0, LEAST, -1, MOST]], indirect=True)
def test_the_largest_numbers(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.viewer.columns._BLOCK", 2)  # blocks of other signs are joined
    for sort, expected in (("-class", [1, 5, 0, 2, 4, 3]), ("class", [3, 4, 2, 0, 1, 5])):
        assert select(shelf[0], Query.parse({"sort": sort}), never).tolist() == expected
    for label, expected in ((MOST, [1, 5]), (LEAST, [3]), (10**19, []), (-(10**19), [])):
        assert select(shelf[0], Query.parse({"class": str(label)}), never).tolist() == expected
    assert labels_of(shelf[0], "label", never).values.dtype == np.int64


def broken_at(dataset: Any, bad: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    read = type(dataset).read_values

    def read_values(self: Any, indices: Any, field: str, source: Any = None) -> Any:
        for index in np.asarray(indices).tolist():
            if index in bad:
                raise CorruptSampleError(self.path, sample=index, field=field, problem="no number")
        return read(self, indices, field, source)

    monkeypatch.setattr(type(dataset), "read_values", read_values)


@pytest.mark.parametrize("shelf", [[i % 3 for i in range(20)]], indirect=True)
def test_a_class_that_cannot_be_read_leaves_the_others(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    item = shelf[0]
    broken_at(item.dataset, {3, 19}, monkeypatch)
    assert select(item, Query(label=0), never).tolist() == [0, 6, 9, 12, 15, 18]
    assert select(item, Query(sort="-class"), never).tolist()[-2:] == [3, 19]
    counted = overview.count_classes(shelf, {})
    assert {one["class"]: one["count"] for one in counted["classes"]} == {0: 6, 1: 6, 2: 6}
    assert counted["unreadable"] == 2
    assert item.damage.samples() == [3, 19]
    rows = find_rows(shelf, {})["rows"]
    assert [row["i"] for row in rows if "class" not in row] == [3, 19]
    assert rows[4]["class"] == 1
