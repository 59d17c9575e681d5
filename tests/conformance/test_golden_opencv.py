"""``opencv_area`` against what OpenCV itself gave."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.unit.native.test_load import load

from headrace._native import set_simd_level, simd_level

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "opencv" / "area.json").read_text())
SIDE = 700


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """The picture of make_golden.py."""
    y, x, c = np.ogrid[:SIDE, :SIDE, :3]
    mixed = (y * 2654435761 + x * 40503 + c * 2246822519 + x * y * 97) & 0xFFFFFFFF
    array = ((mixed >> 13) & 0xFF).astype(np.uint8)
    assert zlib.crc32(array) == GOLDEN["picture_crc32"]
    return array


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512"])
def test_opencv_area_is_opencvs(pixels: np.ndarray, level: str) -> None:
    highest, levels = simd_level(), ["scalar", "sse42", "avx2", "avx512"]
    if levels.index(level) > levels.index(highest):
        pytest.skip(f"this CPU has no {level}")
    set_simd_level(level)
    try:
        for case in GOLDEN["cases"]:
            found = load(pixels, case["crop"], np.empty((*case["size"], 3), np.uint8), "opencv_area")
            assert zlib.crc32(found) == case["crc32"], case
    finally:
        set_simd_level(highest)
