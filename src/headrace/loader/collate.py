"""Values of different sizes as a batch: a list, one array padded with zeros, or one long array with offsets."""

from __future__ import annotations

import json
import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from headrace._native import gather_into
from headrace.storage import room_for
from headrace.types import Padded, Ragged

__all__ = ["Collate", "check_collate", "collate"]

Collate: TypeAlias = Literal["list", "pad", "offsets"]


def check_collate(kind: str) -> None:
    """Refuse what is no way to collate."""
    if kind not in get_args(Collate):
        raise ValueError(f"collate must be one of {', '.join(get_args(Collate))}, got {kind!r}")


def collate(values: Any, kind: Collate, *, is_json: bool = False) -> Any:
    """Put values together: a list of bytes, text, JSON values or arrays, or what is Ragged already.

    Args:
        values: the values.
        kind: how to put them together.
        is_json: the values are JSON; a text among them gets its quotes, so that "null" is not null.
    """
    if kind == "list":
        return values
    if isinstance(values, Ragged):
        return values if kind == "offsets" else _pad_ragged(values)
    arrays = [_json_array(value) if is_json else _as_array(value) for value in values]
    return _join(arrays) if kind == "offsets" else _pad(arrays)


def _as_array(value: Any) -> npt.NDArray[Any]:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, str):
        value = value.encode()
    elif not isinstance(value, bytes | bytearray | memoryview):
        return _json_array(value)
    return np.frombuffer(value, np.uint8)


def _json_array(value: Any) -> npt.NDArray[Any]:
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)


def _pad_ragged(ragged: Ragged) -> Padded:
    lengths = np.diff(ragged.offsets)
    longest = int(lengths.max(initial=0))
    out = _zeros((len(lengths), longest), np.dtype(np.uint8))
    places = np.arange(len(lengths), dtype=np.uint64) * np.uint64(longest)
    starts = ragged.offsets[:-1].astype(np.uint64)
    gather_into(ragged.values, starts, lengths.astype(np.uint64), out.reshape(-1), places)
    return Padded(out, lengths)


def _pad(arrays: list[npt.NDArray[Any]]) -> Padded:
    _check_alike(arrays, "padded")
    if not arrays:
        return Padded(np.zeros((0, 0), np.uint8), np.zeros(0, np.int64))
    shapes = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), -1)
    out = _zeros((len(arrays), *shapes.max(axis=0).tolist()), arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[tuple(slice(side) for side in array.shape)] = array
    return Padded(out, shapes[:, 0] if shapes.shape[1] == 1 else shapes)


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    what = f"a batch that is padded to the shape {shape}"
    with room_for(math.prod(shape) * dtype.itemsize, what, fix="Use collate='offsets', or a smaller batch_size."):
        return np.zeros(shape, dtype)


def _join(arrays: list[npt.NDArray[Any]]) -> Ragged:
    _check_alike(arrays, "joined")
    if any(array.shape[1:] != arrays[0].shape[1:] for array in arrays):
        shapes = sorted({array.shape for array in arrays})[:4]
        raise ValueError(f"values can be joined when only their first axes differ, and these have the shapes {shapes}")
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    return Ragged(np.concatenate(arrays) if arrays else np.zeros(0, np.uint8), offsets)


def _check_alike(arrays: list[npt.NDArray[Any]], what: str) -> None:
    kinds = {(array.dtype, array.ndim) for array in arrays}
    if any(array.ndim == 0 for array in arrays):
        raise ValueError(f"values that are to be {what} must be arrays, text, bytes or JSON, found single numbers")
    if len(kinds) > 1:
        found = ", ".join(sorted(f"{dtype} with {ndim} axes" for dtype, ndim in kinds))
        raise ValueError(f"values that are to be {what} must have one dtype and number of axes, found {found}")
