"""Memory that an operation asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from headrace.compat.passed_on import pass_on

__all__ = ["Allocation", "AllocationQuery", "allocate_query"]
pass_on(globals(), "Optional Sequence Tuple Union ch dataclass np")


@dataclass(frozen=True)
class AllocationQuery:
    """Shape (of one sample) and dtype; a torch dtype asks for a tensor on ``device``, a numpy dtype for an array."""

    shape: Any
    dtype: Any
    device: Any = None


Allocation: TypeAlias = AllocationQuery | Sequence[AllocationQuery]


def allocate_query(memory_allocation: AllocationQuery, batch_size: int, batches_ahead: int) -> Any:
    """Memory for some batches at once: a list of tensors, or one array."""
    shape = (batch_size, *(int(side) for side in memory_allocation.shape))
    if isinstance(memory_allocation.dtype, torch.dtype):
        dtype, device = memory_allocation.dtype, memory_allocation.device
        return [torch.empty(shape, dtype=dtype, device=device) for _ in range(batches_ahead)]
    return np.empty((batches_ahead, *shape), memory_allocation.dtype)
