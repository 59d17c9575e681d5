from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import picture

from headrace.viewer import pixel_difference
from headrace.viewer.pixel_difference import amplified, amplify_by, marked, measure_pixels, png_of


@pytest.fixture(params=[1 << 19, 100], ids=["whole", "strips"])
def _strip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixel_difference, "_STRIP", request.param)


@pytest.mark.usefixtures("_strip")
def test_numbers_against_plain_arithmetic() -> None:
    a, b = picture(1, 40, 31), picture(2, 40, 31)
    b[:10] = a[:10]
    found = measure_pixels(a, b)
    apart = np.abs(a.astype(int) - b)
    assert found.pixels == 40 * 31
    assert found.differing == int((apart.max(axis=2) > 0).sum())
    assert found.max_difference == apart.max()
    assert found.mean_difference == pytest.approx(apart.mean())
    assert found.psnr_db == pytest.approx(10 * np.log10(255**2 / (apart**2).mean()))
    assert 0.5 < found.share < 0.8


def test_the_same_pixels() -> None:
    a = picture(1, 8, 8)
    found = measure_pixels(a, a.copy())
    assert (found.differing, found.max_difference, found.psnr_db, found.share) == (0, 0, None, 0.0)


@pytest.mark.usefixtures("_strip")
@pytest.mark.parametrize("side", [1000, 31, 30, 7, 1])
def test_a_single_pixel_stays_visible_at_any_size(side: int) -> None:
    a = picture(1, 47, 31)
    b = a.copy()
    b[33, 29, 2] ^= 1
    seen = amplified(a, b, 128, side)
    assert max(seen.shape[:2]) <= side
    assert (seen.reshape(-1, 3) == [0, 0, 128]).all(axis=1).sum() == 1
    assert (seen.reshape(-1, 3).any(axis=1)).sum() == 1
    marks = marked(a, b, side)
    assert marks.shape == seen.shape
    assert (marks.reshape(-1, 3) == [255, 0, 64]).all(axis=1).sum() == 1
    assert not (marked(a, b, side, above=1).reshape(-1, 3) == [255, 0, 64]).all(axis=1).any()


def test_amplified_ends_at_white() -> None:
    a, b = np.zeros((1, 1, 3), np.uint8), np.full((1, 1, 3), 200, np.uint8)
    assert amplified(a, b, 64, 9).tolist() == [[[255, 255, 255]]]
    assert amplified(a, b, 10**9, 9).tolist() == [[[255, 255, 255]]]


def test_the_usual_difference_becomes_bright() -> None:
    a = np.full((20, 20, 3), 100, np.uint8)
    for by, factor in ((0, 1), (1, 32), (8, 4), (100, 1)):
        assert amplify_by(measure_pixels(a, a + np.uint8(by))) == factor
    b = a.copy()
    b[0, 0, 0] += 1
    assert amplify_by(measure_pixels(a, b)) == 128, "one pixel is seen"


def test_png() -> None:
    a = picture(1, 9, 7)
    assert (np.asarray(Pillow.open(io.BytesIO(png_of(a)))) == a).all()
