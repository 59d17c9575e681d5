from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.errors import ClosedError, RemoteError
from headrace.loader.streaming import ComingSteps, Streaming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.types import IndexArray


class _Announced:
    def __init__(self, samples: list[int], size_bytes: int) -> None:
        self.samples = samples
        self.size_bytes = size_bytes
        self.came = threading.Event()
        self.is_closed = self.is_used_up = False
        self.error: BaseException | None = None
        self.is_cached = False
        self.times: list[tuple[float, float]] = []

    def distrust(self) -> None: ...

    def needed_again(self, use: float, next_use: float) -> None:
        self.times.append((use, next_use))

    def wait(self) -> None:
        assert self.came.wait(10)
        if self.error is not None:
            raise self.error

    def close(self, *, used_up: bool = False) -> None:
        if not self.came.is_set():
            self.error = ClosedError("closed")
        self.is_closed, self.is_used_up = True, used_up
        self.came.set()


class _Dataset:
    """Counts what is announced; ten bytes a sample."""

    def __init__(self, *, comes: bool = True, is_cached: bool = False) -> None:
        self.comes, self.is_cached = comes, is_cached
        self.announced: list[_Announced] = []
        self.fields: Sequence[str] = ()
        self.fails_at: int | None = None

    def announce(self, indices: IndexArray, fields: Sequence[str]) -> _Announced:
        if len(self.announced) == self.fails_at:
            raise RemoteError("s3://bucket/x", problem="it is gone")
        self.fields = fields
        self.announced.append(_Announced(indices.tolist(), 10 * len(indices)))
        self.announced[-1].is_cached = self.is_cached
        if self.comes:
            self.announced[-1].came.set()
        return self.announced[-1]

    @property
    def open(self) -> list[list[int]]:
        return [one.samples for one in self.announced if not one.is_closed]


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    assert not [one for one in threading.enumerate() if one.name == "headrace-streaming"]


def _coming(dataset: _Dataset, **options: Any) -> ComingSteps:
    any_dataset: Any = dataset
    return ComingSteps(any_dataset, ("image",), lambda step: np.arange(4 * step, 4 * step + 4), **options)


def _eventually(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not become true within 5 s")


def test_steps_are_announced_in_order_and_let_go() -> None:
    dataset = _Dataset()
    with Streaming(_coming(dataset), 1, 6) as streaming:
        for step in range(1, 6):
            with streaming.step(step) as source:
                assert source is None
                assert list(range(4 * step, 4 * step + 4)) in dataset.open
            assert list(range(4 * step, 4 * step + 4)) not in dataset.open
    assert [one.samples[0] for one in dataset.announced] == [4, 8, 12, 16, 20]
    assert dataset.fields == ("image",)
    assert dataset.open == []
    assert not any(one.is_used_up for one in dataset.announced)  # others may need what lies beside


def test_so_many_bytes_ahead_and_no_more() -> None:
    dataset = _Dataset()
    with Streaming(_coming(dataset), 0, 100, ahead_bytes=200) as streaming:
        _eventually(lambda: len(dataset.announced) == 5)
        time.sleep(0.05)
        assert len(dataset.announced) == 5
        with streaming.step(0):
            _eventually(lambda: len(dataset.announced) == 6)
    assert dataset.open == []


def test_two_steps_ahead_in_any_case() -> None:
    dataset = _Dataset()
    with Streaming(_coming(dataset), 0, 100, ahead_bytes=1):
        _eventually(lambda: len(dataset.announced) == 2)


def test_pages_come_whole_and_once() -> None:
    dataset = _Dataset()
    pages = np.arange(40) % 2 + 10 * (np.arange(40) // 20)  # two pages at a time, of ten samples each
    with Streaming(_coming(dataset, pages=pages), 0, 10) as streaming:
        for step in range(10):
            with streaming.step(step):
                pass
    assert [one.samples for one in dataset.announced] == [
        list(range(0, 20, 2)),
        list(range(1, 20, 2)),
        list(range(20, 40, 2)),
        list(range(21, 40, 2)),
    ]
    assert dataset.open == []
    assert all(one.is_used_up for one in dataset.announced)


def test_pages_that_are_left_before_their_end_are_not_used_up() -> None:
    dataset = _Dataset()
    with Streaming(_coming(dataset, pages=np.zeros(8, np.int64)), 0, 2) as streaming, streaming.step(0):
        pass
    assert [one.is_used_up for one in dataset.announced] == [False]


def test_of_pages_only_the_samples_of_the_epoch() -> None:
    dataset = _Dataset()
    coming = _coming(dataset, pages=np.zeros(12, np.int64), samples=np.array([3, 1, 5, 3]))
    with Streaming(coming, 0, 1) as streaming, streaming.step(0):
        assert dataset.open == [[1, 3, 5]]


def test_a_rank_brings_its_own_pages_whole_and_of_others_the_samples_of_a_step() -> None:
    dataset = _Dataset()
    pages = np.repeat([7, 8, 9], [8, 8, 4])  # of page 8 another rank has half, of page 9 one of four
    own = np.r_[0:8, 8:12, 16:19]
    any_dataset: Any = dataset
    steps = [[0, 8, 16], [1, 9, 10], [17, 18, 2], [3, 4, 11], [5, 6, 7]]
    coming = ComingSteps(any_dataset, ("image",), lambda k: np.array(steps[k]), pages=pages, own=lambda: own[::-1])
    expected = [[8], [0, 1, 2, 3, 4, 5, 6, 7], [16, 17, 18], [9, 10], [11]]
    with Streaming(coming, 0, 5) as streaming:
        for step in range(5):
            with streaming.step(step):
                assert set(steps[step]) <= {sample for samples in dataset.open for sample in samples}
        assert [one.samples for one in dataset.announced] == expected
        assert dataset.open == []


def test_an_error_is_raised_by_its_step() -> None:
    dataset = _Dataset()
    dataset.fails_at = 2
    with Streaming(_coming(dataset), 0, 5) as streaming:
        for step in range(2):
            with streaming.step(step):
                pass
        with pytest.raises(RemoteError, match="it is gone"), streaming.step(2):
            pass


def test_what_does_not_come_is_raised_by_its_step() -> None:
    dataset = _Dataset(comes=False)
    with Streaming(_coming(dataset), 0, 5) as streaming:
        _eventually(lambda: len(dataset.announced) == 5)
        dataset.announced[0].error = RemoteError("s3://bucket/x", problem="no network")
        dataset.announced[0].came.set()
        with pytest.raises(RemoteError, match="no network"), streaming.step(0):
            pass


def test_stopping_wakes_who_waits() -> None:
    dataset = _Dataset(comes=False)
    errors: list[BaseException] = []
    with Streaming(_coming(dataset), 0, 5) as streaming:

        def enter() -> None:
            try:
                with streaming.step(0):
                    pass
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        time.sleep(0.05)
        streaming.stop()
        thread.join(5)
        with pytest.raises(ClosedError), streaming.step(4):
            pass
    assert isinstance(errors[0], ClosedError)
    assert dataset.open == []


class TestNextUses:
    def _walk(self, dataset: _Dataset, steps: int = 6, **options: Any) -> None:
        with Streaming(_coming(dataset, **options), 0, steps) as streaming:
            for step in range(steps):
                with streaming.step(step):
                    pass

    def test_every_part_is_told_once(self) -> None:
        dataset = _Dataset(is_cached=True)
        self._walk(dataset, next_uses=lambda: lambda part, step: (part, step + 100))
        assert [one.times for one in dataset.announced] == [[(step, step + 100)] for step in range(6)]

    def test_pages_are_told_by_their_number_and_first_step(self) -> None:
        dataset = _Dataset(is_cached=True)
        pages = np.arange(24) // 6 + 50
        self._walk(dataset, pages=pages, next_uses=lambda: lambda part, step: (part, step + 100))
        assert [one.times for one in dataset.announced] == [[(50, 100)], [(51, 101)], [(52, 103)], [(53, 104)]]

    def test_of_what_nobody_knows_nothing_is_told(self) -> None:
        dataset = _Dataset(is_cached=True)
        self._walk(dataset, next_uses=lambda: lambda part, step: (part, step) if part % 2 else None)
        assert [one.times for one in dataset.announced] == [[], [(1, 1)], [], [(3, 3)], [], [(5, 5)]]

    @pytest.mark.parametrize("steps", [1, 2, 3])
    def test_epochs_of_few_steps(self, steps: int) -> None:
        dataset = _Dataset(is_cached=True)
        self._walk(dataset, steps, next_uses=lambda: lambda part, step: (part, step + 100))
        assert [one.times for one in dataset.announced] == [[(step, step + 100)] for step in range(steps)]

    def test_it_is_found_out_after_two_steps_were_announced(self) -> None:
        dataset = _Dataset(is_cached=True)
        announced: list[int] = []

        def next_uses() -> Any:
            announced.append(len(dataset.announced))
            return lambda part, step: (part, step)

        self._walk(dataset, next_uses=next_uses)
        assert announced == [2]

    def test_nobody_asks_where_nothing_is_kept(self) -> None:
        def next_uses() -> Any:
            raise AssertionError("it is of no use")

        dataset = _Dataset()
        self._walk(dataset, next_uses=next_uses)
        assert all(not one.times for one in dataset.announced)

    def test_an_error_is_raised_by_a_step(self) -> None:
        def next_uses() -> Any:
            raise MemoryError

        with pytest.raises(MemoryError):
            self._walk(_Dataset(is_cached=True), next_uses=next_uses)

    def test_an_error_that_comes_late_is_raised_by_the_step_after(self) -> None:
        is_time = threading.Event()

        def next_uses() -> Any:
            assert is_time.wait(10)
            raise MemoryError

        with Streaming(_coming(_Dataset(is_cached=True), next_uses=next_uses), 0, 6) as streaming:
            for step in range(2):
                with streaming.step(step):
                    pass
            is_time.set()
            with pytest.raises(MemoryError), streaming.step(2):
                pass
