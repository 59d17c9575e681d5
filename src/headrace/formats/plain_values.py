"""Values as JSON and MessagePack have them (numbers, texts, lists, maps), checked against a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.fields import Float, Int, Json, NDArray, Text

if TYPE_CHECKING:
    from headrace.types import Field

__all__ = ["INT64", "plain_value"]

INT64 = range(-(2**63), 2**63)
"""What an Int field holds."""
_SHOWN = 40
_OTHERWISE = "open with fields= if the column holds something else"


def plain_value(field: Field, value: Any) -> Any:
    """A value as the field gives it; ValueError when it is something else.

    Example:
        >>> plain_value(Float(), 3), plain_value(Int(), True)
        (3.0, 1)
        >>> plain_value(Int(), "three")
        Traceback (most recent call last):
        ValueError: a whole number was expected, found 'three'; open with fields= if the column holds something else
    """
    if isinstance(field, Json):
        return value
    if isinstance(field, Int):
        if isinstance(value, int) and value in INT64:
            return int(value)
        raise _unexpected("a whole number", value)
    if isinstance(field, Float):
        if isinstance(value, float):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023:
            return float(value)
        raise _unexpected("a number", value)
    if isinstance(field, Text):
        if isinstance(value, str) and (value.isascii() or is_encodable(value)):
            return value
        raise _unexpected("a text", value)
    if isinstance(field, NDArray):
        return _array(field, value)
    raise _unexpected(f"a value of kind {field.kind}", value)


def is_encodable(text: str) -> bool:
    """A text can be stored as UTF-8: it has no halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unexpected(wanted: str, value: Any) -> ValueError:
    shown = repr(value) if isinstance(value, str | int | float | bool | None) else f"a {type(value).__name__}"
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return ValueError(f"{wanted} was expected, found {shown}; {_OTHERWISE}")


def _array(field: NDArray, value: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise _unexpected("a list of numbers", value) from None
    if array.shape != field.shape or array.dtype.kind not in "biuf":
        found = f"{array.dtype} {array.shape}" if array.dtype.kind in "biuf" else type(value).__name__
        raise ValueError(f"an array of {field.dtype} {field.shape} was expected, found {found}; {_OTHERWISE}")
    cast = array.astype(field.dtype)
    if field.dtype.kind in "biu" and not np.array_equal(cast, array):
        wrong = array[cast != array].reshape(-1)[0]
        raise ValueError(f"numbers that {field.dtype} can hold were expected, found {wrong}; {_OTHERWISE}")
    return cast
