from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.counter_random import random_uniform
from headrace.ops import Draws

WORDS = st.integers(-(2**70), 2**70)


@given(seed=WORDS, epoch=WORDS, op=st.integers(0, 2**32 - 1), first=st.integers(0, 100), count=st.integers(0, 5))
def test_draws_are_named_by_seed_epoch_op_sample_and_draw(
    seed: int, epoch: int, op: int, first: int, count: int
) -> None:
    samples = np.array([0, 7, 2**40, 3])
    draws = Draws(seed, epoch, op, samples)
    expected = random_uniform(seed, epoch, op, samples[None, :], np.arange(first, first + count)[:, None])
    np.testing.assert_array_equal(draws.uniforms(first, count), expected)
    np.testing.assert_array_equal(draws.uniform(first), random_uniform(seed, epoch, op, samples, first))


def test_draws_take_every_third_sample_of_a_batch() -> None:
    samples = np.arange(30)[1::3]
    np.testing.assert_array_equal(Draws(1, 2, 3, samples).uniform(0), random_uniform(1, 2, 3, samples, 0))
