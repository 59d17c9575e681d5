"""JPEG: header, decoding, encoding, and lossless cuts by an index of entry points, all with the GIL released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import ImageError
from headrace.progress import format_count

if TYPE_CHECKING:
    from headrace.types import Buffer

__all__ = [
    "MAX_PIXELS",
    "Slice",
    "decode",
    "encode",
    "has_rgb",
    "index",
    "index_problem",
    "is_jpeg",
    "is_plain",
    "read_info",
    "refuse_rare",
    "slice",
]

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
        raise ImageError(error.detail) from None


def has_rgb(info: _native.JpegInfo) -> bool:
    """It has colours that are decoded to RGB here; others (CMYK) are left to Pillow."""
    return info.color_space in ("grayscale", "ycbcr", "rgb")


def is_plain(info: _native.JpegInfo) -> bool:
    """It has 8 bits a channel, is not lossless and has colours that are decoded here: the loader can take it as is."""
    return info.precision == 8 and not info.lossless and has_rgb(info)


def refuse_rare(info: _native.JpegInfo) -> None:
    """ImageError for a JPEG that not every way of decoding can take: whichever is used, the verdict is the same."""
    if info.precision != 8:
        raise ImageError(f"a JPEG of {info.precision} bits a channel, and an image field holds 8; convert it first")
    if info.lossless:
        raise ImageError("a lossless or hierarchical JPEG, which is not supported; convert it first")


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
        raise ImageError(f"JPEG of {format_count(len(memoryview(data)), 'byte')}: {error.detail}") from None
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


class Slice(NamedTuple):
    """A JPEG cut out of a larger one, and where the wanted window begins in it."""

    data: bytes
    left: int
    top: int


def index(data: Buffer, *, tile: int = 8) -> bytes:
    """Find where parts of a baseline JPEG can be decoded from, for :func:`slice`.

    The index takes about 1 % of the JPEG's size and belongs to exactly these bytes.

    Args:
        data: the whole JPEG.
        tile: an entry point for every so many MCUs (8 or 16 pixels each) of every row.

    Raises:
        ImageError: the JPEG is broken, or of a kind that has no index: progressive, arithmetic, CMYK.
    """
    try:
        packed, reason = _native.make_tile_index(data, tile)
    except _native.NativeError as error:
        raise ImageError(f"JPEG of {format_count(len(memoryview(data)), 'byte')}: {error.detail}") from None
    if packed is None:
        raise ImageError(f"this JPEG has no tile index: {reason}")
    return packed


def index_problem(index: Buffer, size: int, checksum: int) -> str | None:
    """Say what is wrong with an index for a JPEG of this size in bytes and this CRC-32C; None when nothing is."""
    try:
        info = _native.tile_index_info(index)
    except _native.NativeError as error:
        return error.detail
    if (info.jpeg_size, info.jpeg_crc32c) == (size, checksum):
        return None
    return (
        f"tile index: made for a JPEG of {format_count(info.jpeg_size, 'byte')} with checksum "
        f"{info.jpeg_crc32c:#010x}, this one has {format_count(size, 'byte')} and {checksum:#010x}"
    )


def slice(data: Buffer, index: Buffer, window: tuple[int, int, int, int]) -> Slice:
    """Cut a smaller JPEG that covers a window out of a JPEG, without loss and without decoding it.

    The pixels of the window are exactly those of the whole image, in every decoder. The slice is somewhat larger than
    the window: it begins and ends at entry points of the index.

    Args:
        data: the whole JPEG.
        index: what :func:`index` made for it.
        window: left, top, width and height in pixels.

    Raises:
        ImageError: the window is not inside the image, the index is of another JPEG, or either is broken.

    Example:
        >>> import numpy as np
        >>> whole = encode(np.arange(90 * 120 * 3, dtype=np.uint8).reshape(90, 120, 3))
        >>> cut = slice(whole, index(whole, tile=1), (50, 40, 30, 20))
        >>> part = decode(cut.data)[cut.top : cut.top + 20, cut.left : cut.left + 30]
        >>> bool((part == decode(whole)[40:60, 50:80]).all())
        True
    """
    left, top, width, height = window
    if min(window) < 0:
        raise ImageError(f"the window {window} has a negative number")
    try:
        return Slice(*_native.slice_jpeg(data, index, left, top, width, height))
    except _native.NativeError as error:
        raise ImageError(f"JPEG of {format_count(len(memoryview(data)), 'byte')}: {error.detail}") from None
