"""From arrays to tensors, to devices, to other types and layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["Convert", "ToDevice", "ToTensor", "ToTorchImage", "View"]
pass_on(globals(), "AllocationQuery Callable Operation Optional State Tuple ch np replace")


class ToTensor(Operation):
    """The array as a tensor on the same memory."""

    def generate_code(self) -> Callable[..., Any]:
        """A function of (array, nothing)."""

        def to_tensor(inp: Any, dst: Any) -> Any:
            return torch.from_numpy(inp)

        return to_tensor

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """A tensor of the same shape."""
        dtype = torch.from_numpy(np.empty((), dtype=previous_state.dtype)).dtype
        return replace(previous_state, jit_mode=False, dtype=dtype), None


class ToDevice(Operation):
    """The tensor on another device."""

    def __init__(self, device: Any, non_blocking: bool = True) -> None:
        super().__init__()
        self.device = device
        self.non_blocking = non_blocking

    def generate_code(self) -> Callable[..., Any]:
        """A function of (tensor, nothing); the memory format stays."""

        def to_device(inp: Any, dst: Any) -> Any:
            return inp.to(self.device, non_blocking=self.non_blocking)

        to_device.makes_memory = True  # type: ignore[attr-defined]
        return to_device

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """The same on the device."""
        device = torch.device(self.device)
        query = AllocationQuery(previous_state.shape, dtype=previous_state.dtype, device=device)
        return replace(previous_state, device=device), query


class ToTorchImage(Operation):
    """Pictures as torch has them: (batch, channels, height, width).

    With ``channels_last`` only the view changes; int16 is taken as the bits of float16 with ``convert_back_int16``.
    """

    def __init__(self, channels_last: bool = True, convert_back_int16: bool = True) -> None:
        super().__init__()
        self.channels_last = channels_last
        self.convert_int16 = convert_back_int16
        self.enable_int16conv = False

    def generate_code(self) -> Callable[..., Any]:
        """A function of (tensor, memory)."""
        is_half = self.enable_int16conv

        def to_torch_image(inp: Any, dst: Any) -> Any:
            if is_half:
                inp = inp.view(dtype=torch.float16)
            inp = inp.permute([0, 3, 1, 2])
            return inp if self.channels_last else inp.contiguous()

        to_torch_image.makes_memory = True  # type: ignore[attr-defined]
        return to_torch_image

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        """Channels first."""
        height, width, channels = previous_state.shape
        self.enable_int16conv = previous_state.dtype is torch.int16 and self.convert_int16
        dtype = torch.float16 if self.enable_int16conv else previous_state.dtype
        shape = (channels, height, width)
        query = None if self.channels_last else AllocationQuery(shape, dtype=dtype)
        return replace(previous_state, shape=shape, dtype=dtype), query


class Convert(Operation):
    """The tensor with another dtype."""

    def __init__(self, target_dtype: Any) -> None:
        super().__init__()
        self.target_dtype = target_dtype

    def generate_code(self) -> Callable[..., Any]:
        """A function of (tensor, nothing)."""

        def convert(inp: Any, dst: Any) -> Any:
            return inp.type(self.target_dtype)

        return convert

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """The new dtype."""
        return replace(previous_state, dtype=self.target_dtype), None


class View(Operation):
    """The same bytes with another dtype."""

    def __init__(self, target_dtype: Any) -> None:
        super().__init__()
        self.target_dtype = target_dtype

    def generate_code(self) -> Callable[..., Any]:
        """A function of (array or tensor, nothing)."""

        def view(inp: Any, dst: Any) -> Any:
            return inp.view(self.target_dtype)

        return view

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """The new dtype, and no compiled code any more."""
        return replace(previous_state, dtype=self.target_dtype, jit_mode=False), None
