"""One pass over a RecordIO file: where its records are, and what their headers say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.recordio.header import HEADER, split_header
from headrace.formats.spans import SampleIndex
from headrace.storage import records_ahead, release_behind

if TYPE_CHECKING:
    from headrace.formats.recordio.key_file import Keys
    from headrace.formats.spans import SpanFile
    from headrace.types import Progress

__all__ = ["CONTENT", "RECORD", "RecordFacts", "scan"]

RECORD, CONTENT = "record", "content"
_HEAD_BYTES = 8
_CHUNK = 65536
_HEADS = 1024  # that are looked at before the memory of their pages is given back
_LOOKED_AT = 16
_EXACT = 1 << 24  # whole numbers up to here are exact as float32
_CUT = "The write was probably interrupted, or the file was cut short or damaged; make or fetch it again."

Spans = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFacts:
    """What the index knows besides places.

    Attributes:
        has_headers: records begin as MXNet's do.
        label: ``"int"`` or ``"float"``: one number in every sample, all whole or not; ``"array"``: as many in all;
            ``"mixed"``.
        length: numbers of an array.
        split: samples whose records are split; their content is the whole record.
        keys: checksum of the file of keys that gave order and names, or None.
    """

    has_headers: bool
    label: Literal["int", "float", "array", "mixed"] = "int"
    length: int = 0
    split: tuple[int, ...] = ()
    keys: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As a value for the annex."""
        return {
            "has_headers": self.has_headers,
            "label": self.label,
            "length": self.length,
            "split": list(self.split),
            "keys": self.keys,
        }

    @classmethod
    def parse(cls, value: Any, samples: int) -> RecordFacts:
        """Read it again; ValueError, TypeError or KeyError when that is not possible."""
        facts = cls(**{**value, "split": tuple(value["split"])})
        is_right = isinstance(facts.has_headers, bool) and facts.label in ("int", "float", "array", "mixed")
        numbers = (facts.length, facts.keys or 0, *facts.split)
        if not is_right or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("it says nothing about records")
        if facts.split and max(facts.split) >= samples:
            raise ValueError("it speaks of samples that are not there")
        return facts


def scan(
    file: SpanFile, progress: Progress | None, *, keys: Keys | None = None, headers: bool | None = None
) -> SampleIndex:
    """Find all records; ValueError when the keys do not fit them.

    Args:
        file: the file.
        progress: called as the work advances.
        keys: they give order and names.
        headers: whether records begin as MXNet's do; by default that is found out.
    """
    offsets, sizes, is_split = _records(file, progress)
    names = None
    if keys is not None:
        order = _order(offsets, keys)
        offsets, sizes, is_split = offsets[order], sizes[order], is_split[order]
        names = keys.names
    heads = _heads(file, offsets, sizes, is_split) if headers is not False else None
    if headers is None and heads is not None and heads["id2"][:_LOOKED_AT].any():
        heads = None
    if headers and heads is None:
        raise FormatError(file.path, problem="its records do not begin as MXNet's do", fix="Leave out headers=True.")
    facts, skipped = _facts(heads, len(offsets))
    starts = np.where(is_split, offsets, offsets + np.uint64(_HEAD_BYTES) + skipped)
    facts = RecordFacts(
        **{
            **facts.to_json(),
            "split": tuple(np.flatnonzero(is_split).tolist()),
            "keys": None if keys is None else keys.checksum,
        }
    )
    return SampleIndex(
        columns=(RECORD, CONTENT),
        offsets=np.stack([offsets, starts], axis=1),
        sizes=np.stack([sizes, offsets + sizes - starts], axis=1),
        names=names,
        facts=facts.to_json(),
    )


def _records(file: SpanFile, progress: Progress | None) -> tuple[Spans, Spans, npt.NDArray[np.bool_]]:
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    start = count = released = 0
    while start < file.size_bytes or not parts:
        try:
            most = records_ahead(count, start, _CHUNK)
            offsets, sizes, is_split, start = _native.scan_recordio(file.mapped, start, most)
        except _native.NativeError as error:
            file.check()
            raise FormatError(file.path, offset=max(error.offset, 0), problem=error.detail, fix=_CUT) from None
        parts.append((offsets, sizes, is_split))
        count += len(offsets)
        released = release_behind(file.mapped, released, start)
        if progress is not None:
            progress(count, None, start)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return columns[0], columns[1], columns[2].astype(bool)


def _order(offsets: Spans, keys: Keys) -> npt.NDArray[np.int64]:
    wanted = keys.lines[1]
    found = np.searchsorted(offsets, wanted)
    inside = np.minimum(found, max(len(offsets) - 1, 0))
    wrong = offsets[inside] != wanted if len(offsets) else np.ones(len(wanted), bool)
    if wrong.any():
        line = int(np.argmax(wrong))
        raise ValueError(f"no record begins at byte {wanted[line]}, though line {line + 1} says so")
    return found


def _heads(file: SpanFile, offsets: Spans, sizes: Spans, is_split: npt.NDArray[np.bool_]) -> npt.NDArray[Any] | None:
    """The headers of all records; None where they cannot be some."""
    heads = np.zeros(len(offsets), HEADER)
    whole = np.flatnonzero(~is_split)
    data_sizes = sizes[whole] - np.uint64(_HEAD_BYTES)
    if (data_sizes < HEADER.itemsize).any():
        return None
    flat = np.empty(len(whole) * HEADER.itemsize, np.uint8)
    places = np.arange(len(whole), dtype=np.uint64) * np.uint64(HEADER.itemsize)
    lengths = np.full(len(whole), HEADER.itemsize, np.uint64)
    starts = offsets[whole] + np.uint64(_HEAD_BYTES)
    for first in range(0, len(whole), _HEADS):
        part = slice(first, first + _HEADS)
        _native.gather_into(file.mapped, starts[part], lengths[part], flat, places[part])
        release_behind(file.mapped, 0, file.size_bytes)
    heads[whole] = flat.view(HEADER)
    if (heads["flag"][whole].astype(np.uint64) * np.uint64(4) > data_sizes - np.uint64(HEADER.itemsize)).any():
        return None
    for i in np.flatnonzero(is_split).tolist():
        data = _native.join_recordio(file.mapped[int(offsets[i]) : int(offsets[i] + sizes[i])])
        if split_header(data) is None:
            return None
        heads[i] = np.frombuffer(data, HEADER, 1)[0]
    return heads


def _facts(heads: npt.NDArray[Any] | None, samples: int) -> tuple[RecordFacts, Spans]:
    """What the headers say, and how many bytes stand before each content."""
    if heads is None or not samples:
        return RecordFacts(has_headers=False), np.zeros(samples, np.uint64)
    flags = heads["flag"]
    skipped = np.uint64(HEADER.itemsize) + flags.astype(np.uint64) * np.uint64(4)
    if not flags.any():
        labels = heads["label"]
        is_whole = bool(np.all(np.abs(labels) <= _EXACT) and np.all(labels == np.floor(labels)))
        return RecordFacts(has_headers=True, label="int" if is_whole else "float"), skipped
    if flags.min() == flags.max():
        return RecordFacts(has_headers=True, label="array", length=int(flags[0])), skipped
    return RecordFacts(has_headers=True, label="mixed"), skipped
