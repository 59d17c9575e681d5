"""PNG by libpng with the GIL released, in builds that have it; other builds leave PNG to Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import ImageError
from headrace.progress import format_count

if TYPE_CHECKING:
    from headrace.types import Buffer

__all__ = ["decode", "decode_deep", "deep_shape", "is_native", "is_png", "plain_size"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def is_native() -> bool:
    """This build decodes PNG by itself."""
    return "PNG" in _native.picture_decoders()


def is_png(data: Buffer) -> bool:
    """Tell by the first bytes whether this is a PNG."""
    return bytes(memoryview(data)[:8]) == _SIGNATURE


def plain_size(data: Buffer) -> tuple[int, int] | None:
    """Width and height of a PNG that :func:`decode` takes.

    None: the header makes no sense, there are more than 8 bits a channel, several frames, or a transparent colour.
    An alpha channel is no hindrance as long as it says opaque everywhere, which only decoding shows.
    """
    info = _read_info(data)
    return (info.width, info.height) if info is not None and info.plain else None


def deep_shape(data: Buffer) -> tuple[int, ...] | None:
    """The shape of what :func:`decode_deep` gives; None when it is no PNG of 16 bits a channel."""
    info = _read_info(data)
    if info is None or info.bit_depth != 16:
        return None
    return (info.height, info.width) if info.channels == 1 else (info.height, info.width, info.channels)


def _read_info(data: Buffer) -> _native.PngInfo | None:
    try:
        return _native.png_info(data) if is_png(data) else None
    except _native.NativeError:
        return None


def decode(data: Buffer, size: tuple[int, int]) -> npt.NDArray[np.uint8] | None:
    """Decode a PNG of this width and height to RGB, height x width x 3; None when it is transparent somewhere.

    Raises:
        ImageError: it is broken or cut short.
    """
    out = np.empty((size[1], size[0], 3), np.uint8)
    try:
        _native.decode_png(data, out)
    except _native.NativeError as error:
        if error.code == "unsupported":
            return None
        raise _broken(data, error) from None
    return out


def decode_deep(data: Buffer, shape: tuple[int, ...]) -> npt.NDArray[np.uint16]:
    """Decode a PNG of 16 bits a channel and of this shape, without a change to its numbers.

    Raises:
        ImageError: it is broken or cut short.
    """
    out = np.empty(shape, np.uint16)
    try:
        _native.decode_deep_png(data, out.reshape(shape[0], shape[1], -1))
    except _native.NativeError as error:
        raise _broken(data, error) from None
    return out


def _broken(data: Buffer, error: _native.NativeError) -> ImageError:
    return ImageError(f"PNG of {format_count(memoryview(data).nbytes, 'byte')}: {error.detail}")
