"""Batches as torch tensors: on the CPU without a copy, on a GPU by copies that travel ahead.

Contract. ``send`` is called by one thread at a time. For a GPU the batch lies in pinned memory; it is copied on a
stream of its own, so that the copy overlaps with the consumer's work, and its memory stays alive until the copy is
done. ``receive`` makes the consumer's current stream wait for the copy, not the consumer.

Pictures that the GPU decodes lie in memory of torch's allocator from the beginning (``empty``, for any number of
threads), and are complete before they are sent. The native code fills them on streams that torch does not know, so
nothing that torch has queued may still use the memory. Why that holds: the allocator gives memory that was let go to
the next who asks on the same stream S, once everything is done on the other streams for which it was recorded. Streams
on which we or the consumer use a tensor are recorded (``send`` for modules, ``receive`` for the consumer's). Work on S
itself is not waited for by the allocator, since it expects the new owner to queue behind it on S. We do not, so
``empty`` waits for S. S is a stream of our own on which nothing is queued, so there is usually nothing to wait for; but
torch has only 32 streams and hands them out again and again, so the consumer's may be the same one.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from headrace.errors import MissingExtraError
from headrace.loader.gpu import NoRoomError
from headrace.loader.launcher import preferred_gpu
from headrace.progress import format_bytes, format_count
from headrace.storage import allocate_pages
from headrace.types import Batch, Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace._native import GpuImageLoader

__all__ = ["TorchOutput", "to_tensor"]


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingExtraError("torch", extra="torch", needed_by="Loader(device=...)") from None


class TorchOutput:
    """Brings batches to a device of torch.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, a torch.device and so on. ``"cuda"`` is torch's current GPU; where
            none was chosen and a launcher has started several processes, that of this process.
    """

    def __init__(self, device: Any) -> None:
        if device == "tensorflow":
            raise ValueError(
                "device='tensorflow': a loader gives no tensors of TensorFlow itself; make a tf.data.Dataset of one "
                "that gives numpy arrays, by to_tf_dataset of headrace.frameworks.tensorflow"
            )
        self._torch = _torch()
        self.device = self._torch.device(device)
        self.is_device = self.device.type != "cpu"
        self._is_cuda = self.device.type == "cuda"
        self.gpu: int | None = None
        if self._is_cuda:
            self.device = self._found(device)
            self.gpu = self.device.index if self._torch.version.hip is None else None
        self._stream: Any = None
        self._memory_stream: Any = None
        self._lock = threading.Lock()
        self._made: WeakValueDictionary[int, Any] = WeakValueDictionary()  # tensors of empty() that are in use
        self._numbers = count()
        self._travelling: deque[tuple[Any, list[Any]]] = deque()

    def _found(self, device: Any) -> Any:
        """The device with its number. Does not open the driver, so that the process can still fork."""
        cuda = self._torch.cuda
        gpus = cuda.device_count()
        if not gpus:
            raise ValueError(f"device={str(device)!r}, but torch finds no GPU here; use device='cpu'")
        number = self.device.index
        if number is None:
            number = preferred_gpu(cuda.current_device() if cuda.is_initialized() else 0, gpus)
        if number >= gpus:
            raise ValueError(f"device={str(device)!r}, but torch finds {format_count(gpus, 'GPU')} here")
        return self._torch.device("cuda", number)

    def allocate(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Memory for batches, pinned when they go to a GPU."""
        if not self._is_cuda:
            return allocate_pages(size_bytes)
        with self._torch.cuda.device(self.device):  # or each rank would open the first GPU as well
            pinned: npt.NDArray[np.uint8] = self._torch.empty(
                size_bytes, dtype=self._torch.uint8, pin_memory=True
            ).numpy()
        return pinned

    def empty(self, shape: tuple[int, ...], dtype: str, native: Any) -> _DeviceTensor:
        """A tensor on the GPU, whose memory nothing uses that is queued anywhere; see the top of this file."""
        torch = self._torch
        with self._lock:
            if self._memory_stream is None:
                self._memory_stream = torch.cuda.Stream(self.device)
        try:
            with _on(self._memory_stream):
                tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)
        except torch.cuda.OutOfMemoryError as error:
            size = format_bytes(math.prod(shape) * np.dtype(dtype).itemsize)
            problem = f"a batch of shape {shape} and type {dtype} takes {size}, which torch cannot have: {error}"
            raise NoRoomError(problem) from error
        if not self._memory_stream.query():  # other threads run on while this one waits; to let them takes longer
            self._memory_stream.synchronize()
        with self._lock:
            self._made[next(self._numbers)] = tensor
        return _DeviceTensor(tensor)

    def room_bytes(self, native: GpuImageLoader) -> int:
        """Memory of the GPU that batches can have: what is free, what torch keeps unused, what they have already.

        Parts of a batch do not count as batches: they are tensors of their own.
        """
        cuda = self._torch.cuda
        with self._lock:
            ours = sum(int(tensor.nbytes) for tensor in self._made.values())
        unused = int(cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device))
        return native.room_bytes + unused + ours

    def transposed(self, array: _DeviceTensor, axes: tuple[int, ...]) -> _DeviceTensor:
        """The same memory with its axes in another order."""
        return _DeviceTensor(array.tensor.permute(axes))

    def part(self, array: _DeviceTensor, first: int, last: int) -> _DeviceTensor:
        """Some of the samples, on the same memory; torch does not take a change of one part for one of all."""
        return _DeviceTensor(array.tensor[first:last].data)

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Any:
        """Make tensors and begin their way to the device."""
        names, values = batch.keys(), [to_tensor(value) for value in batch]
        if not self._is_cuda:
            return Batch(names, tuple(self._through(values, names, modules))), None
        torch = self._torch
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        with _on(self._stream):
            arrived = self._through(values, names, modules)
            event = torch.cuda.Event()
            event.record(self._stream)
        while self._travelling and self._travelling[0][0].query():
            self._travelling.popleft()
        self._travelling.append((event, [value for value in values if not getattr(value, "is_cuda", False)]))
        return Batch(names, tuple(arrived)), event

    def _through(self, values: list[Any], names: tuple[str, ...], modules: Mapping[str, tuple[Any, ...]]) -> list[Any]:
        arrived = []
        with self._torch.no_grad():
            for name, value in zip(names, values, strict=True):
                there = self._map(value, lambda tensor: tensor.to(self.device, non_blocking=True))
                if self._is_cuda and name in modules:
                    self._map(there, lambda tensor: tensor.record_stream(self._stream))
                for module in modules.get(name, ()):
                    there = self._run(module, name, there)
                arrived.append(there)
        return arrived

    def _run(self, module: Any, name: str, value: Any) -> Any:
        try:
            return module(value)
        except Exception as error:
            error.add_note(f"in the loader's module {type(module).__name__} of the output {name!r}")
            raise

    def _map(self, value: Any, function: Callable[[Any], Any]) -> Any:
        if isinstance(value, self._torch.Tensor):
            return function(value)
        if isinstance(value, Padded | Ragged):
            return type(value)(*(self._map(part, function) for part in value))
        return value

    def receive(self, sent: Any) -> Batch:
        """Hand out a batch; work that is queued after this waits for the copy."""
        batch: Batch = sent[0]
        if sent[1] is not None:
            stream = self._torch.cuda.current_stream(self.device)
            stream.wait_event(sent[1])
            for value in batch:
                self._map(value, lambda tensor: tensor.record_stream(stream))
        return batch


def _on(stream: Any) -> Any:
    """Makes a stream the current one for a block; later torches let a stream do that itself, in less time."""
    return stream if hasattr(stream, "__enter__") else _torch().cuda.stream(stream)


class _DeviceTensor:
    """A tensor for the native code to fill. torch lends out only those on the current device of the thread."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        cuda = _torch().cuda
        if cuda.is_initialized() and cuda.current_device() == self.tensor.device.index:
            return self.tensor.__dlpack__(**options)
        with cuda.device(self.tensor.device):
            return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def to_tensor(value: Any) -> Any:
    """A tensor on the memory of an array; what is no array of numbers stays as it is."""
    if isinstance(value, _DeviceTensor):
        return value.tensor
    if isinstance(value, Padded | Ragged):
        return type(value)(*(to_tensor(part) for part in value))
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc":
        return value
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if not value.flags.writeable or any(stride < 0 for stride in value.strides):
        value = value.copy()
    try:
        return _torch().from_numpy(value)
    except TypeError:  # a dtype that torch does not have
        return value
