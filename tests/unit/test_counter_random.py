from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.counter_random import random_bits, random_uniform


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
