"""Pictures of any kind to 8-bit RGB, without guessing.

PNG and WebP are decoded by the native core where it was built with their libraries, everything else by Pillow, with
the same pixels. Grey, palette, CMYK and other 8-bit colour models are converted as Pillow converts them. Pictures with
more than 8 bits a channel are refused, because there is no one right way to squeeze them; so are transparent ones,
unless a background colour is given.

A few bytes can declare any number of pixels, so what the header declares is checked before anything is decoded:
pixels, pixels of a tile, scans. The limit of pixels is Pillow's own, ``PIL.Image.MAX_IMAGE_PIXELS``, with an error in
place of Pillow's warning.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs import jpeg, png, tiff, webp
from headrace.errors import ImageError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image as PillowImage

    from headrace.types import Buffer

__all__ = [
    "SUFFIXES",
    "Color",
    "NativePicture",
    "array_to_rgb",
    "decode",
    "decode_any",
    "decode_deep",
    "find_native",
    "find_native_spans",
    "open_picture",
    "pillow_to_rgb",
]

Color = tuple[int, int, int]

SUFFIXES = frozenset({".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})
"""File name endings, in lower case, that are taken for pictures."""

# Pillow knows many more, and some of them run other programs: PostScript is given to Ghostscript.
_PILLOW_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
_DEEP_MODES = ("I", "F")
_MAX_RUN_PIXELS = 1 << 24  # Pillow decodes a BMP of runs in Python, some of it pixel by pixel
_RUN_PIXELS_FOR_BYTE = 128  # a run is two bytes, for at most 255 pixels
_MAX_SCANS = 500  # as in the native decoder of JPEG
_START_OF_SCAN = b"\xff\xda"
_PART_PIXELS = 1 << 20  # converted at a time
_TRANSPARENT = (
    "the picture is transparent in places; say what is behind it with background=(255, 255, 255), "
    "or flatten it before storing"
)
_DEEP = (
    "{what} has more than 8 bits a channel, and an image field holds 8; "
    "scale it to uint8 first, or keep it exactly in an NDArray field"
)

_JPEG, _PNG, _WEBP = 0, 2, 3  # as in ImageSpans.modes
_ANY_PIXELS = 2**64 - 1


class NativePicture(NamedTuple):
    """A picture that the native core decodes by itself: its kind, as in ``ImageSpans.modes``, and its sides."""

    mode: int
    width: int
    height: int


@contextlib.contextmanager
def open_picture(data: Buffer) -> Iterator[PillowImage]:
    """A picture file as Pillow opens it, if it is of one of the formats that are named here.

    Raises:
        ImageError: it declares more than is decoded, or Pillow cannot open it, or fails while the block uses it.
    """
    from PIL import Image, UnidentifiedImageError

    stream = io.BytesIO(data)
    try:
        if tiff.is_tiff(data):
            tiff.check(data, Image.MAX_IMAGE_PIXELS)
        with Image.open(stream, formats=_PILLOW_FORMATS) as picture:
            _check_limits(picture, data)
            yield picture
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError(f"not a picture that can be decoded; it starts with {bytes(memoryview(data)[:8])!r}") from None
    except Exception as error:  # what Pillow raises for a damaged file depends on the format and on the damage
        raise ImageError(f"the picture cannot be decoded: {str(error) or type(error).__name__}") from error


def _check_limits(picture: PillowImage, data: Buffer) -> None:
    """ImageError when decoding would take more time or memory than is allowed. Nothing has been decoded yet."""
    from PIL import Image

    width, height = picture.size
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and width * height > limit:
        raise ImageError(
            f"the picture has {width}x{height} pixels, and at most {limit} are decoded; "
            "if you trust it, raise PIL.Image.MAX_IMAGE_PIXELS"
        )
    if any(tile[0] == "bmp_rle" for tile in getattr(picture, "tile", ())):
        size = memoryview(data).nbytes
        if width * height > min(_MAX_RUN_PIXELS, _RUN_PIXELS_FOR_BYTE * size):
            raise ImageError(
                f"a compressed BMP of {format_count(size, 'byte')} has {width}x{height} pixels; "
                f"at most {_MAX_RUN_PIXELS} are decoded, and {_RUN_PIXELS_FOR_BYTE} for each byte. Store it as PNG"
            )
    elif jpeg.is_jpeg(data):
        scans = bytes(data).count(_START_OF_SCAN)
        if scans > _MAX_SCANS:
            raise ImageError(f"the JPEG has {scans} scans, and at most {_MAX_SCANS} are decoded")


def decode(data: Buffer, *, background: Color | None = None) -> npt.NDArray[np.uint8]:
    """Decode a PNG, WebP, BMP, GIF, TIFF or JPEG file to RGB, height x width x 3.

    Raises:
        ImageError: it cannot be decoded, or it cannot become RGB without guessing.
    """
    found = _find_whole(data)
    if found is not None:
        decode_whole = png.decode if found.mode == _PNG else webp.decode
        pixels = decode_whole(data, (found.width, found.height))
        if pixels is not None:
            return pixels
    if jpeg.is_jpeg(data):
        jpeg.refuse_rare(jpeg.read_info(data))  # Pillow may have a newer libjpeg
    with open_picture(data) as picture:
        return pillow_to_rgb(picture, background=background)


def decode_any(data: Buffer) -> npt.NDArray[np.uint8]:
    """The same, with the JPEG decoder of the loader where it can."""
    if jpeg.is_jpeg(data) and jpeg.has_rgb(jpeg.read_info(data)):
        return jpeg.decode(data)
    return decode(data)


def decode_deep(data: Buffer) -> npt.NDArray[np.uint16]:
    """Decode a picture of 16 bits a channel as it is: height x width where it is grey, else height x width x channels.

    Grey comes from PNG and TIFF. Colours and alpha of 16 bits come from PNG alone, in builds with libpng.

    Raises:
        ImageError: it cannot be decoded, or has no 16 bits a channel.
    """
    shape = png.deep_shape(data) if png.is_native() else None
    if shape is not None and _is_within_limit(shape[1], shape[0]):
        return png.decode_deep(data, shape)
    with open_picture(data) as picture:
        if picture.mode.startswith("I;16"):
            return np.asarray(picture).astype(np.uint16)
        raise ImageError(f"a picture of mode {picture.mode} cannot be read as 16 bits a channel; decode it to 8 bits")


def find_native(data: Buffer) -> NativePicture | None:
    """Tell whether the native core decodes a picture by itself; None where it is left to Pillow.

    Only the header is read: the picture may be broken, and a PNG or WebP transparent.

    Raises:
        ImageError: it is a JPEG whose header is broken.
    """
    if not jpeg.is_jpeg(data):
        return _find_whole(data)
    info = jpeg.read_info(data)
    return NativePicture(_JPEG, info.width, info.height) if jpeg.is_plain(info) else None


def find_native_spans(
    base: npt.NDArray[np.uint8], offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The same for many pictures in one region, by one call: modes, widths and heights.

    Sides are 0 for pictures that are left to Pillow, and for JPEGs whose header is broken.
    """
    from PIL import Image

    limit = _ANY_PIXELS if Image.MAX_IMAGE_PIXELS is None else Image.MAX_IMAGE_PIXELS
    return _native.picture_headers(base, offsets, sizes, limit)


def _find_whole(data: Buffer) -> NativePicture | None:
    for mode, codec in ((_PNG, png), (_WEBP, webp)):
        size = codec.plain_size(data) if codec.is_native() else None
        if size is not None:
            # Pillow says what is wrong with one that is too large.
            return NativePicture(mode, *size) if _is_within_limit(*size) else None
    return None


def _is_within_limit(width: int, height: int) -> bool:
    from PIL import Image

    return Image.MAX_IMAGE_PIXELS is None or width * height <= Image.MAX_IMAGE_PIXELS


def pillow_to_rgb(picture: PillowImage, *, background: Color | None = None) -> npt.NDArray[np.uint8]:
    """Turn a Pillow image into RGB pixels."""
    if picture.mode.startswith(_DEEP_MODES) or _is_deep_file(picture):
        raise ImageError(_DEEP.format(what=f"a picture of mode {picture.mode}"))
    columns = min(picture.width, _PART_PIXELS)
    rows = max(1, _PART_PIXELS // max(1, columns))
    if columns == picture.width and rows >= picture.height:
        return _part_to_rgb(picture, background)
    pixels = np.empty((picture.height, picture.width, 3), np.uint8)
    for top in range(0, picture.height, rows):  # each step of a conversion takes memory for all that it is given
        for left in range(0, picture.width, columns):
            right, bottom = min(left + columns, picture.width), min(top + rows, picture.height)
            part = picture.crop((left, top, right, bottom))
            pixels[top:bottom, left:right] = _part_to_rgb(part, background)
    return pixels


def _part_to_rgb(picture: PillowImage, background: Color | None) -> npt.NDArray[np.uint8]:
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return array_to_rgb(np.asarray(picture))
    if picture.has_transparency_data:
        return array_to_rgb(np.asarray(picture.convert("RGBA")), background=background)
    return array_to_rgb(np.asarray(picture.convert("RGB")))


def _is_deep_file(picture: PillowImage) -> bool:
    # Pillow drops the low byte of 16-bit RGB files while decoding; the raw mode still tells.
    for tile in getattr(picture, "tile", ()):
        arguments = tile[3]
        raw_mode = arguments if isinstance(arguments, str) else (arguments or ("",))[0]
        if isinstance(raw_mode, str) and ";16" in raw_mode:
            return True
    return False


def array_to_rgb(pixels: npt.NDArray[Any], *, background: Color | None = None) -> npt.NDArray[np.uint8]:
    """Turn an array of 8-bit grey, grey with alpha, RGB or RGBA pixels into RGB."""
    if pixels.dtype != np.uint8:
        deep = pixels.dtype.kind in "iuf" and pixels.dtype.itemsize > 1
        raise ImageError(
            _DEEP.format(what=f"an array of {pixels.dtype}") if deep else f"pixels must be uint8, got {pixels.dtype}"
        )
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 2, 3, 4):
        raise ImageError(
            f"an image array must be height x width x 3 (or grey, or with alpha), got shape {pixels.shape}"
        )
    if 0 in pixels.shape:
        raise ImageError(f"the image is empty: its shape is {pixels.shape}")
    if pixels.shape[2] in (2, 4):
        pixels = _flatten(pixels[:, :, :-1], pixels[:, :, -1:], background)
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return np.ascontiguousarray(pixels)


def _flatten(
    color: npt.NDArray[np.uint8], alpha: npt.NDArray[np.uint8], background: Color | None
) -> npt.NDArray[np.uint8]:
    if bool((alpha == 255).all()):
        return color
    if background is None:
        raise ImageError(_TRANSPARENT)
    opacity = alpha.astype(np.uint16)
    behind = np.array(background, np.uint16)
    blended = (color.astype(np.uint16) * opacity + behind * (255 - opacity) + 127) // 255
    return blended.astype(np.uint8)
