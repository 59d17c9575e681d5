"""A pattern blended into chosen pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["Poison"]
pass_on(globals(), "AllocationQuery Callable Compiler Operation Optional State Tuple np replace")


class Poison(Operation):
    """picture * (1 - alpha) + mask * alpha for the samples in ``indices``."""

    def __init__(self, mask: Any, alpha: Any, indices: Any, clamp: Any = (0, 255)) -> None:
        super().__init__()
        self.mask = mask
        self.indices = np.sort(indices)
        self.clamp = clamp
        self.alpha = alpha

    def generate_code(self) -> Callable[..., Any]:
        """A function of (pictures, memory, indices)."""
        alpha = np.repeat(self.alpha[:, :, None], 3, axis=2)
        mask = self.mask.astype("float") * alpha

        def poison(images: Any, dst: Any, indices: Any) -> Any:
            for i in np.flatnonzero(np.isin(indices, self.indices)):
                blended = images[i].astype(np.float32)
                blended *= 1 - alpha
                blended += mask
                images[i] = np.clip(blended, *self.clamp)
            return images

        poison.with_indices = True  # type: ignore[attr-defined]
        poison.is_native = True  # type: ignore[attr-defined]
        poison.makes_memory = True  # type: ignore[attr-defined]
        return poison

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """Pictures in, pictures out."""
        query = AllocationQuery(previous_state.shape, np.dtype(np.float32))
        return replace(previous_state, jit_mode=True), query
