"""The tests of this folder without a GPU: NVIDIA's driver as a library of ours, whose kernels run on the CPU.

The variable HEADRACE_FAKE_CUDA names the library (native/tests/gpu/fake_cuda.cpp). All of headrace's own code runs as
with a GPU, except for the kernels' compiler and torch: batches lie in memory of the native side, and come as tensors on
the CPU.
"""

from __future__ import annotations

import copy
import ctypes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.storage import allocate_pages
from headrace.types import Batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

_CUDA = 2  # DLPack's name for its devices


class _Tensor(ctypes.Structure):
    """What DLPack says of an array, up to its data."""

    _fields_ = (("data", ctypes.c_void_p),)


def host_view(array: Any) -> np.ndarray:
    """What lies on the fake device; the array must live as long."""
    capsule = array.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.POINTER(_Tensor), (ctypes.py_object, ctypes.c_char_p)
    address = pointer(capsule, b"dltensor").contents.data
    assert address is not None
    return np.ctypeslib.as_array((ctypes.c_uint8 * array.size_bytes).from_address(address))


class DeviceArray:
    """Memory of the native side, as a framework would hold it."""

    def __init__(self, native: Any, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype, self.axes = shape, np.dtype(dtype), tuple(range(len(shape)))
        self.size_bytes = int(np.prod(shape)) * self.dtype.itemsize
        self.part: slice = slice(None)
        native.returned()  # nothing is queued: what came back is free
        self._memory = native.empty(shape, dtype)
        assert self._memory.__dlpack_device__()[0] == _CUDA

    def __dlpack__(self, **options: Any) -> Any:
        return self._memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._memory.__dlpack_device__()
        return device

    def fetch(self) -> np.ndarray:
        """A copy in the CPU's memory."""
        return host_view(self).copy().view(self.dtype).reshape(self.shape)[self.part].transpose(self.axes)


class FakeFramework:
    """As torch with two GPUs."""

    is_device = True

    def __init__(self, device: Any) -> None:
        self.gpu = int(str(device).partition(":")[2] or 0)

    def allocate(self, size_bytes: int) -> np.ndarray:
        return allocate_pages(size_bytes)

    def empty(self, shape: tuple[int, ...], dtype: str, native: Any) -> DeviceArray:
        return DeviceArray(native, shape, dtype)

    def room_bytes(self, native: Any) -> int:
        room: int = native.room_bytes
        return room

    def transposed(self, array: DeviceArray, axes: tuple[int, ...]) -> DeviceArray:
        array.axes = axes
        return array

    def part(self, array: DeviceArray, first: int, last: int) -> DeviceArray:
        part = copy.copy(array)
        part.part = slice(first, last)
        return part

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Batch:
        assert not modules
        return batch

    def receive(self, sent: Batch) -> Batch:
        return Batch(sent.keys(), tuple(map(_tensor_of, sent)))


def _tensor_of(value: Any) -> Any:
    array = value.fetch() if isinstance(value, DeviceArray) else value
    if not isinstance(array, np.ndarray):
        return array
    return SimpleNamespace(cpu=lambda: SimpleNamespace(numpy=lambda: array))


def install(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let headrace find the library when it looks for the driver."""
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    monkeypatch.setattr("headrace.loader.gpu.gpu_kernels", lambda: b"kernels")
    frameworks = SimpleNamespace(names=lambda: ["torch"], load=lambda name: FakeFramework)
    monkeypatch.setattr("headrace.loader.loader._FRAMEWORKS", frameworks)
