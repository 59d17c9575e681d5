"""Random erasing: a random part of a picture vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form, checked_fill, checked_probability, checked_range, picture_form

if TYPE_CHECKING:
    from headrace.ops.base import Draws, NativeStep

__all__ = ["RandomErasing"]

_TRIES = 10
_SEED_HALF = 1 << 24  # whole numbers below are exact in float32


@dataclass(frozen=True, slots=True)
class RandomErasing:
    """Fill a random part of a picture, as torchvision's RandomErasing.

    Up to ten times an area (a share of the picture from ``scale``) and an aspect ratio (height by width, from
    ``ratio``, uniform on the logarithm) are drawn; the first part that is smaller than the picture in both directions
    is placed at random and filled. If none is, the picture stays whole.

    It works on pixels from 0 to 255, before Normalize. What torchvision does after normalizing with its value 0 is here
    the mean as the fill, such as (124, 116, 104).

    Args:
        probability: how often a picture loses a part.
        scale: smallest and largest share of the area.
        ratio: smallest and largest height by width.
        fill: one number or three, 0 to 255, or ``"noise"``: random values, uniform for each pixel and channel.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "erasing"

    probability: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    fill: int | tuple[int, int, int] | Literal["noise"] = 0
    share: str | None = None

    def __post_init__(self) -> None:
        checked_probability(self.probability)
        object.__setattr__(self, "scale", checked_range("scale", self.scale, 0, 1))
        object.__setattr__(self, "ratio", checked_range("ratio", self.ratio, 0))
        if self.ratio[0] == 0:
            raise ValueError(f"ratio must be above 0, got {self.ratio}")
        if isinstance(self.fill, str):
            if self.fill != "noise":
                raise ValueError(f"fill must be a number, three, or 'noise', got {self.fill!r}")
        else:
            object.__setattr__(self, "fill", checked_fill(self.fill))

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def steps(self, size: tuple[int, int], draws: Draws) -> list[NativeStep]:
        """Fill the part, with a colour or with noise of a seed."""
        parts = self.parts(size, draws)
        if isinstance(self.fill, str):
            seeds = np.floor(draws.uniforms(1 + 4 * _TRIES, 2) * _SEED_HALF).T
            return [("noise", np.concatenate([parts, seeds.astype(np.float32)], axis=1))]
        colours = np.tile(np.array(checked_fill(self.fill), np.float32), (len(parts), 1))
        return [("cutout", np.concatenate([parts, colours], axis=1))]

    def parts(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """Top, left, height and width of the part that each picture loses; zeros where it stays whole."""
        height, width = size
        u = draws.uniforms(1, 4 * _TRIES).reshape(_TRIES, 4, len(draws.samples))
        area = height * width * (self.scale[0] + (self.scale[1] - self.scale[0]) * u[:, 0])
        low, high = np.log(self.ratio).tolist()
        aspect = np.exp(low + (high - low) * u[:, 1])
        h, w = np.rint(np.sqrt(area * aspect)), np.rint(np.sqrt(area / aspect))
        fits = (h < height) & (w < width)
        chosen = fits.argmax(axis=0), np.arange(len(draws.samples))  # the first that fits
        h, w = h[chosen], w[chosen]
        top = np.floor(u[:, 2][chosen] * (height - h + 1))
        left = np.floor(u[:, 3][chosen] * (width - w + 1))
        is_erased = fits[chosen] & (draws.uniform(0) < self.probability)
        parts: npt.NDArray[np.float64] = np.stack([top, left, h, w], axis=1) * is_erased[:, None]
        return parts.astype(np.float32)
