"""FFCV's quasi-random order against the same words from numpy's own generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace._native import NativeError, quasi_random_order_ffcv

if TYPE_CHECKING:
    from collections.abc import Iterator


def words(seed: int) -> Iterator[int]:
    generator = np.random.RandomState(seed)
    while True:
        yield from generator.randint(0, 1 << 32, 1000, np.uint32).tolist()


def shuffled(pages: list[list[int]], seed: int) -> list[list[int]]:
    """Numbers from the highest bits of words, drawn again when they are too large."""
    inside, out = words(seed), [list(page) for page in pages]
    for page in out:
        for i in range(len(page) - 1, 0, -1):
            shift = 32 - (i + 1).bit_length()
            j = next(j for word in inside if (j := word >> shift) <= i)
            page[i], page[j] = page[j], page[i]
    return out


def drawn(pages: list[list[int]], seed: int, pool: int) -> list[int]:
    """Numbers from the lowest bits of words; none where there is no choice."""
    between = words(seed)

    def below(n: int) -> int:
        mask = (1 << (n - 1).bit_length()) - 1
        return 0 if n == 1 else next(j for word in between if (j := word & mask) < n)

    numbers = list(range(len(pages)))
    for i in range(len(numbers) - 1, 0, -1):
        j = below(i + 1)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    waiting = [list(pages[number]) for number in numbers if pages[number]]
    order: list[int] = []
    while waiting:
        page = waiting[below(min(pool, len(waiting)))]
        order.append(page.pop(0))
        waiting = [page for page in waiting if page]
    return order


@pytest.mark.parametrize("pool", [1, 2, 7, 500])
def test_words_are_used_as_ffcv_uses_them(pool: int) -> None:
    rng = np.random.default_rng(pool)
    for _ in range(10):
        sizes = rng.integers(0, 30, rng.integers(1, 40))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        samples = rng.permutation(starts[-1])
        seed = int(rng.integers(0, 1 << 32))
        for epoch_seed in (seed, seed ^ 1):  # samples stay as they were left
            parts = np.split(samples, starts[1:-1])
            pages = shuffled([part.tolist() for part in parts], epoch_seed)
            found = quasi_random_order_ffcv(samples, starts, epoch_seed, pool)
            assert samples.tolist() == [sample for page in pages for sample in page]
            assert found.tolist() == drawn(pages, epoch_seed, pool)


def test_wrong_arguments_are_told() -> None:
    samples = np.arange(4)
    with pytest.raises(NativeError, match="pool"):
        quasi_random_order_ffcv(samples, np.array([0, 4]), 0, 0)
    with pytest.raises(NativeError, match="pages"):
        quasi_random_order_ffcv(samples, np.array([0, 3]), 0, 1)
