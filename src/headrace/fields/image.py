"""Image: RGB pictures, stored as JPEG or as raw pixels."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs import image as image_codec
from headrace.codecs import jpeg
from headrace.errors import ImageError
from headrace.progress import format_count
from headrace.storage import open_stream
from headrace.types import Encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import Facts

__all__ = ["JPG", "RAW", "Image"]

JPG = 0
RAW = 1
_MAX_SIDE = 65_535
_NEVER = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A picture of any size; it is read back as uint8 RGB, height x width x 3.

    A value is an array (height x width x 3, or grey), a Pillow image, the bytes of an image file, or a path to
    one. A JPEG given as bytes or path that needs no shrinking is stored as it is, byte for byte.

    Args:
        mode: ``"jpg"``; ``"raw"`` pixels, which load fastest and take ten times the space; ``"smart"``: jpg for
            pictures whose raw size is above ``smart_threshold`` bytes, raw below; ``"proportion"``: jpg for
            the share ``compress_probability`` of all samples, drawn by sample index.
        max_side: shrink pictures whose longer side is longer than this (area averaging); never enlarge.
        quality: 1 to 100, for pictures that have to be encoded.
        smart_threshold: see mode; without it ``"smart"`` stores raw, as in FFCV.
        compress_probability: see mode.
        background: colour behind transparent pictures; without it they are refused.

    Example:
        >>> Image(mode="raw").encode(np.zeros((2, 4, 3), np.uint8), 0).facts
        (1, 4, 2)
    """

    mode: Literal["jpg", "raw", "smart", "proportion"] = "jpg"
    max_side: int | None = None
    quality: int = 90
    smart_threshold: int | None = None
    compress_probability: float = 0.5
    background: tuple[int, int, int] | None = None

    kind: ClassVar[str] = "image"
    has_payload: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.mode not in ("jpg", "raw", "smart", "proportion"):
            raise ValueError(f"mode must be 'jpg', 'raw', 'smart' or 'proportion', got {self.mode!r}")
        if self.max_side is not None and not 1 <= self.max_side <= _MAX_SIDE:
            raise ValueError(f"max_side must be 1 to {_MAX_SIDE}, got {self.max_side}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality must be 1 to 100, got {self.quality}")
        if not 0 <= self.compress_probability <= 1:
            raise ValueError(f"compress_probability must be 0 to 1, got {self.compress_probability}")
        if self.background is not None:
            object.__setattr__(self, "background", _checked_color(self.background))

    def max_size_bytes(self) -> int | None:
        """Raw pictures are bounded by ``max_side``; JPEG is not bounded in theory."""
        return self.max_side**2 * 3 if self.mode == "raw" and self.max_side is not None else None

    def encode(self, value: Any, index: int) -> Encoded:
        """Store a picture; facts are (mode, width, height)."""
        data = _file_bytes(value)
        if data is not None and jpeg.is_jpeg(data):
            return self._encode_jpeg_file(data, index)
        return self._encode_pixels(self._pixels(value, data), index)

    def encode_files(self, values: Sequence[Any], indices: Sequence[int]) -> list[Encoded | None]:
        """Store many image files, given as bytes or paths, by one native call with the GIL released.

        None stands for what this fast way cannot do (not a JPEG, CMYK, broken, no such file): ``encode`` those.
        """
        jpg_above = np.fromiter(map(self._jpg_above, indices), np.uint64, len(indices))
        stored = _native.store_jpegs(list(values), self.max_side or 0, self.quality, jpg_above)
        return [None if s is None else Encoded((JPG if s[0] else RAW, s[1], s[2]), s[3]) for s in stored]

    def sides_of_files(
        self,
        base: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.uint64],
        sizes: npt.NDArray[np.uint64],
        *,
        first_index: int,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]] | None:
        """Widths and heights of image files in memory; None unless each of them is a JPEG that is stored as it is."""
        if self.mode != "jpg" or (sizes < 2).any():
            return None
        modes, widths, heights = _native.picture_headers(base, offsets, sizes, jpeg.MAX_PIXELS)
        ends = offsets + sizes
        is_stored = (modes == JPG) & (widths > 0) & (base[ends - 2] == 0xFF) & (base[ends - 1] == 0xD9)
        is_stored &= widths.astype(np.uint64) * heights <= jpeg.MAX_PIXELS
        if self.max_side is not None:
            is_stored &= np.maximum(widths, heights) <= self.max_side
        return (widths, heights) if is_stored.all() else None

    def _pixels(self, value: Any, data: bytes | None) -> npt.NDArray[np.uint8]:
        if data is not None:
            return image_codec.decode(data, background=self.background)
        if isinstance(value, np.ndarray):
            return image_codec.array_to_rgb(value, background=self.background)
        if hasattr(value, "convert") and hasattr(value, "mode"):
            return image_codec.pillow_to_rgb(value, background=self.background)
        raise TypeError(
            "an Image field takes an array, a Pillow image, the bytes of an image file or a path, "
            f"got {type(value).__name__}"
        )

    def _encode_jpeg_file(self, data: bytes, index: int) -> Encoded:
        info = jpeg.read_info(data)
        jpeg.refuse_rare(info)
        if not jpeg.has_rgb(info):
            return self._encode_pixels(image_codec.decode(data, background=self.background), index)
        width, height = self.stored_size(info.width, info.height)
        if (width, height) != (info.width, info.height) or not self._wants_jpg(width * height * 3, index):
            return self._encode_pixels(jpeg.decode(data), index)
        _check_pixels(width, height)
        if not data.endswith(b"\xff\xd9"):
            jpeg.decode(data)  # no end marker: cut short, or only followed by padding? decoding tells
        return Encoded((JPG, width, height), data)

    def _encode_pixels(self, pixels: npt.NDArray[np.uint8], index: int) -> Encoded:
        height, width = pixels.shape[:2]
        new_width, new_height = self.stored_size(width, height)
        if (new_width, new_height) != (width, height):
            small = np.empty((new_height, new_width, 3), np.uint8)
            _native.resize_area(np.ascontiguousarray(pixels), small)
            pixels = small
        if max(new_width, new_height) > _MAX_SIDE:
            raise ImageError(
                f"a side of {max(new_width, new_height)} pixels is too long, the format ends at {_MAX_SIDE}; "
                "set max_side"
            )
        if self._wants_jpg(pixels.size, index):
            _check_pixels(new_width, new_height)
            return Encoded((JPG, new_width, new_height), jpeg.encode(pixels, quality=self.quality))
        return Encoded((RAW, new_width, new_height), pixels.tobytes())

    def stored_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height after ``max_side``, rounded down as FFCV does, but never to nothing."""
        if self.max_side is None or max(width, height) <= self.max_side:
            return width, height
        ratio = self.max_side / max(width, height)
        return max(1, int(ratio * width)), max(1, int(ratio * height))

    def _wants_jpg(self, raw_size_bytes: int, index: int) -> bool:
        return raw_size_bytes > self._jpg_above(index)

    def _jpg_above(self, index: int) -> int:
        """The raw size in bytes above which this sample is stored as JPEG."""
        if self.mode == "smart":
            return _NEVER if self.smart_threshold is None else self.smart_threshold
        if self.mode == "proportion":
            return 0 if _uniform(index) < self.compress_probability else _NEVER
        return 0 if self.mode == "jpg" else _NEVER

    def decode(self, facts: Facts, payload: memoryview) -> npt.NDArray[np.uint8]:
        """Give RGB pixels that own their memory."""
        mode, width, height = (int(fact) for fact in facts)
        if mode == RAW:
            return np.frombuffer(payload, np.uint8).reshape(height, width, 3).copy()
        _check_pixels(width, height)
        out = np.empty((height, width, 3), np.uint8)
        try:
            _native.decode_jpeg(payload, out, False)
        except _native.NativeError as error:
            raise ImageError(f"JPEG of {format_count(len(payload), 'byte')}: {error.detail}") from None
        return out

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Give raw pixels their shape, without a copy."""
        mode, width, height = (int(fact) for fact in facts)
        if mode != RAW:
            raise ValueError("this picture is stored as JPEG, there are no pixels to look at; read dataset[i]")
        return payload.reshape(height, width, 3)


def _check_pixels(width: int, height: int) -> None:
    # What is written must be readable: both sides have the same limit.
    if width * height > jpeg.MAX_PIXELS:
        raise ImageError(f"a JPEG of {width}x{height} has more than {jpeg.MAX_PIXELS} pixels, the most that is decoded")


def _checked_color(color: Any) -> tuple[int, int, int]:
    try:
        red, green, blue = (operator.index(level) for level in color)
    except (TypeError, ValueError):
        raise ValueError(f"background must be three integers, got {color!r}") from None
    if not all(0 <= level <= 255 for level in (red, green, blue)):
        raise ValueError(f"background must have levels from 0 to 255, got {color!r}")
    return red, green, blue


def _file_bytes(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str | os.PathLike):
        with open_stream(value, buffering=0) as file:
            return file.read()
    return None


def _uniform(index: int) -> float:
    # A number in [0, 1) that depends on the index alone: the same file whatever the number of workers.
    word = (index + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    word = (word ^ word >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return float((word ^ word >> 31) >> 11) / float(1 << 53)
