"""CuPy without a GPU: streams are queues that run when somebody waits for them, memory is that of the host.

Work that is queued sees memory as it is when it runs, so memory that is used again too early shows in the values. What
is here has the names and the meaning of CuPy's.
"""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


class CUDARuntimeError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class Stream:
    """A queue of work. ``run`` does what is in it, and what that waits for on other streams."""

    def __init__(self, non_blocking: bool = False) -> None:
        self.tasks: list[Callable[[], None]] = []
        self.lock = threading.RLock()

    def add(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        with self.lock:
            while self.tasks and not until():
                self.tasks.pop(0)()

    def wait_event(self, event: Event) -> None:
        recorded = event.recorded
        self.add(lambda: recorded.wait())

    def synchronize(self) -> None:
        self.run()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


class Recorded:
    """A place in a stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_done = False
        stream.add(self._reach)

    def _reach(self) -> None:
        self.is_done = True

    def wait(self) -> None:
        self.stream.run(lambda: self.is_done)
        assert self.is_done


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.recorded: Any = None

    def record(self, stream: Stream) -> None:
        self.recorded = Recorded(stream)

    @property
    def done(self) -> bool:
        return self.recorded is None or self.recorded.is_done

    def synchronize(self) -> None:
        if self.recorded is not None:
            self.recorded.wait()


class Device:
    def __init__(self, number: int = 0) -> None:
        self.id = number

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset

    def copy_from_host_async(self, mem: int, size: int, stream: Stream) -> None:
        target = self.ptr  # what is queued holds no memory
        stream.add(lambda: ctypes.memmove(target, mem, size) and None)


class ndarray:  # CuPy's name
    def __init__(self, shape: Any, dtype: Any, memptr: MemoryPointer, strides: Any = None) -> None:
        self.shape, self.dtype, self.data = tuple(shape), np.dtype(dtype), memptr
        self.strides = np.empty(shape, dtype).strides if strides is None else strides

    def transpose(self, axes: tuple[int, ...]) -> ndarray:
        shape, strides = [self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes]
        return ndarray(shape, self.dtype, self.data, tuple(strides))

    def on_host(self) -> np.ndarray:
        """What the memory holds now; does not hold the memory."""
        size = max(int(np.prod(self.shape)) * self.dtype.itemsize, 1)
        raw = (ctypes.c_uint8 * size).from_address(self.data.ptr)
        return np.ndarray(self.shape, self.dtype, raw, 0, self.strides)


class FakeCupy:
    """What ``import cupy`` gives."""

    def __init__(self, devices: int = 1, free_bytes: int = 1 << 40) -> None:
        self.ndarray = ndarray
        self.current = Stream()  # of the consumer
        self.allocated: list[np.ndarray] = []
        self.free_bytes = free_bytes
        self.unused_bytes = 300  # that CuPy's own pool keeps
        runtime = SimpleNamespace(
            getDeviceCount=lambda: self._count(devices),
            getDevice=lambda: 0,
            is_hip=False,
            CUDARuntimeError=CUDARuntimeError,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            Stream=Stream,
            Event=Event,
            Device=Device,
            UnownedMemory=UnownedMemory,
            MemoryPointer=MemoryPointer,
            alloc=self._alloc,
            alloc_pinned_memory=lambda size: bytearray(size + 64),
            get_current_stream=lambda: self.current,
        )

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: self.unused_bytes)

    def _count(self, devices: int) -> int:
        if not devices:
            raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return devices

    def _alloc(self, size: int) -> MemoryPointer:
        if size > self.free_bytes:
            raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
        self.free_bytes -= size
        memory = np.zeros(size, np.uint8)
        self.allocated.append(memory)  # for ever: what is queued may still look at it
        return MemoryPointer(UnownedMemory(memory.ctypes.data, size, memory), 0)
