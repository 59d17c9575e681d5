"""Mapped files pinned, so that a GPU fetches JPEGs from them by itself and no processor copies them.

Contract. A file is pinned once, in the background and piece by piece, while batches are already made; what is pinned is
used from the next batch on. It is only done where it pays and does no harm: a mapped file of which most samples are
used, that leaves half of the free memory to others, for pinned memory cannot be given back as long as the loader lives.
Where the system does not allow it, JPEGs are copied as before. Loaders of one dataset share what is pinned: each asks
for all of it, and it is unpinned when the last of them ends. The thread ends with the loader, or one piece later.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import TYPE_CHECKING

from headrace._native import NativeError
from headrace.storage import available_bytes, is_mapped_file

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace._native import GpuImageLoader

__all__ = ["FilePins"]

_PIECE_BYTES = 64 << 20  # takes the driver milliseconds, in which it may do nothing else
_LEAST_BYTES = 1 << 20
_SHARE_OF_MEMORY = 0.5
_LEAST_SHARE_USED = 0.5  # of a dataset's samples


class FilePins:
    """Pins the mapped files that batches come from.

    Args:
        share_used: how much of the dataset's samples the loader uses, from 0 to 1.
    """

    def __init__(self, *, share_used: float = 1.0) -> None:
        self._is_wanted = share_used >= _LEAST_SHARE_USED
        self._known: set[tuple[int, int]] = set()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, self._stop.set)

    def notice(self, base: npt.NDArray[np.uint8], native: GpuImageLoader) -> None:
        """A batch comes from this memory."""
        if not self._is_wanted or base.nbytes < _LEAST_BYTES or not is_mapped_file(base):
            return
        place = base.ctypes.data, base.nbytes
        with self._lock:
            if place in self._known:
                return
            self._known.add(place)
        if base.nbytes <= _SHARE_OF_MEMORY * available_bytes():
            thread = threading.Thread(
                target=_pin, args=(base, native, self._stop), name="headrace-pinning", daemon=True
            )
            _running[thread] = self._stop
            thread.start()


def _pin(base: npt.NDArray[np.uint8], native: GpuImageLoader, stop: threading.Event) -> None:
    try:
        for begin in range(0, len(base), _PIECE_BYTES):
            if stop.is_set():
                return
            native.pin(base[begin : begin + _PIECE_BYTES])
    except NativeError:
        return  # not allowed here, or the file became shorter: the rest is copied
    finally:
        _running.pop(threading.current_thread(), None)


# Threads must not be inside a native call when the interpreter goes away.
_running: dict[threading.Thread, threading.Event] = {}


@atexit.register
def _end_all() -> None:
    for thread, stop in list(_running.items()):
        stop.set()
        thread.join()
