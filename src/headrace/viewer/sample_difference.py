"""Two samples field by field: the same, different, or not to be read; for one pair in full, for many as yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from headrace.errors import HeadraceError
from headrace.viewer.value_difference import (
    MOST_BYTES,
    TooLargeError,
    array_note,
    as_text,
    bytes_note,
    count_pixels,
    differing_parts,
    is_picture_file,
    is_same_value,
    picture_difference,
    pixels_of,
    room_for_pixels,
    stored_value,
)

if TYPE_CHECKING:
    from headrace.types import Dataset, IndexArray
    from headrace.viewer.field_pairs import FieldPair

__all__ = ["READ_ERRORS", "FieldState", "compare_field", "differing_samples"]

FieldState = Literal["same", "differs", "damaged", "only_first", "only_second"]
READ_ERRORS = (HeadraceError, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError)
"""What reading a damaged or hostile value may raise."""
_SHOWN = 300


def compare_field(a: Dataset, i: int, b: Dataset, j: int, pair: FieldPair) -> dict[str, Any]:
    """All about one field of two samples, for a page; never raises for what is in the files."""
    found: dict[str, Any] = {"title": pair.title, "kind": pair.kind}
    if pair.first is None or pair.second is None:
        return found | {"state": "only_second" if pair.first is None else "only_first"}
    try:
        return found | _compare(a, i, b, j, pair)
    except READ_ERRORS as error:
        return found | {"state": "damaged", "note": _said(error, a, b)}


def _said(error: BaseException, a: Dataset, b: Dataset) -> str:
    """What an error says, and about which of the datasets."""
    text = (str(getattr(error, "problem", "")) or str(error) or type(error).__name__)[:1000]
    side = {a.path: "A: ", b.path: "B: "}.get(str(getattr(error, "path", "")), "") if a.path != b.path else ""
    return side + text


def _compare(a: Dataset, i: int, b: Dataset, j: int, pair: FieldPair) -> dict[str, Any]:
    assert pair.first is not None
    assert pair.second is not None
    old, new = stored_value(a, i, pair.first), stored_value(b, j, pair.second)
    if pair.kind == "image" and old is not None and new is not None:
        return _compare_pictures(a, i, b, j, pair, old, new)
    if _is_large(old) or _is_large(new):
        return _compare_bytes(old or b"", new or b"")
    first, second = _value(a, i, pair.first), _value(b, j, pair.second)
    if is_same_value(first, second):
        return {"state": "same", "text": _brief(as_text(first))}
    return {"state": "differs", "note": _note(first, second), "texts": _texts(first, second)}


def _compare_pictures(
    a: Dataset, i: int, b: Dataset, j: int, pair: FieldPair, old: bytes, new: bytes
) -> dict[str, Any]:
    assert pair.first is not None
    assert pair.second is not None
    if _is_same_file(old, new):
        return {"state": "same", "note": "the stored bytes are the same"}
    try:
        with room_for_pixels(count_pixels(old) + count_pixels(new)):
            first, second = pixels_of(a, i, pair.first), pixels_of(b, j, pair.second)
            difference, note = picture_difference(first, second)
    except TooLargeError as error:
        return _compare_bytes(old, new) | {"note": str(error)}
    sizes = [[pixels.shape[1], pixels.shape[0]] for pixels in (first, second)]
    is_same = sizes[0] == sizes[1] and difference is not None and difference.differing == 0
    if is_same:
        return {"state": "same", "note": "the same pixels, stored in other bytes", "sizes": sizes}
    numbers = None if difference is None else difference._asdict() | {"share": difference.share}
    return {"state": "differs", "note": note, "sizes": sizes, "pixels": numbers}


def _compare_bytes(old: bytes, new: bytes) -> dict[str, Any]:
    """Values that are too large to be decoded for this."""
    if old == new:
        return {"state": "same", "note": "the stored bytes are the same"}
    return {"state": "differs", "note": bytes_note(old, new)}


def _is_large(data: bytes | None) -> bool:
    return data is not None and len(data) > MOST_BYTES


def _is_same_file(old: bytes, new: bytes) -> bool:
    """The same picture file; bare pixels may be the same and have other sides."""
    return old == new and is_picture_file(old)


def _value(dataset: Dataset, index: int, field: str) -> Any:
    return dataset.read_values(np.array([index], np.int64), field)[0]


def _note(first: Any, second: Any) -> str:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return array_note(first, second)
    if isinstance(first, bytes) and isinstance(second, bytes):
        return bytes_note(first, second)
    if type(first) is not type(second):
        return f"{type(first).__name__} and {type(second).__name__}"
    return ""


def _texts(first: Any, second: Any) -> list[dict[str, str]]:
    return [parts._asdict() for parts in differing_parts(as_text(first), as_text(second))]


def _brief(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


# Many samples at a time


def differing_samples(
    a: Dataset, first: IndexArray, b: Dataset, second: IndexArray, pair: FieldPair
) -> tuple[npt.NDArray[np.bool_], int]:
    """Which of many pairs differ in a field, or cannot be read; and how many bytes were looked at."""
    if pair.first is None or pair.second is None or not len(first):
        return np.zeros(len(first), np.bool_), 0
    try:
        return _differing(a, first, b, second, pair)
    except READ_ERRORS:
        if len(first) == 1:
            return np.ones(1, np.bool_), 0
    parts = [differing_samples(a, first[k : k + 1], b, second[k : k + 1], pair) for k in range(len(first))]
    return np.concatenate([differs for differs, _ in parts]), sum(size for _, size in parts)


def _differing(
    a: Dataset, first: IndexArray, b: Dataset, second: IndexArray, pair: FieldPair
) -> tuple[npt.NDArray[np.bool_], int]:
    assert pair.first is not None
    assert pair.second is not None
    old, new = _column(a, first, pair.first), _column(b, second, pair.second)
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and old.ndim == new.ndim == 1:
        is_apart = old != new
        if old.dtype.kind == new.dtype.kind == "f":
            is_apart &= ~(np.isnan(old) & np.isnan(new))
        return is_apart, old.nbytes + new.nbytes
    differs = np.zeros(len(first), np.bool_)
    size_bytes = 0
    for k, (x, y) in enumerate(zip(old, new, strict=True)):
        if isinstance(x, bytes) and isinstance(y, bytes):
            size_bytes += len(x) + len(y)
            differs[k] = not _is_surely_same(x, y, pair) and _state(a, first[k], b, second[k], pair) != "same"
        else:
            differs[k] = not is_same_value(x, y)
    return differs, size_bytes


def _is_surely_same(x: bytes, y: bytes, pair: FieldPair) -> bool:
    if x != y:
        return False
    return is_picture_file(x) if pair.kind == "image" else pair.is_same_type


def _state(a: Dataset, i: int, b: Dataset, j: int, pair: FieldPair) -> str:
    return str(_compare(a, int(i), b, int(j), pair)["state"])


def _column(dataset: Dataset, indices: IndexArray, field: str) -> Any:
    if dataset.schema[field].kind not in ("int", "float"):
        try:
            return dataset.read_bytes(indices, field)
        except HeadraceError:
            raise
        except ValueError:  # this format keeps no bytes of this field
            pass
    return dataset.read_values(indices, field)
