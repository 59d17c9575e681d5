from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.order import (
    ArrayOrder,
    BatchPlan,
    Order,
    RandomOrder,
    SequentialOrder,
    SubsetOrder,
)


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
    in_blocks=st.booleans(),
)
def test_ranks_partition_the_epoch(n: int, batch_size: int, world: int, drop_last: bool, in_blocks: bool) -> None:
    order = RandomOrder(n, 1, 2)
    options = {"batch_size": batch_size, "drop_last": drop_last, "world": world, "in_blocks": in_blocks}
    plans = [BatchPlan(rank=r, **options) for r in range(world)]
    steps = {plan.steps(n) for plan in plans}
    assert len(steps) == 1
    seen = [plan.batch(order, step).tolist() for step in range(steps.pop()) for plan in plans]
    flat = [i for batch in seen for i in batch]
    expected = n // (batch_size * world) * batch_size * world if drop_last else n
    assert len(flat) == len(set(flat)) == expected
    if drop_last:
        assert all(len(batch) == batch_size for batch in seen)
    for rank, plan in enumerate(plans):
        assert plan.samples(order).tolist() == [i for batch in seen[rank::world] for i in batch]
    expected_sizes = [plan.size_of(order, step) for step in range(plans[0].steps(n)) for plan in plans]
    assert [len(batch) for batch in seen] == expected_sizes


@given(step=st.integers(0, 9), world=st.integers(1, 5))
def test_blocks_are_neighbours_in_the_step(step: int, world: int) -> None:
    blocks = [
        BatchPlan(batch_size=4, rank=r, world=world, in_blocks=True).batch(SequentialOrder(1000), step).tolist()
        for r in range(world)
    ]
    assert all(block == list(range(block[0], block[0] + 4)) for block in blocks)
    assert sorted(i for block in blocks for i in block) == list(range(4 * world * step, 4 * world * (step + 1)))


def test_each_rank_has_each_block_of_a_step_now_and_then() -> None:
    plan = BatchPlan(batch_size=1, rank=2, world=4, in_blocks=True)
    blocks = [int(plan.batch(SequentialOrder(4000), step)[0]) % 4 for step in range(1000)]
    assert all(200 < count < 300 for count in np.bincount(blocks, minlength=4))


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
