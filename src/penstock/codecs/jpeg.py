"""JPEG: header, decoding and encoding, all with the GIL released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.errors import ImageError

if TYPE_CHECKING:
    from penstock.types import Buffer

__all__ = ["MAX_PIXELS", "decode", "encode", "is_jpeg", "read_info"]

MAX_PIXELS = 1 << 28
"""Pictures with more pixels are refused before memory is asked for; real photographs have far fewer."""


def is_jpeg(data: Buffer) -> bool:
    """Tell by the first bytes whether this is a JPEG."""
    return bytes(memoryview(data)[:3]) == b"\xff\xd8\xff"


def read_info(data: Buffer) -> _native.JpegInfo:
    """Read size, components and coding from a JPEG's header without decoding it."""
    try:
        return _native.jpeg_info(data)
    except _native.NativeError as error:
        raise ImageError(f"JPEG header: {error.detail}") from None


def decode(data: Buffer, *, dct: Literal["accurate", "fast"] = "accurate") -> npt.NDArray[np.uint8]:
    """Decode a JPEG to RGB, height x width x 3.

    Args:
        data: the whole JPEG.
        dct: ``"fast"`` is FFCV's choice: up to a few levels off, and hardly faster on today's processors.

    Raises:
        ImageError: it is broken, cut short, or of a kind that has no RGB (CMYK).

    Example:
        >>> import numpy as np
        >>> decode(encode(np.zeros((4, 6, 3), np.uint8))).shape
        (4, 6, 3)
    """
    info = read_info(data)
    if info.width * info.height > MAX_PIXELS:
        raise ImageError(
            f"JPEG of {info.width}x{info.height} has more than {MAX_PIXELS} pixels, the most that is decoded"
        )
    out = np.empty((info.height, info.width, 3), np.uint8)
    try:
        _native.decode_jpeg(data, out, dct == "fast")
    except _native.NativeError as error:
        raise ImageError(f"JPEG of {len(memoryview(data))} bytes: {error.detail}") from None
    return out


def encode(pixels: npt.NDArray[np.uint8], *, quality: int = 90) -> bytes:
    """Encode RGB pixels as baseline JPEG with 4:2:0 chroma.

    Raises:
        ImageError: the size cannot be stored in a JPEG.
    """
    try:
        return _native.encode_jpeg(np.ascontiguousarray(pixels), quality)
    except _native.NativeError as error:
        raise ImageError(f"cannot encode {pixels.shape[1]}x{pixels.shape[0]} as JPEG: {error.detail}") from None
