"""Brightness, contrast, saturation: each picture is blended with something by a random factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form, checked_probability, picture_form

if TYPE_CHECKING:
    from headrace.ops.base import Draws

__all__ = ["RandomBrightness", "RandomContrast", "RandomSaturation"]


@dataclass(frozen=True, slots=True)
class _Blend:
    """Factor times the picture plus (1 - factor) times something else.

    Args:
        magnitude: the factor is uniform between 1 - magnitude (at least 0) and 1 + magnitude.
        probability: how often a picture is changed at all.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str]

    magnitude: float
    probability: float = 0.5
    share: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.magnitude < np.inf:
            raise ValueError(f"magnitude must not be negative, got {self.magnitude}")
        checked_probability(self.probability)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """The factor of each picture, NaN where it stays as it is."""
        low = max(0.0, 1 - self.magnitude)
        factor = low + (1 + self.magnitude - low) * draws.uniform(1)
        return np.where(draws.uniform(0) < self.probability, factor, np.nan).astype(np.float32)[:, None]


class RandomBrightness(_Blend):
    """Blend with black.

    Args:
        magnitude: the factor is uniform between 1 - magnitude (at least 0) and 1 + magnitude.
        probability: how often a picture is changed at all.
        share: fields whose ops have the same word here draw the same numbers.
    """

    __slots__ = ()
    kind = "brightness"


class RandomContrast(_Blend):
    """Blend with the picture's mean grey; arguments as RandomBrightness."""

    __slots__ = ()
    kind = "contrast"


class RandomSaturation(_Blend):
    """Blend with the grey picture; arguments as RandomBrightness."""

    __slots__ = ()
    kind = "saturation"
