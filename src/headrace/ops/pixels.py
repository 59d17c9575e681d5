"""The last steps of a value: normalize, dtype, layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.ops.base import Draws

__all__ = ["Normalize", "ToDtype", "ToLayout"]

_FLOATS = ("float16", "float32")
_CHANNELS = 3


@dataclass(frozen=True, slots=True, init=False)
class Normalize:
    """(value - mean) / std for each channel, in floating point.

    Args:
        mean: three numbers, in units of pixel values (0 to 255); those for pixels from 0 to 1 times 255.
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
        if len(self.mean) != _CHANNELS or len(self.std) != _CHANNELS:
            raise ValueError(f"mean and std must have three numbers each, got {self.mean} and {self.std}")
        if min(self.std) <= 0:
            raise ValueError(f"std must be positive, got {self.std}")
        if self.dtype not in _FLOATS:
            raise ValueError(f"dtype must be float16 or float32, got {self.dtype}")

    def scale_and_bias(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The same as value * scale + bias."""
        mean, std = np.array(self.mean), np.array(self.std)
        return (1 / std).astype(np.float32), (-mean / std).astype(np.float32)

    def advice(self) -> str | None:
        """What was probably meant, for pixels from 0 to 255, when the numbers look like those of pixels from 0 to 1."""
        if not all(0 < number < 1 for number in (*self.mean, *self.std)):
            return None
        mean, std = ([round(255 * number, 3) for number in numbers] for numbers in (self.mean, self.std))
        return (
            f"Normalize has mean={list(self.mean)} and std={list(self.std)}, which look like numbers for pixels from 0 "
            f"to 1, and it gets pixels from 0 to 255. Multiply both by 255: Normalize({mean}, {std})"
        )

    def form(self, before: Form) -> Form:
        """Pictures in, in either layout; floats out."""
        shape = before.shape
        if before.is_known and (shape is None or len(shape) != 3 or _CHANNELS not in (shape[0], shape[2])):
            raise ValueError(f"Normalize works on pictures of three channels, and gets {before}")
        return Form(self.dtype, shape) if before.is_known else before

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Normalize an array of any number type."""
        array = np.asarray(values)
        scale, bias = self.scale_and_bias()
        if array.ndim == 4 and array.shape[3] != _CHANNELS:
            scale, bias = scale[:, None, None], bias[:, None, None]
        return (array.astype(np.float32) * scale + bias).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True, init=False)
class ToDtype:
    """Give an array another dtype, values unchanged, such as ``"float16"``, ``"float32"`` or ``"int32"``."""

    dtype: str

    def __init__(self, dtype: npt.DTypeLike) -> None:
        wanted = np.dtype(dtype)
        object.__setattr__(self, "dtype", wanted.name)
        if wanted.kind not in "biuf":
            raise ValueError(f"dtype must be one of numbers, got {self.dtype}")

    def form(self, before: Form) -> Form:
        """An array in, an array out."""
        if before.is_known and before.shape is None:
            raise ValueError(f"ToDtype works on arrays, and gets {before}; use Apply")
        if before.dtype in _FLOATS and np.dtype(self.dtype).kind in "iu" and len(before.shape or ()) == 3:
            raise ValueError(
                f"ToDtype({self.dtype!r}) would cut off the fractions of {before}; use Apply if you mean it"
            )
        return Form(self.dtype, before.shape) if before.is_known else before

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Cast an array."""
        return np.asarray(values).astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class ToLayout:
    """Order the axes of a batch of pictures.

    Args:
        layout: ``"NHWC"`` as decoded, ``"NCHW"``, or ``"channels_last"``: the shape of NCHW on the memory of NHWC,
            which convolutions on GPUs like.
    """

    layout: Literal["NHWC", "NCHW", "channels_last"]

    def __post_init__(self) -> None:
        if self.layout not in ("NHWC", "NCHW", "channels_last"):
            raise ValueError(f"layout must be 'NHWC', 'NCHW' or 'channels_last', got {self.layout!r}")

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out."""
        shape = before.shape
        if not before.is_known:
            return before
        if shape is None or len(shape) != 3 or _CHANNELS not in (shape[0], shape[2]):
            raise ValueError(f"ToLayout works on pictures of three channels, and gets {before}")
        is_first = shape[2] != _CHANNELS
        sides = shape[1:] if is_first else shape[:2]
        return Form(before.dtype, (*sides, _CHANNELS) if self.layout == "NHWC" else (_CHANNELS, *sides))

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Order the axes, and the memory as the layout says."""
        array = np.asarray(values)
        if array.ndim != 4:
            raise ValueError(f"ToLayout works on a batch of pictures, and gets an array of shape {array.shape}")
        last = array if array.shape[3] == _CHANNELS else array.transpose(0, 2, 3, 1)
        if self.layout == "NCHW":
            return np.ascontiguousarray(last.transpose(0, 3, 1, 2))
        last = np.ascontiguousarray(last)
        return last if self.layout == "NHWC" else last.transpose(0, 3, 1, 2)
