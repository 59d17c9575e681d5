"""What a MessagePack stream holds: its columns, where their values are, and of what kinds they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import MsgpackScanner, NativeError
from headrace.errors import FormatError
from headrace.formats.spans import SampleIndex
from headrace.storage import release_behind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.formats.spans import SpanFile
    from headrace.types import Progress

__all__ = ["KINDS", "VALUE", "Kinds", "empty_index", "kinds_of", "scan_msgpack"]

VALUE = "data"
"""The field of a stream whose values are no maps."""
KINDS = (
    "nil",
    "boolean",
    "integer",
    "big_integer",
    "floating",
    "text",
    "bytes",
    "container",
    "mixed_container",
    "time",
)
"""Kinds of values, as the native scan numbers them; a mixed container has bytes somewhere inside."""
Kinds = dict[str, int]
"""What a column holds: the first sample of each kind that there is."""
_STEP_BYTES = 32 << 20
_SHOWN = 40


def scan_msgpack(file: SpanFile, progress: Progress | None) -> SampleIndex:
    """Find all values in one pass; FormatError where the stream is damaged or the samples are not alike."""
    scanner, released = MsgpackScanner(), 0
    while scanner.position < file.size_bytes:
        try:
            scanner.scan(file.mapped, scanner.position + _STEP_BYTES)
        except NativeError as error:
            raise _failure(file, scanner.samples, error) from None
        released = release_behind(file.mapped, released, scanner.position)
        if progress is not None:
            progress(scanner.samples, None, scanner.position)
    scanner.strip_heads()
    columns = _names_of(file, scanner.columns) if scanner.is_maps else (VALUE,)
    if not scanner.samples:
        return empty_index(columns)
    facts = {"firsts": scanner.firsts.tolist()}
    return SampleIndex(columns=columns, offsets=scanner.offsets, sizes=scanner.sizes, facts=facts)


def empty_index(columns: tuple[str, ...]) -> SampleIndex:
    """The index of a stream without samples."""
    none = np.empty((0, len(columns)), np.uint64)
    return SampleIndex(columns=columns, offsets=none, sizes=none, facts={"firsts": [[-1] * len(KINDS)] * len(columns)})


def _failure(file: SpanFile, sample: int, error: NativeError) -> FormatError:
    fix = {
        "truncated": "The write was probably interrupted; write the dataset again.",
        "corrupt": "Every sample must be a map with the same keys; write the dataset again.",
        "out_of_memory": "Split the file, or give the process more memory.",
    }.get(error.code, "Write the dataset again: maps from texts to numbers, texts, bytes, lists and maps.")
    offset = error.offset if error.offset >= 0 else None
    return FormatError(file.path, offset=offset, problem=f"sample {sample}: {error.detail}", fix=fix)


def _names_of(file: SpanFile, columns: list[bytes]) -> tuple[str, ...]:
    try:
        return tuple(column.decode() for column in columns)
    except UnicodeDecodeError:
        wrong = next(column for column in columns if not _is_text(column))
        problem = f"sample 0: a key that is not UTF-8: a text was expected, found {wrong[:_SHOWN]!r}"
        raise FormatError(file.path, offset=0, problem=problem, fix="Write the dataset again with such keys.") from None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def kinds_of(path: str, index: SampleIndex) -> Mapping[str, Kinds]:
    """What each column holds, as the scan has found it; FormatError when the annex says something else."""
    firsts: Any = index.facts.get("firsts")
    is_table = isinstance(firsts, list) and len(firsts) == len(index.columns)
    if not is_table or not all(_is_row(row, len(index)) for row in firsts):
        problem = "its annex does not say what kinds of values there are"
        raise FormatError(path, problem=problem, fix=f"Make a new one with: headrace index --fresh {path}")
    return {
        name: {kind: first for kind, first in zip(KINDS, row, strict=True) if first >= 0}
        for name, row in zip(index.columns, firsts, strict=True)
    }


def _is_row(row: object, samples: int) -> bool:
    if not isinstance(row, list) or len(row) != len(KINDS):
        return False
    return all(type(first) is int and -1 <= first < max(samples, 1) for first in row)
