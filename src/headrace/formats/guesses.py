"""What bytes are that no file says more about: pictures, arrays, texts, or just bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.codecs import npy
from headrace.fields import Bytes, Image, NDArray, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Field

__all__ = ["FIRST_VALUES", "guess_field", "is_picture", "is_text"]

FIRST_VALUES = 64
"""How many values are looked at."""

_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_ARRAY = b"\x93NUMPY"
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def is_picture(data: bytes) -> bool:
    """The bytes begin as a JPEG, PNG, GIF, TIFF, WebP or BMP does.

    Example:
        >>> is_picture(b"GIF89a..."), is_picture(b"hello")
        (True, False)
    """
    if data.startswith(_PICTURES):
        return True
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return True
    return data[:2] == b"BM" and int.from_bytes(data[2:6], "little") == len(data) > 26


def is_text(data: bytes) -> bool:
    r"""The bytes are UTF-8 without control characters, tabs and ends of lines excepted.

    Example:
        >>> is_text("naïve\n".encode()), is_text(b"\x00\x01")
        (True, False)
    """
    try:
        return _NO_TEXT.search(data.decode("utf-8")) is None
    except UnicodeDecodeError:
        return False


def guess_field(values: Sequence[bytes]) -> Field:
    """The field that the first values of a column of bytes fit.

    Example:
        >>> guess_field([b"a cat", b""]), guess_field([b"a cat", bytes(3)])
        (Text(), Bytes())
    """
    if not values:
        return Bytes()
    if all(map(is_picture, values)):
        return Image()
    if all(value.startswith(_ARRAY) for value in values):
        return _array_field(values)
    return Text() if all(map(is_text, values)) else Bytes()


def _array_field(values: Sequence[bytes]) -> Field:
    try:
        arrays = [npy.decode(value) for value in values]
        first = NDArray(arrays[0].dtype, arrays[0].shape)
    except ValueError:
        return Bytes()
    is_same = all((array.dtype, array.shape) == (first.dtype, first.shape) for array in arrays)
    return first if is_same else Bytes()
