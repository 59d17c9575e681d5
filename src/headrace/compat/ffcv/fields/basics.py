"""Numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.fields.base import Field, no_arguments
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["BasicDecoder", "FloatDecoder", "FloatField", "IntDecoder", "IntField"]
pass_on(globals(), "ARG_TYPE AllocationQuery Callable Field Operation State TYPE_CHECKING Tuple Type np replace")


class BasicDecoder(Operation):
    """Gives numbers that stand in the metadata, as (batch, 1); subclasses name the dtype."""

    dtype: np.dtype[Any]

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """One number for each sample."""
        after = replace(previous_state, jit_mode=True, shape=(1,), dtype=self.dtype)
        return after, AllocationQuery((1,), dtype=self.dtype)

    def generate_code(self) -> Callable[..., Any]:
        """A function that gathers the numbers."""

        def decoder(indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            for ix, sample_id in enumerate(indices):
                destination[ix] = metadata[sample_id]
            return destination[: len(indices)]

        def gather(indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            destination[: len(indices), 0] = metadata[indices]
            return destination[: len(indices)]

        gather.is_native = True  # type: ignore[attr-defined]
        return gather if type(self) in (IntDecoder, FloatDecoder) else decoder


class IntDecoder(BasicDecoder):
    """Whole numbers."""

    dtype = np.dtype("<i8")


class FloatDecoder(BasicDecoder):
    """Floating-point numbers."""

    dtype = np.dtype("<f8")


class _NumberField(Field):
    _decoder: type[BasicDecoder]

    @property
    def metadata_type(self) -> np.dtype[Any]:
        """The number itself."""
        return self._decoder.dtype

    def to_binary(self) -> Any:
        """There are no arguments."""
        return no_arguments()

    def encode(self, destination: Any, field: Any, malloc: Any) -> None:
        """Put the number into the metadata."""
        destination[0] = field

    def get_decoder_class(self) -> Any:
        """IntDecoder or FloatDecoder."""
        return self._decoder


class FloatField(_NumberField):
    """A floating-point number (float64)."""

    _decoder = FloatDecoder

    @staticmethod
    def from_binary(binary: Any) -> Field:
        """There are no arguments."""
        return FloatField()


class IntField(_NumberField):
    """A whole number (int64)."""

    _decoder = IntDecoder

    @staticmethod
    def from_binary(binary: Any) -> Field:
        """There are no arguments."""
        return IntField()
