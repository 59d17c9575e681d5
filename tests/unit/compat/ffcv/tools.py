"""Datasets and operations that several tests of the FFCV adapters use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv import DatasetWriter
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.operation import Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Made:
    """A dataset whose samples a function makes."""

    def __init__(self, length: int, make: Callable[[int], tuple[Any, ...]]) -> None:
        self.length = length
        self.make = make

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.make(index)


def write(
    path: Path, fields: dict[str, Any], length: int, make: Callable[[int], tuple[Any, ...]], **options: Any
) -> Path:
    """Write a dataset with one worker unless told otherwise."""
    DatasetWriter(path, fields, **({"num_workers": 1, "page_size": 1 << 21} | options)).from_indexed_dataset(
        Made(length, make)
    )
    return path


class Calling(Operation):
    """Gives what a function makes of its input."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def generate_code(self) -> Callable[..., Any]:
        def call(values: Any, dst: Any) -> Any:
            return self.function(values)

        call.is_native = True  # type: ignore[attr-defined]
        return call

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, None]:
        return previous_state, None


class Doubler(Operation):
    """Doubles into memory of the loader."""

    def generate_code(self) -> Callable[..., Any]:
        def double(values: Any, dst: Any) -> Any:
            dst[:] = values * 2
            return dst

        return double

    def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, AllocationQuery]:
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


def flat(level: int, height: int = 8, width: int = 8) -> np.ndarray:
    """A picture of one level."""
    return np.full((height, width, 3), level, np.uint8)
