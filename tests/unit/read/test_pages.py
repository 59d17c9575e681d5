from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import headrace_threads, run_script

from headrace._native import RangeReader
from headrace.errors import FormatError
from headrace.read import PageCache, PageWalk, RangeSource

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.types import Source

PAGE = 4096
PAGES = 10
SIZE = PAGE * (PAGES - 1) + 100  # the last page is short


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "data"
    path.write_bytes(np.random.default_rng(0).bytes(SIZE))
    return path


class CountingSource(RangeSource):
    """Knows how often it was asked."""

    calls = 0

    def locate(self, pointers: Any, sizes: Any) -> Any:
        self.calls += 1
        return super().locate(pointers, sizes)


def make_cache(path: Path, slots: int) -> PageCache:
    reader = RangeReader(str(path))
    fallback = CountingSource(str(path), reader, np.empty)
    options: dict[str, Any] = {"page_size": PAGE, "size_bytes": slots * PAGE, "file_size": SIZE, "fallback": fallback}
    return PageCache(str(path), reader, **options)


def read(source: Source, *spans: tuple[int, int]) -> list[bytes]:
    pointers = np.array([start for start, _ in spans], np.uint64)
    sizes = np.array([size for _, size in spans], np.uint64)
    base, places = source.locate(pointers, sizes)
    return [base[int(p) : int(p) + size].tobytes() for p, (_, size) in zip(places, spans, strict=True)]


def spans_at(pointer: int) -> tuple[Any, Any]:
    return np.array([pointer], np.uint64), np.array([5], np.uint64)


def on_page(page: int) -> tuple[int, int]:
    return (page * PAGE + 7, 50)


def walk_through(path: Path, steps: list[list[int]], slots: int) -> int:
    """Read something from every page of every step; gives back how often the cache was not asked."""
    data, cache = path.read_bytes(), make_cache(path, slots)
    with cache.walk(lambda step: np.array(steps[step]), 0, len(steps)) as walk:
        for number, pages in enumerate(steps):
            with walk.step(number) as source:
                spans = [on_page(page) for page in pages]
                assert read(source, *spans) == [data[a : a + n] for a, n in spans]
    assert isinstance(cache.fallback, CountingSource)
    return cache.fallback.calls


@pytest.mark.parametrize("slots", [2, 3, 10, 100])
def test_pages_are_there_when_their_step_is_entered(file: Path, slots: int) -> None:
    steps = [[0, 1], [1], [1, 2], [5, 4], [9], [9, 0], [0]]
    assert walk_through(file, steps, slots) == 0


@pytest.mark.timeout(20)  # a walk may not wait for itself
@pytest.mark.parametrize("seed", range(8))
def test_any_steps_with_any_room_come_to_an_end(file: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        slots = rng.randint(2, 6)
        steps = [[rng.randrange(PAGES) for _ in range(rng.randint(1, slots))] for _ in range(12)]
        for k in range(1, 12):  # often the same pages again: then the next step is ready without any read
            if rng.random() < 0.6:
                steps[k] = steps[k - 1]
        assert walk_through(file, steps, slots) == 0


def test_a_step_of_more_pages_than_there_is_room_for_reads_for_itself(file: Path) -> None:
    assert walk_through(file, [[0], [0, 1, 2, 3], [4, 5]], 2) == 1


def test_less_room_than_two_pages_is_two_pages(file: Path) -> None:
    assert make_cache(file, 0).slots == 2
    assert make_cache(file, 1000).slots == PAGES  # and no more than the file has


def test_pages_of_other_steps_are_not_trusted(file: Path) -> None:
    """They may be thrown out at any moment, for nobody waits for this step to be left."""
    cache, data = make_cache(file, 4), file.read_bytes()
    with cache.walk(lambda step: np.array([step]), 0, 3) as walk:
        for step in range(3):
            with walk.step(step) as source:
                a, n = on_page(0)
                assert read(source, (a, n)) == [data[a : a + n]]
    assert isinstance(cache.fallback, CountingSource)
    assert cache.fallback.calls == 2


def test_spans_over_two_pages_and_empty_ones(file: Path) -> None:
    cache, data = make_cache(file, 4), file.read_bytes()
    with cache.walk(lambda step: np.array([1, 2]), 0, 1) as walk, walk.step(0) as source:
        assert read(source, (2 * PAGE - 3, 6)) == [data[2 * PAGE - 3 : 2 * PAGE + 3]]
        assert read(source, (0, 0), on_page(1), (99 * PAGE, 0)) == [b"", data[PAGE + 7 : PAGE + 57], b""]
        assert read(source) == []


def test_a_page_is_kept_as_long_as_its_step(file: Path) -> None:
    cache, data = make_cache(file, 2), file.read_bytes()
    with cache.walk(lambda step: np.array([step]), 0, 8) as walk, walk.step(0) as source:
        a, n = on_page(0)
        base, places = source.locate(np.array([a], np.uint64), np.array([n], np.uint64))
        time.sleep(0.05)  # the reader would like to go on, and must not
        assert base[int(places[0]) :][:n].tobytes() == data[a : a + n]


def test_a_walk_may_begin_in_the_middle(file: Path) -> None:
    asked: list[int] = []

    def pages_of(step: int) -> Any:
        asked.append(step)
        return np.array([step])

    with make_cache(file, 2).walk(pages_of, 5, 9) as walk:
        for step in range(5, 9):
            with walk.step(step):
                pass
    assert sorted(set(asked)) == [5, 6, 7, 8]


def test_walks_at_a_time_have_memory_of_their_own_and_give_it_back(file: Path) -> None:
    cache, data = make_cache(file, 2), file.read_bytes()

    def address(source: Source) -> int:
        return source.locate(*spans_at(0))[0].ctypes.data

    with (
        cache.walk(lambda step: np.array([0]), 0, 1) as one,
        cache.walk(lambda step: np.array([9]), 0, 1) as two,
        one.step(0) as first,
        two.step(0) as second,
    ):
        assert read(first, (3, 9)) == [data[3:12]]
        assert read(second, (9 * PAGE, 9)) == [data[9 * PAGE :][:9]]
        memories = {address(first), second.locate(*spans_at(9 * PAGE))[0].ctypes.data}
        assert len(memories) == 2
    with cache.walk(lambda step: np.array([0]), 0, 1) as again, again.step(0) as source:
        assert address(source) in memories


# -- endings ------------------------------------------------------------------------------------------------------


def test_closing_ends_the_thread_and_whoever_waits(file: Path) -> None:
    walk = make_cache(file, 2).walk(lambda step: np.array([step]), 0, 8)
    problems: list[BaseException] = []

    def wait_for_ever() -> None:
        try:
            with walk.step(7):  # no step before it is ever entered
                pass
        except RuntimeError as error:
            problems.append(error)

    waiting = threading.Thread(target=wait_for_ever)
    waiting.start()
    time.sleep(0.05)
    walk.close()
    walk.close()
    waiting.join(5)
    assert str(problems[0]) == "the pages of a closed walk were asked for"
    assert headrace_threads() == []


def test_a_failed_read_is_raised_by_the_step_that_needs_it(file: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(file.read_bytes()[: 5 * PAGE + 10])
    entered: list[int] = []

    def enter_all(walk: PageWalk) -> None:
        for step in range(9):
            with walk.step(step):
                entered.append(step)

    with make_cache(short, 2).walk(lambda step: np.array([step]), 0, 9) as walk:
        with pytest.raises(FormatError, match=f"{PAGE} bytes cannot be read .*the file ended") as caught:
            enter_all(walk)
        with pytest.raises(FormatError), walk.step(8):
            pass
    assert entered in ([0, 1, 2, 3], [0, 1, 2, 3, 4])  # two pages are read at once
    assert caught.value.offset == 5 * PAGE
    assert caught.value.path == str(short)
    assert headrace_threads() == []


def test_a_failing_choice_of_pages_is_raised_too(file: Path) -> None:
    def fail(step: int) -> Any:
        raise ZeroDivisionError("no pages")

    with make_cache(file, 2).walk(fail, 0, 3) as walk, pytest.raises(ZeroDivisionError, match="no pages"), walk.step(0):
        pass


def test_a_walk_that_nobody_closed_does_not_disturb_the_exit(file: Path) -> None:
    code = """
        import sys
        import numpy as np
        from headrace._native import RangeReader
        from headrace.read import PageCache
        reader = RangeReader(sys.argv[1])
        cache = PageCache(
            sys.argv[1], reader, page_size=4096, size_bytes=2 * 4096, file_size=reader.size, fallback=None
        )
        walk = cache.walk(lambda step: np.array([step]), 0, 9)
        """
    result = run_script(code, file)
    assert (result.returncode, result.stderr) == (0, "")
