"""Steps that are ordinary Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.ops.base import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.ops.base import Draws

__all__ = ["Apply"]


@dataclass(frozen=True, slots=True)
class Apply:
    """Call a function with the batch of values so far; what it returns goes on.

    Batches come one at a time and in order, in a thread of the loader.

    Args:
        function: takes one argument, an array (or a list for fields of varying size).
        name: what to call it in the plan and in errors; by default the function's own name.
    """

    function: Callable[[Any], Any] = field(repr=False)  # its text would differ from process to process
    name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"Apply takes a function, got {self.function!r}")
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", type(self.function).__name__))

    def form(self, before: Form) -> Form:
        """Anything in; what comes out shows when it runs."""
        return Form()

    def apply(self, values: Any, draws: Draws) -> Any:
        """Call the function."""
        return self.function(values)
