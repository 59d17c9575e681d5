"""Filters and sorts of the grid, against plain Python; names that are looked for, and patterns that never end."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import headrace as hr
from headrace.viewer import grid
from headrace.viewer.app import make_app
from headrace.viewer.name_search import find_matches, find_text
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 300
NAMES = [f"{'Cat' if i % 3 else 'dog'}/{i:04d}{'é' if i % 7 == 0 else ''}.jpg" for i in range(COUNT)]


def never(done: int, total: int) -> None:
    """Progress that nobody follows."""


def picture_of(i: int) -> np.ndarray:
    return np.full((4 + i % 5, 6 + i % 11, 3), i % 256, np.uint8)


@pytest.fixture(params=["x.beton", "x.tar", "x.parquet", "concat"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """The same samples in formats that know sides and sizes, sizes alone, or neither."""
    samples = [(picture_of(i), i % 4) for i in range(COUNT)]
    fields = {"image": hr.Image(mode="raw"), "label": hr.Int()}
    if request.param == "concat":
        for part in range(2):
            cut = slice(part * 100, 100 if part == 0 else COUNT)
            hr.write(tmp_path / f"{part}.beton", samples[cut], fields=fields, names=NAMES[cut])
        dataset = hr.concat([hr.open(tmp_path / f"{part}.beton") for part in range(2)])
    else:
        kept = fields if request.param == "x.beton" else {"image": hr.Image(), "label": hr.Int()}
        hr.write(tmp_path / request.param, samples, fields=kept, names=NAMES)
        dataset = hr.open(tmp_path / request.param)
    with dataset:
        shelf = Shelf.of([dataset])
        yield shelf
        shelf.close()


def found(shelf: Shelf, **query: str) -> list[dict[str, Any]]:
    end = time.monotonic() + 30
    while (answer := grid.find_rows(shelf, {"count": "500", **query}))["state"] == "working":
        assert time.monotonic() < end
    if answer["state"] == "failed":
        raise ValueError(answer["error"])
    assert answer["count"] == len(answer["rows"])
    return list(answer["rows"])


def numbers(shelf: Shelf, **query: str) -> list[int]:
    return [row["i"] for row in found(shelf, **query)]


def test_all_and_a_part(shelf: Shelf) -> None:
    assert numbers(shelf) == list(range(COUNT))
    answer = grid.find_rows(shelf, {"start": "290", "count": "100"})
    assert [row["i"] for row in answer["rows"]] == list(range(290, COUNT))
    assert grid.find_rows(shelf, {"start": "9999"})["rows"] == []


def test_class_and_sides(shelf: Shelf) -> None:
    assert numbers(shelf, **{"class": "3"}) == [i for i in range(COUNT) if i % 4 == 3]
    assert numbers(shelf, **{"class": "99"}) == []
    assert numbers(shelf, width="8:9") == [i for i in range(COUNT) if 8 <= 6 + i % 11 <= 9]
    assert numbers(shelf, width="8:9", height=":5", **{"class": "1"}) == [
        i for i in range(COUNT) if 8 <= 6 + i % 11 <= 9 and 4 + i % 5 <= 5 and i % 4 == 1
    ]


def test_sorts_keep_the_order_of_equals(shelf: Shelf) -> None:
    assert numbers(shelf, sort="-index") == list(range(COUNT))[::-1]
    assert numbers(shelf, sort="class") == sorted(range(COUNT), key=lambda i: i % 4)
    assert numbers(shelf, sort="-width") == sorted(range(COUNT), key=lambda i: -(i % 11))
    sizes = {row["i"]: row.get("bytes") for row in found(shelf)}
    if all(sizes.values()):
        assert numbers(shelf, sort="bytes") == sorted(range(COUNT), key=lambda i: sizes[i])


def test_names(shelf: Shelf) -> None:
    names = list(shelf[0].dataset.keys or ())
    assert numbers(shelf, name="CAT/00") == [i for i in range(COUNT) if "cat/00" in names[i].lower()]
    assert numbers(shelf, name=r"^dog/\d*[05]\b", regex="1") == [
        i for i in range(COUNT) if re.search(r"^dog/\d*[05]\b", names[i])
    ]
    assert numbers(shelf, name="é") == [i for i in range(COUNT) if "é" in names[i]]
    assert numbers(shelf, sort="-name") == sorted(range(COUNT), key=names.__getitem__, reverse=True)


def test_what_makes_no_sense_is_said(shelf: Shelf) -> None:
    for query in (
        {"sort": "x"},
        {"width": "5"},
        {"class": "x"},
        {"name": "(", "regex": "1"},
        {"start": "-1"},
        {"count": "501"},
    ):
        with pytest.raises(ValueError, match=r"must|cannot be used"):
            found(shelf, **query)


def test_known_damage(shelf: Shelf) -> None:
    assert numbers(shelf, damaged="1") == []
    shelf[0].damage.add(17, "broken")
    assert numbers(shelf, damaged="1") == [17]
    assert found(shelf, damaged="1")[0]["problem"] == "broken"


def test_a_text_is_not_found_across_names() -> None:
    assert find_text(["ab", "cd", "", "bcd"], "bc", never).tolist() == [False, False, False, True]
    assert find_text(["aaaa", "aa"], "aa", never).tolist() == [True, True]
    assert find_text(["\udcff x", "x"], "\udcff", never).tolist() == [True, False]


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"(a|aa)+$", r"(.*)*x", r"((a{1,99}){1,99}){1,99}b"])
def test_a_pattern_that_never_ends_is_given_up(pattern: str) -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match=r"takes too long|cannot be used"):
        find_matches(["a" * 60 + "!"] * 5, pattern, never)
    assert time.monotonic() - start < 15


def test_a_long_pattern_is_refused_and_a_long_name_is_cut() -> None:
    with pytest.raises(ValueError, match="500 characters"):
        find_matches(["x"], "x" * 501, never)
    assert find_matches(["y" * 100_000 + "x", "x"], "x", never).tolist() == [False, True]


def test_a_search_ends_when_nobody_asks_any_more(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.viewer.jobs._PATIENCE_S", 1.0)
    ended = []

    def slow(item: object, query: object, check: Any) -> None:
        try:
            for i in range(1000):
                check(i, 1000)
                time.sleep(0.01)
        except BaseException as error:
            ended.append(error)
            raise

    monkeypatch.setattr("headrace.viewer.grid.select", slow)
    assert grid.find_rows(shelf, {"class": "1"})["state"] == "working"
    end = time.monotonic() + 10
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
    assert ended


def test_a_list_is_waited_for(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.viewer import selections

    def slow(item: Any, query: Any, check: Any) -> Any:
        time.sleep(1.0)
        return selections.select(item, query, check)

    monkeypatch.setattr("headrace.viewer.grid.select", slow)
    client = TestClient(make_app(shelf, "token"), base_url="http://127.0.0.1:8000")
    answer = client.get("/token/api/grid/list?class=3")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.split() == [str(i) for i in range(COUNT) if i % 4 == 3]
    monkeypatch.setattr("headrace.viewer.grid._PATIENCE_S", 0.0)
    answer = client.get("/token/api/grid/list?class=2")
    assert (answer.status_code, "the search takes long" in answer.text) == (503, True)


def test_numbers_of_a_range_of_places(shelf: Shelf) -> None:
    found = grid.find_numbers(shelf, {"sort": "-index", "start": "10", "count": "3"})
    assert found == {"state": "ready", "numbers": [289, 288, 287]}
    with pytest.raises(ValueError, match="count must be a whole number from 0 to 100000"):
        grid.find_numbers(shelf, {"count": "100001"})


def test_a_list_is_what_subset_takes(shelf: Shelf, tmp_path: Path) -> None:
    from headrace.transfer.sample_list import parse_sample_list

    for chosen in ([], [5], [1, 2, 3, 9, 8, 7], list(range(50))):
        text = "".join(grid.list_text(np.array(chosen, np.int64)))
        assert parse_sample_list(text.splitlines(), COUNT).tolist() == chosen
    assert "".join(grid.list_text(range(7))) == "0:7\n"
