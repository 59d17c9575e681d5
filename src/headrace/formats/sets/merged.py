"""What parts gave of one batch, put back into the order of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from headrace._native import gather_into
from headrace.storage import room_for
from headrace.types import ImageSpans, Measures, Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.types import IndexArray, TakeArray

__all__ = [
    "Piece",
    "merge_arrays",
    "merge_lists",
    "merge_measures",
    "merge_ragged",
    "merge_spans",
    "merge_values",
]

Value = TypeVar("Value")
Piece: TypeAlias = tuple["IndexArray", Value]
"""Places in the batch, and what stands there."""

_FIX = "Read fewer at once, in smaller batches."


def merge_lists(pieces: Sequence[Piece[Any]], count: int) -> list[Any]:
    """Values one by one."""
    merged: list[Any] = [None] * count
    for places, values in pieces:
        for place, value in zip(places.tolist(), values, strict=True):
            merged[place] = value
    return merged


def merge_values(pieces: Sequence[Piece[list[Any] | npt.NDArray[Any]]], count: int) -> list[Any] | npt.NDArray[Any]:
    """One array where all gave arrays of one shape, else a list."""
    arrays = [values for _, values in pieces if isinstance(values, np.ndarray)]
    if len(arrays) < len(pieces) or len({array.shape[1:] for array in arrays}) > 1:
        return merge_lists(pieces, count)
    return merge_arrays([(places, np.asarray(values)) for places, values in pieces], count, np.empty)


def merge_arrays(pieces: Sequence[Piece[npt.NDArray[Any]]], count: int, take: TakeArray) -> npt.NDArray[Any]:
    """One array that ``take`` makes."""
    arrays = [values for _, values in pieces]
    shape, dtype = arrays[0].shape[1:], np.result_type(*(array.dtype for array in arrays))
    merged = take((count, *shape), dtype)
    for places, values in pieces:
        merged[places] = values
    return merged


def merge_measures(pieces: Sequence[Piece[Measures]], count: int) -> Measures:
    """Sizes of all, and sides where every part knows them."""
    columns: list[npt.NDArray[Any] | None] = []
    for column in range(len(Measures._fields)):
        known = [(places, found[column]) for places, found in pieces]
        arrays = [(places, values) for places, values in known if values is not None]
        columns.append(merge_arrays(arrays, count, np.empty) if len(arrays) == len(known) else None)
    sizes, widths, heights = columns
    assert sizes is not None
    return Measures(sizes, widths, heights)


def merge_ragged(pieces: Sequence[Piece[Ragged]], count: int) -> Ragged:
    """Bytes one value after the other."""
    sizes = np.empty(count, np.int64)
    for places, ragged in pieces:
        sizes[places] = np.diff(ragged.offsets)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = _room(int(offsets[-1]))
    for places, ragged in pieces:
        starts = np.ascontiguousarray(ragged.offsets[:-1]).astype(np.uint64)
        _copy(ragged.values, starts, sizes[places].astype(np.uint64), out, offsets[places].astype(np.uint64))
    return Ragged(out, offsets)


def merge_spans(pieces: Sequence[Piece[ImageSpans]], count: int) -> ImageSpans:
    """Pictures copied into one region, with all that is known of them.

    If only some of the parts have checksums, those of the others are computed as their bytes are copied: so what can
    be checked is checked.
    """
    columns = {
        name: np.empty(count, getattr(pieces[0][1], name).dtype) for name in ("sizes", "modes", "widths", "heights")
    }
    for places, spans in pieces:
        for name, column in columns.items():
            column[places] = getattr(spans, name)
    base, offsets = _new_region(columns["sizes"])
    is_checked = any(spans.checksums is not None for _, spans in pieces)
    checksums = np.empty(count, np.uint32) if is_checked else None
    for places, spans in pieces:
        found = np.empty(len(places), np.uint32) if is_checked and spans.checksums is None else None
        _copy(spans.base, spans.offsets, spans.sizes, base, offsets[places], found)
        if checksums is not None:
            known = spans.checksums if found is None else found
            assert known is not None
            checksums[places] = known
    return ImageSpans(base, offsets, **columns, checksums=checksums, tile_indices=_merge_tiles(pieces, count))


def _merge_tiles(
    pieces: Sequence[Piece[ImageSpans]], count: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint64]] | None:
    """The tile indices that are needed, one after the other; None where no part has any."""
    found = [(places, spans.tile_indices) for places, spans in pieces if spans.tile_indices is not None]
    if not found:
        return None
    sizes = np.zeros(count, np.uint64)
    for places, (_, _, theirs) in found:
        sizes[places] = theirs
    region, offsets = _new_region(sizes)
    for places, (packed, begins, theirs) in found:
        _copy(packed, begins, theirs, region, offsets[places])
    return region, offsets, sizes


def _new_region(sizes: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Memory for values of these sizes, and where in it each begins."""
    ends = np.cumsum(sizes, dtype=np.uint64)
    return _room(int(ends[-1]) if len(ends) else 0), ends - sizes


def _room(size_bytes: int) -> npt.NDArray[np.uint8]:
    with room_for(size_bytes, "the values of a batch", fix=_FIX):
        return np.empty(size_bytes, np.uint8)


def _copy(
    base: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.uint64],
    out: npt.NDArray[np.uint8],
    places: npt.NDArray[np.uint64],
    checksums: npt.NDArray[np.uint32] | None = None,
) -> None:
    gather_into(
        np.ascontiguousarray(base, np.uint8),
        np.ascontiguousarray(offsets, np.uint64),
        np.ascontiguousarray(sizes, np.uint64),
        out,
        np.ascontiguousarray(places, np.uint64),
        checksums,
    )
