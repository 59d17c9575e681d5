from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.viewer import pairing as module
from headrace.viewer.pairing import Pairing, pair_samples

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Named:
    """As much of a dataset as pairing asks for."""

    keys: Sequence[str] | None
    length: int = 0
    path: str = "x.beton"

    def __len__(self) -> int:
        return self.length if self.keys is None else len(self.keys)


def pair(a: Any, b: Any, **options: Any) -> Pairing:
    return pair_samples(a, b, **options)


def rows_of(pairing: Pairing) -> list[tuple[int, int]]:
    first, second = pairing.at(np.arange(len(pairing)))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def expected(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The same with a dict."""
    places = defaultdict(deque)
    for j, name in enumerate(b):
        places[name].append(j)
    rows = [(i, places[name].popleft() if places[name] else -1) for i, name in enumerate(a)]
    taken = {j for _, j in rows}
    return rows + [(-1, j) for j in range(len(b)) if j not in taken]


NAMES = st.lists(st.sampled_from("abcdefgh"), max_size=12)


@given(a=NAMES, b=NAMES)
def test_by_name_as_a_dict_would_do_it(a: list[str], b: list[str]) -> None:
    found = pair(Named(a), Named(b), by="name")
    rows = expected(a, b)
    assert rows_of(found) == rows
    assert found.pairs == sum(i >= 0 and j >= 0 for i, j in rows)
    assert found.only_in_first == sum(j < 0 for _, j in rows)
    assert found.only_in_second == sum(i < 0 for i, _ in rows)
    assert list(found.rows_only_in_first) == [row for row, (_, j) in enumerate(rows) if j < 0]
    assert list(found.rows_only_in_second) == [row for row, (i, _) in enumerate(rows) if i < 0]


def test_many_names_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 7)
    a = [f"n{i % 90}" for i in range(100)]
    b = [f"n{i}" for i in range(20, 120)]
    random.Random(1).shuffle(b)
    told: list[tuple[int, int | None]] = []
    found = pair(Named(a), Named(b), by="name", progress=lambda done, total, _: told.append((done, total)))
    assert rows_of(found) == expected(a, b)
    assert told[-1] == (200, 200)


def test_names_without_endings_are_tried_where_no_name_is_in_both() -> None:
    a, b = Named(["x/1.jpg", "x/2.jpg"]), Named(["x/2.png", "x/1.png", "x/3.png"])
    found = pair(a, b)
    assert (found.by, rows_of(found)) == ("stem", [(0, 1), (1, 0), (-1, 2)])
    assert pair(a, b, by="name").pairs == 0
    assert pair(a, Named(["other"])).by == "name", "no pair either way"


@pytest.mark.parametrize(("a", "b"), [(3, 5), (5, 3), (4, 4), (0, 2), (0, 0)])
def test_by_number_where_there_are_no_names(a: int, b: int) -> None:
    found = pair(Named(None, a), Named(None, b))
    numbers = [(i if i < a else -1, i if i < b else -1) for i in range(max(a, b))]
    assert (found.by, rows_of(found), found.pairs) == ("number", numbers, min(a, b))
    assert list(found.rows_only_in_first) == [i for i, (_, j) in enumerate(numbers) if j < 0]
    assert list(found.rows_only_in_second) == [j for i, j in numbers if i < 0]
    assert pair(Named(None, a), Named(["n"] * b)).by == "number"


def test_names_are_asked_for_and_there_are_none() -> None:
    with pytest.raises(ValueError, match="have no names; compare by number"):
        pair(Named(["a"]), Named(None, 1), by="name")


def test_rows_with_both_come_in_chunks() -> None:
    found = pair(Named(list("abcdef")), Named(list("fxcba")), by="name")
    assert [rows.tolist() for rows in found.paired_rows(lambda: 4)] == [[0, 1, 2], [5]]


def test_hostile_names_do_not_match_each_other() -> None:
    names = ["\ud800", "\udc80", "", "\0", "a\0", "a", "../a", "<script>", "A", "\uff41"]
    assert rows_of(pair(Named(names), Named(names[::-1]))) == [(i, len(names) - 1 - i) for i in range(len(names))]
