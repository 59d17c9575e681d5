"""Random crops by Pillow, as fast as it is documented to be.

JPEGs are decoded at a half, a quarter or an eighth (``draft``) where the crop stays large enough, and only the crop is
resized, in two steps (``box``, ``reducing_gap``).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import PIL.Image

if TYPE_CHECKING:
    import numpy.typing as npt

    Box = tuple[int, int, int, int]

__all__ = ["PillowCrop", "draw_box", "resized_crop"]


def draw_box(width: int, height: int, rng: np.random.Generator) -> Box:
    """RandomResizedCrop as torchvision draws it: left, top, width, height."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1.0)
        aspect = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1)), w, h
    return 0, 0, width, height


def resized_crop(data: bytes, side: int, rng: np.random.Generator | None) -> npt.NDArray[np.uint8]:
    """A random part of a JPEG, or without random numbers the whole: side x side x 3."""
    picture = PIL.Image.open(io.BytesIO(data))
    width, height = picture.size
    left, top, w, h = (0, 0, width, height) if rng is None else draw_box(width, height, rng)
    picture.draft("RGB", (-(-width * side // w), -(-height * side // h)))
    scale_x, scale_y = picture.size[0] / width, picture.size[1] / height
    box = (left * scale_x, top * scale_y, (left + w) * scale_x, (top + h) * scale_y)
    rgb = picture if picture.mode == "RGB" else picture.convert("RGB")
    return np.asarray(rgb.resize((side, side), PIL.Image.Resampling.BILINEAR, box=box, reducing_gap=2.0))


class PillowCrop:
    """Random crops of JPEGs as CHW; a class, so that it can travel to processes."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._rng = np.random.default_rng(0)

    def __call__(self, data: bytes) -> npt.NDArray[np.uint8]:
        """One photograph."""
        return np.ascontiguousarray(resized_crop(data, self._side, self._rng).transpose(2, 0, 1))
