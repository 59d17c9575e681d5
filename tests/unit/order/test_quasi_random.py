from __future__ import annotations

import math
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.order import BatchPlan, quasi_random_order

if TYPE_CHECKING:
    from headrace.types import IndexArray

SEEDS = st.integers(-(2**63), 2**63 - 1)
MOVED = 1 / 8  # at most, of all samples, to strands of other pages
WORLDS = [(2, 4), (4, 8), (8, 16), (4, 64), (12, 48), (24, 48)]


@st.composite
def layouts(draw: st.DrawFn, least: int = 1, most: int = 150) -> IndexArray:
    """Pages of about the same size, in any order."""
    count, size, seed = draw(st.integers(least, most)), draw(st.integers(1, 30)), draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    pages = np.repeat(np.arange(count), rng.integers(max(1, size - size // 5), size + 1, count))
    return pages if draw(st.booleans()) else rng.permutation(pages)


def order_of(pages: IndexArray, pool: int, seed: int = 0, epoch: int = 0) -> IndexArray:
    return quasi_random_order(pages, pool_pages=pool, seed=seed, epoch=epoch).slice(0, len(pages))


def most_open(visited: IndexArray) -> int:
    """The largest number of pages that are open at a time."""
    _, first = np.unique(visited, return_index=True)
    _, last = np.unique(visited[::-1], return_index=True)
    changes = np.zeros(len(visited) + 1, np.int64)
    np.add.at(changes, first, 1)
    np.add.at(changes, len(visited) - last, -1)
    return int(np.cumsum(changes).max())


def owners(pages: IndexArray, order: IndexArray, world: int) -> tuple[IndexArray, IndexArray]:
    """The rank that has the most samples of each page, and how many of its samples other ranks have."""
    used = np.zeros((pages.max() + 1, world), np.int64)
    np.add.at(used, (pages[order], np.arange(len(order)) % world), 1)
    return used.argmax(1), used.sum(1) - used.max(1)


@given(
    pages=st.lists(st.integers(0, 12), min_size=1, max_size=300).map(np.array) | layouts(),
    pool=st.integers(1, 70),
    seed=SEEDS,
)
def test_it_has_every_sample_once(pages: IndexArray, pool: int, seed: int) -> None:
    assert sorted(order_of(pages, pool, seed).tolist()) == list(range(len(pages)))


@given(pages=layouts(), pool=st.integers(1, 70), seed=SEEDS)
def test_few_pages_are_open_at_a_time(pages: IndexArray, pool: int, seed: int) -> None:
    order = order_of(pages, pool, seed)
    before_the_ends = pages[order][: math.floor(len(pages) * (1 - 2 * MOVED))]
    if len(before_the_ends):
        assert most_open(before_the_ends) <= 1.5 * pool + 1
    assert most_open(pages[order]) <= 2 * pool + 1


@pytest.mark.parametrize("pool", [1, 2, 3])
def test_a_small_pool_is_one_strand_with_no_more_pages_than_that(pool: int) -> None:
    assert most_open(np.repeat(np.arange(200), 9)[order_of(np.repeat(np.arange(200), 9), pool)]) <= pool + 1


@settings(max_examples=60)
@given(case=st.sampled_from(WORLDS), data=st.data(), seed=SEEDS)
def test_ranks_have_pages_of_their_own(case: tuple[int, int], data: st.DataObject, seed: int) -> None:
    world, pool = case
    pages = data.draw(layouts(least=2 * pool, most=4 * pool))
    order = order_of(pages, pool, seed)
    owner, strays = owners(pages, order, world)
    assert strays.sum() <= MOVED * len(pages)
    assert np.bincount(owner, minlength=world).min() > 0
    for rank in range(world):
        mine = pages[order[rank::world]]
        assert most_open(mine[owner[mine] == rank]) <= 1.5 * pool / world + 1


@pytest.mark.parametrize(("world", "pool"), WORLDS)
def test_only_the_end_of_a_long_epoch_is_shared(world: int, pool: int) -> None:
    rng = np.random.default_rng(0)
    pages = np.repeat(np.arange(2000), rng.integers(60, 101, 2000))
    for epoch in range(3):
        order = order_of(pages, pool, epoch=epoch)
        _, strays = owners(pages, order, world)
        assert strays.sum() < 0.01 * len(pages)
        _, strays = owners(pages, order[: int(len(order) * 0.96)], world)
        assert strays.sum() == 0


@pytest.mark.parametrize(("world", "classes"), [(3, 1), (6, 2), (12, 4), (16, 8)])
def test_a_world_that_does_not_fit_has_pages_in_common_with_few(world: int, classes: int) -> None:
    pages = np.repeat(np.arange(512), 48)
    order = order_of(pages, 16)
    visited = [set(pages[order[rank::world]][:-50].tolist()) for rank in range(world)]
    for rank, other in [(0, 1), (1, 2), (0, world - 1)]:
        is_shared = (rank - other) % classes == 0
        assert bool(visited[rank] & visited[other]) == is_shared


def test_a_file_of_few_pages_or_of_unlike_ones_is_one_strand() -> None:
    few, unlike = np.repeat(np.arange(7), 50), np.repeat(np.arange(40), np.r_[2000, np.full(39, 5)])
    for pages in (few, unlike):
        order = order_of(pages, 16)
        assert sorted(order.tolist()) == list(range(len(pages)))
        visited = [set(pages[order[rank::2]].tolist()) for rank in range(2)]
        assert len(visited[0] & visited[1]) > 0.3 * len(np.unique(pages))


@given(world=st.sampled_from([2, 3, 4, 8, 24]), pages=layouts(), seed=SEEDS)
def test_the_same_global_batches_for_any_number_of_ranks(world: int, pages: IndexArray, seed: int) -> None:
    plans = [BatchPlan(batch_size=24 // world, drop_last=False, rank=rank, world=world) for rank in range(world)]
    order = quasi_random_order(pages, pool_pages=16, seed=seed, epoch=1)
    alone = BatchPlan(batch_size=24, drop_last=False)
    for step in range(alone.steps(len(order))):
        assert sorted(np.concatenate([plan.batch(order, step) for plan in plans]).tolist()) == sorted(
            alone.batch(order, step).tolist()
        )


@pytest.mark.parametrize("pool", [10, 16, 64])
def test_it_mixes_pages(pool: int) -> None:
    pages = np.repeat(np.arange(300), 20)
    order = order_of(pages, pool)
    visited = pages[order]
    assert np.mean(visited[:-1] == visited[1:]) < 0.15
    assert abs(np.corrcoef(np.arange(len(pages)), order)[0, 1]) < 0.2
    inner = range(len(pages) // 4, len(pages) * 3 // 4, 256)
    assert min(len(set(visited[a:b].tolist())) for a, b in pairwise(inner)) >= pool
    assert (order != order_of(pages, pool, epoch=1)).any()
    assert (order != order_of(pages, pool, seed=1)).any()


@pytest.mark.parametrize(
    ("pool", "world", "expected", "same"), [(16, 1, 18.9, 0.057), (16, 8, 5.2, 0.25), (128, 8, 18.9, 0.057)]
)
def test_it_mixes_as_well_as_the_docs_say(pool: int, world: int, expected: float, same: float) -> None:
    rng = np.random.default_rng(0)
    pages = np.repeat(np.arange(1250), rng.integers(63, 98, 1250))
    mine = pages[order_of(pages, pool)][world - 1 :: world]
    inner = mine[len(mine) // 10 : -len(mine) // 10]
    batches = np.sort(inner[: len(inner) // 256 * 256].reshape(-1, 256), axis=1)
    counts = [np.bincount(np.cumsum(np.diff(batch, prepend=batch[0]) > 0)) for batch in batches]
    assert np.mean([len(one) for one in counts]) == pytest.approx(expected, rel=0.08)
    assert np.mean([(one * (one - 1)).sum() / (256 * 255) for one in counts]) == pytest.approx(same, rel=0.08)


def test_the_order_is_the_one_that_was_recorded() -> None:
    pages = np.repeat(np.arange(400), 3 + np.arange(400) % 5)
    found = {pool: zlib.crc32(order_of(pages, pool, seed=5, epoch=2).astype("<i8").tobytes()) for pool in (1, 16, 48)}
    assert found == {1: 2318390648, 16: 4252209344, 48: 1800879921}


def test_pages_may_have_any_numbers_and_pools_any_size() -> None:
    pages = np.repeat(np.arange(100), 4)
    order = order_of(pages, 16)
    assert (order == order_of(pages * 10**15 - 5, 16)).all()
    assert sorted(order_of(pages, 10**30).tolist()) == list(range(400))
    assert len(order_of(np.empty(0, np.int64), 16)) == 0


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="pool_pages must be at least 1, got 0"):
        quasi_random_order(np.zeros(3, np.int64), pool_pages=0, seed=0, epoch=0)
