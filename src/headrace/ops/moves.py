"""Flip, turn, translate, cut out: pixels move or vanish, their values stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form, checked_fill, checked_probability, picture_form

if TYPE_CHECKING:
    from headrace.ops.base import Draws

__all__ = ["Cutout", "RandomHorizontalFlip", "RandomRotate90", "RandomTranslate", "RandomVerticalFlip"]


@dataclass(frozen=True, slots=True)
class RandomHorizontalFlip:
    """Mirror a picture with a probability.

    Args:
        probability: 0 to 1.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "flip"

    probability: float = 0.5
    share: str | None = None

    def __post_init__(self) -> None:
        checked_probability(self.probability)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def flips(self, draws: Draws) -> npt.NDArray[np.uint8]:
        """1 for every picture to mirror."""
        return (draws.uniform(0) < self.probability).astype(np.uint8)

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """The same for the native steps."""
        return self.flips(draws).astype(np.float32)[:, None]


@dataclass(frozen=True, slots=True)
class RandomVerticalFlip:
    """Turn a picture upside down, as a mirror does, with a probability.

    Args:
        probability: 0 to 1.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "vertical_flip"

    probability: float = 0.5
    share: str | None = None

    def __post_init__(self) -> None:
        checked_probability(self.probability)

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """1 for every picture to mirror."""
        return (draws.uniform(0) < self.probability).astype(np.float32)[:, None]


@dataclass(frozen=True, slots=True)
class RandomRotate90:
    """Turn a picture against the clock by 0, 90, 180 or 270 degrees, each as likely as the others.

    All pictures of a batch have one size, so it must be a square: put a crop or Resize to a square before it.

    Args:
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "turn"

    share: str | None = None

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out; they must be square."""
        after = picture_form(self, before)
        height, width, _ = after.shape or (None, None, 3)
        if height is not None and width is not None:
            _check_square(height, width)
        return after

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """The quarter turns of each picture."""
        _check_square(*size)
        return np.floor(4 * draws.uniform(0)).astype(np.float32)[:, None]


@dataclass(frozen=True, slots=True)
class RandomTranslate:
    """Shift a picture by up to ``padding`` pixels in each direction; what comes in from outside is ``fill``.

    Args:
        padding: the largest shift.
        fill: one number or three, 0 to 255.
        probability: how often a picture is shifted at all.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "translate"

    padding: int
    fill: int | tuple[int, int, int] = 0
    probability: float = 1.0
    share: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill", checked_fill(self.fill))
        checked_probability(self.probability)
        if not 0 <= self.padding <= 65_535:
            raise ValueError(f"padding must be 0 to 65535, got {self.padding}")

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        return picture_form(self, before)

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """Down and right shift of the window, and the fill, for each picture."""
        values = np.empty((len(draws.samples), 5), np.float32)
        is_moved = draws.uniform(2) < self.probability
        for axis in range(2):
            shift = np.floor(draws.uniform(axis) * (2 * self.padding + 1)) - self.padding
            values[:, axis] = np.where(is_moved, shift, 0)
        values[:, 2:] = checked_fill(self.fill)
        return values


@dataclass(frozen=True, slots=True)
class Cutout:
    """Fill a random square of each picture.

    Args:
        size: side of the square, at most the picture's shorter side.
        fill: one number or three, 0 to 255.
        probability: how often a picture gets one.
        share: fields whose ops have the same word here draw the same numbers.
    """

    kind: ClassVar[str] = "cutout"

    size: int
    fill: int | tuple[int, int, int] = 0
    probability: float = 1.0
    share: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill", checked_fill(self.fill))
        checked_probability(self.probability)
        if self.size < 1:
            raise ValueError(f"size must be at least 1, got {self.size}")

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out; they must be large enough for the square."""
        after = picture_form(self, before)
        sides = [side for side in (after.shape or ())[:2] if side is not None]
        if sides and min(sides) < self.size:
            raise ValueError(f"Cutout({self.size}) does not fit into pictures of {before}")
        return after

    def step(self, size: tuple[int, int], draws: Draws) -> npt.NDArray[np.float32]:
        """Top, left, height, width and fill of each square; height 0 where there is none."""
        if min(size) < self.size:
            raise ValueError(f"Cutout({self.size}) does not fit into pictures of {size[1]}x{size[0]}")
        values = np.empty((len(draws.samples), 7), np.float32)
        for axis in range(2):
            values[:, axis] = np.floor(draws.uniform(axis) * (size[axis] - self.size + 1))
        values[:, 2:4] = np.where(draws.uniform(2) < self.probability, self.size, 0)[:, None]
        values[:, 4:] = checked_fill(self.fill)
        return values


def _check_square(height: int, width: int) -> None:
    if height != width:
        raise ValueError(
            f"RandomRotate90 needs square pictures, and gets pictures of {width}x{height}: turned by 90 degrees they "
            "would not fit into one batch with the others; put RandomResizedCrop, CenterCrop or Resize to a square "
            "before it"
        )
