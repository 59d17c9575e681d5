"""Pictures for the eye: files, stored spans and arrays of any kind, made small enough to look at.

The loader's rule is to change nothing without being told. Here a person wants to see what is there, so depth is
stretched to 8 bits, transparency is kept, and a JPEG is decoded at a fraction of its size. What the header declares is
checked before anything is decoded: pictures with more than ``MAX_PIXELS`` are refused, and the error names their size.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs import image as image_codec
from headrace.codecs import png
from headrace.errors import ImageError
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

__all__ = [
    "MAX_PIXELS",
    "Box",
    "NotShownError",
    "SmallPicture",
    "looks_like_picture",
    "small_array",
    "small_file",
    "small_span",
]

MAX_PIXELS = 1 << 26
"""Pictures with more pixels are not made small: 8192 x 8192 take 200 MB when all of them must be decoded."""

Box = tuple[int, int]
"""The most columns and rows that a small picture may have."""

_RAW = 1  # as in ImageSpans.modes
_SHORTEST = 8  # sides of an array that looks like a picture
_FINER = 4  # an array is thinned out to so many times the wanted sides before it is averaged
_MAX_SIDE = 1 << 14


class NotShownError(ImageError):
    """There is nothing to show, and nothing is damaged: a picture has too many pixels, or a value is no picture."""


class SmallPicture(NamedTuple):
    """Pixels that fit into a box, height x width x 3, or x 4 with alpha; and the sides that the original has."""

    pixels: npt.NDArray[np.uint8]
    width: int
    height: int


def small_file(data: bytes, box: Box) -> SmallPicture:
    """A picture file of any kind, made small.

    Raises:
        NotShownError: it has too many pixels.
        ImageError: it cannot be decoded.
    """
    _check_box(box)
    found = image_codec.find_native(data)
    if found is not None:
        base, zero = np.frombuffer(data, np.uint8), np.zeros(1, np.uint64)
        sides = (np.array([found.width], np.uint32), np.array([found.height], np.uint32))
        mode, size = np.array([found.mode], np.uint8), np.array([len(data)], np.uint64)
        return small_span(ImageSpans(base, zero, size, mode, *sides), 0, box)
    shape = png.deep_shape(data) if png.is_native() else None
    if shape is not None:
        _check_pixels(shape[1], shape[0])
        return small_array(image_codec.decode_deep(data), box)
    return _small_by_pillow(data, box)


def small_span(spans: ImageSpans, position: int, box: Box, native: _native.ImageLoader | None = None) -> SmallPicture:
    """One of many stored pictures, made small.

    Args:
        spans: where their bytes are.
        position: which of them.
        box: see :data:`Box`.
        native: what decodes; a loader that is used for many of them keeps its memory.

    Raises:
        NotShownError: it has too many pixels.
        ImageError: it cannot be decoded, or its checksum is wrong.
    """
    _check_box(box)
    one = _only(spans, position)
    width, height = int(one.widths[0]), int(one.heights[0])
    _check_pixels(width, height)
    columns, rows = _fit(width, height, box)
    out = np.empty((1, rows, columns, 3), np.uint8)
    options = _native.LoadOptions(reduced=True, fast=True)
    try:
        report = (native or _native.ImageLoader(1)).load(one, None, None, out, options)
    except _native.NativeError as error:
        raise ImageError(error.detail) from None
    if not report.failures:
        return SmallPicture(out[0], width, height)
    (failure,) = report.failures
    if failure.code == "unsupported" and int(one.modes[0]) != _RAW:  # it is transparent somewhere
        return _small_by_pillow(_bytes_of(one), box)
    raise ImageError(failure.detail)


def _only(spans: ImageSpans, position: int) -> ImageSpans:
    here = slice(position, position + 1)
    cut = {name: getattr(spans, name)[here] for name in ("offsets", "sizes", "modes", "widths", "heights")}
    checksums = None if spans.checksums is None else spans.checksums[here]
    return dataclasses.replace(spans, **cut, checksums=checksums, tile_indices=None)


def _bytes_of(one: ImageSpans) -> bytes:
    start, size = int(one.offsets[0]), int(one.sizes[0])
    return one.base[start : start + size].tobytes()


def _small_by_pillow(data: bytes, box: Box) -> SmallPicture:
    from PIL import Image

    with image_codec.open_picture(data) as picture:
        width, height = picture.size
        _check_pixels(width, height)
        if picture.mode.startswith(("I", "F")):
            return small_array(np.asarray(picture), box)
        picture.draft("RGB", _fit(width, height, box))  # a JPEG of another kind is decoded at a fraction, too
        plain = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
        if plain.size != _fit(width, height, box):
            plain = plain.resize(_fit(width, height, box), Image.Resampling.BOX, reducing_gap=2.0)
        return SmallPicture(_pixels_of(plain), width, height)


def _pixels_of(picture: PillowImage) -> npt.NDArray[np.uint8]:
    pixels = np.asarray(picture)
    is_opaque = pixels.shape[2] == 4 and bool((pixels[:, :, 3] == 255).all())
    return np.ascontiguousarray(pixels[:, :, :3]) if is_opaque else pixels


def looks_like_picture(shape: tuple[int, ...]) -> bool:
    """An array of this shape may be a picture: grey, RGB or RGBA, its channels last or first.

    Example:
        >>> looks_like_picture((28, 28)), looks_like_picture((3, 32, 32)), looks_like_picture((100, 4))
        (True, True, False)
    """
    return len(shape) in (2, 3) and _sides(shape) is not None


def _sides(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Height and width; None where it is no picture."""
    if len(shape) == 3 and shape[2] in (1, 3, 4):
        height, width = shape[:2]
    elif len(shape) == 3 and shape[0] in (1, 3, 4):
        height, width = shape[1:]
    elif len(shape) == 2:
        height, width = shape
    else:
        return None
    return (height, width) if min(height, width) >= _SHORTEST else None


def small_array(array: npt.NDArray[Any], box: Box) -> SmallPicture:
    """An array that looks like a picture, made small; what is not uint8 is stretched from its least to its most.

    Example:
        >>> small_array(np.arange(600).reshape(20, 30), (15, 15)).pixels.shape
        (10, 15, 3)
    """
    _check_box(box)
    sides = _sides(array.shape) if array.ndim in (2, 3) else None
    if sides is None or array.dtype.kind not in "biuf":
        raise NotShownError(f"an array of {array.dtype} and shape {array.shape} does not look like a picture")
    height, width = sides
    _check_pixels(width, height)
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    columns, rows = _fit(width, height, box)
    thin = array[:: max(1, height // (_FINER * rows)), :: max(1, width // (_FINER * columns))]
    pixels = _levels(thin)
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return SmallPicture(_averaged(pixels, columns, rows), width, height)


def _levels(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "b":
        return array.astype(np.uint8) * np.uint8(255)
    values = array.astype(np.float64)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        share = (values / 2 - low / 2) / max(high / 2 - low / 2, np.finfo(np.float64).tiny)  # halves do not overflow
    return (np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _averaged(pixels: npt.NDArray[np.uint8], columns: int, rows: int) -> npt.NDArray[np.uint8]:
    pixels = np.ascontiguousarray(pixels)
    if pixels.shape[:2] == (rows, columns):
        return pixels
    if pixels.shape[2] == 3:
        out = np.empty((rows, columns, 3), np.uint8)
        _native.resize_area(pixels, out)
        return out
    from PIL import Image

    return np.asarray(Image.fromarray(pixels, "RGBA").resize((columns, rows), Image.Resampling.BOX))


def _fit(width: int, height: int, box: Box) -> tuple[int, int]:
    """Columns and rows in the proportion of the sides, no more than the box has, and never more than there are."""
    scale = min(box[0] / width, box[1] / height, 1.0)
    return max(1, min(width, round(width * scale))), max(1, min(height, round(height * scale)))


def _check_box(box: Box) -> None:
    if not all(1 <= side <= _MAX_SIDE for side in box):
        raise ValueError(f"sides of a small picture must be 1 to {_MAX_SIDE}, got {box[0]} x {box[1]}")


def _check_pixels(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise NotShownError(f"the picture has {width} x {height} pixels, and at most {MAX_PIXELS} are made small")
    if width * height == 0:
        raise ImageError(f"the picture is empty: {width} x {height} pixels")
