from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, SIZE, draws, load

from headrace._native import step_kinds
from headrace.ops import (
    Apply,
    ColorJitter,
    Normalize,
    RandomBrightness,
    RandomContrast,
    RandomGrayscale,
    RandomSaturation,
    ToLayout,
)

if TYPE_CHECKING:
    from pathlib import Path

OPS = [RandomBrightness, RandomContrast, RandomSaturation]


def changed(op: Any, pixels: np.ndarray) -> np.ndarray:
    """What FFCV does, in plain numpy: a blend with black, with the mean grey or with the grey picture."""
    factors = op.step(SIZE, draws(len(pixels), share=op.share))[:, 0].astype(float)
    return np.stack([blended(p, factor, op.kind) for p, factor in zip(pixels, factors, strict=True)])


def grey_of(picture: np.ndarray) -> np.ndarray:
    grey: np.ndarray = 0.2989 * picture[..., 0] + 0.587 * picture[..., 1] + 0.114 * picture[..., 2]
    return grey.astype(np.uint8)


def blended(picture: np.ndarray, factor: float, kind: str) -> np.ndarray:
    if np.isnan(factor):
        return picture
    grey = grey_of(picture)
    other = {"brightness": 0, "contrast": grey.mean(), "saturation": grey[..., None]}[kind]
    return np.clip(factor * picture + (1 - factor) * other, 0, 255).astype(np.uint8)


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


# -- jitter -------------------------------------------------------------------------------------------------------


def turned(picture: np.ndarray, turn: float) -> np.ndarray:
    """The hue turned as in torchvision, by the formulas of HSV."""
    r, g, b = np.moveaxis(picture.astype(float), -1, 0)
    most = picture.max(axis=-1).astype(float)
    span = most - picture.min(axis=-1)
    part = np.where(span == 0, 1, span)
    sixths = np.where(r == most, (g - b) / part, np.where(g == most, 2 + (b - r) / part, 4 + (r - g) / part))
    hue = (sixths / 6 + turn) % 1
    k = (np.array([5, 3, 1]) + hue[..., None] * 6) % 6
    return most[..., None] - span[..., None] * np.clip(np.minimum(k, 4 - k), 0, 1)


def jittered(op: ColorJitter, pixels: np.ndarray) -> tuple[np.ndarray, list[tuple[str, ...]]]:
    """The pictures by plain numpy, and the order of the changes of each."""
    result, orders = [], []
    steps = [values for kind, values in op.steps(SIZE, draws(len(pixels), share=op.share)) if kind == "choice"]
    for i, picture in enumerate(pixels):
        order = []
        for values in steps:
            if np.isnan(values[i, 0]):
                continue
            kind = step_kinds()[int(values[i, 0])]
            order.append(kind)
            factor = float(values[i, 1])
            picture = np.rint(turned(picture, factor)) if kind == "hue" else blended(picture, factor, kind)
            picture = picture.astype(np.uint8)
        result.append(picture)
        orders.append(tuple(order))
    return np.stack(result), orders


def test_jitter_does_each_change_once_in_an_order_of_its_own(path: Path, pixels: np.ndarray) -> None:
    op = ColorJitter(0.4, 0.4, 0.4, 0.1, probability=0.8, share="jitter")
    expected, orders = jittered(op, pixels)
    found = load(path, op)
    # Hue is computed in float32: where it rounds the other way, what follows may carry one level on.
    assert abs(found.astype(int) - expected).max() <= 3
    assert (found == expected).mean() > 0.999
    assert len(set(orders)) > 8
    changed = [order for order in orders if order]
    assert 0 < len(changed) < COUNT
    assert all(sorted(order) == ["brightness", "contrast", "hue", "saturation"] for order in changed)


def test_jitter_without_hue_is_exact(path: Path, pixels: np.ndarray) -> None:
    op = ColorJitter(0.4, (0.2, 1.8), 0.9, share="jitter")
    expected, orders = jittered(op, pixels)
    np.testing.assert_array_equal(load(path, op), expected)
    assert len(set(orders)) == 6


def test_jitter_of_one_kind_is_that_change_alone(path: Path, pixels: np.ndarray) -> None:
    for kind, name in (("brightness", "brightness"), ("contrast", "contrast"), ("saturation", "saturation")):
        op = ColorJitter(**{name: 0.5}, share="jitter")
        expected, orders = jittered(op, pixels)
        assert set(orders) == {(kind,)}
        np.testing.assert_array_equal(load(path, op), expected)
    np.testing.assert_array_equal(load(path, ColorJitter()), pixels)
    np.testing.assert_array_equal(load(path, ColorJitter(0.5, 0.5, 0.5, 0.5, probability=0)), pixels)


def test_jitter_draws_uniform_factors_and_all_orders_alike() -> None:
    op = ColorJitter(0.4, (0.5, 3), 2, 0.2)
    assert (op.brightness, op.contrast, op.saturation, op.hue) == ((0.6, 1.4), (0.5, 3), (0, 3), (-0.2, 0.2))
    steps = np.stack([values for _, values in op.steps(SIZE, draws(24_000))])
    for name, (low, high) in (("brightness", (0.6, 1.4)), ("contrast", (0.5, 3)), ("hue", (-0.2, 0.2))):
        drawn = steps[..., 1][steps[..., 0] == step_kinds().index(name)]
        assert len(drawn) == 24_000
        assert low <= drawn.min() < drawn.max() <= high + 1e-6
        assert abs(drawn.mean() - (low + high) / 2) < 0.01 * (high - low)
        assert abs(drawn.std() - (high - low) / 12**0.5) < 0.01 * (high - low)
    _, counts = np.unique(steps[..., 0], axis=1, return_counts=True)
    assert len(counts) == 24
    assert abs(counts / 1000 - 1).max() < 0.15


def test_jitter_does_not_depend_on_the_batch(path: Path) -> None:
    from headrace import Loader

    pipelines = {"image": [ColorJitter(0.4, 0.4, 0.4, 0.1)], "label": None}
    whole = load(path, ColorJitter(0.4, 0.4, 0.4, 0.1))
    parts = np.concatenate([batch.image for batch in Loader(path, 5, pipelines=pipelines, drop_last=False, workers=2)])
    np.testing.assert_array_equal(parts, whole)


# -- grey ---------------------------------------------------------------------------------------------------------


def test_grey_pictures_keep_three_channels(path: Path, pixels: np.ndarray) -> None:
    np.testing.assert_array_equal(load(path, RandomGrayscale(1)), np.stack([grey_of(pixels)] * 3, axis=-1))
    np.testing.assert_array_equal(load(path, RandomGrayscale(0)), pixels)
    found = load(path, RandomGrayscale(0.5, share="grey"))
    is_grey = (found[..., :1] == found).all(axis=(1, 2, 3))
    assert 0 < is_grey.sum() < COUNT
    np.testing.assert_array_equal(found[~is_grey], pixels[~is_grey])


def test_grey_has_its_probability() -> None:
    ((kind, factors),) = RandomGrayscale(0.25).steps(SIZE, draws(20_000))
    assert kind == "saturation"
    assert abs((factors == 0).mean() - 0.25) < 0.015
