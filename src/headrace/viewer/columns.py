"""What is known of all samples of a dataset at once, as arrays: classes, sizes, sides.

Arrays are as narrow as their values allow, made the first time that they are asked for, and kept. Where a format knows
sizes and sides without reading its values they come from there; otherwise every value is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace.errors import CorruptSampleError, HeadraceError
from headrace.fields import Int
from headrace.formats.contract import index_chunks
from headrace.storage import release_mapped
from headrace.types import Measured, Measures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from headrace.types import Dataset, IndexArray
    from headrace.viewer.shelf import Shown

__all__ = ["Labels", "class_field", "class_fields", "labels_of", "look_at", "measures_of", "payload_field"]


_BLOCK = 1 << 18
_READ = 64  # values that are read at a time where nothing knows how large they are
_USUAL = ("label", "class", "cls", "target", "y", "category")


def class_fields(dataset: Dataset) -> list[str]:
    """Fields that may be classes: whole numbers, the likeliest first."""
    numbers = [name for name, kind in dataset.schema.items() if isinstance(kind, Int)]
    named = dataset.class_names

    def rank(name: str) -> tuple[bool, int]:
        return name not in named, _USUAL.index(name.lower()) if name.lower() in _USUAL else len(_USUAL)

    return sorted(numbers, key=rank)


def class_field(dataset: Dataset, wanted: str | None = None) -> str | None:
    """The field that says the class, by default the likeliest; None when there is none."""
    known = class_fields(dataset)
    if wanted and wanted not in known:
        raise LookupError(f"no field of whole numbers is called {wanted[:100]!r}")
    return wanted or next(iter(known), None)


def payload_field(item: Shown) -> str | None:
    """The field whose size is that of a sample in the grid: the first picture, else the first value of any length."""
    sized = [name for name, kind in item.dataset.schema.items() if kind.has_payload]
    return next(iter([*(name for name in item.pictures if name in sized), *sized]), None)


class Labels(NamedTuple):
    """Whole numbers of all samples, and the numbers of the samples whose value cannot be read, ascending.

    The values of these are 0.
    """

    values: npt.NDArray[np.integer[Any]]
    missing: IndexArray


def labels_of(item: Shown, field: str, check: Callable[[int, int], object]) -> Labels:
    """The values of a field of whole numbers, of all samples; samples that are damaged are remembered."""

    def read() -> Labels:
        total = len(item.dataset)
        parts, missing = [], list[int]()
        for chunk in index_chunks(total, _BLOCK):
            check(int(chunk[0]), total)
            parts.append(_narrow(_whole_numbers(item, chunk, field, missing, check)))
        release_mapped()
        values = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return Labels(values, np.array(sorted(missing), np.int64))

    return item.once(("labels", field), read)


def _whole_numbers(
    item: Shown, indices: IndexArray, field: str, missing: list[int], check: Callable[[int, int], object]
) -> IndexArray:
    """Values of some samples; where one of them is damaged, halves are read until it is alone."""
    try:
        return np.asarray(item.dataset.read_values(indices, field), np.int64)
    except (ValueError, OverflowError) as error:  # among them all errors of damaged samples
        if len(indices) == 1:
            item.damage.add(int(indices[0]), str(error))
            missing.append(int(indices[0]))
            return np.zeros(1, np.int64)
    check(int(indices[0]), len(item.dataset))
    middle = len(indices) // 2
    halves = [_whole_numbers(item, part, field, missing, check) for part in (indices[:middle], indices[middle:])]
    return np.concatenate(halves)


def measures_of(item: Shown, field: str, check: Callable[[int, int], object]) -> Measures:
    """Sizes of a field of all samples, and the sides of pictures; 0 of what is damaged."""

    def read() -> Measures:
        parts = [tuple(map(_narrow, map(np.asarray, one))) for one in _measured(item, field, check)]
        release_mapped()
        joined = [np.concatenate(one) for one in zip(*parts, strict=True)] or [np.empty(0, np.int64)] * 3
        return Measures(*joined)

    return item.once(("measures", field), read)


def _measured(
    item: Shown, field: str, check: Callable[[int, int], object]
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]]:
    dataset, total = item.dataset, len(item.dataset)
    known = _known(dataset, np.arange(min(1, total), dtype=np.int64), field) if total else None
    is_picture = dataset.schema[field].kind == "image"
    is_whole = known is not None and (known.widths is not None or not is_picture)
    for chunk in index_chunks(total, _BLOCK if is_whole else _READ):
        check(int(chunk[0]), total)
        found = _known(dataset, chunk, field) if is_whole else look_at(item, chunk, field)
        assert found is not None
        none = np.zeros(len(chunk), np.int64)
        yield (
            found.sizes,
            none if found.widths is None else found.widths,
            none if found.heights is None else found.heights,
        )


def _known(dataset: Dataset, indices: IndexArray, field: str) -> Measures | None:
    return dataset.measure(indices, field) if isinstance(dataset, Measured) else None


def look_at(item: Shown, indices: IndexArray, field: str) -> Measures:
    """Sizes and sides of a few values, which are read if need be; 0 of those that are damaged, which are remembered."""
    dataset = item.dataset
    known = _known(dataset, indices, field)
    if known is not None and (known.widths is not None or dataset.schema[field].kind != "image"):
        return known
    try:
        return _read(dataset, indices, field)
    except HeadraceError as error:
        if len(indices) == 1:
            if isinstance(error, CorruptSampleError):
                item.damage.add(int(indices[0]), str(error))
            none = np.zeros(1, np.int64)
            return Measures(none, none, none)
    alone = [look_at(item, indices[i : i + 1], field) for i in range(len(indices))]
    return Measures(*(np.concatenate([_filled(one[column]) for one in alone]) for column in range(3)))


def _filled(column: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    return np.zeros(1, np.int64) if column is None else column


def _read(dataset: Dataset, indices: IndexArray, field: str) -> Measures:
    if dataset.schema[field].kind == "image":
        spans = dataset.image_spans(indices, field)
        return Measures(spans.sizes, spans.widths, spans.heights)
    return Measures(np.array([len(data) for data in dataset.read_bytes(indices, field)], np.int64))


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[np.integer[Any]]:
    """The same numbers in as few bytes as they need, and in a kind that stays whole when blocks are joined."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    dtype = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high))
    is_joinable = dtype.kind == "i" or (dtype.kind == "u" and (dtype.itemsize < 8 or values.dtype.kind == "u"))
    return values.astype(dtype if is_joinable else np.int64)  # uint64 beside a negative number would become float64
