"""Crops: which part of a picture is taken, and the size it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from headrace._native import draw_resized_crops
from headrace.ops.base import Form, checked_fill, picture_form
from headrace.ops.sizes import Size, checked_size, size_at, sizes_of

if TYPE_CHECKING:
    from headrace.ops.base import Draws

__all__ = ["CenterCrop", "Crops", "Interpolation", "RandomCrop", "RandomResizedCrop", "Resize"]

Crops: TypeAlias = npt.NDArray[np.int32]
"""One row for each picture: top, left, height, width."""

Interpolation: TypeAlias = Literal["area", "nearest", "bilinear", "bicubic", "lanczos"]


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """A random part of the picture, scaled to ``size``: the crop that most classifiers are trained with.

    Up to ten times an area (a share of the picture from ``scale``) and an aspect ratio (width by height, from
    ``ratio``, uniform on the logarithm) are drawn; the first that fits is placed at random. If none fits, the largest
    centred part within the ratio limits is taken.

    Args:
        size: of the result, one number or (height, width); or a mapping of epochs to sizes, each of which holds from
            its epoch on, such as ``{0: 128, 10: 192, 20: 224}``.
        scale: smallest and largest share of the area.
        ratio: smallest and largest width by height.
        interpolation: ``"area"`` averages as OpenCV's INTER_AREA; ``"bilinear"``, ``"bicubic"`` and ``"lanczos"`` are
            antialiased as in Pillow; ``"nearest"`` is for masks.
        share: fields whose ops have the same word here draw the same numbers, such as a picture and its mask.
        reduced: where the part is at least 2, 4 or 8 times as large as the result in both directions, let the JPEG
            decoder put out every block at that fraction of its size: a little different from averaging pixels, and
            faster for large pictures whose file has no index of its JPEGs.

    Example:
        >>> RandomResizedCrop(224).size
        (224, 224)
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "area"
    share: str | None = None
    reduced: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        check_interpolation(self.interpolation)
        if not 0 < self.scale[0] <= self.scale[1]:
            raise ValueError(f"scale must be two ascending positive numbers, got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio must be two ascending positive numbers, got {self.ratio}")

    def form(self, before: Form) -> Form:
        """Pictures of any size in, pictures of one size out, in each epoch."""
        picture_form(self, before)
        return Form("uint8", (*sizes_of(self.size), 3))

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Choose a part of each picture."""
        return draw_resized_crops(
            draws.words,
            np.ascontiguousarray(draws.samples, np.int64),
            np.ascontiguousarray(heights, np.int64),
            np.ascontiguousarray(widths, np.int64),
            self.scale,
            self.ratio,
        )


@dataclass(frozen=True, slots=True)
class RandomCrop:
    """A random part of ``size`` pixels, not scaled.

    Args:
        size: of the part, as for RandomResizedCrop.
        padding: pixels of ``fill`` that are thought around the picture, so that the part may stick out, and be larger
            than the picture by twice as many.
        fill: one number or three, 0 to 255.
        share: fields whose ops have the same word here draw the same numbers.
    """

    size: Size
    padding: int = 0
    fill: int | tuple[int, int, int] = 0
    share: str | None = None

    interpolation: ClassVar[Interpolation] = "area"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        object.__setattr__(self, "fill", checked_fill(self.fill))
        if not 0 <= self.padding <= 65_535:
            raise ValueError(f"padding must be 0 to 65535, got {self.padding}")

    def form(self, before: Form) -> Form:
        """Pictures of any size in, pictures of one size out, in each epoch."""
        picture_form(self, before)
        return Form("uint8", (*sizes_of(self.size), 3))

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Choose a part of each picture; with padding it may stick out."""
        height, width = size_at(self.size, draws.epoch)
        rooms = heights + 2 * self.padding - height, widths + 2 * self.padding - width
        small = np.flatnonzero((rooms[0] < 0) | (rooms[1] < 0))
        if len(small):
            i = int(small[0])
            padded = f" and a padding of {self.padding}" if self.padding else ""
            raise ValueError(
                f"RandomCrop of {width}x{height} is larger than sample {draws.samples[i]}, which has "
                f"{widths[i]}x{heights[i]} pixels{padded}; use RandomResizedCrop, a larger padding, or put such "
                "samples aside"
            )
        top, left = (np.floor(draws.uniform(k) * (room + 1)) - self.padding for k, room in enumerate(rooms))
        return np.stack([top, left, np.full_like(top, height), np.full_like(top, width)], axis=1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """The middle of the picture, scaled to ``size``.

    Args:
        size: of the result, as for RandomResizedCrop.
        ratio: side of the part by the shorter side of the picture; 224/256 is usual for evaluation.
        interpolation: see RandomResizedCrop.
        reduced: see RandomResizedCrop.
    """

    size: Size
    ratio: float = 1.0
    interpolation: Interpolation = "area"
    reduced: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        check_interpolation(self.interpolation)
        if not 0 < self.ratio <= 1:
            raise ValueError(f"ratio must be above 0 and at most 1, got {self.ratio}")

    def form(self, before: Form) -> Form:
        """Pictures of any size in, pictures of one size out, in each epoch."""
        picture_form(self, before)
        return Form("uint8", (*sizes_of(self.size), 3))

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Choose the middle of each picture."""
        side = np.maximum(1, (self.ratio * np.minimum(heights, widths)).astype(np.int64))
        return np.stack([(heights - side) // 2, (widths - side) // 2, side, side], axis=1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Resize:
    """The whole picture, scaled to ``size`` in both directions.

    Args:
        size: of the result, as for RandomResizedCrop.
        interpolation: see RandomResizedCrop.
        reduced: see RandomResizedCrop.
    """

    size: Size
    interpolation: Interpolation = "area"
    reduced: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_size(self.size))
        check_interpolation(self.interpolation)

    def form(self, before: Form) -> Form:
        """Pictures of any size in, pictures of one size out, in each epoch."""
        picture_form(self, before)
        return Form("uint8", (*sizes_of(self.size), 3))

    def crops(self, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], draws: Draws) -> Crops:
        """Take each picture whole."""
        zero = np.zeros_like(heights)
        return np.stack([zero, zero, heights, widths], axis=1).astype(np.int32)


def check_interpolation(interpolation: str) -> None:
    """Refuse what is no known filter."""
    if interpolation not in get_args(Interpolation):
        raise ValueError(f"interpolation must be one of {', '.join(get_args(Interpolation))}, got {interpolation!r}")
