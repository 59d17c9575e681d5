"""RandAugment and TrivialAugmentWide: operations chosen at random for each picture.

Both choose among the same fourteen operations, by equal chances, as in torchvision. An operation has a row of
magnitudes, by number; some take theirs with a random sign. Shear, translate and rotate take the nearest pixel, and
``fill`` stands where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.ops.base import CHOICE_VALUES, Form, checked_fill, picture_form, step_number

if TYPE_CHECKING:
    from headrace.ops.base import Draws, NativeStep

__all__ = ["RandAugment", "TrivialAugmentWide"]

_Magnitudes: TypeAlias = dict[str, npt.NDArray[np.float64]]
_SIGNED = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color", "contrast", "sharpness")
_FACTORS = {"brightness": "brightness", "color": "saturation", "contrast": "contrast", "sharpness": "sharpness"}


@dataclass(frozen=True, slots=True)
class RandAugment:
    """Some operations after one another, chosen at random for each picture, all of one magnitude.

    As torchvision's: identity, shear and translate in x and y, rotate, brightness, color, contrast, sharpness,
    posterize, solarize, autocontrast, equalize.

    Args:
        operations: how many are done to a picture; the same may come twice.
        magnitude: how strong they are, a number below ``bins``.
        bins: how many magnitudes there are.
        fill: one number or three, 0 to 255: what stands where a moved picture has no pixels.
        share: fields whose ops have the same word here draw the same numbers.

    Example:
        >>> RandAugment(2, 9).operations
        2
    """

    kind: ClassVar[str] = "rand augment"

    operations: int = 2
    magnitude: int = 9
    bins: int = 31
    fill: int | tuple[int, int, int] = 0
    share: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill", checked_fill(self.fill))
        if index(self.operations) < 1:
            raise ValueError(f"operations must be at least 1, got {self.operations}")
        _check_bins(self.bins)
        if not 0 <= index(self.magnitude) < self.bins:
            raise ValueError(f"magnitude must be 0 to {self.bins - 1}, for there are {self.bins}, got {self.magnitude}")

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def steps(self, size: tuple[int, int], draws: Draws) -> list[NativeStep]:
        """One choice for each operation."""
        table = _rand_augment_table(self.bins, size, checked_fill(self.fill))[:, self.magnitude]
        chosen = np.floor(draws.uniforms(0, self.operations) * len(table)).astype(np.intp)
        signs = (draws.uniforms(self.operations, self.operations) < 0.5).astype(np.intp)
        return [("choice", table[which, sign]) for which, sign in zip(chosen, signs, strict=True)]


@dataclass(frozen=True, slots=True)
class TrivialAugmentWide:
    """One operation for each picture, chosen at random with a random magnitude.

    As torchvision's: the operations of RandAugment with wider magnitudes.

    Args:
        bins: how many magnitudes there are.
        fill: one number or three, 0 to 255: what stands where a moved picture has no pixels.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "trivial augment"

    bins: int = 31
    fill: int | tuple[int, int, int] = 0
    share: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill", checked_fill(self.fill))
        _check_bins(self.bins)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def steps(self, size: tuple[int, int], draws: Draws) -> list[NativeStep]:
        """One choice for each picture."""
        table = _trivial_augment_table(self.bins, size, checked_fill(self.fill))
        chosen = np.floor(draws.uniform(0) * len(table)).astype(np.intp)
        magnitudes = np.floor(draws.uniform(1) * self.bins).astype(np.intp)
        signs = (draws.uniform(2) < 0.5).astype(np.intp)
        return [("choice", table[chosen, magnitudes, signs])]


def rand_augment_magnitudes(bins: int, size: tuple[int, int]) -> _Magnitudes:
    """The magnitudes of each operation of RandAugment, for pictures of (height, width)."""
    height, width = size
    return _magnitudes(bins, 0.3, (150 / 331 * width, 150 / 331 * height), 30, 0.9, lost_bits=4)


def trivial_augment_magnitudes(bins: int) -> _Magnitudes:
    """The magnitudes of each operation of TrivialAugmentWide."""
    return _magnitudes(bins, 0.99, (32, 32), 135, 0.99, lost_bits=6)


def _magnitudes(
    bins: int, shear: float, shift: tuple[float, float], degrees: float, factor: float, *, lost_bits: int
) -> _Magnitudes:
    nothing = np.zeros(bins)
    return {
        "identity": nothing,
        "shear_x": np.linspace(0, shear, bins),
        "shear_y": np.linspace(0, shear, bins),
        "translate_x": np.linspace(0, shift[0], bins),
        "translate_y": np.linspace(0, shift[1], bins),
        "rotate": np.linspace(0, degrees, bins),
        "brightness": np.linspace(0, factor, bins),
        "color": np.linspace(0, factor, bins),
        "contrast": np.linspace(0, factor, bins),
        "sharpness": np.linspace(0, factor, bins),
        "posterize": 8 - np.rint(np.arange(bins) / ((bins - 1) / lost_bits)),
        "solarize": np.linspace(255, 0, bins),
        "autocontrast": nothing,
        "equalize": nothing,
    }


@lru_cache(maxsize=16)
def _rand_augment_table(bins: int, size: tuple[int, int], fill: tuple[int, int, int]) -> npt.NDArray[np.float32]:
    return _table(rand_augment_magnitudes(bins, size), size, fill)


@lru_cache(maxsize=16)
def _trivial_augment_table(bins: int, size: tuple[int, int], fill: tuple[int, int, int]) -> npt.NDArray[np.float32]:
    return _table(trivial_augment_magnitudes(bins), size, fill)


def _table(magnitudes: _Magnitudes, size: tuple[int, int], fill: tuple[int, int, int]) -> npt.NDArray[np.float32]:
    """The values of the native step by operation, magnitude and sign."""
    rows = [
        [
            [_choice(name, sign * level, size, fill) for sign in ((1, -1) if name in _SIGNED else (1, 1))]
            for level in row
        ]
        for name, row in magnitudes.items()
    ]
    return np.array(rows, np.float32)


def _choice(name: str, magnitude: float, size: tuple[int, int], fill: tuple[int, int, int]) -> list[float]:
    kind, values = _kind_and_values(name, magnitude, size, fill)
    number = math.nan if kind is None else step_number(kind)
    return [number, *values, *[0.0] * (CHOICE_VALUES - 1 - len(values))]


def _kind_and_values(
    name: str, magnitude: float, size: tuple[int, int], fill: tuple[int, int, int]
) -> tuple[str | None, list[float]]:
    if name == "identity":
        return None, []
    if name in _FACTORS:
        return _FACTORS[name], [1 + magnitude]
    if name in ("autocontrast", "equalize"):
        return name, [1.0]
    if name in ("posterize", "solarize"):
        return name, [magnitude]
    matrices = {
        "shear_x": [1.0, magnitude, 0.0, 0.0, 1.0, 0.0],
        "shear_y": [1.0, 0.0, 0.0, magnitude, 1.0, 0.0],
        "translate_x": [1.0, 0.0, -float(int(magnitude)), 0.0, 1.0, 0.0],
        "translate_y": [1.0, 0.0, 0.0, 0.0, 1.0, -float(int(magnitude))],
        "rotate": _rotation(magnitude, size),
    }
    return "affine", [*matrices[name], *map(float, fill)]


def _rotation(degrees: float, size: tuple[int, int]) -> list[float]:
    """Where each pixel comes from when a picture turns about its middle, against the clock."""
    y, x = size[0] / 2, size[1] / 2
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [cos, -sin, x - x * cos + y * sin, sin, cos, y - x * sin - y * cos]


def _check_bins(bins: int) -> None:
    if index(bins) < 2:
        raise ValueError(f"bins must be at least 2, got {bins}")
