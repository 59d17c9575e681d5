"""Values of samples in a few words, for the tiles of a grid; one that is damaged leaves the others as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.fields import NDArray
from headrace.formats.sample_tiles import brief_value
from headrace.progress import format_bytes
from headrace.types import Measured
from headrace.viewer.answers import shown_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace.types import Dataset, IndexArray

__all__ = ["read_tolerant", "short_values"]

_MOST_FIELDS = 8
_MOST_TEXT = 120
_MOST_BYTES = 64 << 10  # a longer value is not read for a few words
_FEW_NUMBERS = 8


def read_tolerant(read: Callable[[IndexArray], list[Any] | npt.NDArray[Any]], indices: IndexArray) -> list[Any]:
    """What is read of samples, with None for those that cannot be read: halves are read until they are alone."""
    if not len(indices):
        return []
    try:
        return list(read(indices))
    except (HeadraceError, ValueError, RecursionError):
        if len(indices) == 1:
            return [None]
    middle = len(indices) // 2
    return read_tolerant(read, indices[:middle]) + read_tolerant(read, indices[middle:])


def short_values(dataset: Dataset, indices: IndexArray) -> list[dict[str, str]]:
    """The first fields of samples in a few words each; a field that cannot be read is left out."""
    rows: list[dict[str, str]] = [{} for _ in range(len(indices))]
    for name in list(dataset.schema)[:_MOST_FIELDS]:
        for row, words in zip(rows, _column(dataset, indices, name), strict=True):
            if words is not None:
                row[shown_text(name, _MOST_TEXT)] = shown_text(words, _MOST_TEXT)
    return rows


def _column(dataset: Dataset, indices: IndexArray, name: str) -> list[str | None]:
    field = dataset.schema[name]
    if isinstance(field, NDArray) and np.prod(field.shape) > _FEW_NUMBERS:
        return [f"{field.dtype}, {' x '.join(map(str, field.shape))}"] * len(indices)
    if field.has_payload:
        return _payloads(dataset, indices, name)
    classes = dataset.class_names.get(name)
    values = read_tolerant(lambda some: dataset.read_values(some, name), indices)
    return [None if value is None else brief_value(value, classes) for value in values]


def _payloads(dataset: Dataset, indices: IndexArray, name: str) -> list[str | None]:
    """Texts, JSON and bytes as they are stored; of what is long the size alone."""
    sizes = _sizes(dataset, indices, name)
    words: list[str | None] = [None if size is None else format_bytes(size) for size in sizes]
    short = [place for place, size in enumerate(sizes) if size is None or size <= _MOST_BYTES]
    is_json = dataset.schema[name].kind == "json"  # which ends with a zero in some formats
    found = read_tolerant(lambda some: dataset.read_bytes(some, name), indices[short])
    for place, value in zip(short, found, strict=True):
        words[place] = None if value is None else brief_value(value.rstrip(b"\0") if is_json else value, None)
    return words


def _sizes(dataset: Dataset, indices: IndexArray, name: str) -> list[int | None]:
    try:
        known = dataset.measure(indices, name) if isinstance(dataset, Measured) else None
    except (HeadraceError, ValueError):
        known = None
    return [None] * len(indices) if known is None else list(map(int, known.sizes))
