"""Int and Float: one number a sample, 64 bits each."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn, SupportsFloat, SupportsIndex

from headrace.types import Encoded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.types import Facts

__all__ = ["Float", "Int"]

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class _Scalar:
    has_payload: ClassVar[bool] = False

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> NoReturn:
        """Scalars have no bytes to look at."""
        raise ValueError("a scalar has no stored array; read it with dataset[i]")

    def max_size_bytes(self) -> int:
        """Scalars live in the metadata and take no payload."""
        return 0


@dataclass(frozen=True, slots=True)
class Int(_Scalar):
    """A signed 64-bit integer, such as a label.

    Example:
        >>> Int().encode(7, 0)
        Encoded(facts=(7,), payload=None)
    """

    kind: ClassVar[str] = "int"

    def encode(self, value: SupportsIndex, index: int) -> Encoded:
        """Take anything that is an integer without rounding."""
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"an Int field takes integers, got {value!r} ({type(value).__name__})") from None
        if number not in _INT64:
            raise ValueError(f"{number} does not fit into 64 bits")
        return Encoded((number,), None)

    def decode(self, facts: Facts, payload: memoryview) -> int:
        """Give a Python int."""
        return int(facts[0])


@dataclass(frozen=True, slots=True)
class Float(_Scalar):
    """A 64-bit floating point number."""

    kind: ClassVar[str] = "float"

    def encode(self, value: SupportsFloat, index: int) -> Encoded:
        """Take anything that converts to float, but no text."""
        if isinstance(value, str | bytes | bytearray):
            raise TypeError(f"a Float field takes numbers, got {value!r} ({type(value).__name__})")
        return Encoded((float(value),), None)

    def decode(self, facts: Facts, payload: memoryview) -> float:
        """Give a Python float."""
        return float(facts[0])
