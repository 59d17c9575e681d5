"""Batches as arrays of JAX: without a copy where they are made, and by copies that travel ahead to another device.

Contract. On the CPU ``send`` is called by the loader's threads, one batch after the other, on a GPU by the consumer's.
A batch on the CPU is handed to JAX as it lies in memory, and JAX keeps the memory until the array and all work that was
queued on it are done; only then does it return to the loader's pool, in whatever thread that happens. Nothing writes to
it in between. JAX wants memory at multiples of 64 bytes, which that of the pool is; small arrays are copied. For a GPU,
JAX copies by itself, asynchronously, and holds the batch until the copy is done.

Pictures that the GPU decodes lie in memory of the native decoder, and JAX takes that without a copy, too. But it may
let go of it as soon as the array is gone, with work that reads it still queued, for with its own memory the order of
its stream makes that right. So memory that came back is used again only when a small piece of work that JAX got after
that is done: JAX does what is queued for a GPU in order.

JAX has no numbers of 64 bits unless it is told to. Integers become 32 bits where the values fit; anything else that
would change a value is an error.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import GpuImageLoader, NativeError
from headrace.frameworks.values import is_dense, map_arrays, split_device
from headrace.loader.launcher import preferred_gpu
from headrace.registry import require
from headrace.storage import allocate_pages
from headrace.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["JaxOutput"]

_ALIGNMENT = 64  # of memory that JAX takes as it is
_GPUS = ("gpu", "cuda", "rocm")
_MOST_WAITING = 8  # times that memory came back; then the oldest is waited for, so that a queue does not fill the GPU


class JaxOutput:
    """Brings batches to a device of JAX.

    Args:
        device: ``"cpu"``, ``"gpu"``, ``"cuda:1"``, ``"tpu"`` and so on, or a ``jax.Device``; arrays are committed to
            it. A GPU without a number is the first; where a launcher has started several processes, that of this one.
            None: the device on which JAX itself makes arrays, and they are not committed.
    """

    part = None  # a part is a copy

    def __init__(self, device: Any = None) -> None:
        self._jax = require("jax", "Loader(framework='jax')")
        self._is_committed = device is not None
        self.device = self._found(device)
        self.is_device = self.device.platform != "cpu"
        is_cuda = self.device.platform in _GPUS and "rocm" not in self.device.client.platform_version.lower()
        self.gpu: int | None = self.device.local_hardware_id if is_cuda else None
        self._mark: Callable[[], Any] | None = None
        self._returned: deque[tuple[Any, Any]] = deque()  # a mark in JAX's queue, and memory that is free after it
        self._unmarked: list[Any] = []  # memory that came back and has no mark yet
        self._lock = threading.Lock()

    def _found(self, device: Any) -> Any:
        jax = self._jax
        if device is None:
            return next(iter(jax.device_put(0).devices()))
        if isinstance(device, jax.Device):
            return device
        if not isinstance(device, str):
            raise TypeError(f"device must be text such as 'cpu' or 'cuda:1', or a jax.Device, got {device!r}")
        kind, number = split_device(device)
        try:
            devices = jax.local_devices(backend=kind)
        except RuntimeError as error:
            found = ", ".join(sorted({other.platform for other in jax.local_devices()} | {"cpu"}))
            raise ValueError(f"device={device!r}, but JAX finds only {found} here ({error})") from None
        if number is not None and number >= len(devices):
            raise ValueError(f"device={device!r}, but JAX finds {len(devices)} of {kind!r} here, counted from 0")
        if number is None:
            number = preferred_gpu(0, len(devices)) if kind in _GPUS and self._sees_all() else 0
        return devices[number]

    def _sees_all(self) -> bool:
        """JAX was not told of other processes, so its devices are all of this machine, not those of this process."""
        return bool(self._jax.process_count() == 1)

    def allocate(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Memory for batches, at a multiple of 64 bytes."""
        return allocate_pages(size_bytes)

    def empty(self, shape: tuple[int, ...], dtype: str, native: Any) -> Any:
        """Memory of the native decoder on the GPU; JAX takes it as it is when it is filled."""
        self._reuse(native)
        try:
            return native.empty(shape, dtype)
        except NativeError as error:
            if error.code != "out_of_memory":
                raise
        self._wait_for_returned()
        self._reuse(native)
        return native.empty(shape, dtype)

    def room_bytes(self, native: GpuImageLoader) -> int:
        """Memory of the GPU that batches can have: what JAX has left, and what the decoder holds."""
        return native.room_bytes

    def transposed(self, array: Any, axes: tuple[int, ...]) -> Any:
        """The same memory with its axes in another order."""
        return GpuImageLoader.transposed(array, axes)

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Any:
        """Hand a batch to JAX; copies to a GPU are under way when this returns."""
        names = batch.keys()
        return Batch(names, tuple(self._sent(name, value) for name, value in zip(names, batch, strict=True)))

    def receive(self, sent: Any) -> Batch:
        """The batch; JAX makes work that uses it wait for the copy."""
        batch: Batch = sent
        return batch

    def _sent(self, name: str, value: Any) -> Any:
        is_array = isinstance(value, np.ndarray | self._jax.Array)
        if self.gpu is not None and not is_array and hasattr(value, "__dlpack__"):  # what empty() made
            return self._jax.dlpack.from_dlpack(value)
        return map_arrays(value, partial(self._array, name))

    def _array(self, name: str, array: npt.NDArray[Any]) -> Any:
        jax = self._jax
        array = _narrowed(name, array, jax.dtypes.canonicalize_dtype(array.dtype))
        if not self._is_committed:
            with jax.default_device(self.device):  # that of the thread in which the loader was made
                return jax.device_put(array)
        if not self.is_device and array.flags.writeable and array.ctypes.data % _ALIGNMENT == 0 and is_dense(array):
            return jax.dlpack.from_dlpack(array, device=self.device)  # with the axes in any order; always committed
        return jax.device_put(array, self.device)

    def _reuse(self, native: Any) -> None:
        """Give the decoder its memory back of which JAX has let go, when JAX's queue is past that."""
        while True:
            with self._lock:
                while self._returned and self._returned[0][0].is_ready():
                    self._returned.popleft()
                if (returned := native.returned()) is not None:
                    self._unmarked.append(returned)
                if self._unmarked:
                    mark = self._marked()  # if this fails, nobody gets what came back until a mark is there
                    self._returned.append((mark, self._unmarked))
                    self._unmarked = []
                if len(self._returned) < _MOST_WAITING:
                    return
                oldest = self._returned[0][0]
            oldest.block_until_ready()

    def _wait_for_returned(self) -> None:
        """Wait until all memory that came back so far is free."""
        with self._lock:
            marks = [mark for mark, _ in self._returned]
        for mark in marks:
            mark.block_until_ready()

    def _marked(self) -> Any:
        """An array that is ready when all is done that JAX's queue for the GPU holds now."""
        if self._mark is None:
            one = self._jax.device_put(np.int32(1), self.device)
            self._mark = partial(self._jax.jit(self._jax.numpy.negative), one)
        return self._mark()


def _narrowed(name: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The array in the dtype that JAX has for it; ValueError when that would change a value."""
    if array.dtype == dtype:
        return array
    fix = "or let JAX have 64 bits: jax.config.update('jax_enable_x64', True)"
    if array.dtype.kind not in "iu":
        narrow = "float32" if array.dtype.kind == "f" else "complex64"
        op = f"ops.ToDtype({narrow!r})" if array.dtype.kind == "f" else f"ops.Apply with astype({narrow!r})"
        raise ValueError(
            f"the output {name!r} is {array.dtype}, and JAX would round it to {dtype}; add {op} to its pipeline, {fix}"
        )
    limits = np.iinfo(dtype)
    if array.size and not (limits.min <= int(array.min()) and int(array.max()) <= limits.max):
        raise ValueError(
            f"the output {name!r} is {array.dtype} with numbers from {array.min()} to {array.max()}, and JAX has "
            f"{dtype} for it, which ends at {limits.max}; make the numbers smaller in its pipeline, {fix}"
        )
    return array.astype(dtype)
