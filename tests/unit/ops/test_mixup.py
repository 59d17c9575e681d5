from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, draws, load

from headrace import Loader
from headrace.ops import ImageMixup, LabelMixup, MixupToOneHot, Normalize, RandomHorizontalFlip, ToDtype, ToLayout
from headrace.ops.mixup import random_beta

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("same_share", [False, True])
def test_pictures_and_labels_are_mixed_by_the_same_share(path: Path, pixels: np.ndarray, same_share: bool) -> None:
    ops: dict[str, Any] = {"image": [ImageMixup(0.5, same_share)], "label": [LabelMixup(0.5, same_share)]}
    for batch in Loader(path, 6, order="random", pipelines=ops):
        own, other, share = batch.label.T
        assert batch.label.dtype == np.float32
        assert other.tolist() == np.roll(own, 1).tolist()
        assert len(set(share.tolist())) == (1 if same_share else 6)
        a, b = (pixels[labels.astype(int)].astype(np.float32) for labels in (own, other))
        weight = share[:, None, None, None]
        expected = a * weight + b * (1 - weight)
        assert abs(batch.image - expected).max() < 1.001  # cut, not rounded
        assert (batch.image <= expected + 1e-3).all()


def test_words_to_share_tell_pairs_apart(path: Path) -> None:
    one: dict[str, Any] = {"image": None, "label": [LabelMixup(0.5, share="a")]}
    two: dict[str, Any] = {"image": None, "label": [LabelMixup(0.5, share="b")]}
    (first,), (second,) = Loader(path, COUNT, pipelines=one), Loader(path, COUNT, pipelines=two)
    assert (first.label[:, 2] != second.label[:, 2]).all()


@pytest.mark.parametrize(
    "last", [[], [ToLayout("NCHW")], [ToDtype("float32")], [Normalize([9] * 3, [5] * 3, "float16")]]
)
def test_mixup_takes_every_dtype_and_layout(path: Path, last: list[Any]) -> None:
    plain = load(path, *last).astype(np.float64)
    share = ImageMixup(1).shares(draws(share="mixup")).astype(float)[:, None, None, None]
    found = load(path, *last, ImageMixup(1))
    assert found.dtype == load(path, *last).dtype
    tolerance = 1.001 if found.dtype == np.uint8 else 0.05 if found.dtype == np.float16 else 1e-4
    np.testing.assert_allclose(found, plain * share + np.roll(plain, 1, axis=0) * (1 - share), atol=tolerance)


def test_pictures_may_be_changed_after_they_were_mixed(path: Path) -> None:
    mixed = load(path, ImageMixup(1))
    np.testing.assert_array_equal(load(path, ImageMixup(1), RandomHorizontalFlip(1)), mixed[:, :, ::-1])


def test_a_batch_of_one_stays_as_it_is(path: Path, pixels: np.ndarray) -> None:
    batch = next(iter(Loader(path, 1, pipelines={"image": [ImageMixup(1)], "label": [LabelMixup(1)]})))
    assert abs(batch.image[0].astype(int) - pixels[0]).max() <= 1
    assert batch.label[0, :2].tolist() == [0, 0]


@pytest.mark.parametrize("alpha", [0.001, 0.2, 1, 1.5, 8])
def test_shares_are_beta_distributed(alpha: float) -> None:
    shares = random_beta(alpha, draws(100_000))
    assert shares.min() >= 0
    assert shares.max() <= 1
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(shares.mean() - 0.5) < 5 * np.sqrt(variance / 100_000)
    assert abs(shares.var() / variance - 1) < 0.02


def test_uniform_shares_have_uniform_quantiles() -> None:
    quantiles = np.quantile(random_beta(1, draws(100_000)), np.linspace(0.1, 0.9, 9))
    np.testing.assert_allclose(quantiles, np.linspace(0.1, 0.9, 9), atol=0.01)


def test_a_sample_draws_the_same_share_in_any_batch() -> None:
    all_shares = ImageMixup(0.4).shares(draws(50))
    np.testing.assert_array_equal(ImageMixup(0.4).shares(draws(9)), all_shares[:9])


def test_rows_of_shares_sum_to_one_even_when_the_labels_agree(path: Path) -> None:
    pipeline = [LabelMixup(0.5), MixupToOneHot(COUNT)]
    (batch,) = Loader(path, COUNT, pipelines={"image": None, "label": pipeline})
    np.testing.assert_allclose(batch.label.sum(axis=1), 1, rtol=1e-6)
    share = LabelMixup(0.5).shares(draws(share="mixup"))
    np.testing.assert_allclose(np.diag(batch.label), share)
    np.testing.assert_allclose(batch.label[0, COUNT - 1], 1 - share[0])
    same = MixupToOneHot(3).apply(np.array([[2, 2, 0.25]], np.float32), draws(1))
    np.testing.assert_allclose(same, [[0, 0, 1]])


def test_rows_name_the_sample_whose_label_is_outside() -> None:
    mixed = np.array([[1, 0, 0.5], [5, 1, 0.5]], np.float32)
    with pytest.raises(ValueError, match=r"MixupToOneHot\(num_classes=5\): the label of sample 1 is 5, outside 0 to 4"):
        MixupToOneHot(5).apply(mixed, draws(2))
