from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest
from tests.unit.loader.tools import headrace_threads, wait_until

from headrace.loader.engine import Prefetcher


class Maker:
    """Makes numbers; notes what is done when, and may be slow or fail."""

    def __init__(self, *, fail_begin: int = -1, fail_finish: int = -1, delay_s: float = 0) -> None:
        self.fail_begin, self.fail_finish, self.delay_s = fail_begin, fail_finish, delay_s
        self.begun: list[int] = []
        self.finished: list[int] = []
        self.lock = threading.Lock()

    def begin(self, step: int) -> Any:
        with self.lock:
            self.begun.append(step)
        time.sleep(self.delay_s)
        if step == self.fail_begin:
            raise ValueError(f"begin {step}")
        return step

    def finish(self, step: int, begun: Any) -> Any:
        assert begun == step
        if step == self.fail_finish:
            raise ValueError(f"finish {step}")
        self.finished.append(step)
        return step


@pytest.mark.parametrize("ahead", [1, 2, 5])
@pytest.mark.parametrize(("first", "last"), [(0, 30), (7, 12), (3, 4), (5, 5)])
def test_all_steps_in_order(ahead: int, first: int, last: int) -> None:
    maker = Maker()
    assert list(Prefetcher(maker, first, last, ahead)) == list(range(first, last))
    assert maker.finished == list(range(first, last))
    assert sorted(maker.begun) == list(range(first, last))
    assert headrace_threads() == []


@pytest.mark.parametrize("ahead", [1, 3])
def test_no_more_is_begun_than_there_is_room_for(ahead: int) -> None:
    maker = Maker()
    with Prefetcher(maker, 0, 100, ahead) as batches:
        for taken in range(5):
            expected = list(range(taken + ahead + 1))
            assert wait_until(lambda wanted=expected: len(maker.begun) >= len(wanted))
            time.sleep(0.005)
            assert sorted(maker.begun) == expected
            assert next(batches) == taken


def test_two_steps_are_begun_at_a_time_and_finished_one_after_the_other() -> None:
    barrier = threading.Barrier(2, timeout=5)

    class Pairs(Maker):
        def begin(self, step: int) -> Any:
            barrier.wait()  # for the other thread: alone it would break
            return super().begin(step)

    assert list(Prefetcher(Pairs(), 0, 10, 3)) == list(range(10))


@pytest.mark.parametrize("where", ["fail_begin", "fail_finish"])
@pytest.mark.parametrize("step", [0, 4, 9])
def test_a_failure_is_raised_in_its_place_and_ends_everything(where: str, step: int) -> None:
    maker, seen = Maker(**{where: step}), []
    batches = Prefetcher(maker, 0, 10, 3)
    with pytest.raises(ValueError, match=f"{where[5:]} {step}"):
        seen.extend(batches)
    assert seen == list(range(step))
    assert headrace_threads() == []
    assert list(batches) == []


def test_the_first_of_several_failures_counts() -> None:
    class Both(Maker):
        def begin(self, step: int) -> Any:
            time.sleep(0.05 if step == 0 else 0)
            raise ValueError(f"begin {step}")

    with pytest.raises(ValueError, match="begin 0"):
        next(Prefetcher(Both(), 0, 10, 3))


def test_closing_ends_the_threads_at_once() -> None:
    batches = Prefetcher(Maker(delay_s=0.05), 0, 1000, 3)
    next(batches)
    start_s = time.monotonic()
    batches.close()
    batches.close()
    assert time.monotonic() - start_s < 0.5
    assert headrace_threads() == []
    with pytest.raises(StopIteration):
        next(batches)


def test_letting_go_ends_the_threads() -> None:
    batches = Prefetcher(Maker(), 0, 1000, 3)
    next(batches)
    del batches
    gc.collect()
    assert wait_until(lambda: not headrace_threads())


def test_threads_hold_nothing_of_a_batch_that_was_taken() -> None:
    class Value:
        alive = 0

        def __init__(self) -> None:
            Value.alive += 1

        def __del__(self) -> None:
            Value.alive -= 1

    class Values(Maker):
        def begin(self, step: int) -> Any:
            return Value()

        def finish(self, step: int, begun: Any) -> Any:
            return begun

    with Prefetcher(Values(), 0, 3, 5) as batches:
        for _ in range(3):
            next(batches)
        assert wait_until(lambda: Value.alive == 0)


def test_whether_the_next_is_ready() -> None:
    go = threading.Event()

    class Gated(Maker):
        def begin(self, step: int) -> Any:
            if step:
                go.wait(5)
            return step

    with Prefetcher(Gated(), 0, 3, 2) as batches:
        assert wait_until(lambda: batches.is_ready)
        next(batches)
        assert not batches.is_ready
        go.set()
        assert wait_until(lambda: batches.is_ready)


def test_a_failure_does_not_count_as_ready() -> None:
    with Prefetcher(Maker(fail_begin=0), 0, 3, 2) as batches:
        assert wait_until(lambda: not headrace_threads())
        assert not batches.is_ready


# -- room and idleness ------------------------------------------------------------------------------------------------


def test_idleness_is_counted_while_it_lasts() -> None:
    with Prefetcher(Maker(), 0, 100, 2) as batches:
        time.sleep(0.05)
        assert next(batches) == 0
        counted = batches.idle_s
        assert counted >= 0.02
        time.sleep(0.05)
        assert next(batches) == 1
        assert batches.idle_s >= counted + 0.02


def test_a_maker_that_is_slow_is_not_idle() -> None:
    with Prefetcher(Maker(delay_s=0.005), 0, 20, 4) as batches:
        assert list(batches) == list(range(20))
        assert batches.idle_s < 0.05


def test_more_or_fewer_batches_may_wait_from_now_on() -> None:
    maker = Maker()
    with Prefetcher(maker, 0, 100, 1) as batches:
        assert wait_until(lambda: len(maker.begun) == 2)
        batches.set_batches_ahead(9)
        assert wait_until(lambda: len(maker.begun) == 10)
        batches.set_batches_ahead(1)
        assert [next(batches) for _ in range(4)] == [0, 1, 2, 3]
        time.sleep(0.02)
        assert len(maker.begun) == 10
        assert [next(batches) for _ in range(96)] == list(range(4, 100))
