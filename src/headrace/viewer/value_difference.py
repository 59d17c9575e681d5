"""Whether two stored values are the same, and where they differ, in a bounded amount of time, memory and text."""

from __future__ import annotations

import json
import math
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs import image as image_codec
from headrace.errors import HeadraceError, ImageError
from headrace.progress import format_bytes, format_count
from headrace.viewer.pixel_difference import measure_pixels

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headrace.types import Dataset
    from headrace.viewer.pixel_difference import PixelDifference, Pixels

__all__ = [
    "MOST_PIXELS",
    "Parts",
    "TooLargeError",
    "as_text",
    "differing_parts",
    "fit_pixels",
    "is_picture_file",
    "is_same_value",
    "pixels_of",
    "room_for_pixels",
    "stored_value",
]

MOST_PIXELS = 1 << 25
"""Pictures with more are compared by their stored bytes alone."""
MOST_BYTES = 4 << 20
"""Values with more stored bytes, other than pictures, are compared by these alone."""
_MANY_PIXELS = 1 << 22
_LARGE_ONES = threading.BoundedSemaphore(2)
_SHOWN = 400
_AROUND = 60
_LEVELS = 3


class TooLargeError(ValueError):
    """A value is larger than what the viewer decodes to compare it."""


class Parts(NamedTuple):
    """A text around the place where it differs from another one: before, the difference itself, after."""

    before: str
    middle: str
    after: str


def stored_value(dataset: Dataset, index: int, field: str) -> bytes | None:
    """The stored bytes of a value; None where the format keeps none, as for numbers."""
    if dataset.schema[field].kind in ("int", "float"):
        return None
    try:
        (data,) = dataset.read_bytes([index], field)
    except HeadraceError:
        raise
    except ValueError:  # this format keeps no bytes of this field
        return None
    return data


def is_picture_file(data: bytes) -> bool:
    """A picture with a header of its own, as opposed to bare pixels."""
    return data[:3] == b"\xff\xd8\xff" or data[:8] == b"\x89PNG\r\n\x1a\n" or data[:4] in (b"RIFF", b"GIF8")


def picture_sides(data: bytes) -> tuple[int, int] | None:
    """Width and height as the header says; None for bare pixels.

    Raises:
        ImageError: the header is broken, or declares more than anything here decodes.
    """
    found = image_codec.find_native(data)
    if found is not None:
        return found.width, found.height
    if not is_picture_file(data):
        try:
            with image_codec.open_picture(data) as picture:
                return picture.size
        except ImageError:
            return None
    with image_codec.open_picture(data) as picture:
        return picture.size


def count_pixels(data: bytes) -> int:
    """Pixels of a stored picture, by its header or by its size.

    Raises:
        ImageError: the header is broken.
        TooLargeError: there are more than MOST_PIXELS.
    """
    sides = picture_sides(data)
    pixels = sides[0] * sides[1] if sides is not None else len(data) // _LEVELS
    if pixels > MOST_PIXELS:
        size = f"{sides[0]} x {sides[1]}" if sides is not None else f"{pixels:,}"
        raise TooLargeError(f"the picture has {size} pixels; pixels are compared up to {MOST_PIXELS:,}")
    return pixels


def pixels_of(dataset: Dataset, index: int, field: str) -> Pixels:
    """The pixels of a picture; ask ``count_pixels`` first."""
    return image_codec.array_to_rgb(np.asarray(dataset.read_values(np.array([index], np.int64), field)[0]))


def room_for_pixels(pixels: int) -> AbstractContextManager[object]:
    """Holds back work on large pictures while others are at it, so that memory stays bounded."""
    return _LARGE_ONES if pixels > _MANY_PIXELS else nullcontext()


def fit_pixels(a: Pixels, b: Pixels) -> tuple[Pixels, Pixels, str]:
    """Two pictures of one size: the larger one is shrunk to the size of the smaller; and what was done, in words.

    Raises:
        ValueError: one is wider and the other is higher.
    """
    if a.shape == b.shape:
        return a, b, ""
    (ah, aw), (bh, bw) = a.shape[:2], b.shape[:2]
    if aw >= bw and ah >= bh:
        return _shrunk(a, bh, bw), b, f"the first was shrunk to {bw} x {bh} for this"
    if bw >= aw and bh >= ah:
        return a, _shrunk(b, ah, aw), f"the second was shrunk to {aw} x {ah} for this"
    raise ValueError(f"{aw} x {ah} and {bw} x {bh} pixels cannot be laid over each other")


def _shrunk(pixels: Pixels, height: int, width: int) -> Pixels:
    small = np.empty((height, width, 3), np.uint8)
    _native.resize_area(np.ascontiguousarray(pixels), small)
    return small


def picture_difference(a: Pixels, b: Pixels) -> tuple[PixelDifference | None, str]:
    """The numbers, and what is to be said about sizes."""
    try:
        first, second, note = fit_pixels(a, b)
    except ValueError as error:
        return None, str(error)
    return measure_pixels(first, second), note


def is_same_value(a: Any, b: Any) -> bool:
    """Two decoded values hold the same; a NaN is a NaN.

    Example:
        >>> is_same_value(np.array([1, np.nan]), np.array([1, np.nan])), is_same_value({"a": 1}, {"a": 2})
        (True, False)
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return _same_arrays(np.asarray(a), np.asarray(b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    if isinstance(a, dict | list) and isinstance(b, dict | list):
        return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)  # NaN is NaN in text
    return bool(_plain(a) == _plain(b))


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _same_arrays(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    if a.shape != b.shape or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        return False
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def as_text(value: Any) -> str:
    """A value as text that is compared and shown: JSON with a line for each entry, bytes as hex, arrays as a list."""
    if isinstance(value, np.ndarray):
        shape = " x ".join(map(str, value.shape)) or "one value"
        return f"{value.dtype}, {shape}: " + ", ".join(map(str, value.reshape(-1)[:200].tolist()))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex(" ")
    if isinstance(value, dict | list):
        return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    return str(value)


def array_note(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> str:
    """How two arrays differ, in a sentence."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{_array_words(a)} and {_array_words(b)}"
    is_apart = a != b
    if a.dtype.kind in "fc":
        is_apart &= ~(np.isnan(a) & np.isnan(b))
    count, first = int(np.count_nonzero(is_apart)), int(np.argmax(is_apart.reshape(-1)))
    text = f"{count:,} of {format_count(a.size, 'number')} differ, the first at {_place(first, a.shape)}"
    if a.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            most = float(np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64))))
        text += f"; by at most {most:.6g}"
    return text


def _array_words(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} {' x '.join(map(str, array.shape)) or 'one value'}"


def _place(number: int, shape: tuple[int, ...]) -> str:
    return str([int(n) for n in np.unravel_index(number, shape)]) if shape else "[]"


def bytes_note(a: bytes, b: bytes) -> str:
    """How two values differ in their stored bytes."""
    if len(a) != len(b):
        return f"{format_bytes(len(a))} and {format_bytes(len(b))} stored"
    return f"{format_bytes(len(a))} stored, the first difference is at byte {_common(a, b)}"


def differing_parts(a: str, b: str) -> tuple[Parts, Parts]:
    """Both texts around the place where they differ.

    Example:
        >>> differing_parts("the cat sat", "the dog sat")
        (Parts(before='the ', middle='cat', after=' sat'), Parts(before='the ', middle='dog', after=' sat'))
    """
    start = _common(a, b)
    rest_a, rest_b = a[start:], b[start:]
    end = _common(rest_a[::-1], rest_b[::-1])
    before = a[:start]
    return _parts(before, rest_a, end), _parts(before, rest_b, end)


def _parts(before: str, rest: str, end: int) -> Parts:
    middle, after = rest[: len(rest) - end], rest[len(rest) - end :]
    if len(middle) > _SHOWN:
        middle, after = f"{middle[:_SHOWN]}… ({len(middle):,} characters)", ""
    if len(before) > _AROUND:
        before = f"…{before[-_AROUND:]}"
    return Parts(before, middle, f"{after[:_AROUND]}…" if len(after) > _AROUND else after)


def _common(a: str | bytes, b: str | bytes) -> int:
    """How long the beginning is that both share; by halves, because Python is slow character by character."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
