from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.counter_random import random_bits, random_uniform
from headrace.order import (
    ArrayOrder,
    BatchPlan,
    Order,
    RandomOrder,
    SequentialOrder,
    SubsetOrder,
    permute,
    quasi_random_order,
)

SEEDS = st.integers(-(2**63), 2**63 - 1)


# -- random numbers ---------------------------------------------------------------------------------------------


def twin(*words: int) -> int:
    """The definition once more, in plain integers. A change would change every user's order and augmentations."""
    mask, state = 2**64 - 1, 0
    for word in words:
        state = ((state ^ (word & mask)) + 0x9E3779B97F4A7C15) & mask
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state


@given(words=st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5))
def test_random_bits_are_what_they_were_defined_to_be(words: list[int]) -> None:
    assert int(random_bits(*words)) == twin(*words)


def test_the_first_bits_are_those_of_splitmix64() -> None:
    assert [int(random_bits(seed)) for seed in (0, 1)] == [16294208416658607535, 10451216379200822465]


def test_every_word_matters_and_broadcasts() -> None:
    grid = random_bits(5, np.arange(4)[:, None], np.arange(6))
    assert grid.shape == (4, 6)
    assert len(np.unique(grid)) == 24
    assert int(grid[2, 3]) == int(random_bits(5, 2, 3))
    assert int(random_bits(-1)) == int(random_bits(2**64 - 1))


def test_uniform_is_uniform() -> None:
    numbers = random_uniform(1, np.arange(100_000))
    assert 0 <= numbers.min() < numbers.max() < 1
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert np.abs(counts - 5000).max() < 5 * 5000**0.5
    pairs = np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
    assert abs(pairs) < 0.02


# -- the permutation --------------------------------------------------------------------------------------------


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


# -- quasi-random -----------------------------------------------------------------------------------------------


@given(
    pages=st.lists(st.integers(0, 12), min_size=1, max_size=300),
    pool=st.integers(1, 20),
    seed=SEEDS,
)
def test_quasi_random_has_every_sample_and_few_open_pages(pages: list[int], pool: int, seed: int) -> None:
    order = quasi_random_order(np.array(pages), pool_pages=pool, seed=seed, epoch=0)
    indices = order.slice(0, len(pages))
    assert sorted(indices.tolist()) == list(range(len(pages)))
    visited = np.array(pages)[indices]
    first = {page: int(np.flatnonzero(visited == page)[0]) for page in set(pages)}
    last = {page: int(np.flatnonzero(visited == page)[-1]) for page in set(pages)}
    for position in range(len(pages)):
        is_open = [page for page in first if first[page] <= position <= last[page]]
        assert len(is_open) <= pool + 1


def test_quasi_random_mixes_pages() -> None:
    pages = np.repeat(np.arange(50), 20)
    order = quasi_random_order(pages, pool_pages=10, seed=0, epoch=0).slice(0, 1000)
    same_page = np.mean(pages[order][:-1] == pages[order][1:])
    assert same_page < 0.2
    again = quasi_random_order(pages, pool_pages=10, seed=0, epoch=1).slice(0, 1000)
    assert (order != again).any()


def test_quasi_random_refuses_an_empty_pool() -> None:
    with pytest.raises(ValueError, match="pool_pages must be at least 1, got 0"):
        quasi_random_order(np.zeros(3, np.int64), pool_pages=0, seed=0, epoch=0)


# -- subsets and batches ----------------------------------------------------------------------------------------


def test_a_subset_keeps_to_its_indices() -> None:
    indices = np.array([3, 5, 8, 8, 13])
    order = SubsetOrder(indices, RandomOrder(5, 0, 0))
    assert sorted(order.slice(0, 5).tolist()) == indices.tolist()
    assert isinstance(order, Order)


@given(
    n=st.integers(0, 200),
    batch_size=st.integers(1, 9),
    world=st.integers(1, 5),
    drop_last=st.booleans(),
)
def test_ranks_partition_the_epoch(n: int, batch_size: int, world: int, drop_last: bool) -> None:
    order = RandomOrder(n, 1, 2)
    plans = [BatchPlan(batch_size=batch_size, drop_last=drop_last, rank=r, world=world) for r in range(world)]
    steps = {plan.steps(n) for plan in plans}
    assert len(steps) == 1
    seen = [plan.batch(order, step).tolist() for step in range(steps.pop()) for plan in plans]
    flat = [i for batch in seen for i in batch]
    expected = n // (batch_size * world) * batch_size * world if drop_last else n
    assert len(flat) == len(set(flat)) == expected
    if drop_last:
        assert all(len(batch) == batch_size for batch in seen)


@given(step=st.integers(0, 5), worlds=st.sampled_from([(1, 6), (2, 3), (3, 2), (6, 1)]))
def test_the_same_samples_come_in_the_same_step_for_any_world(step: int, worlds: tuple[int, int]) -> None:
    world, batch_size = worlds
    order = RandomOrder(50, 0, 0)
    together = [BatchPlan(batch_size=batch_size, rank=r, world=world).batch(order, step).tolist() for r in range(world)]
    alone = BatchPlan(batch_size=6).batch(order, step).tolist()
    assert sorted(i for batch in together for i in batch) == sorted(alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": 1, "world": 0}, "world must be at least 1"),
        ({"batch_size": 1, "world": 2, "rank": 2}, "rank must be 0 to 1 in a world of 2, got 2"),
    ],
)
def test_wrong_plans(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchPlan(**options)


def test_array_and_sequential_orders() -> None:
    assert SequentialOrder(5).slice(3, 9).tolist() == [3, 4]
    assert ArrayOrder(np.array([2, 0, 1])).slice(1, 3).tolist() == [0, 1]
