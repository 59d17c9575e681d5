"""Samples of a dataset as tiles to look at, read one by one and described in a few words each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.fields import NDArray
from headrace.formats.gallery import MAX_TILES, Gallery, Tile, present
from headrace.formats.thumbnails import picture_fields, small_pictures
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.types import Dataset, Field

__all__ = ["brief_value", "check_size", "dataset_html", "show_samples"]

_FAILURES = (HeadraceError, OSError, ValueError, LookupError, MemoryError, RecursionError)
_SHOWN_CLASSES = 5
_HEAD_BYTES = 240  # of a text
_FEW_NUMBERS = 8
_MOST_CAPTIONS = 5
_SIDES = (16, 512)
_REPR_SAMPLES, _REPR_SIDE, _REPR_TIME_S = 8, 72, 0.25  # of a dataset at the end of a cell


def check_size(count: int, side: int) -> None:
    """ValueError for a number of tiles or a side that makes no sense."""
    if not 1 <= count <= MAX_TILES:
        raise ValueError(f"count must be 1 to {MAX_TILES}, got {count}")
    if not _SIDES[0] <= side <= _SIDES[1]:
        raise ValueError(f"side must be {_SIDES[0]} to {_SIDES[1]}, got {side}")


def show_samples(dataset: Dataset, samples: Sequence[int] | None, *, count: int, side: int) -> Gallery | None:
    """What ``dataset.show`` does; without samples some from all over the dataset."""
    check_size(count, side)
    indices = _spread(len(dataset), count) if samples is None else samples
    left_out = len(indices) - count
    note = f"{format_count(left_out, 'sample')} more; count= says how many are shown" if left_out > 0 else ""
    return present(_gallery(dataset, indices[:count], side=side, note=note))


def dataset_html(dataset: Dataset) -> str:
    """A few samples and the schema, for notebooks; what must be fetched is left to ``show``."""
    try:
        indices = range(min(len(dataset), _REPR_SAMPLES)) if dataset.is_local else range(0)
        note = "" if dataset.is_local else "show() brings samples from the store"
        shown = _gallery(dataset, indices, side=_REPR_SIDE, time_s=_REPR_TIME_S, note=note)
    except _FAILURES as error:  # such as a dataset that was closed
        shown = Gallery(title=type(dataset).__name__, facts=str(error), fields=())
    return shown._repr_html_()


def _spread(length: int, count: int) -> Sequence[int]:
    """So many samples from all over a dataset, the first one among them."""
    if length <= count:
        return range(length)
    return [number * length // count for number in range(count)]


def _gallery(
    dataset: Dataset, indices: Sequence[int], *, side: int, time_s: float | None = None, note: str = ""
) -> Gallery:
    """The schema and some samples, of which no more are read after so many seconds."""
    end_s = None if time_s is None else time.monotonic() + time_s
    tiles = []
    for tile in _tiles(dataset, indices, side):
        tiles.append(tile)
        if end_s is not None and time.monotonic() > end_s:
            break
    if len(tiles) < len(indices) and not note:
        note = f"{format_count(len(indices) - len(tiles), 'sample')} left out: reading them takes long"
    return Gallery(
        title=f"{type(dataset).__name__} {dataset.path}",
        facts=format_count(len(dataset), "sample"),
        fields=[(name, _field_words(dataset, name, field)) for name, field in dataset.schema.items()],
        tiles=tiles,
        note=note,
        side=side,
    )


def _field_words(dataset: Dataset, name: str, field: Field) -> str:
    words = field.kind
    if isinstance(field, NDArray):
        words += f", {field.dtype}, {' x '.join(map(str, field.shape))}"
    classes = dataset.class_names.get(name)
    if classes:
        more = ", …" if len(classes) > _SHOWN_CLASSES else ""
        shown = ", ".join(str(one)[:_HEAD_BYTES] for one in classes[:_SHOWN_CLASSES])
        words += f", {format_count(len(classes), 'class')}: {shown}{more}"
    return words


def _tiles(dataset: Dataset, indices: Sequence[int], side: int) -> Iterator[Tile]:
    if not len(indices):
        return  # nothing is read, not even to find pictures among bytes
    shown = next(iter(picture_fields(dataset)), None)
    pictures = _none(len(indices)) if shown is None else small_pictures(dataset, indices, shown, (side, side))
    for index, picture in zip(indices, pictures, strict=True):
        captions = list(_captions(dataset, index, shown))
        if isinstance(picture, Exception):
            problem = str(picture).removeprefix(f"{dataset.path}: ")
            yield Tile(captions=captions, problem=problem or type(picture).__name__)
        else:
            yield Tile(captions=captions, picture=picture)


def _none(count: int) -> Iterator[None]:
    yield from [None] * count


def _captions(dataset: Dataset, index: int, left_out: str | None) -> Iterator[str]:
    keys = dataset.keys
    yield f"{index:,}"
    if keys is not None:
        yield keys[index]
    names = [name for name in dataset.schema if name != left_out]
    for name in names[: _MOST_CAPTIONS - 1]:
        yield f"{name}: {_brief(dataset, index, name)}"
    if len(names) >= _MOST_CAPTIONS:
        yield f"and {format_count(len(names) - _MOST_CAPTIONS + 1, 'field')} more"


def _brief(dataset: Dataset, index: int, name: str) -> str:
    """One value in a few words; what may be large is not decoded."""
    field = dataset.schema[name]
    try:
        if field.kind in ("int", "float") or (isinstance(field, NDArray) and np.prod(field.shape) <= _FEW_NUMBERS):
            value = dataset.read_values(np.array([index], np.int64), name)[0]
            return brief_value(value, dataset.class_names.get(name))
        if isinstance(field, NDArray):
            return f"{field.dtype}, {' x '.join(map(str, field.shape))}"
        return brief_value(dataset.read_bytes([index], name)[0], None)
    except _FAILURES as error:
        return f"cannot be read: {error}"


def brief_value(value: Any, classes: Sequence[str] | None) -> str:
    """A value in a few words.

    Example:
        >>> brief_value(1, ["cat", "dog"]), brief_value(bytes(2), None), brief_value(b"hi", None)
        ('1 (dog)', '2 B', 'hi')
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return _brief_bytes(bytes(value[: _HEAD_BYTES + 1]), len(value))
    if isinstance(value, np.ndarray) and value.size > _FEW_NUMBERS:
        return f"{value.dtype}, {' x '.join(map(str, value.shape))}"
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, int | np.integer) and classes is not None and 0 <= value < len(classes):
        return f"{value} ({str(classes[int(value)])[:_HEAD_BYTES]})"
    return str(value)[:_HEAD_BYTES] if isinstance(value, str) else repr(value)[:_HEAD_BYTES]


def _brief_bytes(head: bytes, size: int) -> str:
    try:
        text = head.decode() if size <= _HEAD_BYTES else head[:-4].decode(errors="ignore")
    except UnicodeDecodeError:
        return format_bytes(size)
    is_text = "\0" not in text and (size <= _HEAD_BYTES or len(text) > _HEAD_BYTES // 8)
    return text if is_text and all(char.isprintable() or char in "\n\r\t" for char in text) else format_bytes(size)
