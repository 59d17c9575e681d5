"""Work done by threads ahead of whoever takes the results."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from headrace.formats.threads import map_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_results_come_in_order_and_few_items_are_under_way() -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            drawn.append(number)
            yield number

    results = map_ahead(lambda number: -number, items(), threads=3)
    assert next(results) == 0
    assert len(drawn) == 7
    assert list(results) == [-number for number in range(1, 100)]


def test_an_error_comes_in_its_turn_and_ends_the_rest() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        done.append(number)
        return number

    results = map_ahead(work, range(1000), threads=1)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert len(done) < 10
    assert threading.active_count() < 50
