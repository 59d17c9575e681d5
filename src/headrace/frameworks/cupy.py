"""Batches as arrays of CuPy: copied to the GPU on a stream of their own, ahead of use.

Contract. ``send`` and ``receive`` are called by the consumer, ``empty`` by any number of threads. The batch lies in
pinned memory; it is copied on a stream of our own, so that the copy overlaps with the consumer's work, and its memory
stays alive until the copy is done. ``receive`` makes the consumer's current stream wait for the copy, not the consumer.

Memory on the GPU is taken from CuPy's allocator, lent as arrays, and used again (``_DeviceMemory``). CuPy's own pool
would not do: it gives memory back to the stream on which it was taken, and neither the consumer's work, nor the copies,
nor the native decoder are on one stream. So when the last array on a piece of memory is gone, an event is recorded on
the stream that was the consumer's current one at ``receive``, and the memory is used again only after that event. That
happens in whatever thread lets go of the array. A consumer that uses a batch on further streams must let its current
stream wait for them before it lets go of the batch, as with any array of CuPy.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary, finalize

import numpy as np
import numpy.typing as npt

from headrace.errors import DeviceError
from headrace.frameworks.values import is_dense, map_arrays, split_device
from headrace.loader.gpu import NoRoomError
from headrace.loader.launcher import preferred_gpu
from headrace.loader.slots import FreeBySize
from headrace.progress import format_bytes
from headrace.registry import require
from headrace.types import Batch, Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace._native import GpuImageLoader

__all__ = ["CupyOutput"]

_GRAIN_BYTES = 512  # CuPy's own
_MOST_WAITING = 8  # pieces of one size; then the oldest is waited for, so that a queue does not fill the GPU


class CupyOutput:
    """Brings batches to a GPU of CuPy.

    Args:
        device: ``"cuda"``, ``"cuda:1"``, ``"gpu"``, a number, or a ``cupy.cuda.Device``. None or no number:
            CuPy's current device; where none was chosen and a launcher has started several processes, that of this one.
    """

    is_device = True
    part = None  # a loan is known by its array

    def __init__(self, device: Any = None) -> None:
        self._cupy = require("cupy", "Loader(framework='cupy')")
        number = self._number(device)
        self.device = self._cupy.cuda.Device(number)
        self.gpu: int | None = None if self._cupy.cuda.runtime.is_hip else number
        self._memory = _DeviceMemory(self._cupy, self.device)
        self._stream: Any = None
        self._travelling: deque[tuple[Any, list[npt.NDArray[Any]]]] = deque()

    def _number(self, device: Any) -> int:
        runtime = self._cupy.cuda.runtime
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            raise ValueError(f"framework='cupy', but CuPy finds no GPU here: {error}") from None
        if device is None:
            return preferred_gpu(int(runtime.getDevice()), count)
        if not isinstance(device, str | int | self._cupy.cuda.Device):
            raise TypeError(f"device must be text such as 'cuda:1', a number or a cupy.cuda.Device, got {device!r}")
        kind, number = split_device(device) if isinstance(device, str) else ("cuda", int(device))
        if kind not in ("cuda", "gpu"):
            raise ValueError(f"device={device!r}, but CuPy's arrays are on a GPU; write 'cuda', or another framework")
        if (number or 0) >= count:
            raise ValueError(f"device={device!r}, but CuPy finds {count} GPU{'s' if count > 1 else ''} here")
        return preferred_gpu(int(runtime.getDevice()), count) if number is None else number

    def allocate(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Pinned memory for batches."""
        with self.device:
            return np.frombuffer(self._cupy.cuda.alloc_pinned_memory(size_bytes), np.uint8, size_bytes)

    def empty(self, shape: tuple[int, ...], dtype: str, native: Any) -> Any:
        """An array on the GPU, whose memory nothing uses that is queued anywhere."""
        return self._memory.take(shape, np.dtype(dtype))

    def room_bytes(self, native: GpuImageLoader) -> int:
        """Memory of the GPU that batches can have: what is free, what CuPy keeps unused, what they have already."""
        with self.device:
            unused = int(self._cupy.get_default_memory_pool().free_bytes())
        return native.room_bytes + unused + self._memory.size_bytes()

    def transposed(self, array: Any, axes: tuple[int, ...]) -> Any:
        """The same memory with its axes in another order."""
        return array.transpose(axes)

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Any:
        """Begin to copy a batch."""
        cuda = self._cupy.cuda
        while self._travelling and self._travelling[0][0].done:
            self._travelling.popleft()
        sources: list[npt.NDArray[Any]] = []
        with self.device:
            if self._stream is None:
                self._stream = cuda.Stream(non_blocking=True)
            there = [map_arrays(value, lambda array: self._copied(array, sources)) for value in batch]
            event = cuda.Event(disable_timing=True)
            event.record(self._stream)
        self._travelling.append((event, sources))
        return Batch(batch.keys(), tuple(there)), event

    def _copied(self, array: npt.NDArray[Any], sources: list[npt.NDArray[Any]]) -> Any:
        source = array if is_dense(array) else np.ascontiguousarray(array)
        try:
            copy = self._memory.take(source.shape, source.dtype, source.strides, self._stream)
        except NoRoomError as error:
            advice = "Use a smaller batch_size, or batches_ahead=1."
            raise DeviceError(f"cuda:{self.device.id}: {error}. {advice}") from error
        if source.nbytes:
            copy.data.copy_from_host_async(source.ctypes.data, source.nbytes, self._stream)
        sources.append(source)
        return copy

    def receive(self, sent: Any) -> Batch:
        """Hand out a batch; work that is queued after this on the current stream waits for the copy."""
        batch: Batch
        batch, event = sent
        with self.device:
            stream = self._cupy.cuda.get_current_stream()
            stream.wait_event(event)
        for value in batch:
            for part in value if isinstance(value, Padded | Ragged) else (value,):
                if isinstance(part, self._cupy.ndarray):
                    self._memory.use_on(part, stream)
        return batch


class _Piece:
    """A piece of memory on the GPU, and the event after which nothing uses it."""

    def __init__(self, memory: Any, event: Any, size_bytes: int) -> None:
        self.memory = memory
        self.event = event
        self.size_bytes = size_bytes
        finalize(self, _wait, event, memory).atexit = False


class _Loan:
    """The owner that CuPy sees behind the arrays on one piece."""

    def __init__(self, piece: _Piece, free: deque[_Piece], device: Any, stream: Any) -> None:
        self._streams = [stream]  # the last that uses the piece; None: all that does is done
        finalize(self, _give_back, piece, free, device, self._streams).atexit = False

    def use_on(self, stream: Any) -> None:
        """Note that the piece is used on a stream from now on."""
        self._streams[0] = stream


# These are called when a piece or a loan is gone. They are no __del__: what is garbage in a ring loses its events and
# streams in any order, and CuPy's end with the process when one that is gone is asked. What is handed over here lives
# until the call.


def _wait(event: Any, memory: Any) -> None:
    with contextlib.suppress(Exception):  # the GPU is gone or has failed, and others tell of that
        event.synchronize()  # CuPy gives the memory to somebody else now


def _give_back(piece: _Piece, free: deque[_Piece], device: Any, streams: list[Any]) -> None:
    with contextlib.suppress(Exception):  # as above; then the piece does not come back
        if streams[0] is not None:
            with device:
                piece.event.record(streams[0])
        free.append(piece)


class _DeviceMemory:
    """Lends memory of a GPU as arrays, and takes it back when nobody uses it any more."""

    def __init__(self, cupy: Any, device: Any) -> None:
        self._cupy = cupy
        self._device = device
        self._stream: Any = None
        self._free: FreeBySize[_Piece] = FreeBySize()
        self._pieces: WeakSet[_Piece] = WeakSet()
        self._loans: WeakValueDictionary[int, _Loan] = WeakValueDictionary()  # by address
        self._lock = threading.Lock()

    def take(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None = None,
        stream: Any = None,
    ) -> Any:
        """An array whose memory nothing uses, on any stream; ``stream`` is the one that will fill it, if any."""
        size = -(-max(math.prod(shape) * dtype.itemsize, 1) // _GRAIN_BYTES) * _GRAIN_BYTES
        with self._device:
            with self._lock:
                free = self._free.of(size)
                piece = self._idle(free)
            if piece is None:
                piece = self._allocated(size, shape, dtype)
            piece.event.synchronize()  # nothing to wait for, unless many are on their way back
            loan = _Loan(piece, free, self._device, stream)
            self._loans[piece.memory.ptr] = loan
            owned = self._cupy.cuda.UnownedMemory(piece.memory.ptr, size, loan, self._device.id)
            return self._cupy.ndarray(shape, dtype, self._cupy.cuda.MemoryPointer(owned, 0), strides)

    def use_on(self, array: Any, stream: Any) -> None:
        """Note that an array is used on a stream from now on."""
        loan = self._loans.get(array.data.mem.ptr)
        if loan is not None:
            loan.use_on(stream)

    def _idle(self, free: deque[_Piece]) -> _Piece | None:
        """A piece that nothing uses any more; the oldest where many are on their way back, still in use."""
        for _ in range(len(free)):
            piece = free.popleft()
            if piece.event.done:
                return piece
            free.append(piece)
        return free.popleft() if len(free) >= _MOST_WAITING else None

    def _allocated(self, size: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Piece:
        cuda = self._cupy.cuda
        with self._lock:
            if self._stream is None:
                self._stream = cuda.Stream(non_blocking=True)
        try:
            with self._stream:
                memory = cuda.alloc(size)
        except cuda.memory.OutOfMemoryError as error:
            problem = f"a batch of shape {shape} and type {dtype} takes {format_bytes(size)}, which CuPy cannot have"
            raise NoRoomError(f"{problem}: {error}") from error
        self._stream.synchronize()  # with an asynchronous allocator the memory is there only now
        event = cuda.Event(disable_timing=True)
        event.record(self._stream)
        piece = _Piece(memory, event, size)
        with self._lock:
            self._pieces.add(piece)
        return piece

    def size_bytes(self) -> int:
        """All that was taken from CuPy and not given back to it."""
        with self._lock:
            return sum(piece.size_bytes for piece in self._pieces)
