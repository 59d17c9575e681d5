"""Arrays as pictures, curves and tables: bounded in pixels, points and cells."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.viewer.answers import shown_text

if TYPE_CHECKING:
    from headrace.ops import Normalize

__all__ = ["Pixels", "can_be_picture", "encode_png", "show_array", "to_picture"]

_MOST_SIDE = 4096
_MOST_POINTS, _MOST_CURVES = 800, 8
_MOST_ROWS, _MOST_COLUMNS = 24, 16
_LEAST_SIDE = 8
_MOST_SUMMED = 1 << 22  # values that are looked at for the smallest, the largest and the mean
_CHANNELS = (1, 3, 4)


class Pixels(NamedTuple):
    """Pixels to show, and in words how they were made from other values."""

    pixels: npt.NDArray[np.uint8]
    note: str


def show_array(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Type, shape, range; and what can be drawn of it."""
    shown: dict[str, Any] = {
        "as": "array",
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "size_bytes": array.nbytes,
        "facts": _facts(array),
        "can_be_picture": can_be_picture(array.shape, array.dtype),
        "curves": _curves(array),
        "table": _table(array),
    }
    return shown


def _facts(array: npt.NDArray[Any]) -> dict[str, str] | None:
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    step = -(-array.size // _MOST_SUMMED)
    flat = array.reshape(-1)[::step]
    numbers = flat.astype(np.float64) if flat.dtype.kind in "bf" else flat
    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
    found = {"values looked at": f"every {step:,}th"} if step > 1 else {}
    if len(finite) < len(flat):
        found["not finite"] = f"{len(flat) - len(finite):,}"
    if len(finite):
        found |= {"smallest": _cell(finite.min()), "largest": _cell(finite.max()), "mean": f"{finite.mean():.6g}"}
    return found


def can_be_picture(shape: tuple[int, ...], dtype: npt.DTypeLike) -> bool:
    """Two sides of some length, and perhaps one, three or four channels, first or last."""
    sides = _sides(shape)
    return sides is not None and min(sides) >= _LEAST_SIDE and np.dtype(dtype).kind in "biuf"


def _sides(shape: tuple[int, ...]) -> tuple[int, int] | None:
    if len(shape) == 2:
        return shape[0], shape[1]
    if len(shape) == 3:
        if shape[2] in _CHANNELS:
            return shape[0], shape[1]
        if shape[0] in _CHANNELS:
            return shape[1], shape[2]
    return None


def to_picture(array: npt.NDArray[Any], normalize: Normalize | None = None, most_side: int = _MOST_SIDE) -> Pixels:
    """Pixels of an array: bytes as they are, everything else brought into 0 to 255, and a word about how.

    Args:
        array: height x width, with one, three or four channels, first or last, or none.
        normalize: what was done to its values at the end, to be undone.
        most_side: of a larger one only every so many rows and columns are taken.
    """
    if _sides(array.shape) is None:
        raise ValueError(f"an array of shape {array.shape} cannot be shown as a picture")
    last = array.transpose(1, 2, 0) if array.ndim == 3 and array.shape[2] not in _CHANNELS else array
    if last.ndim == 3 and last.shape[2] == 1:
        last = last[:, :, 0]
    step = -(-max(last.shape[:2]) // most_side)
    thinned = last[::step, ::step]
    shown = _as_bytes(thinned, normalize)
    return shown if step == 1 else Pixels(shown.pixels, f"{shown.note}; every {step}th row and column".lstrip("; "))


def _as_bytes(values: npt.NDArray[Any], normalize: Normalize | None) -> Pixels:
    if values.dtype == np.uint8:
        return Pixels(np.ascontiguousarray(values), "")
    if values.dtype == np.bool_:
        return Pixels(values.astype(np.uint8) * np.uint8(255), "")
    numbers = values.astype(np.float32)
    if normalize is not None and numbers.ndim == 3 and numbers.shape[2] == 3:
        levels = numbers * np.array(normalize.std, np.float32) + np.array(normalize.mean, np.float32)
        return Pixels(_rounded(levels), "normalization undone")
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if low >= 0 and high <= 255 and (high > 1 or values.dtype.kind in "iu"):
        return Pixels(_rounded(numbers), "")
    if low >= 0 and high <= 1:
        return Pixels(_rounded(numbers * 255), "0 to 1 as 0 to 255")
    scale = 255 / (high - low) if high > low else 0.0
    return Pixels(_rounded((numbers - low) * scale), f"{low:.4g} to {high:.4g} stretched to 0 to 255")


def _rounded(levels: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint8]:
    pixels: npt.NDArray[np.uint8] = np.clip(np.rint(np.nan_to_num(levels, nan=0.0)), 0, 255).astype(np.uint8)
    return pixels


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG of grey, RGB or RGBA pixels, made fast."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()


def _curves(array: npt.NDArray[Any]) -> dict[str, Any] | None:
    """A line for a vector, some for a few vectors of one length: as many points as a screen has."""
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or not array.size:
        return None
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    if array.ndim == 2 and rows.shape[0] > rows.shape[1]:
        rows = rows.T
    if rows.shape[0] > _MOST_CURVES or rows.shape[1] < (3 if array.ndim == 1 else _MOST_COLUMNS):
        return None
    return {"length": rows.shape[1], "lines": [_line(row) for row in rows]}


def _line(row: npt.NDArray[Any]) -> list[list[float | None]]:
    """Places and values; of each stretch that falls on one point of the screen the smallest and the largest."""
    count = len(row)
    stretch = -(-2 * count // _MOST_POINTS) if count > _MOST_POINTS else 1
    numbers = row.astype(np.float64)
    if stretch == 1:
        return [[float(at), _finite(value)] for at, value in enumerate(numbers.tolist())]
    points: list[list[float | None]] = []
    for begin in range(0, count, stretch):
        part = numbers[begin : begin + stretch]
        part = part[np.isfinite(part)]
        values = [part.min(), part.max()] if len(part) else [math.nan]
        points += [[float(begin), _finite(float(value))] for value in values]
    return points


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _table(array: npt.NDArray[Any]) -> dict[str, Any]:
    """The first rows and columns; of more axes, those at the beginning of the others."""
    flat = array
    while flat.ndim > 2:
        flat = flat[0] if len(flat) else flat.reshape(0, 0)
    rows = flat.reshape(1, -1) if flat.ndim < 2 else flat
    part = rows[:_MOST_ROWS, :_MOST_COLUMNS]
    return {
        "rows": [[_cell(value) for value in row] for row in part],
        "shape": list(rows.shape),
        "is_cut": rows.shape != part.shape,
        "is_slice": array.ndim > 2,
    }


def _cell(value: Any) -> str:
    if isinstance(value, np.floating):
        return f"{float(value):.6g}"
    return shown_text(str(value), 80)
