"""Chunks that were unpacked, kept for a while.

Contract: any number of threads. Nothing is unpacked under the lock, so two threads may unpack the same chunk; both are
right. A forked child begins with nothing: another thread may have held the lock when it was born.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ChunkCache"]


class ChunkCache:
    """The chunks that were used last, up to a number of bytes.

    Args:
        size_bytes: how much is kept.
    """

    def __init__(self, size_bytes: int) -> None:
        self._limit = size_bytes
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._chunks: OrderedDict[tuple[int, int], npt.NDArray[Any]] = OrderedDict()
        self.size_bytes = 0

    def get(self, key: tuple[int, int]) -> npt.NDArray[Any] | None:
        """A chunk that is kept, or None."""
        if self._owner != os.getpid():
            self._begin()
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._chunks.move_to_end(key)
            return chunk

    def put(self, key: tuple[int, int], chunk: npt.NDArray[Any]) -> None:
        """Keep a chunk, and let go of those that were not used for longest."""
        if chunk.nbytes > self._limit:
            return
        with self._lock:
            old = self._chunks.pop(key, None)
            self._chunks[key] = chunk
            self.size_bytes += chunk.nbytes - (0 if old is None else old.nbytes)
            while self.size_bytes > self._limit:
                self.size_bytes -= self._chunks.popitem(last=False)[1].nbytes
