"""Crops: which part of a picture is taken, and the size it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from penstock.ops.base import Draws

__all__ = ["CenterCrop", "Crops", "RandomResizedCrop", "Resize"]

Crops: TypeAlias = npt.NDArray[np.int32]
"""One row for each picture: top, left, height, width."""

Interpolation: TypeAlias = Literal["area", "bilinear"]
_TRIES = 10


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """A random part of the picture, scaled to ``size``: the crop that most classifiers are trained with.

    Up to ten times an area (a share of the picture from ``scale``) and an aspect ratio (width by height, from
    ``ratio``, uniform on the logarithm) are drawn; the first that fits is placed at random. If none fits, the largest
    centred part within the ratio limits is taken.

    Args:
        size: of the result, one number or (height, width).
        scale: smallest and largest share of the area.
        ratio: smallest and largest width by height.
        interpolation: ``"area"`` averages as OpenCV's INTER_AREA, ``"bilinear"`` is antialiased as in Pillow.
        share: fields whose ops have the same word here draw the same numbers, such as a picture and its mask.

    Example:
        >>> RandomResizedCrop(224).size
        (224, 224)
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "area"
    share: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        check_interpolation(self.interpolation)
        if not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"scale must be two ascending positive numbers, got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio must be two ascending positive numbers, got {self.ratio}")

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Choose a part of each picture."""
        result = _largest_within(heights, widths, self.ratio)
        is_open = np.ones(len(heights), bool)
        for attempt in range(_TRIES):
            area = heights * widths * _between(draws.uniform(4 * attempt), *self.scale)
            aspect = np.exp(_between(draws.uniform(4 * attempt + 1), *np.log(self.ratio).tolist()))
            w, h = np.rint(np.sqrt(area * aspect)), np.rint(np.sqrt(area / aspect))
            fits = is_open & (w > 0) & (w <= widths) & (h > 0) & (h <= heights)
            top = np.floor(draws.uniform(4 * attempt + 2) * (heights - h + 1))
            left = np.floor(draws.uniform(4 * attempt + 3) * (widths - w + 1))
            result[fits] = np.stack([top, left, h, w], axis=1)[fits].astype(np.int32)
            is_open &= ~fits
            if not is_open.any():
                break
        return result


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """The middle of the picture, scaled to ``size``.

    Args:
        size: of the result, one number or (height, width).
        ratio: side of the part by the shorter side of the picture; 224/256 is usual for evaluation.
        interpolation: see RandomResizedCrop.
    """

    size: int | tuple[int, int]
    ratio: float = 1.0
    interpolation: Interpolation = "area"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        check_interpolation(self.interpolation)
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, got {self.ratio}")

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Choose the middle of each picture."""
        side = np.maximum(1, (self.ratio * np.minimum(heights, widths)).astype(np.int64))
        return np.stack([(heights - side) // 2, (widths - side) // 2, side, side], axis=1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Resize:
    """The whole picture, scaled to ``size`` in both directions.

    Args:
        size: of the result, one number or (height, width).
        interpolation: see RandomResizedCrop.
    """

    size: int | tuple[int, int]
    interpolation: Interpolation = "area"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        check_interpolation(self.interpolation)

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Take each picture whole."""
        zero = np.zeros_like(heights)
        return np.stack([zero, zero, heights, widths], axis=1).astype(np.int32)


def checked_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Height and width from one number or two."""
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or min(pair) < 1 or max(pair) > 65_535:
        raise ValueError(f"size must be a number or (height, width), 1 to 65535, got {size}")
    return pair[0], pair[1]


def check_interpolation(interpolation: str) -> None:
    """Refuse what is no known filter."""
    if interpolation not in ("area", "bilinear"):
        raise ValueError(f"interpolation must be 'area' or 'bilinear', got {interpolation!r}")


def _between(uniform: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.float64]:
    return low + (high - low) * uniform


def _largest_within(heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], ratio: tuple[float, float]) -> Crops:
    aspect = widths / heights
    h = np.where(aspect < ratio[0], np.rint(widths / ratio[0]), heights)
    w = np.where(aspect > ratio[1], np.rint(heights * ratio[1]), widths)
    h, w = np.clip(h, 1, heights), np.clip(w, 1, widths)
    return np.stack([(heights - h) // 2, (widths - w) // 2, h, w], axis=1).astype(np.int32)
