"""Tools for the tests of ops: pictures through a loader, and the random numbers an op draws for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.helpers import picture

from headrace import Loader
from headrace._native import crc32c
from headrace.ops import Draws

if TYPE_CHECKING:
    from pathlib import Path

COUNT, HEIGHT, WIDTH = 24, 20, 28
SIZE = (HEIGHT, WIDTH)


def pictures() -> np.ndarray:
    """Smooth ones, and some of black, white and noise."""
    rng = np.random.default_rng(0)
    pixels = np.stack([picture(i, HEIGHT, WIDTH) for i in range(COUNT)])
    pixels[::4] = rng.integers(0, 256, pixels[::4].shape)
    pixels[1::8] = rng.choice([0, 255], pixels[1::8].shape)
    return pixels


def load(path: Path, *pipeline: Any, **options: Any) -> np.ndarray:
    """All pictures of a file through some ops, as one batch."""
    (batch,) = Loader(path, COUNT, pipelines={"image": list(pipeline), "label": None}, **options)
    return batch.image


def draws(count: int = COUNT, *, share: str | None = None, seed: int = 0, op: int = 1) -> Draws:
    """The random numbers of an op for the samples from 0 on; with a word to share, those that a loader draws for it."""
    key = op if share is None else crc32c(f"share {share}".encode())
    return Draws(seed, 0, key, np.arange(count, dtype=np.int64))
