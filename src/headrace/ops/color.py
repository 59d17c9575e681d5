"""Brightness, contrast, saturation, hue, grey: each picture changes its colours by a random factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.ops.base import (
    CHOICE_VALUES,
    Form,
    checked_probability,
    checked_range,
    picture_form,
    step_number,
)

if TYPE_CHECKING:
    from headrace.ops.base import Draws, NativeStep

__all__ = ["ColorJitter", "RandomBrightness", "RandomContrast", "RandomGrayscale", "RandomSaturation"]

_KINDS = ("brightness", "contrast", "saturation", "hue")


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


@dataclass(frozen=True, slots=True)
class ColorJitter:
    """Brightness, contrast, saturation and hue, each by a random factor, in a random order for each picture.

    That is torchvision's ColorJitter on tensors: brightness, contrast and saturation blend as RandomBrightness and the
    others; hue turns the colours of the picture by a share of the circle. What is 0 is left out.

    Args:
        brightness: the factor is uniform between 1 - brightness (at least 0) and 1 + brightness; or between two
            numbers.
        contrast: the same.
        saturation: the same.
        hue: the turn is uniform between -hue and hue, at most 0.5, or between two numbers.
        probability: how often a picture is changed at all.
        share: fields whose ops have the same word here draw the same numbers.

    Example:
        >>> ColorJitter(0.4, 0.4, 0.4, 0.1).hue
        (-0.1, 0.1)
    """

    kind: ClassVar[str] = "colour jitter"

    brightness: float | tuple[float, float] = 0
    contrast: float | tuple[float, float] = 0
    saturation: float | tuple[float, float] = 0
    hue: float | tuple[float, float] = 0
    probability: float = 1.0
    share: str | None = None

    def __post_init__(self) -> None:
        for name in _KINDS:
            object.__setattr__(self, name, _factors(name, getattr(self, name)))
        checked_probability(self.probability)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def steps(self, size: tuple[int, int], draws: Draws) -> list[NativeStep]:
        """One step for each kind, and each picture has its own order of them."""
        kinds = [k for k, name in enumerate(_KINDS) if getattr(self, name) != ((0, 0) if name == "hue" else (1, 1))]
        if not kinds:
            return []
        limits = np.array([getattr(self, _KINDS[k]) for k in kinds])
        factors = limits[:, :1] + (limits[:, 1:] - limits[:, :1]) * draws.uniforms(1, len(_KINDS))[kinds]
        numbers = np.array([step_number(_KINDS[k]) for k in kinds], np.float32)
        order = draws.uniforms(5, len(_KINDS))[kinds].argsort(axis=0)
        values = np.zeros((len(kinds), len(draws.samples), CHOICE_VALUES), np.float32)
        values[..., 0] = np.where(draws.uniform(0) < self.probability, numbers[order], np.nan)
        values[..., 1] = np.take_along_axis(factors, order, axis=0)
        return [("choice", step) for step in values]


@dataclass(frozen=True, slots=True)
class RandomGrayscale:
    """Make a picture grey with a probability; it keeps its three channels, which are then equal.

    Args:
        probability: 0 to 1.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "grayscale"

    probability: float = 0.1
    share: str | None = None

    def __post_init__(self) -> None:
        checked_probability(self.probability)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def steps(self, size: tuple[int, int], draws: Draws) -> list[NativeStep]:
        """Nothing of the picture's saturation is left where it is grey."""
        factors = np.where(draws.uniform(0) < self.probability, 0, np.nan)
        return [("saturation", factors.astype(np.float32)[:, None])]


def _factors(name: str, given: float | tuple[float, float]) -> tuple[float, float]:
    if isinstance(given, int | float | np.number):
        if not 0 <= given <= (0.5 if name == "hue" else np.inf) or given == np.inf:
            most = "0 to 0.5" if name == "hue" else "0 or more"
            raise ValueError(f"{name} must be {most}, or two numbers, got {given}")
        return (-float(given), float(given)) if name == "hue" else (max(0.0, 1 - float(given)), 1 + float(given))
    return checked_range(name, given, -0.5, 0.5) if name == "hue" else checked_range(name, given, 0)
