from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.order import (
    quasi_random_order,
)

SEEDS = st.integers(-(2**63), 2**63 - 1)


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
