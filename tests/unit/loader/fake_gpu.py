"""A GPU that is none: its memory is that of this machine, and the CPU does its work."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import LoadCounts, NativeError
from headrace.storage import allocate_pages
from headrace.types import Batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


@dataclass(frozen=True)
class DeviceArray:
    """What the CPU cannot look into by mistake."""

    host: np.ndarray


@dataclass
class FakeGpu:
    """What happened on it, and what should."""

    opened: list[tuple[int, bytes]] = field(default_factory=list)  # device and kernels
    batches: int = 0
    together: int = 0  # calls at the same time, at most
    pause_s: float = 0.0
    fail_open: Exception | None = None
    fail_load: Exception | None = None
    is_driver_open: bool = False
    is_nvidia: bool = True
    kernels: bytes | None = b"kernels"
    _running: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of the native GPU and of torch."""
        monkeypatch.setattr("headrace.loader.gpu.GpuImageLoader", lambda *args: FakeLoader(self, *args))
        monkeypatch.setattr("headrace.loader.gpu.gpu_kernels", lambda: self.kernels)
        monkeypatch.setattr("headrace.loader.gpu.gpu_driver_is_open", lambda: self.is_driver_open)
        frameworks = SimpleNamespace(names=lambda: ["torch"], load=lambda name: lambda device: FakeOutput(self, device))
        monkeypatch.setattr("headrace.loader.loader._FRAMEWORKS", frameworks)

    def enter(self) -> None:
        with self._lock:
            self._running += 1
            self.together = max(self.together, self._running)
        time.sleep(self.pause_s)
        if self.fail_load is not None:
            raise self.fail_load

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            self.batches += 1


class FakeLoader:
    """As GpuImageLoader."""

    def __init__(self, gpu: FakeGpu, device: int, kernels: bytes, cpu: Any) -> None:
        gpu.opened.append((device, kernels))
        if gpu.fail_open is not None:
            raise gpu.fail_open
        self._gpu, self._cpu = gpu, cpu

    pinned_bytes = 0

    def pin(self, memory: Any) -> None:
        raise NativeError("this is no memory of a GPU")

    def load(self, spans: Any, crops: Any, flips: Any, out: DeviceArray, options: Any, steps: Any) -> Any:
        self._gpu.enter()
        try:
            report = self._cpu.load(spans, crops, flips, out.host, options, steps)
        finally:
            self._gpu.leave()
        counts = LoadCounts()
        counts.add(report.counts)
        counts.gpu, counts.window = counts.window, 0
        return SimpleNamespace(failures=report.failures, notes=report.notes, counts=counts)


class FakeOutput:
    """As a framework with arrays on a GPU; the consumer gets numpy arrays."""

    is_device = True

    def __init__(self, gpu: FakeGpu, device: Any) -> None:
        number = str(device).partition(":")[2]
        self.gpu = int(number or 0) if gpu.is_nvidia else None

    def allocate(self, size_bytes: int) -> np.ndarray:
        return allocate_pages(size_bytes)

    def empty(self, shape: tuple[int, ...], dtype: str, native: Any) -> DeviceArray:
        assert isinstance(native, FakeLoader)
        return DeviceArray(np.full(shape, 77, dtype))

    def transposed(self, array: DeviceArray, axes: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(array.host.transpose(axes))

    def part(self, array: DeviceArray, first: int, last: int) -> DeviceArray:
        return DeviceArray(array.host[first:last])

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Batch:
        values = [value.host if isinstance(value, DeviceArray) else value for value in batch]
        for position, name in enumerate(batch.keys()):
            for module in modules.get(name, ()):
                values[position] = module(values[position])
        return Batch(batch.keys(), tuple(values))

    def receive(self, sent: Batch) -> Batch:
        return sent
