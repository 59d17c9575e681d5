"""Blur: each pixel becomes a mean of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form, checked_probability, checked_range, picture_form

if TYPE_CHECKING:
    from headrace.ops.base import Draws

__all__ = ["GaussianBlur"]

_MOST_TAPS = 255


@dataclass(frozen=True, slots=True)
class GaussianBlur:
    """Blur a picture by a Gaussian of random width, as torchvision's.

    The weight of a pixel at distance d (in rows, and the same in columns) is exp(-d^2 / (2 sigma^2)), for distances up
    to half of ``kernel_size``; the weights are scaled to sum 1. Beyond its rim a picture goes on as its mirror image.

    Args:
        kernel_size: how many pixels in a row count, an odd number, at most 255.
        sigma: smallest and largest width, uniform between them; one number for always the same.
        probability: how often a picture is changed at all.
        share: fields whose ops have the same word here draw the same numbers.

    Example:
        >>> GaussianBlur(9, sigma=1.5).sigma
        (1.5, 1.5)
    """

    kind: ClassVar[str] = "blur"

    kernel_size: int
    sigma: float | tuple[float, float] = (0.1, 2.0)
    probability: float = 1.0
    share: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.kernel_size <= _MOST_TAPS or self.kernel_size % 2 != 1:
            raise ValueError(f"kernel_size must be an odd number, 1 to {_MOST_TAPS}, got {self.kernel_size}")
        given = self.sigma
        sigma = checked_range("sigma", given if isinstance(given, tuple | list) else (given, given), 0)
        if sigma[0] == 0:
            raise ValueError(f"sigma must be above 0, got {given}")
        object.__setattr__(self, "sigma", sigma)
        checked_probability(self.probability)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """Sigma (NaN where the picture stays as it is) and taps of each picture."""
        low, high = self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)
        values = np.full((len(draws.samples), 2), self.kernel_size, np.float32)
        sigma = low + (high - low) * draws.uniform(1)
        values[:, 0] = np.where(draws.uniform(0) < self.probability, sigma, np.nan)
        return values
