"""Modules of torch as operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["ModuleWrapper"]
pass_on(globals(), "AllocationQuery Callable Operation Optional State Tuple ch permutation rand")


class ModuleWrapper(Operation):
    """Apply a module."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def generate_code(self) -> Callable[..., Any]:
        """A function of (tensor, nothing)."""

        def apply_module(inp: Any, _: Any) -> Any:
            return self.module(inp)

        return apply_module

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """What a module does to the shape is not known."""
        return previous_state, None
