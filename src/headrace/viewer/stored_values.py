"""Values of a sample as they are stored: read with their checksums, and in spite of them; as files for a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from headrace.codecs import image as image_codec
from headrace.codecs import jpeg
from headrace.codecs.small_picture import NotShownError
from headrace.errors import HeadraceError, ImageError
from headrace.formats.guesses import is_picture
from headrace.progress import format_bytes
from headrace.types import Placed
from headrace.viewer.answers import message_of
from headrace.viewer.arrays import encode_png, to_picture
from headrace.viewer.picture_store import PictureFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    import numpy.typing as npt

    from headrace.types import Dataset, Place
    from headrace.viewer.shelf import Shown

__all__ = [
    "FAILURES",
    "MOST_PIXELS",
    "MOST_VALUE_BYTES",
    "Stored",
    "can_show",
    "file_kind",
    "find_place",
    "picture_file",
    "read_stored",
    "refuse_large",
]

FAILURES = (HeadraceError, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError)
"""What reading a value of a hostile file may raise."""
MOST_PIXELS = 1 << 26
"""A browser takes four bytes for each."""
MOST_VALUE_BYTES = 256 << 20

T = TypeVar("T")
_KINDS = (
    (b"\xff\xd8\xff", "JPEG", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "PNG", "image/png"),
    (b"GIF8", "GIF", ""),
    (b"BM", "BMP", ""),
    (b"II*\0", "TIFF", ""),
    (b"MM\0*", "TIFF", ""),
)
_WHITE = (255, 255, 255)
_ANY_SIDE = 1 << 30


class Stored(NamedTuple, Generic[T]):
    """A value, what its checksum says (``none``: there is no checksum), and what is wrong with it."""

    value: T | None
    checksum: Literal["right", "wrong", "none", "unknown"]
    error: str | None


def read_stored(item: Shown, read: Callable[[Dataset], T]) -> Stored[T]:
    """Read with checksums compared; what does not match is read without, so that it can be looked at."""
    dataset = item.dataset
    if not dataset.has_checksums:
        try:
            return Stored(read(dataset), "none", None)
        except FAILURES as error:
            return Stored(None, "none", message_of(error))
    try:
        return Stored(read(item.once("checked", lambda: dataset.with_checksums(True))), "right", None)
    except FAILURES as error:
        problem = message_of(error)
    try:
        return Stored(read(item.once("unchecked", lambda: dataset.with_checksums(False))), "wrong", problem)
    except FAILURES:
        return Stored(None, "unknown", problem)


def find_place(dataset: Dataset, index: int, field: str) -> Place | None:
    """Where a value lies, where that is known."""
    return dataset.place_of(index, field) if isinstance(dataset, Placed) else None


def refuse_large(place: Place | None, most_bytes: int = MOST_VALUE_BYTES) -> None:
    """NotShownError for a value that is not read, because it would fill the memory."""
    if place is not None and place.size_bytes > most_bytes:
        size, most = format_bytes(place.size_bytes), format_bytes(most_bytes)
        raise NotShownError(f"the value has {size}, and at most {most} are read to be shown")


def file_kind(data: bytes) -> tuple[str, str] | None:
    """The kind of a picture file and its media type, which is empty where browsers get it as PNG; None for others."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP", "image/webp"
    found = next(((name, media) for start, name, media in _KINDS if data.startswith(start)), None)
    return found if found is not None and is_picture(data) else None


def picture_file(item: Shown, index: int, field: str) -> PictureFile:
    """A value as a picture at its full size: as it is stored where a browser shows that, else as PNG.

    Raises:
        NotShownError: it is larger than what is shown.
        ImageError: it cannot be decoded.
        ValueError: it is no picture.
    """
    refuse_large(find_place(item.dataset, index, field))
    kind, where = item.dataset.schema[field].kind, np.array([index], np.int64)
    if kind in ("image", "bytes"):
        data = _needed(read_stored(item, lambda dataset: dataset.read_bytes(where, field)[0]))
        if file_kind(data) is not None:
            return _shown_file(data)
        if kind == "bytes":
            raise ValueError(f"the bytes of field {field!r} do not begin as those of a picture do")
    value = _needed(read_stored(item, lambda dataset: dataset.read_values(where, field)[0]))
    if not isinstance(value, np.ndarray):
        raise ValueError(f"field {field!r} has no pictures")
    return _shown_array(value)


def _shown_array(array: npt.NDArray[Any]) -> PictureFile:
    if array.size > 4 * MOST_PIXELS:
        raise NotShownError(
            f"an array of {' x '.join(map(str, array.shape))} values is too large to be shown as a picture"
        )
    return PictureFile(encode_png(to_picture(array, most_side=_ANY_SIDE).pixels), "image/png")


def _needed(stored: Stored[Any]) -> Any:
    if stored.value is None:
        raise ValueError(stored.error or "there is no value")
    return stored.value


def can_show(data: bytes) -> bool:
    """``picture_file`` has an answer for this picture file, as far as its header says."""
    try:
        _shown_file(data)
    except FAILURES:
        return False
    return True


def _shown_file(data: bytes) -> PictureFile:
    found = image_codec.find_native(data)
    kind = file_kind(data)
    if found is not None and kind is not None and kind[1]:
        _check_pixels(found.width, found.height)
        return PictureFile(data, kind[1])
    if jpeg.is_jpeg(data):
        info = jpeg.read_info(data)
        _check_pixels(info.width, info.height)
    try:
        pixels = image_codec.decode(data, background=_WHITE)
    except ImageError as error:
        try:
            return _shown_array(image_codec.decode_deep(data))
        except ImageError:
            raise error from None
    return _shown_array(pixels)


def _check_pixels(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise NotShownError(f"the picture has {width:,} x {height:,} pixels, and at most {MOST_PIXELS:,} are shown")
