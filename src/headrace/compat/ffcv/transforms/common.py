"""Axes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["Squeeze"]
pass_on(globals(), "AllocationQuery Callable Operation Optional State Tuple replace")


class Squeeze(Operation):
    """Leave out axes of length 1 (of the batch as a whole); without arguments all of them."""

    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = dims

    def generate_code(self) -> Callable[..., Any]:
        """A function of (tensor, nothing)."""

        def squeeze(inp: Any, _: Any) -> Any:
            return inp.squeeze(self.dims) if self.dims else inp.squeeze()

        return squeeze

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """Every side of length 1 is left out."""
        return replace(previous_state, shape=[side for side in previous_state.shape if side != 1]), None
