"""What happens to pixels after the crop: flip, normalize, dtype, layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ops.base import Draws

__all__ = ["Normalize", "RandomHorizontalFlip", "ToDtype", "ToLayout"]

_DTYPES = ("uint8", "float16", "float32")
_FLOATS = ("float16", "float32")


@dataclass(frozen=True, slots=True)
class RandomHorizontalFlip:
    """Mirror a picture with a probability.

    Args:
        probability: 0 to 1.
        share: fields whose ops have the same word here draw the same numbers.
    """

    probability: float = 0.5
    share: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability must be 0 to 1, got {self.probability}")

    def flips(self, draws: Draws) -> npt.NDArray[np.uint8]:
        """1 for every picture to mirror."""
        return (draws.uniform(0) < self.probability).astype(np.uint8)


@dataclass(frozen=True, slots=True, init=False)
class Normalize:
    """(value - mean) / std for each channel, in floating point.

    Args:
        mean: three numbers, in units of pixel values (0 to 255).
        std: the same.
        dtype: ``"float32"`` or ``"float16"``.

    Example:
        >>> Normalize([123.7, 116.3, 103.5], [58.4, 57.1, 57.4], dtype="float16").dtype
        'float16'
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: Literal["float16", "float32"]

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], dtype: Literal["float16", "float32"] = "float32"
    ) -> None:
        object.__setattr__(self, "mean", tuple(float(m) for m in mean))
        object.__setattr__(self, "std", tuple(float(s) for s in std))
        object.__setattr__(self, "dtype", np.dtype(dtype).name)
        if len(self.mean) != 3 or len(self.std) != 3:
            raise ValueError(f"mean and std must have three numbers each, got {self.mean} and {self.std}")
        if min(self.std) <= 0:
            raise ValueError(f"std must be positive, got {self.std}")
        if self.dtype not in _FLOATS:
            raise ValueError(f"dtype must be float16 or float32, got {self.dtype}")

    def scale_and_bias(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The same as value * scale + bias."""
        mean, std = np.array(self.mean), np.array(self.std)
        return (1 / std).astype(np.float32), (-mean / std).astype(np.float32)


@dataclass(frozen=True, slots=True, init=False)
class ToDtype:
    """Give pixels another dtype, values unchanged: ``"uint8"``, ``"float16"`` or ``"float32"``."""

    dtype: str

    def __init__(self, dtype: npt.DTypeLike) -> None:
        object.__setattr__(self, "dtype", np.dtype(dtype).name)
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {self.dtype}")


@dataclass(frozen=True, slots=True)
class ToLayout:
    """Order the axes of a batch of pictures: ``"NHWC"`` (as decoded) or ``"NCHW"``."""

    layout: Literal["NHWC", "NCHW"]

    def __post_init__(self) -> None:
        if self.layout not in ("NHWC", "NCHW"):
            raise ValueError(f"layout must be 'NHWC' or 'NCHW', got {self.layout!r}")
