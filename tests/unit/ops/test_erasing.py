from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, HEIGHT, SIZE, WIDTH, draws, load

from headrace import Loader
from headrace.ops import RandomErasing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("fill", [0, (124, 116, 104)])
def test_a_part_is_filled(path: Path, pixels: np.ndarray, fill: Any) -> None:
    op = RandomErasing(0.7, fill=fill, share="erase")
    parts = op.parts(SIZE, draws(share="erase")).astype(int)
    assert 0 < (parts[:, 2] > 0).sum() < COUNT
    expected = pixels.copy()
    for picture, (top, left, height, width) in zip(expected, parts, strict=True):
        assert 0 <= top <= HEIGHT - height
        assert 0 <= left <= WIDTH - width
        picture[top : top + height, left : left + width] = fill
    np.testing.assert_array_equal(load(path, op), expected)


def test_noise_is_uniform_and_differs_from_picture_to_picture(path: Path, pixels: np.ndarray) -> None:
    op = RandomErasing(1, scale=(0.3, 0.3), fill="noise", share="erase")
    found, parts = load(path, op), op.parts(SIZE, draws(share="erase")).astype(int)
    noise = []
    for after, before, (top, left, height, width) in zip(found, pixels, parts, strict=True):
        rest = after.copy()
        rest[top : top + height, left : left + width] = before[top : top + height, left : left + width]
        np.testing.assert_array_equal(rest, before)
        noise.append(after[top : top + height, left : left + width].ravel())
    values = np.concatenate(noise)
    assert abs(values.mean() - 127.5) < 3
    assert abs(values.std() - 256 / 12**0.5) < 3
    assert len({row[:50].tobytes() for row in noise}) == COUNT
    np.testing.assert_array_equal(load(path, op, workers=1), found)
    pipelines = {"image": [op], "label": None}
    parts_of_batches = [batch.image for batch in Loader(path, 7, pipelines=pipelines, drop_last=False)]
    np.testing.assert_array_equal(np.concatenate(parts_of_batches), found)


def test_areas_and_ratios_are_torchvisions() -> None:
    """An area uniform in scale, a ratio of height by width uniform on the logarithm; only parts that fit count."""
    parts = RandomErasing(0.25).parts((224, 224), draws(20_000))
    is_erased = parts[:, 2] > 0
    assert abs(is_erased.mean() - 0.25) < 0.015
    h, w = parts[is_erased, 2], parts[is_erased, 3]
    area = h * w / 224**2
    assert 0.018 < area.min() < 0.03
    assert 0.31 < area.max() < 0.335
    assert abs(area.mean() - 0.175) < 0.01
    ratio = np.log(h / w)
    assert ratio.min() < -1.15
    assert ratio.max() > 1.14
    assert abs(ratio.mean() - np.log(0.3 * 3.3) / 2) < 0.03


def test_a_part_that_never_fits_leaves_the_picture_whole() -> None:
    op = RandomErasing(1, scale=(1, 1), ratio=(1, 1))
    assert op.parts((20, 20), draws()).sum() == 0
    assert op.parts((20, 40), draws()).sum() == 0
