"""How a loader chooses workers and batches ahead: as a pure function, and in real loops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import picture
from tests.unit.loader.tools import CROP, values_of, write_pictures

from headrace import Loader, ops
from headrace.loader.stats import LoaderStats
from headrace.loader.tuner import Bounds, Choice, Seen, Tuner, affordable_batches, tune

if TYPE_CHECKING:
    from pathlib import Path

BOUNDS = Bounds(1, 16, 16)


def seen(
    rate: float = 1000,
    *,
    wait: float = 0.0,
    idle: float = 0.0,
    busy: float = 0.5,
    workers: int = 8,
    elapsed_s: float = 2.0,
) -> Seen:
    """A loop by its shares: of waiting, of idling, and of the workers' time in which they worked."""
    shares = (wait * elapsed_s, idle * elapsed_s, busy * workers * elapsed_s)
    return Seen(elapsed_s, *shares, samples=int(rate * elapsed_s))


# -- the pure function ------------------------------------------------------------------------------------------------


def test_more_workers_when_the_consumer_waits_for_them() -> None:
    choice, why = tune(Choice(8, 3), seen(wait=0.3, busy=0.95), BOUNDS)
    assert choice.workers == 10
    assert why == "workers 8 to 10: the consumer waited for 30 % of the loop"
    assert tune(Choice(1, 3), seen(wait=0.9, busy=1.0, workers=1), BOUNDS)[0].workers == 2
    assert tune(Choice(15, 3), seen(wait=0.3, busy=0.9, workers=15), BOUNDS)[0].workers == 16
    assert tune(Choice(16, 3), seen(wait=0.3, busy=0.9, workers=16), BOUNDS) == (Choice(16, 3, quiet=1), "")


def test_no_more_workers_when_something_else_is_slow() -> None:
    """The disk, or an op in Python: the workers themselves have time."""
    assert tune(Choice(8, 3), seen(wait=0.8, busy=0.3), BOUNDS)[1] == ""


def test_more_that_bring_nothing_are_taken_back_and_not_tried_soon() -> None:
    tried, _ = tune(Choice(8, 3), seen(1000, wait=0.3, busy=0.95), BOUNDS)
    back, why = tune(tried, seen(1010, wait=0.3, busy=0.95, workers=10), BOUNDS)
    assert (back.workers, back.ceiling) == (8, 8)
    assert why == "workers 10 back to 8: more made the loop no faster"
    for _ in range(back.patience - 1):
        back, why = tune(back, seen(1000, wait=0.3, busy=0.95), BOUNDS)
        assert (back.workers, why) == (8, "")
    forgotten, _ = tune(back, seen(1000, wait=0.3, busy=0.95), BOUNDS)
    again, _ = tune(forgotten, seen(1000, wait=0.3, busy=0.95), BOUNDS)
    assert again.workers == 10
    assert again.patience == 2 * Choice(8, 3).patience  # and the next time later


def test_more_that_help_stay() -> None:
    tried, _ = tune(Choice(8, 3), seen(1000, wait=0.3, busy=0.95), BOUNDS)
    kept, why = tune(tried, seen(1200, wait=0.1, busy=0.95, workers=10), BOUNDS)
    assert (kept.workers, kept.before, why) == (10, None, "")


def test_fewer_workers_when_the_consumer_is_slow() -> None:
    choice, why = tune(Choice(8, 3), seen(idle=0.5, busy=0.4), BOUNDS)
    assert (choice.workers, why) == (4, "workers 8 to 4: the loader was idle for 50 % of the loop")
    assert tune(Choice(8, 3), seen(idle=0.3, busy=0.6), BOUNDS)[0].workers == 6
    assert tune(Choice(8, 3), seen(idle=0.9, busy=0.01), BOUNDS)[0].workers == 4  # not all at once


@pytest.mark.parametrize("rate", [900, 1000, 1040])
def test_fewer_that_do_not_help_are_taken_back(rate: float) -> None:
    tried, _ = tune(Choice(8, 3), seen(1000, idle=0.5, busy=0.4), BOUNDS)
    back, why = tune(tried, seen(rate, wait=0.0, busy=0.9, workers=4), BOUNDS)
    assert (back.workers, back.floor, why) == (8, 8, "workers 4 back to 8: fewer made the loop no faster")
    assert tune(back, seen(1000, idle=0.5, busy=0.4), BOUNDS)[0].workers == 8


def test_fewer_are_compared_twice() -> None:
    """A training that warms up is faster with anything that comes later."""
    tried, _ = tune(Choice(8, 3), seen(1000, idle=0.5, busy=0.4), BOUNDS)
    again, why = tune(tried, seen(1200, idle=0.3, busy=0.7, workers=4), BOUNDS)
    assert (again.workers, why) == (8, "workers 4 back to 8: to compare once more")
    kept, why = tune(again, seen(1300, idle=0.5, busy=0.4), BOUNDS)
    assert (kept.workers, kept.floor, why) == (8, 8, "workers stay 8: fewer made the loop no faster")
    assert tune(kept, seen(1300, idle=0.5, busy=0.4), BOUNDS)[1] == ""
    fewer, why = tune(again, seen(1000, idle=0.5, busy=0.4), BOUNDS)
    assert (fewer.workers, why) == (4, "workers 8 to 4: the loop was faster with them")
    assert (fewer.before, fewer.fewer) == (None, None)


def test_more_ahead_when_the_consumer_comes_in_bursts() -> None:
    choice, why = tune(Choice(8, 3), seen(wait=0.04, idle=0.2), BOUNDS)
    assert (choice.workers, choice.batches_ahead) == (8, 6)
    assert why == "batches ahead 3 to 6: the consumer waited, and the loader was idle at times"
    assert tune(Choice(8, 12), seen(wait=0.04, idle=0.2), BOUNDS)[0].batches_ahead == 16
    assert tune(Choice(8, 16), seen(wait=0.04, idle=0.2), BOUNDS)[0].batches_ahead == 16


def test_nothing_changes_where_there_is_no_choice() -> None:
    fixed = Bounds(8, 8, 3)
    for wait in (0.0, 0.04, 0.5):
        for idle in (0.0, 0.2, 0.9):
            for busy in (0.0, 0.4, 1.0):
                choice, why = tune(Choice(8, 3), seen(wait=wait, idle=idle, busy=busy), fixed)
                assert (choice.workers, choice.batches_ahead, why) == (8, 3, "")


def test_workers_that_have_nothing_to_do_are_left_alone() -> None:
    """A dataset without pictures: how many workers there are says nothing."""
    assert tune(Choice(8, 3), seen(idle=0.9, busy=0.0), BOUNDS)[1] == ""


@pytest.mark.parametrize("cost_s", [0.0002, 0.001, 0.004])
@pytest.mark.parametrize("consumer_rate", [300, 2000, 1e9])
@pytest.mark.parametrize("first", [1, 6, 16])
def test_a_made_up_machine_is_tuned_and_stays_so(cost_s: float, consumer_rate: float, first: int) -> None:
    """16 cores, of which the consumer needs two: workers beyond 14 cost it dearly."""

    def loop(workers: int) -> Seen:
        made = min(workers, 16) / cost_s
        used = consumer_rate * (1.0 if workers <= 14 else 0.6)
        rate = min(made, used)
        return seen(
            rate,
            wait=max(0.0, 1 - rate / used),
            idle=max(0.0, 1 - rate / made),
            busy=rate * cost_s / workers,
            workers=workers,
        )

    choice, rates, changes = Choice(first, 3), [], 0
    for _ in range(200):
        now = loop(choice.workers)
        rates.append(now.rate)
        after, _ = tune(choice, now, BOUNDS)
        changes += after.workers != choice.workers
        choice = after
    best = max(loop(workers).rate for workers in range(1, 17))
    assert sum(rates[50:]) / 150 > 0.95 * best
    assert changes <= 24


def test_memory_bounds_what_waits() -> None:
    batch = [memoryview(bytes(1 << 20)), b"x", ["y"]]
    assert affordable_batches(batch, 64 << 20) == 8
    assert affordable_batches([], 64 << 20) > 1000
    stats = LoaderStats(workers=2, batches_ahead=3)
    tuner = Tuner(stats, BOUNDS, lambda workers: None)
    tuner.note_batch([memoryview(bytes(1 << 20))], lambda ahead: None)
    assert tuner.bounds.most_ahead == 16


def test_what_is_ahead_is_never_fewer_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.loader.tuner.available_bytes", lambda: 1)
    tuner = Tuner(LoaderStats(workers=2, batches_ahead=3), BOUNDS, lambda workers: None)
    tuner.note_batch([memoryview(bytes(1 << 20))], lambda ahead: None)
    assert tuner.bounds.most_ahead == 3


# -- real loops -------------------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at short whiles, on a machine that has eight cores, it believes."""
    monkeypatch.setattr(Tuner, "window_s", 0.03)
    monkeypatch.setattr(Tuner, "window_batches", 3)
    monkeypatch.setattr("headrace.loader.options.own_cores", lambda: 8)


def epochs(loader: Loader, *, count: int, pause_s: float) -> list[Any]:
    found = []
    for _ in range(count):
        for batch in loader:
            found.append(values_of(batch))
            time.sleep(pause_s)
    return found


def run_until_changed(loader: Loader, pause_s: float, *words: str) -> bool:
    """A machine that is busy with other things may hide what a loop is like, for a while."""
    for _ in range(100):
        epochs(loader, count=1, pause_s=pause_s)
        if any(all(word in change for word in words) for change in loader.stats.changes):
            return True
    return False


@pytest.mark.usefixtures("hasty")
def test_a_slow_consumer_gets_its_cores_back(path: Path) -> None:
    loader = Loader(path, 2, order="random", pipelines={"image": CROP})
    assert (loader.options.workers, loader.stats.workers) == ("auto", 6)
    assert run_until_changed(loader, 0.01, "workers 6 to", "the loader was idle for")
    assert loader._native.threads == loader.stats.workers
    assert loader.stats.changes[-1] in str(loader.stats).splitlines()[-1]


@pytest.mark.usefixtures("hasty")
def test_a_fast_consumer_gets_more_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.loader.options.starting_workers", lambda cores: 1)
    pixels = [picture(i, 600, 800) for i in range(20)]
    loader = Loader(write_pictures(tmp_path / "x.beton", pixels, mode="jpg"), 2, pipelines={"image": [ops.Resize(64)]})
    assert loader.stats.workers == 1
    assert run_until_changed(loader, 0.0, "workers 1 to 2", "the consumer waited for")
    assert loader._native.threads == loader.stats.workers


@pytest.mark.usefixtures("hasty")
def test_numbers_that_are_given_stay(path: Path) -> None:
    loader = Loader(path, 2, pipelines={"image": CROP}, workers=6, batches_ahead=3)
    epochs(loader, count=6, pause_s=0.01)
    assert (loader.stats.workers, loader.stats.batches_ahead, loader.stats.changes) == (6, 3, [])


@pytest.mark.usefixtures("hasty")
def test_one_of_the_two_may_be_given(path: Path) -> None:
    loader = Loader(path, 2, pipelines={"image": CROP}, workers="auto", batches_ahead=2)
    assert run_until_changed(loader, 0.01, "workers 6 to")
    assert loader.stats.batches_ahead == 2


@pytest.mark.usefixtures("hasty")
def test_batches_are_the_same_however_it_is_tuned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"order": "random", "seed": 5, "pipelines": {"image": CROP}}
    expected = epochs(Loader(path, 3, workers=1, batches_ahead=1, **options), count=8, pause_s=0.0)
    slow = Loader(path, 3, **options)
    assert epochs(slow, count=8, pause_s=0.004) == expected
    fast = Loader(path, 3, **options)
    assert epochs(fast, count=8, pause_s=0.0) == expected
    turns = iter(range(10**6))
    wild = lambda choice, seen, bounds: (Choice(1 + next(turns) % 8, 1 + next(turns) % 6), "for the test")  # noqa: E731
    monkeypatch.setattr("headrace.loader.tuner.tune", wild)
    monkeypatch.setattr(Tuner, "window_s", 0.0)
    monkeypatch.setattr(Tuner, "window_batches", 1)
    restless = Loader(path, 3, **options)
    assert epochs(restless, count=8, pause_s=0.001) == expected
    assert restless.stats.changes
