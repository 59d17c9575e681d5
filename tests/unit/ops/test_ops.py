from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ops import (
    Apply,
    CenterCrop,
    Draws,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToDtype,
    ToLayout,
)

SIDES = st.integers(1, 5000)


def draws(count: int, seed: int = 0, op: int = 1) -> Draws:
    return Draws(seed, 0, op, np.arange(count, dtype=np.int64))


@given(
    sides=st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=30),
    scale=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(lambda pair: (min(pair), max(pair))),
    seed=st.integers(0, 2**32),
)
def test_a_random_crop_lies_inside(sides: list[tuple[int, int]], scale: tuple[float, float], seed: int) -> None:
    heights, widths = np.array(sides).T
    crops = RandomResizedCrop(8, scale=scale).crops(heights, widths, draws(len(sides), seed))
    top, left, h, w = crops.T
    assert (h >= 1).all()
    assert (w >= 1).all()
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + h <= heights).all()
    assert (left + w <= widths).all()


def test_a_random_crop_keeps_to_scale_and_ratio() -> None:
    n = 4000
    heights, widths = np.full(n, 480), np.full(n, 640)
    crops = RandomResizedCrop(8, scale=(0.2, 0.6)).crops(heights, widths, draws(n)).astype(float)
    share = crops[:, 2] * crops[:, 3] / (480 * 640)
    assert 0.19 < share.min() < 0.21
    assert 0.59 < share.max() < 0.61
    assert abs(share.mean() - 0.4) < 0.01
    aspect = crops[:, 3] / crops[:, 2]
    assert 0.74 < aspect.min() < 0.76
    assert 1.32 < aspect.max() < 1.35
    assert abs(np.log(aspect).mean()) < 0.02
    assert crops[:, 0].min() == 0
    assert (crops[:, 0] + crops[:, 2]).max() == 480


def test_a_picture_that_no_crop_fits_gets_the_largest_middle() -> None:
    crops = RandomResizedCrop(8, scale=(1, 1)).crops(np.array([10, 1000]), np.array([1000, 10]), draws(2))
    assert crops.tolist() == [[0, 493, 10, 13], [493, 0, 13, 10]]


def test_the_same_words_give_the_same_crop() -> None:
    op, sides = RandomResizedCrop(8), np.full(5, 300)
    first = op.crops(sides, sides, draws(5))
    np.testing.assert_array_equal(first, op.crops(sides, sides, draws(5)))
    assert (first != op.crops(sides, sides, draws(5, seed=1))).any()
    assert (first != op.crops(sides, sides, draws(5, op=2))).any()
    some = Draws(0, 0, 1, np.array([3, 1]))
    np.testing.assert_array_equal(op.crops(sides[:2], sides[:2], some), first[[3, 1]])


def test_center_crop_is_ffcvs() -> None:
    crops = CenterCrop(8, ratio=0.875).crops(np.array([100, 51, 1]), np.array([64, 50, 9]), draws(3))
    assert crops.tolist() == [[22, 4, 56, 56], [4, 3, 43, 43], [0, 4, 1, 1]]


def test_resize_takes_all() -> None:
    assert Resize((3, 4)).crops(np.array([7]), np.array([9]), draws(1)).tolist() == [[0, 0, 7, 9]]


def test_flips_have_their_probability() -> None:
    assert RandomHorizontalFlip(0).flips(draws(100)).sum() == 0
    assert RandomHorizontalFlip(1).flips(draws(100)).sum() == 100
    assert abs(RandomHorizontalFlip(0.25).flips(draws(20_000)).mean() - 0.25) < 0.015


def test_normalize_as_scale_and_bias() -> None:
    op = Normalize([10, 20, 30], [2, 4, 5])
    scale, bias = op.scale_and_bias()
    np.testing.assert_allclose(np.array([12, 28, 25]) * scale + bias, [1, 2, -1], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomResizedCrop(0), "size must be"),
        (lambda: RandomResizedCrop((1, 2, 3)), "size must be"),
        (lambda: RandomResizedCrop(8, scale=(0, 1)), "scale must be"),
        (lambda: RandomResizedCrop(8, ratio=(2, 1)), "ratio must be"),
        (lambda: RandomResizedCrop(8, interpolation="nearest"), "interpolation must be"),
        (lambda: CenterCrop(8, ratio=0), "ratio must be"),
        (lambda: RandomHorizontalFlip(1.5), "probability must be 0 to 1, got 1.5"),
        (lambda: Normalize([1, 2], [1, 2]), "three numbers"),
        (lambda: Normalize([1, 2, 3], [1, 0, 1]), "std must be positive"),
        (lambda: Normalize([1, 2, 3], [1, 1, 1], dtype="int8"), "dtype must be float16 or float32"),
        (lambda: ToDtype("int32"), "dtype must be one of"),
        (lambda: ToLayout("CHWN"), "layout must be"),
    ],
)
def test_wrong_options(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_apply_names_itself() -> None:
    assert Apply(len).name == "len"
    assert Apply(len, "count").name == "count"
    with pytest.raises(TypeError, match="takes a function"):
        Apply(3)
