"""Datasets that the tests of the viewer show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.helpers import image_file
from tests.viewer.scenes import CLASSES as KINDS
from tests.viewer.scenes import scene

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 12
CLASSES = ["cat", "dog", "owl"]
FIELDS = {
    "image": hr.Image(),
    "label": hr.Int(),
    "score": hr.Float(),
    "note": hr.Text(),
    "about": hr.Json(),
    "curve": hr.NDArray("<f4", (400,)),
    "depth": hr.NDArray("<f4", (48, 64)),
    "blob": hr.Bytes(),
}


def photo(i: int) -> np.ndarray:
    """A landscape of 320 x 240 pixels."""
    return np.asarray(scene(KINDS[i % len(KINDS)], i).resize((320, 240)))


def mixed_row(i: int) -> tuple[Any, ...]:
    """A sample with a value of every kind."""
    y, x = np.mgrid[0:48, 0:64]
    return (
        image_file(photo(i), "JPEG", quality=88),
        i % len(CLASSES),
        i / 7,
        f"A note about picture {i}.\nIt has two lines.",
        {"id": i, "boxes": [{"x": 10 * i, "y": 5, "kind": "head"}, {"x": 3, "y": 4, "kind": None}], "ok": True},
        (np.sin(np.arange(400) / (9 + i)) * np.linspace(1, 0, 400)).astype("<f4"),
        np.hypot(y - 24, x - 32 + i).astype("<f4"),
        bytes(range(i, i + 100)),
    )


def write_mixed(path: Path, count: int = COUNT) -> Path:
    """A file with values of every kind, names and classes."""
    names = [f"pictures/{i}.jpg" for i in range(count)]
    rows = [mixed_row(i) for i in range(count)]
    hr.write(path, rows, fields=FIELDS, names=names, class_names={"label": CLASSES})
    return path
