"""Times of steps: their order is that of the steps, whatever the clock says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.loader.use_times import StepTimes, UseTimes, uses_of_pages
from headrace.order import ArrayOrder, quasi_random_order


@given(st.integers(1, 10_000), st.lists(st.floats(0.001, 1e6), max_size=20))
def test_the_order_of_steps_is_the_order_of_times(steps: int, lengths_s: list[float]) -> None:
    times, clock, last = UseTimes(), 1.8e9, 0.0
    for epoch, length_s in enumerate([*lengths_s, 1.0]):
        now, then = times.begin(epoch, steps, clock=clock)
        for step in {0, steps // 2, steps - 1}:
            assert now.of(step) < then.of(step)
        assert now.of(0) >= last
        assert then.of(0) >= now.of(steps - 1)
        last = now.of(steps - 1)
        clock += length_s


@given(st.integers(1, 1000), st.floats(0.01, 1e5), st.integers(2, 30))
def test_an_even_speed_never_comes_too_late_and_not_much_too_early(steps: int, length_s: float, epochs: int) -> None:
    times, clock = UseTimes(), 1.8e9
    for epoch in range(epochs):
        now, _ = times.begin(epoch, steps, clock=clock)
        if epoch > 2:
            assert clock - 0.01 * length_s <= now.of(0)
            assert now.end <= clock + 5 * max(length_s, 2.0 * steps)
        clock += length_s


def test_who_goes_back_begins_anew() -> None:
    times = UseTimes()
    times.begin(0, 10, clock=1000.0)
    now, then = times.begin(5, 10, clock=2000.0)
    assert (now.start, now.end) == (2000.0, 2020.0)
    assert then.start == 2020.0
    assert StepTimes(1.0, 2.0, 0).of(0) == 1.0


def test_pages_are_needed_with_their_first_sample() -> None:
    pages = np.array([7, 7, 3, 3, 9, 9])
    now, then = StepTimes(0.0, 3.0, 3), StepTimes(100.0, 103.0, 3)
    uses_of = uses_of_pages(ArrayOrder(np.array([2, 4, 5, 3, 0, 1])), pages, 2, now, then)
    assert [uses_of(page, 1) for page in (3, 9, 7)] == [(1.0, 100.0), (1.0, 100.0), (1.0, 102.0)]
    assert uses_of(8, 0) is uses_of(10, 0) is uses_of(-1, 0) is None


def test_many_pages() -> None:
    pages = np.arange(5000) // 7
    order = quasi_random_order(pages, pool_pages=5, seed=1, epoch=2)
    uses_of = uses_of_pages(order, pages, 16, StepTimes(0.0, 313.0, 313), StepTimes(1000.0, 1313.0, 313))
    sequence = pages[order.slice(0, 5000)].tolist()
    for page in range(0, 715, 31):
        assert uses_of(page, 5) == (5.0, 1000 + sequence.index(page) // 16)
