from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.counter_random import random_bits
from headrace.order import (
    RandomOrder,
    permute,
)

SEEDS = st.integers(-(2**63), 2**63 - 1)


@given(n=st.integers(0, 700), seed=SEEDS, epoch=st.integers(0, 1000))
def test_every_index_exactly_once(n: int, seed: int, epoch: int) -> None:
    assert sorted(RandomOrder(n, seed, epoch).slice(0, n).tolist()) == list(range(n))


@given(n=st.integers(1, 2**40), seed=SEEDS, data=st.data())
def test_any_slice_stays_in_range_without_memory(n: int, seed: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, n - 1))
    order = RandomOrder(n, seed, 0)
    found = order.slice(start, start + 100)
    assert len(found) == min(100, n - start)
    assert len(np.unique(found)) == len(found)
    assert 0 <= found.min() <= found.max() < n
    middle = order.slice(start + len(found) // 2, start + len(found))
    np.testing.assert_array_equal(found[len(found) // 2 :], middle)


def test_the_permutation_is_well_mixed() -> None:
    n = 10_000
    order = RandomOrder(n, seed=3, epoch=1).slice(0, n)
    assert abs(np.corrcoef(np.arange(n), order)[0, 1]) < 0.04
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.04
    steps = np.abs(np.diff(order))
    assert abs(steps.mean() - n / 3) < 0.03 * n
    first = [RandomOrder(10, seed, 0).slice(0, 1)[0] for seed in range(3000)]
    assert np.abs(np.bincount(first, minlength=10) - 300).max() < 90


def test_seeds_and_epochs_differ() -> None:
    orders = [RandomOrder(100, s, e).slice(0, 100).tolist() for s in range(3) for e in range(3)]
    assert len({tuple(order) for order in orders}) == 9


def test_permute_of_next_to_nothing() -> None:
    assert permute(np.arange(0), 0, key=(1,)).tolist() == []
    assert permute(np.arange(1), 1, key=(1,)).tolist() == [0]


def twin(position: int, n: int, key: tuple[int, ...]) -> int:
    """The definition once more, in plain integers. A change would change the order of every user's samples."""
    a = math.isqrt(n - 1) + 1
    b = -(-n // a)
    while True:
        high, low = divmod(position, b)
        for i in range(5):
            high = (high + int(random_bits(*key, 2 * i, low))) % a
            low = (low + int(random_bits(*key, 2 * i + 1, high))) % b
        position = high * b + low
        if position < n:
            return position


@given(n=st.integers(2, 2**63), seed=st.integers(-(2**70), 2**70), place=st.floats(0, 0.999))
def test_permutations_are_what_they_were_defined_to_be(n: int, seed: int, place: float) -> None:
    positions = np.unique(np.array([0, 1, int(place * n) % n, n - 1], np.int64))
    expected = [twin(position, n, (seed, 3, 0x6F01)) for position in positions.tolist()]
    assert permute(positions, n, key=(seed, 3, 0x6F01)).tolist() == expected
