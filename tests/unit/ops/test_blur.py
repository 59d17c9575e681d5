from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tests.unit.ops.tools import COUNT, SIZE, draws, load

from headrace.ops import Apply, GaussianBlur

if TYPE_CHECKING:
    from pathlib import Path


def blurred(picture: np.ndarray, sigma: float, taps: int) -> np.ndarray:
    """torchvision's definition: weights exp(-x^2 / 2 sigma^2) of sum 1, in both directions, edges reflected."""
    half = taps // 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    kernel = np.outer(weights, weights) / weights.sum() ** 2
    padded = np.pad(picture.astype(float), ((half, half), (half, half), (0, 0)), mode="reflect")
    height, width = picture.shape[:2]
    result = np.zeros(picture.shape)
    for y in range(taps):
        for x in range(taps):
            result += kernel[y, x] * padded[y : y + height, x : x + width]
    return result


def test_blur_is_torchvisions(path: Path, pixels: np.ndarray) -> None:
    """At most the rounding of float32 away from the exact value, that is from the nearest whole number by a hair."""
    op = GaussianBlur(7, probability=0.8, share="blur")
    values = op.step(SIZE, draws(share="blur"))
    is_changed = ~np.isnan(values[:, 0])
    assert 0 < is_changed.sum() < COUNT
    for found, picture, (sigma, taps) in zip(load(path, op), pixels, values.tolist(), strict=True):
        expected = picture if np.isnan(sigma) else blurred(picture, sigma, int(taps))
        assert abs(found - expected).max() < 0.501


def test_blur_behind_a_function(path: Path, pixels: np.ndarray) -> None:
    found = load(path, Apply(lambda images: 255 - images), GaussianBlur(5, 1.5))
    for after, picture in zip(found, 255 - pixels, strict=True):
        assert abs(after - blurred(picture, 1.5, 5)).max() < 0.501


def test_sigmas_are_uniform_and_have_their_probability() -> None:
    sigmas = GaussianBlur(9, (0.1, 2), probability=0.25).step(SIZE, draws(20_000))[:, 0]
    drawn = sigmas[~np.isnan(sigmas)]
    assert abs(len(drawn) / len(sigmas) - 0.25) < 0.015
    assert 0.1 <= drawn.min() < 0.11
    assert 1.99 < drawn.max() <= 2
    assert abs(drawn.mean() - 1.05) < 0.02
    assert set(GaussianBlur(9, 3).step(SIZE, draws())[:, 0]) == {3}
