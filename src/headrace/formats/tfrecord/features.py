"""What the columns of a TFRecord file hold: facts that the scan finds, and the fields that fit them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from headrace.fields import Float, Int, Json, NDArray
from headrace.formats.guesses import guess_field, is_text
from headrace.formats.tfrecord.wire import bytes_list
from headrace.types import Encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.types import Facts, Field

__all__ = ["ByteLists", "Feature", "Kind"]

Kind: TypeAlias = Literal["none", "bytes", "float", "int64"]
KINDS: tuple[Kind, ...] = ("none", "bytes", "float", "int64")
_DTYPES: dict[str, np.dtype[Any]] = {"float": np.dtype("<f4"), "int64": np.dtype("<i8")}
_MAX_VALUES = 1 << 40


@dataclass(frozen=True, slots=True)
class ByteLists:
    r"""Lists of byte strings that are no texts, such as several pictures; only TFRecord files hold them.

    Example:
        >>> ByteLists().encode([b"a", b"b"], 0).payload
        b'\n\x01a\n\x01b'
    """

    kind: ClassVar[str] = "byte_lists"
    has_payload: ClassVar[bool] = True

    def encode(self, value: object, index: int) -> Encoded:
        """Take a list of bytes."""
        if not isinstance(value, list | tuple) or not all(isinstance(one, bytes) for one in value):
            raise TypeError(f"a field of lists of bytes takes a list of bytes, got {value!r}")
        return Encoded((), bytes_list(value))

    def decode(self, facts: Facts, payload: memoryview) -> list[bytes]:
        """Refuse: only a dataset of TFRecords knows how they are stored."""
        raise ValueError("lists of bytes are decoded by their dataset")

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Refuse: they have to be decoded."""
        raise ValueError("lists of bytes have to be decoded; read them with dataset[i]")

    def max_size_bytes(self) -> int | None:
        """Any length is possible."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Feature:
    """What one column holds.

    Attributes:
        kind: of all values; ``"none"`` where no sample has one.
        is_list: of ``feature_lists`` in a SequenceExample: values for each step.
        counts: least and most values of a sample, or of a step.
        steps: least and most steps of a sample.
        is_message: places are those of the whole message and not of its values alone.
    """

    kind: Kind
    is_list: bool
    counts: tuple[int, int]
    steps: tuple[int, int]
    is_message: bool

    def to_json(self) -> list[Any]:
        """As a value for the annex."""
        return [self.kind, self.is_list, list(self.counts), list(self.steps), self.is_message]

    @classmethod
    def parse(cls, value: Any) -> Feature:
        """Read it again; ValueError or TypeError when that is not possible."""
        kind, is_list, counts, steps, is_message = value
        numbers = (*counts, *steps)
        is_right = kind in KINDS and len(counts) == len(steps) == 2 and isinstance(is_list, bool)
        if not is_right or not isinstance(is_message, bool) or not all(_is_count(number) for number in numbers):
            raise ValueError(f"{value!r} says nothing about a feature")
        return cls(kind=kind, is_list=is_list, counts=tuple(counts), steps=tuple(steps), is_message=is_message)

    @property
    def is_bytes(self) -> bool:
        """A sample has one byte string, and its place is known."""
        return self.kind == "bytes" and not self.is_message

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the numbers of every sample: () for one; None where the samples differ."""
        count = _same(self.counts)
        if self.kind not in _DTYPES or not count:
            return None
        if not self.is_list:
            return () if count == 1 else (count,)
        steps = _same(self.steps)
        if not steps:
            return None
        return (steps,) if count == 1 else (steps, count)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its numbers."""
        return _DTYPES[self.kind]

    def field(self, first: Callable[[], list[Any]]) -> Field:
        """The field that fits; ``first`` gives byte strings of the first samples, or lists of them."""
        if self.shape is not None:
            scalar: Field = Int() if self.kind == "int64" else Float()
            return NDArray(self.dtype, self.shape) if self.shape else scalar
        if self.kind != "bytes":
            return Json()
        if self.is_bytes:
            return guess_field(first())
        return Json() if all(is_text(value) for row in first() for value in _flat(row)) else ByteLists()

    def problem_with(self, field: Field) -> str | None:
        """Why its values cannot be those of a field, in words."""
        if self.is_bytes or isinstance(field, Json):
            return None
        if self.kind == "bytes":
            return None if isinstance(field, ByteLists) else "it holds lists of byte strings: Json()"
        if self.shape == () and isinstance(field, Float if self.kind == "float" else Int | Float):
            return None
        if isinstance(field, NDArray) and self.shape is not None:
            is_same = field.dtype == self.dtype and math.prod(field.shape) == math.prod(self.shape)
            return None if is_same else f"it holds {self.dtype} {self.shape}"
        held = f"{self.dtype} {self.shape}" if self.shape is not None else "lists of numbers: Json()"
        return f"it holds {held}"


def _flat(row: Any) -> list[bytes]:
    return [value for one in row for value in ([one] if isinstance(one, bytes) else one)]


def _same(bounds: tuple[int, int]) -> int | None:
    return bounds[0] if bounds[0] == bounds[1] else None


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _MAX_VALUES


DATA = Feature(kind="bytes", is_list=False, counts=(1, 1), steps=(0, 0), is_message=False)
"""A record as it is."""
