"""Values of any length: bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import gather_into
from headrace.compat.ffcv.fields.base import Field, no_arguments
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.ffcv.storage import check_sizes, locate_bytes
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["BytesDecoder", "BytesField"]
pass_on(
    globals(),
    "ARG_TYPE AllocationQuery Callable Compiler Field Operation State TYPE_CHECKING Tuple Type memcpy np replace",
)


class BytesDecoder(Operation):
    """Bytes as (batch, longest value of the file), zeros after each value."""

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """As many bytes as the longest value has; what cannot be true is told when it is read."""
        sizes = self.metadata["size"]
        largest = getattr(getattr(self, "field", None), "largest_size", None)
        shape = (int((sizes if largest is None else sizes[sizes <= largest]).max(initial=0)),)
        after = replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("<u1"))
        return after, AllocationQuery(shape, dtype=np.dtype("<u1"))

    def generate_code(self) -> Callable[..., Any]:
        """A function that copies a batch by one native call."""

        def decoder(batch_indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            rows = metadata[np.asarray(batch_indices, np.int64)]
            base, places, sizes = locate_bytes(rows["ptr"], rows["size"], batch_indices, storage_state)
            destination = destination[: len(batch_indices)]
            check_sizes(sizes, destination.shape[1], batch_indices)
            destination[:] = 0
            targets = np.arange(len(sizes), dtype=np.uint64) * np.uint64(destination.shape[1])
            gather_into(base, places, sizes, destination.reshape(-1), targets)
            return destination

        decoder.is_native = True  # type: ignore[attr-defined]
        return decoder


class BytesField(Field):
    """Bytes of any length, given as a one-dimensional uint8 array."""

    largest_size: int | None = None  # a value of a file that is read cannot be longer

    @property
    def metadata_type(self) -> np.dtype[Any]:
        """Pointer and size."""
        return np.dtype([("ptr", "<u8"), ("size", "<u8")])

    @staticmethod
    def from_binary(binary: Any) -> Field:
        """There are no arguments."""
        return BytesField()

    def to_binary(self) -> Any:
        """There are no arguments."""
        return no_arguments()

    def encode(self, destination: Any, field: Any, malloc: Any) -> None:
        """Store a one-dimensional uint8 array."""
        destination["ptr"], buffer = malloc(field.size)
        buffer[:] = field
        destination["size"] = field.size

    def get_decoder_class(self) -> Any:
        """BytesDecoder."""
        return BytesDecoder
