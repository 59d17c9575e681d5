"""Another label for chosen samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["ReplaceLabel"]
pass_on(globals(), "AllocationQuery Callable Compiler Operation Optional State Tuple np replace")


class ReplaceLabel(Operation):
    """Give the samples in ``indices`` a new label."""

    def __init__(self, indices: Any, new_label: int) -> None:
        super().__init__()
        self.indices = np.sort(indices)
        self.new_label = new_label

    def generate_code(self) -> Callable[..., Any]:
        """A function of (labels, memory, indices)."""

        def replace_label(labels: Any, dst: Any, indices: Any) -> Any:
            labels[np.isin(indices, self.indices)] = self.new_label
            return labels

        replace_label.with_indices = True  # type: ignore[attr-defined]
        replace_label.is_native = True  # type: ignore[attr-defined]
        return replace_label

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """Labels in, labels out."""
        return replace(previous_state, jit_mode=True), None
