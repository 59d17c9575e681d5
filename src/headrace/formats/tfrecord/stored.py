"""From the stored bytes of features to values; one native call for a batch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.fields import Json, NDArray
from headrace.formats.spans.span_file import BadSpanError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.formats.tfrecord.features import Feature
    from headrace.types import Field

__all__ = ["Located", "byte_lists", "values_of"]

Spans: TypeAlias = npt.NDArray[np.uint64]
Ends: TypeAlias = npt.NDArray[np.int64]
Located: TypeAlias = tuple[npt.NDArray[np.uint8], Spans, Spans]
"""Memory, and the offsets and sizes of values in it."""


def values_of(located: Located, feature: Feature, field: Field) -> Sequence[Any] | npt.NDArray[Any]:
    """Values as ColumnDataset takes them; BadSpanError names the position of one that cannot be read."""
    if feature.is_bytes:
        return _native.gather(*located)
    if feature.kind == "none":
        return [[] for _ in located[1]]
    if feature.kind == "bytes":
        lists = byte_lists(located, feature)
        return [_texts(row, position) for position, row in enumerate(lists)] if isinstance(field, Json) else lists
    return _numbers(located, feature, field)


def byte_lists(located: Located, feature: Feature) -> list[list[Any]]:
    """Byte strings of each sample; step by step where it has steps."""
    base, starts, sizes, steps = _steps(located, feature)
    places, lengths, ends = _read(steps, _native.find_tf_bytes, base, starts, sizes)
    rows = _split(_native.gather(base, places, lengths), ends)
    return rows if steps is None else _by_step(rows, steps, feature)


def _numbers(located: Located, feature: Feature, field: Field) -> list[list[Any]] | npt.NDArray[Any]:
    base, starts, sizes, steps = _steps(located, feature)
    native = _native.read_tf_ints if feature.kind == "int64" else _native.read_tf_floats
    values, ends = _read(steps, native, base, starts, sizes, feature.is_message)
    if isinstance(field, Json):
        rows = _split(values.tolist(), ends)
        return rows if steps is None else _by_step(rows, steps, feature)
    if steps is not None:
        _check_counts(steps, feature.steps[0], None)
    _check_counts(ends, feature.counts[0], steps)
    numbers: npt.NDArray[Any] = values.reshape(-1, *field.shape) if isinstance(field, NDArray) else values
    return numbers


def _steps(located: Located, feature: Feature) -> tuple[npt.NDArray[np.uint8], Spans, Spans, Ends | None]:
    """The features themselves, or those of all steps and where the steps of each sample end."""
    if not feature.is_list:
        return *located, None
    return located[0], *_read(None, _native.find_tf_steps, *located)


def _read(steps: Ends | None, native: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return native(*arguments)
    except _native.NativeError as error:
        raise BadSpanError(_sample(max(error.offset, 0), steps), error.detail) from None


def _sample(position: int, steps: Ends | None) -> int:
    return position if steps is None else int(np.searchsorted(steps, position, "right"))


def _check_counts(ends: Ends, count: int, steps: Ends | None) -> None:
    wrong = np.diff(ends, prepend=0) != count
    if wrong.any():
        position = _sample(int(np.argmax(wrong)), steps)
        raise BadSpanError(
            position, f"{format_count(count, 'value')} were expected, as all samples had when the index was made"
        )


def _split(values: list[Any], ends: Ends) -> list[list[Any]]:
    return [values[a:b] for a, b in itertools.pairwise((0, *ends.tolist()))]


def _by_step(rows: list[list[Any]], steps: Ends, feature: Feature) -> list[list[Any]]:
    """The values of each step, or the one value where every step has one."""
    is_single = feature.counts == (1, 1) and all(len(row) == 1 for row in rows)
    return _split([row[0] for row in rows] if is_single else rows, steps)


def _texts(row: list[Any], position: int) -> list[Any]:
    try:
        return [one.decode() if isinstance(one, bytes) else _texts(one, position) for one in row]
    except UnicodeDecodeError:
        raise BadSpanError(position, "a value is not text in UTF-8, though the first ones are") from None
