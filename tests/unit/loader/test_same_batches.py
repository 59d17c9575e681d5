"""Batches are the same for ever: what seeds give was recorded once, and a change would change every user's runs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from pathlib import Path

COUNT, SIDE = 150, 32
FLIP = ops.RandomHorizontalFlip()
MOVES = [ops.RandomTranslate(2), ops.Cutout(8)]
COLOURS = [ops.RandomBrightness(0.4), ops.RandomContrast(0.4)]
NORMALIZE = ops.Normalize((125, 123, 114), (63, 62, 67))
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "sequential": ({}, "54304330647c8546"),
    "random": ({"order": "random", "seed": 3}, "e5afbdcd52eb81bf"),
    "random, another rank": ({"order": "random", "seed": -3, "rank": 1, "world": 3}, "96c997bff9e6308a"),
    "random, some": ({"order": "random", "seed": 2**70, "indices": range(5, 140, 3)}, "2c59fe9d3aea7d76"),
    "quasi-random": ({"order": "quasi_random", "seed": 4}, "6c2113360989f6b7"),
    "flip": ({"order": "random", "image": [FLIP]}, "fd0922bec84b08ee"),
    "flip, translate, cutout": (
        {"order": "random", "image": [FLIP, *MOVES]},
        "d83aceb6d27f3f87",
    ),
    "padded crop": ({"image": [ops.RandomCrop(SIDE, padding=4, fill=(9, 8, 7)), FLIP]}, "35d396ab5e7757c0"),
    "flip, crop": ({"image": [FLIP, ops.RandomCrop(20)]}, "85d6de3317f34b13"),
    "crop, colours": (
        {"image": [ops.RandomCrop(24), *COLOURS]},
        "c39c05ff69cb7414",
    ),
    "planes": ({"image": [FLIP, ops.ToLayout("NCHW")]}, "aa70c1b7ef38c5d0"),
    "normalized": ({"image": [NORMALIZE]}, "1d3fb4d3669fc042"),
    "normalized planes": ({"image": [FLIP, NORMALIZE, ops.ToLayout("NCHW")]}, "ed185c16e2d14e30"),
    "resized": ({"order": "random", "image": [ops.RandomResizedCrop(16), FLIP]}, "da5c348079f2721c"),
    "resized to the same size": ({"image": [ops.Resize(SIDE, interpolation="lanczos")]}, "54304330647c8546"),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("same") / "x.beton"
    numbers = np.arange(COUNT * SIDE * SIDE * 3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    pixels = (numbers >> np.uint64(40)).astype(np.uint8).reshape(COUNT, SIDE, SIDE, 3)
    fields = {"image": hr.Image(mode="raw"), "n": hr.Int(), "v": hr.NDArray("uint8", (SIDE * SIDE * 3,))}
    hr.write(path, [(p, i, p[::-1].reshape(-1)) for i, p in enumerate(pixels)], fields=fields, page_size=2 << 20)
    return path


@pytest.mark.parametrize("case", CASES)
def test_batches_are_those_that_were_recorded(path: Path, case: str) -> None:
    options, expected = CASES[case]
    image, rest = options.get("image", []), {k: v for k, v in options.items() if k != "image"}
    loader = hr.Loader(path, 24, drop_last=False, workers=2, pipelines={"image": image}, **rest)
    digest = hashlib.sha256()
    for _ in range(2):
        for batch in loader:
            for value in batch:
                digest.update(f"{value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    assert digest.hexdigest()[:16] == expected
