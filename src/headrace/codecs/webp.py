"""WebP by libwebp with the GIL released, in builds that have it; other builds leave WebP to Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import ImageError
from headrace.progress import format_count

if TYPE_CHECKING:
    from headrace.types import Buffer

__all__ = ["decode", "is_native", "is_webp", "plain_size"]


def is_native() -> bool:
    """This build decodes WebP by itself."""
    return "WebP" in _native.picture_decoders()


def is_webp(data: Buffer) -> bool:
    """Tell by the first bytes whether this is a WebP."""
    head = bytes(memoryview(data)[:12])
    return head[:4] == b"RIFF" and head[8:] == b"WEBP"


def plain_size(data: Buffer) -> tuple[int, int] | None:
    """Width and height of a WebP that :func:`decode` takes; None: animated, or the header makes no sense."""
    try:
        info = _native.webp_info(data) if is_webp(data) else None
    except _native.NativeError:
        return None
    return None if info is None or info.animated else (info.width, info.height)


def decode(data: Buffer, size: tuple[int, int]) -> npt.NDArray[np.uint8] | None:
    """Decode a WebP of this width and height to RGB, height x width x 3; None when it is transparent somewhere.

    Raises:
        ImageError: it is broken or cut short.
    """
    out = np.empty((size[1], size[0], 3), np.uint8)
    try:
        _native.decode_webp(data, out)
    except _native.NativeError as error:
        if error.code == "unsupported":
            return None
        raise ImageError(f"WebP of {format_count(memoryview(data).nbytes, 'byte')}: {error.detail}") from None
    return out
