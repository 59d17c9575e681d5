"""One value as bytes that stand alone: what a file of its own would hold, whatever container it lies in."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.codecs import image as image_codec
from headrace.codecs import jpeg, npy
from headrace.fields import JPG, Float, Image, Int, Json, NDArray, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Field

__all__ = ["decode_value", "encode_value", "ending_of", "picture_ending"]

_ENDINGS: tuple[tuple[type[Any], str], ...] = (
    (Image, "jpg"),
    (Text, "txt"),
    (Json, "json"),
    (NDArray, "npy"),
    (Int, "cls"),
    (Float, "txt"),
)
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    (b"P5", "pgm"),
    (b"P6", "ppm"),
)


def ending_of(field: Field) -> str:
    """What the name of a file with a value of a field usually ends in; empty for bytes of any kind."""
    return next((ending for kind, ending in _ENDINGS if isinstance(field, kind)), "")


def picture_ending(data: bytes) -> str:
    """What the name of a file with a picture ends in, by its first bytes; ``jpg`` where nothing else is known.

    Example:
        >>> picture_ending(b"GIF89a"), picture_ending(b"RIFF....WEBPVP8 ")
        ('gif', 'webp')
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((ending for first, ending in _PICTURES if data.startswith(first)), "jpg")


def encode_value(field: Field, value: Any, index: int) -> tuple[str, bytes]:
    """A value as the ending and the bytes of a file: pictures as JPEG or PNG, arrays as .npy, numbers as text.

    The file of a picture, given as bytes, is kept as it is, of whatever kind, unless the field asks for pixels or for
    a smaller picture.

    Example:
        >>> encode_value(Text(), "hello", 0), encode_value(Int(), 7, 0)
        (('txt', b'hello'), ('cls', b'7'))
    """
    ending = ending_of(field)
    if isinstance(field, NDArray):
        return ending, npy.encode(np.asarray(value, field.dtype).reshape(field.shape))
    if isinstance(field, Image) and isinstance(value, bytes) and _is_kept(field, value):
        return picture_ending(value), value
    encoded = field.encode(value, index)
    if isinstance(field, Int | Float):
        return ending, repr(encoded.facts[0]).encode()
    payload = encoded.payload or b""
    if isinstance(field, Image) and encoded.facts[0] != JPG:
        return "png", _png(encoded.facts, payload)
    return ending, payload.removesuffix(b"\0") if isinstance(field, Json) else payload


def _is_kept(field: Image, data: bytes) -> bool:
    """A picture that is no JPEG needs no change; ImageError when it is none that can be read again."""
    if field.mode != "jpg" or jpeg.is_jpeg(data):
        return False  # the field knows what to do
    height, width = image_codec.decode(data, background=field.background).shape[:2]
    return field.background is None and field.stored_size(width, height) == (width, height)


def _png(facts: Sequence[Any], payload: bytes) -> bytes:
    from PIL import Image as Pillow

    out = io.BytesIO()
    Pillow.frombytes("RGB", (int(facts[1]), int(facts[2])), payload).save(out, "PNG", compress_level=1)
    return out.getvalue()


def decode_value(field: Field, data: bytes) -> Any:
    """The value of such a file; ImageError or ValueError when it is none.

    Example:
        >>> decode_value(Json(), b'{"a": 1}'), decode_value(Int(), b" 7")
        ({'a': 1}, 7)
    """
    if isinstance(field, Image):
        return image_codec.decode_any(data)
    if isinstance(field, Json):
        return json.loads(data)
    if isinstance(field, Int | Float):
        return _number(field, data)
    if isinstance(field, NDArray):
        return _array(field, data)
    return field.decode((), memoryview(data))


def _number(field: Int | Float, data: bytes) -> int | float:
    try:
        return int(data) if isinstance(field, Int) else float(data)
    except ValueError:
        raise ValueError(f"{data[:40]!r} is not a number") from None


def _array(field: NDArray, data: bytes) -> Any:
    try:
        array = npy.decode(data)
    except ValueError:
        raise ValueError("it is not an array that numpy has saved") from None
    if (array.dtype, array.shape) != (field.dtype, field.shape):
        first = f"the first is {field.dtype} {field.shape}"
        raise ValueError(
            f"an array of {array.dtype} {array.shape}, and {first}; open with decode='bytes' if they differ"
        )
    return array
