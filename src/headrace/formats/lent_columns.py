"""Samples as columns, on their way from one file into another as they are: no Python object for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Column", "ColumnSamples", "LentColumns", "Spans", "gives_columns"]


class Spans(NamedTuple):
    """Where values lie in the memory that is lent."""

    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]


Column: TypeAlias = Spans | npt.NDArray[np.int64]
"""The bytes of a field, or its numbers."""


@dataclass(frozen=True, slots=True)
class LentColumns:
    """Consecutive samples, a column for each field; the bytes of all of them lie in one piece of memory that is lent.

    An encoder that does not know columns draws the samples one by one, as tuples.

    Example:
        >>> spans = Spans(np.array([0, 2], np.uint64), np.array([2, 1], np.uint64))
        >>> [(bytes(data), number) for data, number in LentColumns(memoryview(b"abc"), [spans, np.array([7, 8])])]
        [(b'ab', 7), (b'c', 8)]
    """

    memory: memoryview
    columns: list[Column]

    def __len__(self) -> int:
        first = self.columns[0]
        return len(first.sizes if isinstance(first, Spans) else first)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        values = [self.views(column) if isinstance(column, Spans) else column.tolist() for column in self.columns]
        return zip(*values, strict=True)

    def views(self, spans: Spans) -> list[memoryview]:
        """The bytes of a column, value by value."""
        ends = spans.offsets + spans.sizes
        return [self.memory[start:end] for start, end in zip(spans.offsets.tolist(), ends.tolist(), strict=True)]

    @property
    def base(self) -> npt.NDArray[np.uint8]:
        """The memory as an array."""
        return np.frombuffer(self.memory, np.uint8)


class ColumnSamples(Protocol):
    """Samples that can be lent as columns."""

    def lend_columns(self, indices: Sequence[int], /) -> LentColumns | None:
        """The first of these samples, as many as may lie in memory together; None where they have no such columns."""
        ...


def gives_columns(samples: object) -> TypeGuard[ColumnSamples]:
    """Samples have ``lend_columns``."""
    return hasattr(samples, "lend_columns")
