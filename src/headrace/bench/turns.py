"""Contenders that take turns, on cores of their own: what makes times comparable."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["cores", "one_core", "take_turns", "timed"]


@contextlib.contextmanager
def one_core() -> Iterator[int]:
    """Keep this process, and what it starts, on one core."""
    with cores(1):
        yield max(os.sched_getaffinity(0))


@contextlib.contextmanager
def cores(count: int) -> Iterator[int]:
    """Keep this process, and what it starts, on some cores; gives how many there are, which may be fewer."""
    before = os.sched_getaffinity(0)
    chosen = sorted(before)[-count:]
    os.sched_setaffinity(0, chosen)
    try:
        yield len(chosen)
    finally:
        os.sched_setaffinity(0, before)


def timed(work: Callable[[], object], repeats: int = 5) -> list[float]:
    """Seconds of each repetition, after one that does not count."""
    work()
    seconds = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start_s)
    return seconds


def take_turns(
    contenders: Mapping[str, Callable[[Any], object]],
    work: Callable[[int], Sequence[Any]],
    rounds: int,
    *,
    before: Callable[[str], object] = lambda name: None,
    longest_s: float = 0.4,
) -> dict[str, list[float]]:
    """Seconds of one item of work for each contender and round; in a round all do the same, one after the other.

    A contender that would take longer than ``longest_s`` does the first items alone.

    Example:
        >>> taken = take_turns({"a": lambda item: None, "b": lambda item: None}, lambda turn: [turn], rounds=3)
        >>> {name: len(seconds) for name, seconds in taken.items()}
        {'a': 3, 'b': 3}
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(1 + rounds):  # the first does not count
        items = work(turn)
        for name, do in contenders.items():
            before(name)
            start_s, done = time.perf_counter(), 0
            for item in items:
                do(item)
                done += 1
                if time.perf_counter() - start_s > longest_s:
                    break
            if turn:
                seconds[name].append((time.perf_counter() - start_s) / done)
    return seconds
