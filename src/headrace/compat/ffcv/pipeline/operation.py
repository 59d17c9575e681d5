"""The protocol of operations: what decoders and transforms, also a user's own, implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["Operation"]
pass_on(globals(), "ABC AllocationQuery Callable Optional State TYPE_CHECKING Tuple abstractmethod np")


class Operation(ABC):
    """One step of a pipeline."""

    def __init__(self) -> None:
        self.metadata: Any = None
        self.memory_read: Any = None

    def accept_field(self, field: Any) -> None:
        """Take notice of the field that is read."""
        self.field: Any = field

    def accept_globals(self, metadata: Any, memory_read: Callable[..., Any]) -> None:
        """Take notice of the field's metadata and of how its data are read."""
        self.metadata = metadata
        self.memory_read = memory_read

    @abstractmethod
    def generate_code(self) -> Callable[..., Any]:
        """The function that does the work on a batch."""
        raise NotImplementedError

    def declare_shared_memory(self, previous_state: State) -> AllocationQuery | None:
        """Ask for memory that all uses of this operation share."""
        return None

    def generate_code_for_shared_state(self) -> Callable[..., Any] | None:
        """The function that fills the shared memory, once for each batch."""
        return None

    @abstractmethod
    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation | None]:
        """What comes out for what goes in, and the memory that is needed."""
        raise NotImplementedError
