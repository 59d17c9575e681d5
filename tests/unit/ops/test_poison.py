from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, HEIGHT, WIDTH, draws, load

from headrace import Loader
from headrace.ops import Poison, RandomHorizontalFlip

if TYPE_CHECKING:
    from pathlib import Path

MASK = np.random.default_rng(1).uniform(-50, 300, (HEIGHT, WIDTH, 3)).astype(np.float32)
ALPHA = np.random.default_rng(2).uniform(0, 1, (HEIGHT, WIDTH, 1)).astype(np.float32)


@pytest.mark.parametrize(("mask", "alpha"), [(MASK, ALPHA), (MASK, 0.25), (200, 0.5), (MASK[:1, :1], ALPHA)])
@pytest.mark.parametrize("clamp", [(0, 255), (30, 99)])
def test_chosen_pictures_are_blended_with_the_mask(
    path: Path, pixels: np.ndarray, mask: Any, alpha: Any, clamp: tuple[float, float]
) -> None:
    found = load(path, Poison(mask, alpha, [2, 5, COUNT - 1], clamp))
    alpha32, mask32 = np.float32(alpha), np.float32(mask)
    for i in range(COUNT):
        blend = pixels[i] * (1 - alpha32) + mask32 * alpha32
        expected = np.clip(blend, *clamp).astype(np.uint8) if i in (2, 5, COUNT - 1) else pixels[i]
        np.testing.assert_array_equal(found[i], expected)


def test_samples_are_counted_by_the_dataset_not_by_the_batch(path: Path, pixels: np.ndarray) -> None:
    op = Poison(255, 1, [7])
    for batch in Loader(path, 4, order="random", pipelines={"image": [op]}):
        for label, image in zip(batch.label.tolist(), batch.image, strict=True):
            np.testing.assert_array_equal(image, np.full_like(image, 255) if label == 7 else pixels[label])


def test_pictures_may_be_flipped_afterwards(path: Path) -> None:
    op = Poison(MASK, ALPHA, range(COUNT))
    np.testing.assert_array_equal(load(path, op, RandomHorizontalFlip(1)), load(path, op)[:, :, ::-1])


def test_the_mask_is_a_copy() -> None:
    mask = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    op = Poison(mask, 1.0, [0])
    mask += 9
    assert not op.apply(np.full((1, HEIGHT, WIDTH, 3), 50, np.uint8), draws(1)).any()


def test_a_loaders_state_knows_the_mask(path: Path) -> None:
    def state(mask: float) -> dict[str, Any]:
        return Loader(path, 4, pipelines={"image": [Poison(mask, 0.5, [1])]}).state_dict()

    assert state(3) == state(3)
    assert state(3) != state(4)
