"""Memory for values that somebody keeps or lets go one by one.

Contract. ``take`` lends a private array; when the last view of it is gone, its memory returns to the pool, from
whatever thread that happens in. Fresh memory costs a page fault for every 4 KiB, which for large values is more than
reading them; memory that was used before costs none. The lock is only tried: whoever does not get it at once does
without the pool, so a process forked in the wrong moment is slower but never stuck.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.storage.memory import allocate_pages

__all__ = ["BufferPool"]

BLOCK_BYTES = 4096
_SMALL_BYTES = 1 << 16
_UINT8 = np.dtype(np.uint8)


class BufferPool:
    """Lends byte arrays of any size; large ones are used again.

    Args:
        keep_bytes: how much free memory is kept; beyond that the sizes that were not asked for the longest time go.

    Example:
        >>> pool = BufferPool()
        >>> array = pool.take(1_000_000, 100)
        >>> address = array.ctypes.data
        >>> address % 4096, array.nbytes
        (100, 1000000)
        >>> del array
        >>> pool.take(999_000).ctypes.data == address - 100
        True
    """

    def __init__(self, keep_bytes: int = 256 << 20) -> None:
        self._keep_bytes = keep_bytes
        self._lock = threading.Lock()
        self._free: OrderedDict[int, list[npt.NDArray[np.uint8]]] = OrderedDict()
        self._free_bytes = 0

    def take(self, size: int, shift: int = 0) -> npt.NDArray[np.uint8]:
        """An array that is nobody else's; its contents are whatever the memory held before.

        Args:
            size: bytes.
            shift: where it begins relative to a block of 4096 bytes. Small arrays begin anywhere.
        """
        if size < _SMALL_BYTES:
            return np.empty(size, _UINT8)
        room = _room_for(size + shift)
        return np.asarray(_Loan(self._pop(room), self))[shift : shift + size]

    def take_each(self, sizes: list[int], shifts: list[int] | None = None) -> list[npt.NDArray[np.uint8]]:
        """One array for each size."""
        if not sizes or max(sizes) < _SMALL_BYTES:
            return [np.empty(size, _UINT8) for size in sizes]
        return [self.take(size, shift) for size, shift in zip(sizes, shifts or [0] * len(sizes), strict=True)]

    def _pop(self, room: int) -> npt.NDArray[np.uint8]:
        if self._lock.acquire(blocking=False):
            try:
                free = self._free.get(room)
                if free:
                    self._free.move_to_end(room)
                    self._free_bytes -= room
                    return free.pop()
            finally:
                self._lock.release()
        return allocate_pages(room)

    def give_back(self, memory: npt.NDArray[np.uint8]) -> None:
        """Take back what was lent; called by the last array on it."""
        room = len(memory)
        if room > self._keep_bytes or not self._lock.acquire(blocking=False):
            return
        dropped: list[Any] = []  # unmapped after the lock is released
        try:
            self._free.setdefault(room, []).append(memory)
            self._free.move_to_end(room)
            self._free_bytes += room
            while self._free_bytes > self._keep_bytes:
                oldest, arrays = next(iter(self._free.items()))
                if arrays:
                    dropped.append(arrays.pop())
                    self._free_bytes -= oldest
                if not arrays:
                    del self._free[oldest]
        finally:
            self._lock.release()


class _Loan:
    """The owner that numpy sees behind an array."""

    __slots__ = ("__array_interface__", "_memory", "_pool")

    def __init__(self, memory: npt.NDArray[np.uint8], pool: BufferPool) -> None:
        self._memory = memory
        self._pool = pool
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.give_back(self._memory)


def _room_for(size: int) -> int:
    """The next of eight sizes for every doubling, in whole blocks: at most an eighth is wasted."""
    step = max(BLOCK_BYTES, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step
