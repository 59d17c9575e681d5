"""One dataset of an HDF5 file as a field: what its items mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.errors import CorruptSampleError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.hdf5.heap import Heap, HeapError
from headrace.formats.mapped_values import Places, values_in_place

if TYPE_CHECKING:
    from headrace.formats.hdf5.items import Items
    from headrace.formats.spans import SpanFile
    from headrace.types import Field, IndexArray

__all__ = ["Column", "Meaning"]

Meaning: TypeAlias = Literal["numbers", "arrays", "text", "bytes", "lists", "fixed"]
"""``text``, ``bytes`` and ``lists`` are values of any length, ``fixed`` are texts or bytes of one length."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Column:
    """A dataset with one row for each sample.

    Args:
        name: of the field.
        meaning: what items are.
        dtype: of the numbers, also of those in a list.
        shape: of the whole dataset.
        items: gives rows of numbers, or references into the heap.
        file: in which values of any length are.
        heap: finds them there; None where the library reads them.
        padding: what texts of one length are filled up with; None for bytes, which are taken whole.
    """

    path: str
    name: str
    meaning: Meaning
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    items: Items
    file: SpanFile
    heap: Heap | None = None
    padding: bytes | None = None

    @property
    def field(self) -> Field:
        """What its values are, as far as the file says."""
        if self.meaning == "numbers":
            return Float() if self.dtype.kind == "f" else Int()
        if self.meaning == "arrays":
            return NDArray(self.dtype, self.shape[1:])
        if self.meaning == "fixed":
            return Bytes() if self.padding is None else Text()
        by_meaning: dict[str, Field] = {"text": Text(), "bytes": Bytes(), "lists": Json()}
        return by_meaning[self.meaning]

    def fits(self, field: Field) -> bool:
        """Its values can be those of a field."""
        if self.meaning == "numbers":
            return isinstance(field, Float) or (isinstance(field, Int) and self.dtype.kind in "iub")
        if self.meaning == "arrays":
            if isinstance(field, Image):
                return self.dtype == np.uint8 and len(self.shape) == 4 and self.shape[3] == 3
            return isinstance(field, NDArray) and (field.dtype, field.shape) == (self.dtype, self.shape[1:])
        if self.meaning == "lists":
            return isinstance(field, Json)
        return not isinstance(field, Int | Float)

    def places(self, indices: IndexArray) -> Places | None:
        """Where values of any length are in the mapped file, or None when they are not found there."""
        if self.heap is None:
            return None
        try:
            return self.heap.locate(self.items.rows(indices), self.dtype.itemsize)
        except HeapError as error:
            sample = int(indices[error.position])
            raise CorruptSampleError(
                self.path, sample=sample, field=self.name, problem=error.problem, offset=error.offset
            ) from None

    def stored(self, indices: IndexArray) -> npt.NDArray[Any] | list[Any]:
        """Values: arrays of numbers, or bytes, or lists of numbers."""
        if self.meaning in ("numbers", "arrays"):
            return self._numbers(indices)
        if self.meaning == "fixed":
            return [self._stripped(value.tobytes()) for value in self.items.rows(indices)]
        places = self.places(indices)
        if places is None:
            values = [_as_stored(value) for value in self.items.rows(indices)]
        else:
            values = values_in_place(self.path, self.name, indices, self.file, places)
        if self.meaning == "text":
            return [value.partition(b"\0")[0] for value in values]
        return [np.frombuffer(v, self.dtype).tolist() for v in values] if self.meaning == "lists" else values

    def _numbers(self, indices: IndexArray) -> npt.NDArray[Any]:
        values = self.items.rows(indices)
        if self.meaning == "numbers" and values.dtype.kind == "u" and values.dtype.itemsize == 8:
            too_large = np.flatnonzero(values > np.uint64(2**63 - 1))
            if len(too_large):
                problem = f"{values[too_large[0]]} does not fit into a signed integer of 64 bits"
                raise CorruptSampleError(self.path, sample=int(indices[too_large[0]]), field=self.name, problem=problem)
        return values != 0 if self.dtype == np.bool_ else values

    def _stripped(self, value: bytes) -> bytes:
        if self.padding is None:
            return value
        return value.rstrip(b" ") if self.padding == b" " else value.partition(b"\0")[0]


def _as_stored(value: Any) -> bytes:
    """What the library gives of a value of any length."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
