"""Batches as torch tensors: on the CPU without a copy, on a GPU by copies that travel ahead.

Contract. ``send`` is called by one thread at a time. For a GPU the batch lies in pinned memory; it is copied on a
stream of its own, so that the copy overlaps with the consumer's work, and its memory stays alive until the copy is
done. ``receive`` makes the consumer's current stream wait for the copy, not the consumer.
"""

from __future__ import annotations

import importlib
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.errors import MissingExtraError
from headrace.storage import allocate_pages
from headrace.types import Batch, Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["TorchOutput", "to_tensor"]


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise MissingExtraError("torch", extra="torch", needed_by="Loader(device=...)") from None


class TorchOutput:
    """Brings batches to a device of torch.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, a torch.device and so on.
    """

    def __init__(self, device: Any) -> None:
        self._torch = _torch()
        self.device = self._torch.device(device)
        self.is_device = self.device.type != "cpu"
        self._is_cuda = self.device.type == "cuda"
        if self._is_cuda:
            if not self._torch.cuda.is_available():
                raise ValueError(f"device={str(device)!r}, but torch finds no GPU here; use device='cpu'")
            if self.device.index is None:
                self.device = self._torch.device("cuda", self._torch.cuda.current_device())
        self._stream: Any = None
        self._travelling: deque[tuple[Any, list[Any]]] = deque()

    def allocate(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Memory for batches, pinned when they go to a GPU."""
        if not self._is_cuda:
            return allocate_pages(size_bytes)
        pinned: npt.NDArray[np.uint8] = self._torch.empty(size_bytes, dtype=self._torch.uint8, pin_memory=True).numpy()
        return pinned

    def send(self, batch: Batch, modules: Mapping[str, tuple[Any, ...]]) -> Any:
        """Make tensors and begin their way to the device."""
        names, values = batch.keys(), [to_tensor(value) for value in batch]
        if not self._is_cuda:
            return Batch(names, tuple(self._through(values, names, modules))), None
        torch = self._torch
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._stream):
            arrived = self._through(values, names, modules)
            event = torch.cuda.Event()
            event.record(self._stream)
        while self._travelling and self._travelling[0][0].query():
            self._travelling.popleft()
        self._travelling.append((event, values))
        return Batch(names, tuple(arrived)), event

    def _through(self, values: list[Any], names: tuple[str, ...], modules: Mapping[str, tuple[Any, ...]]) -> list[Any]:
        arrived = []
        with self._torch.no_grad():
            for name, value in zip(names, values, strict=True):
                there = self._map(value, lambda tensor: tensor.to(self.device, non_blocking=True))
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


def to_tensor(value: Any) -> Any:
    """A tensor on the memory of an array; what is no array of numbers stays as it is."""
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
