"""Memory of batches, used again and again.

Contract. A slot is one piece of memory. ``take`` lends it as an array; when the last array, view or tensor on it is
gone, it returns to its pool, from whatever thread that happens in. So a batch that somebody keeps is never
overwritten, and memory that was touched once is not given back to the system and fetched again for each batch. Free
slots are kept for the sizes that were asked for last, so that sizes which never come again (those of a last batch, or
of the epochs before the pictures grew) take no memory. A pool that is let go frees its free slots at once and the lent
ones as they return.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from headrace.storage import allocate_pages, room_for

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FreeBySize", "SlotPool"]

_Memory = TypeVar("_Memory")

_SMALL_BYTES = 1 << 16
_MOST_SIZES = 16  # as many outputs as a batch usually has, and more
_MOST_LOANS = 64  # after as many of other sizes, a size is not waited for any more


class SlotPool:
    """Lends memory as arrays and takes it back when nobody uses it any more.

    Args:
        keep: how many free slots of each size are kept.
        allocate: makes memory; for a GPU it is pinned.

    Example:
        >>> pool = SlotPool(keep=2)
        >>> array = pool.take((4, 65536), "uint8")
        >>> address = array.ctypes.data
        >>> del array
        >>> pool.take((4, 65536), "uint8").ctypes.data == address
        True
    """

    def __init__(self, keep: int, allocate: Callable[[int], npt.NDArray[np.uint8]] = allocate_pages) -> None:
        self._allocate = allocate
        self._free: FreeBySize[npt.NDArray[np.uint8]] = FreeBySize(keep)

    def take(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of this shape; its contents are whatever the memory held before."""
        wanted = np.dtype(dtype)
        size = math.prod(shape) * wanted.itemsize
        if size < _SMALL_BYTES:
            return np.empty(shape, wanted)
        free = self._free.of(size)
        try:
            memory = free.pop()
        except IndexError:
            what = f"a batch of shape {shape} and type {wanted}"
            with room_for(size, what, fix="Use a smaller batch_size, or Resize."):
                memory = self._allocate(size)
        return np.asarray(_Slot(memory, free)).view(wanted).reshape(shape)


class FreeBySize(Generic[_Memory]):
    """Free pieces of memory, kept for the sizes that were asked for last.

    Args:
        most: how many of each size are kept; None: all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._loans = 0
        # By size, the one that was asked for last at the end: the number of that loan, and the pieces.
        self._pieces: dict[int, tuple[int, deque[_Memory]]] = {}

    def counts(self) -> dict[int, int]:
        """How many are free, by size."""
        return {size: len(pieces) for size, (_, pieces) in list(self._pieces.items())}

    def of(self, size: int) -> deque[_Memory]:
        """Those of a size, to take one from and to bring it back to; pieces of a size that is forgotten are freed."""
        # No lock, for a forked process could find it held. When threads meet here, a piece or two are lost.
        _, pieces = self._pieces.pop(size, (0, deque(maxlen=self._most)))
        self._loans += 1
        self._pieces[size] = self._loans, pieces
        for other, (last, _) in list(self._pieces.items()):
            if len(self._pieces) <= _MOST_SIZES and last > self._loans - _MOST_LOANS:
                break
            self._pieces.pop(other, None)
        return pieces


class _Slot:
    """The owner that numpy sees behind the arrays of one loan."""

    def __init__(self, memory: npt.NDArray[np.uint8], free: deque[npt.NDArray[np.uint8]]) -> None:
        self._memory = memory
        self._free = free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._memory)  # a full deque drops its oldest
