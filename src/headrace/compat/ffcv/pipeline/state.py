"""What a value looks like between two operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from headrace.compat.passed_on import pass_on

__all__ = ["State"]
pass_on(globals(), "Literal Tuple ch dataclass np")


@dataclass
class State:
    """Where an operation finds its input: numpy (``jit_mode``) or a tensor, and its shape without the batch."""

    jit_mode: bool
    device: Any
    shape: Any
    dtype: Any

    def __post_init__(self) -> None:
        if isinstance(self.device, str):
            self.device = torch.device(self.device)
        if self.jit_mode and self.device != torch.device("cpu"):
            raise AssertionError("Can't be in JIT mode and on the GPU")
        if self.jit_mode and isinstance(self.dtype, torch.dtype):
            raise AssertionError("Can't allocate a torch tensor in JIT mode")
