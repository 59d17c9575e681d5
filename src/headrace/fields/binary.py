"""Bytes, Json and Text: payloads of any length."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from headrace.types import Encoded

if TYPE_CHECKING:
    from headrace.types import Buffer, Facts

__all__ = ["Bytes", "Json", "Text"]


@dataclass(frozen=True, slots=True)
class _Variable:
    has_payload: ClassVar[bool] = True

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Give the stored bytes as they are."""
        return payload

    def max_size_bytes(self) -> int | None:
        """Any length is possible."""
        return None


@dataclass(frozen=True, slots=True)
class Bytes(_Variable):
    """Any bytes; also what a ``BytesField`` of FFCV holds.

    Example:
        >>> Bytes().encode(b"abc", 0).payload
        b'abc'
    """

    kind: ClassVar[str] = "bytes"

    def encode(self, value: Buffer, index: int) -> Encoded:
        """Take bytes, or a one-dimensional uint8 array."""
        if isinstance(value, np.ndarray) and (value.dtype != np.uint8 or value.ndim != 1):
            raise TypeError(
                f"a Bytes field takes bytes or a 1-D uint8 array, got {value.dtype} of shape {value.shape}; "
                "for other arrays use NDArray"
            )
        if not isinstance(value, bytes | bytearray | memoryview | np.ndarray):
            raise TypeError(f"a Bytes field takes bytes or a 1-D uint8 array, got {type(value).__name__}")
        return Encoded((), bytes(value))

    def decode(self, facts: Facts, payload: memoryview) -> bytes:
        """Give bytes."""
        return bytes(payload)


@dataclass(frozen=True, slots=True)
class Json(_Variable):
    """Anything ``json.dumps`` takes, stored as ASCII text with a final NUL (as FFCV does)."""

    kind: ClassVar[str] = "json"

    def encode(self, value: Any, index: int) -> Encoded:
        """Serialize a value."""
        return Encoded((), json.dumps(value).encode("ascii") + b"\0")

    def decode(self, facts: Facts, payload: memoryview) -> Any:
        """Parse the text up to the NUL."""
        text = bytes(payload).partition(b"\0")[0]
        return json.loads(text.decode("utf-8"))


@dataclass(frozen=True, slots=True)
class Text(_Variable):
    """A string, stored as UTF-8. FFCV has no such field and sees its bytes."""

    kind: ClassVar[str] = "text"

    def encode(self, value: str, index: int) -> Encoded:
        """Take a string."""
        if not isinstance(value, str):
            raise TypeError(f"a Text field takes str, got {type(value).__name__}")
        return Encoded((), value.encode("utf-8"))

    def decode(self, facts: Facts, payload: memoryview) -> str:
        """Give a string."""
        return bytes(payload).decode("utf-8")
