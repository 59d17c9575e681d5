"""Contenders that take turns, on cores of their own: what makes times comparable."""

from __future__ import annotations

import contextlib
import os
import random
import time
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["cores", "in_turn", "one_core", "self_timed", "take_turns", "timed"]


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


def in_turn(names: Sequence[str], turn: int) -> list[str]:
    """The names in another order for each round, so that nobody always comes after the same one.

    Each round begins with the next of them, and the rest follow by chance, which is the same in every run.

    Example:
        >>> in_turn(["a", "b", "c"], 4)[0]
        'b'
        >>> sorted(in_turn(["a", "b", "c"], 4))
        ['a', 'b', 'c']
    """
    first = turn % max(1, len(names))
    rest = [*names[first + 1 :], *names[:first]]
    random.Random(turn).shuffle(rest)
    return [*names[first : first + 1], *rest]


def take_turns(
    contenders: Mapping[str, Callable[[Any], object]],
    work: Callable[[int], Sequence[Any]],
    rounds: int,
    *,
    before: Callable[[str], object] = lambda name: None,
    size: Callable[[Any], float] = lambda item: 1,
    longest_s: float = 0.4,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of one item of work for each contender and round; in a round all do the same, one after the other.

    Each round begins with another contender. One that would take longer than ``longest_s`` does the first items alone;
    ``size`` says how much work an item is, where they differ: then it is the seconds of one such unit.

    Example:
        >>> taken = take_turns({"a": lambda item: None, "b": lambda item: None}, lambda turn: [turn], rounds=3)
        >>> {name: len(seconds) for name, seconds in taken.items()}
        {'a': 3, 'b': 3}
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(1 + rounds):  # the first does not count
        items = work(turn)
        for name in in_turn(list(contenders), turn):
            before(name)
            start_s, done = clock(), 0.0
            for item in items:
                contenders[name](item)
                done += size(item)
                if clock() - start_s > longest_s:
                    break
            if turn:
                seconds[name].append((clock() - start_s) / done)
    return seconds


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """What does the work, and gives its seconds."""

    def run() -> float:
        start_s = time.perf_counter()
        work()
        return time.perf_counter() - start_s

    return run


def self_timed(
    contenders: Mapping[str, Callable[[], float]],
    rounds: int,
    peers: Sequence[str] = (),
    *,
    last_rounds: Mapping[str, int] | None = None,
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds that contenders say themselves, in turns; and why peers have failed, which then are left out.

    The first round does not count. ``last_rounds`` names contenders that take part in so many of the last rounds alone,
    because they take long; they must need no round that does not count.

    Example:
        >>> self_timed({"a": lambda: 1.0, "b": lambda: 2.0}, 2)
        ({'a': [1.0, 1.0], 'b': [2.0, 2.0]}, {})
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    failures: dict[str, str] = {}
    begin = {name: 1 + rounds - min(count, rounds) for name, count in (last_rounds or {}).items()}
    for turn in range(1 + rounds):
        for name in in_turn([name for name in contenders if name not in failures], turn):
            if turn < begin.get(name, 0):
                continue
            try:
                seconds[name].append(contenders[name]())
            except HeadraceError as error:
                if name not in peers:
                    raise
                failures[name] = str(error)
    found = {name: taken[0 if name in begin else 1 :] for name, taken in seconds.items() if name not in failures}
    return found, failures
