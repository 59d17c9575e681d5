"""RandAugment and TrivialAugmentWide against torchvision's tables, written down here, and Pillow's pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from tests.unit.ops.tools import COUNT, HEIGHT, SIZE, WIDTH, draws, load

from headrace import Loader
from headrace._native import step_kinds
from headrace.ops import RandAugment, TrivialAugmentWide
from headrace.ops.augment import _kind_and_values, rand_augment_magnitudes, trivial_augment_magnitudes

if TYPE_CHECKING:
    from pathlib import Path

FILL = (9, 200, 31)
NAMES = [
    "identity",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
]


def by_pillow(picture: np.ndarray, name: str, magnitude: float) -> np.ndarray:
    """What torchvision's _apply_op does to a Pillow image, with nearest pixels."""
    image = Image.fromarray(picture)

    def moved(*matrix: float) -> Image.Image:
        way = Image.Transform.AFFINE
        return image.transform(image.size, way, matrix, Image.Resampling.NEAREST, fillcolor=FILL)

    done = {
        "identity": lambda: image,
        "shear_x": lambda: moved(1, magnitude, 0, 0, 1, 0),
        "shear_y": lambda: moved(1, 0, 0, magnitude, 1, 0),
        "translate_x": lambda: moved(1, 0, -int(magnitude), 0, 1, 0),
        "translate_y": lambda: moved(1, 0, 0, 0, 1, -int(magnitude)),
        "rotate": lambda: image.rotate(magnitude, Image.Resampling.NEAREST, fillcolor=FILL),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(1 + magnitude),
        "color": lambda: ImageEnhance.Color(image).enhance(1 + magnitude),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(1 + magnitude),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(1 + magnitude),
        "posterize": lambda: ImageOps.posterize(image, int(magnitude)),
        "solarize": lambda: ImageOps.solarize(image, magnitude),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
    }
    return np.asarray(done[name]())


def is_close(found: np.ndarray, expected: np.ndarray, name: str) -> bool:
    """Exact but for colours, which are at most two levels away, and pixels halfway between two when they move."""
    if name in ("brightness", "color", "contrast", "sharpness"):
        return bool(abs(found.astype(int) - expected).max() <= 2)
    if name in ("shear_x", "shear_y", "rotate"):
        return bool((found == expected).all(axis=-1).mean() > 0.99)
    return bool((found == expected).all())


def chosen_name(kind: str | None, values: np.ndarray, size: tuple[int, int], magnitudes: Any, levels: Any) -> Any:
    """Which operation and magnitude a row of the native step stands for."""
    for name in NAMES:
        for level in levels:
            for sign in (1, -1):
                magnitude = sign * magnitudes[name][level]
                expected_kind, expected = _kind_and_values(name, magnitude, size, FILL)
                is_same = expected_kind == kind and np.allclose(values[: len(expected)], np.float32(expected), 0, 0)
                if is_same:
                    return name, magnitude
    raise AssertionError((kind, values))


def kind_of(number: float) -> str | None:
    return None if np.isnan(number) else step_kinds()[int(number)]


def test_the_magnitudes_of_rand_augment_are_torchvisions() -> None:
    found = rand_augment_magnitudes(31, (100, 331))
    assert list(found) == NAMES
    last = {name: row[30] for name, row in found.items()}
    assert last == pytest.approx(
        {
            "identity": 0,
            "shear_x": 0.3,
            "shear_y": 0.3,
            "translate_x": 150,
            "translate_y": 150 / 331 * 100,
            "rotate": 30,
        }
        | dict.fromkeys(["brightness", "color", "contrast", "sharpness"], 0.9)
        | {"posterize": 4, "solarize": 0, "autocontrast": 0, "equalize": 0}
    )
    assert found["solarize"][0] == 255
    assert found["solarize"][9] == pytest.approx(178.5)
    assert found["posterize"].tolist() == [8] * 4 + [7] * 8 + [6] * 7 + [5] * 8 + [4] * 4
    assert found["rotate"][9] == pytest.approx(9)
    assert found["brightness"][9] == pytest.approx(0.27)


def test_the_magnitudes_of_trivial_augment_are_torchvisions() -> None:
    found = trivial_augment_magnitudes(31)
    assert list(found) == NAMES
    last = {name: row[30] for name, row in found.items()}
    assert last == pytest.approx(
        {"identity": 0, "shear_x": 0.99, "shear_y": 0.99, "translate_x": 32, "translate_y": 32, "rotate": 135}
        | dict.fromkeys(["brightness", "color", "contrast", "sharpness"], 0.99)
        | {"posterize": 2, "solarize": 0, "autocontrast": 0, "equalize": 0}
    )
    assert found["posterize"].tolist() == [8] * 3 + [7] * 5 + [6] * 5 + [5] * 5 + [4] * 5 + [3] * 5 + [2] * 3


def test_trivial_augment_does_one_operation_as_pillow_does(path: Path, pixels: np.ndarray) -> None:
    magnitudes = trivial_augment_magnitudes(31)
    names = set()
    for seed in range(6):
        op = TrivialAugmentWide(fill=FILL, share="augment")
        ((kind, rows),) = op.steps(SIZE, draws(share="augment", seed=seed))
        assert kind == "choice"
        for found, picture, row in zip(load(path, op, seed=seed), pixels, rows, strict=True):
            name, magnitude = chosen_name(kind_of(row[0]), row[1:], SIZE, magnitudes, range(31))
            names.add(name)
            assert is_close(found, by_pillow(picture, name, magnitude), name), (name, magnitude)
    assert names == set(NAMES)


def test_rand_augment_does_operations_one_after_the_other(path: Path, pixels: np.ndarray) -> None:
    magnitudes = rand_augment_magnitudes(31, SIZE)
    op = RandAugment(2, 14, fill=FILL, share="augment")
    steps = op.steps(SIZE, draws(share="augment"))
    assert [kind for kind, _ in steps] == ["choice", "choice"]
    found = load(path, op)
    checked = 0
    for i, picture in enumerate(pixels):
        names = []
        for _, rows in steps:
            name, magnitude = chosen_name(kind_of(rows[i, 0]), rows[i, 1:], SIZE, magnitudes, [14])
            names.append(name)
            picture = by_pillow(picture, name, magnitude)
        # An exact first one and a close second one; others may carry differences on.
        if names[0] in ("identity", "translate_x", "translate_y", "posterize", "solarize", "autocontrast", "equalize"):
            assert is_close(found[i], picture, names[1]), names
            checked += 1
    assert checked > COUNT // 4


def test_operations_are_equally_likely_and_have_both_signs() -> None:
    ((_, rows),) = RandAugment(1, 30).steps((224, 224), draws(28_000))
    unique, counts = np.unique(np.nan_to_num(rows, nan=-1), axis=0, return_counts=True)
    assert len(unique) == 5 + 2 * 9  # nine come with either sign
    signed = counts[counts < 1500]
    assert len(signed) == 18
    assert abs(signed / 1000 - 1).max() < 0.15
    assert abs(counts[counts > 1500] / 2000 - 1).max() < 0.1
    ((_, rows),) = TrivialAugmentWide().steps((224, 224), draws(28_000))
    is_solarized = rows[:, 0] == step_kinds().index("solarize")
    levels, counts = np.unique(rows[is_solarized, 1], return_counts=True)
    assert len(levels) == 31
    assert counts.min() > 30


def test_translations_are_whole_pixels_of_the_pictures_side() -> None:
    ((_, rows),) = RandAugment(1, 9).steps((100, 224), draws(5_000))
    moves = rows[(rows[:, 0] == step_kinds().index("affine")) & (rows[:, 2] == 0) & (rows[:, 4] == 0)]
    assert set(map(tuple, moves[:, [3, 6]].tolist())) == {(-30, 0), (30, 0), (0, -13), (0, 13)}


@pytest.mark.parametrize("op", [RandAugment(3, 20), TrivialAugmentWide()])
def test_a_sample_does_not_depend_on_its_batch(path: Path, op: Any) -> None:
    pipelines = {"image": [op], "label": None}
    whole = load(path, op)
    batches = [batch.image for batch in Loader(path, 5, pipelines=pipelines, drop_last=False, workers=3)]
    np.testing.assert_array_equal(np.concatenate(batches), whole)
    loader = Loader(path, COUNT, pipelines=pipelines)
    loader.set_epoch(1)
    assert (loader[0].image != whole).any()


def test_plans_name_the_ops(path: Path) -> None:
    pipelines = {"image": [RandAugment(), TrivialAugmentWide()], "label": None}
    plan = Loader(path, 4, pipelines=pipelines).plan()
    assert "one native call (decode, rand augment, trivial augment, uint8, NHWC)" in plan
    assert (HEIGHT, WIDTH) == SIZE
