"""What the frameworks share: how they walk through a batch, and how they read the name of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["is_dense", "map_arrays", "split_device"]

_LONG = "gG"  # more than 64 bits for a number, which no framework has


def map_arrays(value: Any, function: Callable[[npt.NDArray[Any]], Any]) -> Any:
    """The value with a function applied to its arrays of numbers, which are in native byte order; all else stays.

    Example:
        >>> map_arrays(Padded(np.zeros((2, 3), ">i4"), ["no array"]), lambda array: (array.dtype.name, array.shape))
        Padded(values=('int32', (2, 3)), lengths=['no array'])
    """
    if isinstance(value, Padded | Ragged):
        return type(value)(*(map_arrays(part, function) for part in value))
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc" or value.dtype.char in _LONG:
        return value
    return function(value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("=")))


def is_dense(array: npt.NDArray[Any]) -> bool:
    """The numbers lie one after the other, with the axes in any order.

    Example:
        >>> pictures = np.zeros((2, 4, 4, 3))
        >>> is_dense(pictures.transpose(0, 3, 1, 2)), is_dense(pictures[:, :2]), is_dense(pictures[::-1])
        (True, False, False)
    """
    if any(stride < 0 for stride in array.strides):
        return False
    return array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis])).flags.c_contiguous


def split_device(device: str) -> tuple[str, int | None]:
    """Kind and number of a device; the number is None where there is none.

    Example:
        >>> split_device("cuda:1"), split_device("cpu")
        (('cuda', 1), ('cpu', None))
    """
    kind, colon, number = device.partition(":")
    if not kind or (colon and not number.isdecimal()):
        raise ValueError(f"device must be a kind and perhaps a number, such as 'cpu' or 'cuda:1', got {device!r}")
    return kind, int(number) if colon else None
