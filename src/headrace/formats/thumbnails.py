"""Thumbnails of the pictures of a dataset, for notebooks, pages and terminals, decoded at a fraction of their size.

Pictures are those of image fields, arrays that look like pictures, and bytes that begin as a picture file does.
"""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from headrace._native import ImageLoader
from headrace.arrays import distinct
from headrace.codecs import jpeg
from headrace.codecs.small_picture import (
    NotShownError,
    SmallPicture,
    looks_like_picture,
    small_array,
    small_file,
    small_span,
)
from headrace.errors import CorruptSampleError, HeadraceError, ImageError
from headrace.formats.guesses import is_picture
from headrace.progress import format_count
from headrace.types import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from headrace.codecs.small_picture import Box
    from headrace.types import Dataset, IndexArray

__all__ = [
    "Thumbnail",
    "encode_thumbnail",
    "picture_fields",
    "small_picture",
    "small_pictures",
    "thumbnail",
    "thumbnails",
]

_QUALITY = 80
_EXACT_PIXELS = 128 * 128  # a picture of at most so many that was not shrunk is kept to the last bit
_AT_A_TIME = 32
_LOOKED_AT, _MOST_LOOKED_AT_BYTES = 3, 64 << 20
_FAILURES = (HeadraceError, OSError, ValueError, MemoryError)
_Stored: TypeAlias = "Callable[[Box], SmallPicture]"


class Thumbnail(NamedTuple):
    """A small JPEG or PNG, and the sides that the original has."""

    data: bytes
    width: int
    height: int
    media_type: str


def picture_fields(dataset: Dataset) -> list[str]:
    """Names of the fields that have pictures: image fields, arrays of such a shape, then bytes that begin as files do.

    The schema says nothing about bytes, so a few values of such fields are read.
    """
    schema = dataset.schema
    pictures = [name for name, field in schema.items() if field.kind == "image"]
    pictures += [name for name, field in schema.items() if looks_like_picture(getattr(field, "shape", ()))]
    return pictures + [name for name, field in schema.items() if field.kind == "bytes" and _has_files(dataset, name)]


def _has_files(dataset: Dataset, field: str) -> bool:
    """One of a few values begins as a picture does."""
    places = distinct(np.arange(_LOOKED_AT) * len(dataset) // _LOOKED_AT)[: len(dataset)]
    for index in places.tolist():
        with contextlib.suppress(*_FAILURES):  # such as a damaged one
            where = np.array([index], np.int64)
            if _is_short(dataset, where, field) and is_picture(dataset.read_bytes(where, field)[0]):
                return True
    return False


def _is_short(dataset: Dataset, where: IndexArray, field: str) -> bool:
    """Nothing is known to be so large that it should not be read to look at its first bytes."""
    known = dataset.measure(where, field) if isinstance(dataset, Measured) else None
    return known is None or int(known.sizes[0]) <= _MOST_LOOKED_AT_BYTES


def thumbnail(dataset: Dataset, index: int, field: str, side: int) -> Thumbnail:
    """A picture of a sample whose sides are at most ``side`` pixels; one that is smaller keeps its size.

    Raises:
        NotShownError: it has too many pixels, or it is no picture.
        ImageError: it cannot be decoded.
        CorruptSampleError: the sample cannot be read.

    Example:
        >>> import headrace, tempfile
        >>> path = tempfile.mkdtemp() + "/x.beton"
        >>> headrace.write(path, [np.zeros((300, 400, 3), np.uint8)], fields={"image": headrace.Image()})
        >>> small = thumbnail(headrace.open(path), 0, "image", 160)
        >>> small.media_type, small.width, small.height
        ('image/jpeg', 400, 300)
    """
    return encode_thumbnail(small_picture(dataset, index, field, (side, side)))


def thumbnails(dataset: Dataset, indices: Sequence[int], field: str, side: int) -> Iterator[Thumbnail | Exception]:
    """Many of them, read together; in place of one that cannot be made comes the error."""
    for small in small_pictures(dataset, indices, field, (side, side)):
        yield small if isinstance(small, Exception) else encode_thumbnail(small)


def small_picture(dataset: Dataset, index: int, field: str, box: Box) -> SmallPicture:
    """The pixels of a picture, made small enough for a box of columns and rows; see :func:`thumbnail`."""
    where = _checked(dataset, [index], field)
    with _brought(dataset, where, field):
        (stored,) = _stored(dataset, where, field)
        return _made(dataset, index, field, partial(stored, box))


def small_pictures(
    dataset: Dataset, indices: Sequence[int], field: str, box: Box
) -> Iterator[SmallPicture | Exception]:
    """Many of them, read together; in place of one that cannot be made comes the error."""
    for start in range(0, len(indices), _AT_A_TIME):
        where = _checked(dataset, indices[start : start + _AT_A_TIME], field)
        with _brought(dataset, where, field):
            yield from _pictures_of(dataset, where, field, box)


def encode_thumbnail(small: SmallPicture) -> Thumbnail:
    """A small picture as JPEG; as PNG where it is transparent, or tiny and not shrunk, so that its pixels are exact."""
    rows, columns, channels = small.pixels.shape
    is_exact = (columns, rows) == (small.width, small.height) and rows * columns <= _EXACT_PIXELS
    if channels == 3 and not is_exact:
        return Thumbnail(jpeg.encode(small.pixels, quality=_QUALITY), small.width, small.height, "image/jpeg")
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(small.pixels).save(out, "PNG", compress_level=3)
    return Thumbnail(out.getvalue(), small.width, small.height, "image/png")


def _pictures_of(dataset: Dataset, where: IndexArray, field: str, box: Box) -> Iterator[SmallPicture | Exception]:
    try:
        stored = _stored(dataset, where, field)
    except _FAILURES:  # of one of them; the others may be fine
        stored = [partial(small_picture, dataset, index, field) for index in where.tolist()]
    for index, one in zip(where.tolist(), stored, strict=True):
        try:
            yield _made(dataset, index, field, partial(one, box))
        except _FAILURES as error:
            yield error


def _made(dataset: Dataset, index: int, field: str, make: Callable[[], SmallPicture]) -> SmallPicture:
    try:
        return make()
    except ImageError as error:
        place = f"{dataset.path}: sample {index}, field {field!r}: "
        raise type(error)(f"{place}{str(error).removeprefix(place)}") from error


def _checked(dataset: Dataset, indices: Sequence[int], field: str) -> IndexArray:
    if field not in dataset.schema:
        raise ValueError(f"{dataset.path} has no field {field!r}; its fields are {', '.join(dataset.schema)}")
    for index in indices:
        if not 0 <= index < len(dataset):
            raise IndexError(f"sample {index} is out of range, the dataset has {len(dataset):,}")
    return np.fromiter(indices, np.int64, len(indices))


@contextlib.contextmanager
def _brought(dataset: Dataset, where: IndexArray, field: str) -> Iterator[None]:
    """What must be fetched is fetched for all of them at the same time."""
    announced = None if dataset.is_local else dataset.announce(where, [field])
    try:
        yield
    finally:
        if announced is not None:
            announced.close()


def _stored(dataset: Dataset, where: IndexArray, field: str) -> list[_Stored]:
    kind = dataset.schema[field].kind
    if kind == "image":
        return _stored_pictures(dataset, where, field)
    if kind == "bytes":
        return [partial(_small_bytes, data) for data in dataset.read_bytes(where, field)]
    return [partial(_small_value, value) for value in dataset.read_values(where, field)]


def _stored_pictures(dataset: Dataset, where: IndexArray, field: str) -> list[_Stored]:
    if getattr(dataset, "holds_picture_files", False):
        return [partial(small_file, data) for data in dataset.read_bytes(where, field)]
    try:
        spans, native = dataset.image_spans(where, field), ImageLoader(1)
    except (CorruptSampleError, ImageError):
        files = dataset.read_bytes(where, field)  # one may be of a kind that becomes no RGB without guessing
        if not all(map(is_picture, files)):
            raise
        return [partial(small_file, data) for data in files]
    return [partial(small_span, spans, position, native=native) for position in range(len(where))]


def _small_bytes(data: bytes, box: Box) -> SmallPicture:
    if not is_picture(data):
        raise NotShownError(f"what is stored ({format_count(len(data), 'byte')}) does not begin as a picture does")
    return small_file(data, box)


def _small_value(value: Any, box: Box) -> SmallPicture:
    if isinstance(value, bytes):
        return _small_bytes(value, box)
    if not isinstance(value, np.ndarray):
        raise NotShownError(f"a value of type {type(value).__name__} is no picture")
    array: npt.NDArray[Any] = value
    return small_array(array, box)
