"""A chain of operations by itself; loaders use graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery, allocate_query
from headrace.compat.ffcv.pipeline.graph import INITIAL_STATE
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.compat.ffcv.pipeline.operation import Operation

__all__ = ["BAD_COLLATION_MESSAGE", "Pipeline"]
pass_on(globals(), "Allocation AllocationQuery Any Mapping Operation Optional Sequence State ch np")

BAD_COLLATION_MESSAGE = "A pipeline has exactly one operation that collates."


class Pipeline:
    """Operations one after the other, in blocks that are compiled or not."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.original_state = INITIAL_STATE
        self.operations = operations
        self.operation_blocks, _ = self.parse_pipeline()
        self.compiled_ops = self.compile_ops()
        self.compiled_code: Any = None

    def parse_pipeline(self, batch_size: int = 16) -> tuple[list[tuple[bool, list[int]]], dict[int, Any]]:
        """Runs of operations with the same mode, and the memory that each operation asks for."""
        state, blocks, queries = self.original_state, [(self.original_state.jit_mode, list[int]())], dict[int, Any]()
        for number, operation in enumerate(self.operations):
            state, queries[number] = operation.declare_state_and_memory(state)
            if state.jit_mode != blocks[-1][0]:
                blocks.append((state.jit_mode, []))
            blocks[-1][1].append(number)
        return [block for block in blocks if block[1]], queries

    def compile_ops(self) -> dict[int, Callable[..., Any]]:
        """The function of each operation."""
        return {number: operation.generate_code() for number, operation in enumerate(self.operations)}

    def allocate_query(self, memory_allocation: AllocationQuery, batch_size: int, batches_ahead: int) -> Any:
        """Memory for some batches at once."""
        return allocate_query(memory_allocation, batch_size, batches_ahead)

    def allocate_memory(self, batch_size: int, batches_ahead: int) -> dict[int, Any]:
        """Memory for every operation that asks for some."""
        _, queries = self.parse_pipeline()
        return {number: _allocate(query, batch_size, batches_ahead) for number, query in queries.items()}


def _allocate(query: Any, batch_size: int, batches_ahead: int) -> Any:
    if query is None:
        return None
    if isinstance(query, AllocationQuery):
        return allocate_query(query, batch_size, batches_ahead)
    return tuple(allocate_query(one, batch_size, batches_ahead) for one in query)
