"""Normalize pictures by a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["NormalizeImage", "ch_dtype_from_numpy"]
pass_on(
    globals(),
    "AllocationQuery Callable Compiler Operation Optional State Tuple ch dtype np rand replace",
    Sequence="collections.abc.Sequence",
)


def ch_dtype_from_numpy(dtype: Any) -> torch.dtype:
    """What torch calls a dtype of numpy."""
    return torch.from_numpy(np.zeros((), dtype=dtype)).dtype


class NormalizeImage(Operation):
    """(value - mean) / std for each channel, as another dtype; mean and std in units of pixel values.

    On the CPU float16 comes as int16 with the same bits, which ToTorchImage and View take back.
    """

    def __init__(self, mean: Any, std: Any, type: Any) -> None:
        super().__init__()
        mean, std = np.asarray(mean, np.float64), np.asarray(std, np.float64)
        self.original_dtype = np.dtype(type)
        table = ((np.arange(256)[:, None] - mean[None, :]) / std[None, :]).astype(self.original_dtype)
        self.dtype = np.dtype(np.int16) if self.original_dtype == np.float16 else self.original_dtype
        self.lookup_table: npt.NDArray[Any] = table.view(self.dtype)
        self._on_device: dict[Any, Any] = {}

    @property
    def float_table(self) -> npt.NDArray[Any]:
        """The table in the dtype that was asked for, a row for each channel."""
        return np.ascontiguousarray(self.lookup_table.view(self.original_dtype).T)

    def generate_code(self) -> Callable[..., Any]:
        """A function of (pictures, memory), for arrays and for tensors on a device."""

        def normalize(images: Any, dst: Any) -> Any:
            if isinstance(images, torch.Tensor):
                return self._on_tensor(images)
            out = np.empty(images.shape, self.dtype) if dst is None else dst[: len(images)]
            for channel in range(images.shape[-1]):
                np.take(self.lookup_table[:, channel], images[..., channel], out=out[..., channel])
            return out

        normalize.is_native = True  # type: ignore[attr-defined]
        return normalize

    def _on_tensor(self, images: Any) -> Any:
        device = images.device
        if device not in self._on_device:
            self._on_device[device] = torch.from_numpy(self.float_table).to(device)
        table = self._on_device[device]
        axis = 1 if images.ndim == 4 and images.shape[1] == table.shape[0] else images.ndim - 1
        out = torch.empty_like(images, dtype=table.dtype)
        for channel in range(table.shape[0]):
            out.select(axis, channel).copy_(table[channel][images.select(axis, channel).long()])
        return out

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        """The new dtype."""
        if previous_state.device == torch.device("cpu") and previous_state.jit_mode:
            return replace(previous_state, dtype=self.dtype), AllocationQuery(previous_state.shape, self.dtype)
        return replace(previous_state, dtype=ch_dtype_from_numpy(self.original_dtype)), None
