"""NDArray and Tensor: arrays of one dtype and one shape."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.types import Encoded

if TYPE_CHECKING:
    from headrace.types import Facts

__all__ = ["NDArray", "Tensor", "dtype_from_text"]

_MAX_DIMENSIONS = 32
_DTYPE_TEXT = re.compile(r"[<>|=]?[biufcmMSUV]\d*(\[\w+\])?")


@dataclass(frozen=True, slots=True, init=False)
class NDArray:
    """A numpy array; every sample has the same dtype and shape.

    Args:
        dtype: anything numpy takes for one plain dtype (numbers, bool, complex; any byte order).
        shape: all sides at least 1.

    Example:
        >>> NDArray("float32", (2, 3)).size_bytes
        24
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    kind: ClassVar[str] = "ndarray"
    has_payload: ClassVar[bool] = True

    def __init__(self, dtype: npt.DTypeLike, shape: tuple[int, ...] | list[int]) -> None:
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "shape", tuple(operator.index(side) for side in shape))
        if self.dtype.hasobject or self.dtype.fields or self.dtype.subdtype or self.dtype.itemsize == 0:
            raise ValueError(f"{type(self).__name__} takes one plain dtype, got {self.dtype}")
        if not 1 <= len(self.shape) <= _MAX_DIMENSIONS or min(self.shape) < 1:
            raise ValueError(
                f"shape must have 1 to {_MAX_DIMENSIONS} sides of at least 1, got {self.shape}"
                + ("; for one number use shape (1,)" if not self.shape else "")
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of one value."""
        return self.dtype.itemsize * math.prod(self.shape)

    def max_size_bytes(self) -> int:
        """Every value has the same size."""
        return self.size_bytes

    def encode(self, value: npt.ArrayLike, index: int) -> Encoded:
        """Take an array of this shape whose dtype converts to the field's without loss."""
        array = _as_array(value)
        if array.shape != self.shape:
            raise ValueError(f"the field holds arrays of shape {self.shape}, got {array.shape}")
        if not np.can_cast(array.dtype, self.dtype, "safe"):
            raise TypeError(
                f"the field holds {self.dtype}, and {array.dtype} does not convert to it without loss; "
                "convert the array first"
            )
        return Encoded((), array.astype(self.dtype, copy=False).tobytes())

    def decode(self, facts: Facts, payload: memoryview) -> npt.NDArray[Any]:
        """Give an array that owns its memory."""
        return np.frombuffer(payload, self.dtype).reshape(self.shape).copy()

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Give the stored bytes the field's dtype and shape, without a copy."""
        return payload.view(self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True, init=False)
class Tensor(NDArray):
    """A torch tensor. It is stored like an NDArray and read back as one: reading needs no torch.

    Args:
        dtype: a torch dtype (``torch.float32``) or what numpy calls the same.
        shape: all sides at least 1.
    """

    kind: ClassVar[str] = "tensor"

    def __init__(self, dtype: Any, shape: tuple[int, ...] | list[int]) -> None:
        name = str(dtype)
        if name == "torch.bfloat16":
            raise ValueError("numpy has no bfloat16; store float32, or the bits as int16")
        NDArray.__init__(self, name.removeprefix("torch.") if name.startswith("torch.") else dtype, shape)


def dtype_from_text(text: Any) -> np.dtype[Any]:
    """Parse what ``dtype.str`` gives, and nothing else; ValueError otherwise.

    The text comes from a file, and numpy's parser takes far more than one plain dtype: shapes, lists, old names.

    Example:
        >>> dtype_from_text("<f4")
        dtype('float32')
    """
    if not isinstance(text, str) or not _DTYPE_TEXT.fullmatch(text):
        raise ValueError(f"{text!r} is not a single plain dtype")
    try:
        return np.dtype(text)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a dtype ({error})") from None


def _as_array(value: Any) -> npt.NDArray[Any]:
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, perhaps on a GPU
        value = value.detach().cpu().numpy()
    return np.asarray(value)
