from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, SIZE, draws, load

from headrace.ops import Apply, Normalize, RandomBrightness, RandomContrast, RandomSaturation, ToLayout

if TYPE_CHECKING:
    from pathlib import Path

OPS = [RandomBrightness, RandomContrast, RandomSaturation]


def changed(op: Any, pixels: np.ndarray) -> np.ndarray:
    """What FFCV does, in plain numpy: a blend with black, with the mean grey or with the grey picture."""
    result = []
    factors = op.step(SIZE, draws(len(pixels), share=op.share))[:, 0].astype(float)
    for picture, factor in zip(pixels, factors, strict=True):
        grey = (0.2989 * picture[..., 0] + 0.587 * picture[..., 1] + 0.114 * picture[..., 2]).astype(np.uint8)
        other = {"RandomBrightness": 0, "RandomContrast": grey.mean(), "RandomSaturation": grey[..., None]}
        blend = factor * picture + (1 - factor) * other[type(op).__name__]
        result.append(picture if np.isnan(factor) else np.clip(blend, 0, 255).astype(np.uint8))
    return np.stack(result)


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("magnitude", [0.3, 2])
def test_colours_change_as_ffcv_says(path: Path, pixels: np.ndarray, kind: Any, magnitude: float) -> None:
    op = kind(magnitude, probability=0.7, share="colour")
    found = load(path, op)
    np.testing.assert_array_equal(found, changed(op, pixels))
    is_changed = (found != pixels).any(axis=(1, 2, 3))
    assert 0 < is_changed.sum() < COUNT


@pytest.mark.parametrize("kind", OPS)
def test_nothing_changes_without_probability_or_magnitude(path: Path, pixels: np.ndarray, kind: Any) -> None:
    np.testing.assert_array_equal(load(path, kind(0.9, probability=0)), pixels)
    np.testing.assert_array_equal(load(path, kind(0, probability=1)), pixels)


@pytest.mark.parametrize("kind", OPS)
def test_factors_are_uniform_and_have_their_probability(kind: Any) -> None:
    factors = kind(0.4, probability=0.25).step(SIZE, draws(20_000))[:, 0]
    drawn = factors[~np.isnan(factors)]
    assert abs(len(drawn) / len(factors) - 0.25) < 0.015
    assert 0.6 <= drawn.min() < 0.61
    assert 1.39 < drawn.max() <= 1.4
    assert abs(drawn.mean() - 1) < 0.01
    assert abs(drawn.var() - 0.8**2 / 12) < 0.003


def test_a_large_magnitude_goes_down_to_zero_and_not_below() -> None:
    factors = RandomBrightness(3, probability=1).step(SIZE, draws(20_000))
    assert 0 <= factors.min() < 0.01
    assert 3.99 < factors.max() <= 4


def test_colours_follow_each_other_in_the_order_of_the_pipeline(path: Path, pixels: np.ndarray) -> None:
    brightness, contrast = RandomBrightness(0.8, 1, share="a"), RandomContrast(0.8, 1, share="b")
    there = load(path, brightness, contrast)
    back = load(path, contrast, brightness)
    np.testing.assert_array_equal(there, changed(contrast, changed(brightness, pixels)))
    np.testing.assert_array_equal(back, changed(brightness, changed(contrast, pixels)))
    assert (there != back).any()


def test_colours_come_before_normalize_and_layout(path: Path, pixels: np.ndarray) -> None:
    op = RandomSaturation(0.8, 1, share="a")
    found = load(path, op, Normalize([10, 20, 30], [50, 60, 70]), ToLayout("NCHW"))
    expected = (changed(op, pixels) - np.array([10, 20, 30])) / [50, 60, 70]
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), expected, atol=1e-5)


def test_colours_behind_a_function_are_the_same(path: Path, pixels: np.ndarray) -> None:
    op = RandomContrast(0.8, 1, share="a")
    found = load(path, Apply(lambda images: 255 - images), op)
    np.testing.assert_array_equal(found, changed(op, 255 - pixels))
