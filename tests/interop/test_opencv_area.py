"""``opencv_area`` gives the bytes of the real OpenCV's INTER_AREA, whatever crop and size.

Needs an environment with FFCV, and so with OpenCV; name its interpreter in HEADRACE_FFCV_PYTHON. Skipped otherwise.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.unit.native.test_load import load, random_crop

from headrace._native import resize_area

FFCV_PYTHON = os.environ.get("HEADRACE_FFCV_PYTHON", "")
COUNT = 400
SIDE = 700

pytestmark = [
    pytest.mark.skipif(not FFCV_PYTHON, reason="HEADRACE_FFCV_PYTHON does not name a Python with ffcv"),
    pytest.mark.timeout(600),
]


def random_case(rng: np.random.Generator, kind: str) -> list[int]:
    top, left, height, width = random_crop(rng, SIDE, SIDE)
    if kind == "typical":
        size = [224, 224]
    elif kind == "smaller":
        size = [int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))]
    elif kind == "whole factors":
        factors = rng.integers(1, 9, 2) if rng.random() < 0.7 else [2, 2]
        size = [max(1, height // int(factors[0])), max(1, width // int(factors[1]))]
        height, width = height // size[0] * size[0], width // size[1] * size[1]
    else:
        size = rng.integers(1, SIDE + 1, 2).tolist()
    return [top, left, height, width, *size]


@pytest.mark.parametrize("kind", ["any", "typical", "smaller", "whole factors"])
def test_opencv_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(kind))
    pixels = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    cases = np.array([random_case(rng, kind) for _ in range(COUNT)])
    np.savez(tmp_path / "cases.npz", pixels=pixels, cases=cases)
    script = Path(__file__).with_name("resize_with_opencv.py")
    command = [FFCV_PYTHON, str(script), str(tmp_path / "cases.npz"), str(tmp_path / "out.npz")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    with np.load(tmp_path / "out.npz") as archive:
        for i, (top, left, height, width, *size) in enumerate(cases.tolist()):
            expected = archive[str(i)]
            found = load(pixels, [top, left, height, width], np.empty((*size, 3), np.uint8), "opencv_area")
            np.testing.assert_array_equal(found, expected, err_msg=str(cases[i]))
            if size[0] <= height and size[1] <= width:
                part = np.ascontiguousarray(pixels[top : top + height, left : left + width])
                resize_area(part, found)
                np.testing.assert_array_equal(found, expected, err_msg=str(cases[i]))
