"""One pass over a TFRecord file: where its records are, and the features in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.spans import SampleIndex
from headrace.formats.tfrecord.features import KINDS, Feature
from headrace.progress import format_count
from headrace.storage import records_ahead, release_behind

if TYPE_CHECKING:
    from headrace.formats.spans import SpanFile
    from headrace.types import Progress

__all__ = ["FEATURES", "HEAD_BYTES", "RECORD", "is_head", "scan"]

RECORD = ""
"""The column of whole records; no feature is called that."""
FEATURES = "features"

HEAD_BYTES = 12
"""What a record begins with: its length, and the checksum of that."""

_LENGTH_BYTES = 8
_MASK = 0xA282EAD8
_CHUNK, _SUMMED_CHUNK = 4096, 1024
_LOOKED_AT = 16
_LEAST_CELLS = 1 << 22
_CELL_BYTES = 4
_AS_BYTES = "Open it with examples=False to read its records as bytes."
_CUT = "The write was probably interrupted, or the file was cut short or damaged; make or fetch it again."

Spans = npt.NDArray[np.uint64]


def is_head(head: bytes) -> bool:
    """The first bytes of a file are a length and its checksum.

    Example:
        >>> is_head(b"something else")
        False
    """
    if len(head) < HEAD_BYTES:
        return False
    checksum = _native.crc32c(head[:_LENGTH_BYTES])
    masked = ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF
    return masked == int.from_bytes(head[_LENGTH_BYTES:HEAD_BYTES], "little")


def scan(
    file: SpanFile, progress: Progress | None, *, examples: bool | None = None, make_checksums: bool = False
) -> SampleIndex:
    """Find all records and, if they are tf.train.Examples, the features of each.

    Args:
        file: the file.
        progress: called as the work advances.
        examples: whether they are; by default that is found out from the first records.
        make_checksums: sum up records and features in the same pass; no checksums are given if a record is damaged.
    """
    mapped, start = file.mapped, 0
    parts: list[tuple[Spans, Spans]] = []
    sums: list[npt.NDArray[np.uint32]] = []
    table: _native.TfExampleTable | None = None
    is_intact = make_checksums
    count = released = 0
    while start < file.size_bytes or not parts:
        chunk = _SUMMED_CHUNK if make_checksums else _CHUNK
        most = records_ahead(count, start, chunk) if parts else _LOOKED_AT
        offsets, sizes, start = _records(file, start, count, most - count % most)
        if not parts and _is_wanted(mapped, offsets, sizes, examples):
            # A cell takes more room in a file than here, unless most of them are missing.
            table = _native.TfExampleTable(max(_LEAST_CELLS, file.size_bytes // _CELL_BYTES), make_checksums)
        if table is not None:
            is_intact &= _add(file, table, offsets, sizes)
        elif is_intact:
            sums.append(_checked(file, offsets, sizes))
            is_intact = len(sums[-1]) == len(offsets)
        parts.append((offsets, sizes))
        count += len(offsets)
        released = release_behind(mapped, released, start)
        if progress is not None:
            progress(count, None, start)
    offsets, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
    if table is not None:
        return replace(_index(file, table, offsets, sizes), checksums=table.checksums(mapped) if is_intact else None)
    return SampleIndex(
        columns=(RECORD,),
        offsets=offsets[:, None],
        sizes=sizes[:, None],
        facts={FEATURES: None},
        checksums=np.concatenate(sums)[:, None] if is_intact else None,
    )


def _records(file: SpanFile, start: int, done: int, most: int) -> tuple[Spans, Spans, int]:
    try:
        return _native.scan_tfrecord(file.mapped, start, most)
    except _native.NativeError as error:
        file.check()
        end = max(error.offset, 0)
        good = done + len(_native.scan_tfrecord(file.mapped[:end], start, most)[0])
        problem = f"{error.detail}; {format_count(good, 'record')} before it could be read"
        raise FormatError(file.path, offset=end, problem=problem, fix=_CUT) from None


def _is_wanted(mapped: npt.NDArray[np.uint8], offsets: Spans, sizes: Spans, examples: bool | None) -> bool:
    """One of the first records is an Example: hardly anything else happens to look like one."""
    if examples is not None:
        return examples
    table = _native.TfExampleTable(_LEAST_CELLS)
    for i in range(min(len(offsets), _LOOKED_AT)):
        try:
            table.add(mapped, offsets[i : i + 1], sizes[i : i + 1])
        except _native.NativeError as error:
            if error.code == "too_large":
                return True
            continue
        if table.columns():
            return True
    return False


def _add(file: SpanFile, table: _native.TfExampleTable, offsets: Spans, sizes: Spans) -> bool:
    """Add records; one that is damaged, as its checksum says, is a row that cannot be read. False if there are some."""
    done, is_intact = 0, True
    while done < len(offsets):
        try:
            table.add(file.mapped, offsets[done:], sizes[done:])
            break
        except _native.NativeError as error:
            file.check()
            bad = done + error.offset
            if error.code != "corrupt" or len(_checked(file, offsets[bad : bad + 1], sizes[bad : bad + 1])):
                _refuse(file, len(table), int(offsets[bad]), error)
            table.add_bad()
            done, is_intact = bad + 1, False
    return is_intact


def _checked(file: SpanFile, offsets: Spans, sizes: Spans) -> npt.NDArray[np.uint32]:
    """CRC-32C of records, or nothing where one is damaged."""
    try:
        return _native.check_tfrecords(file.mapped, offsets, sizes)
    except _native.NativeError:
        return np.empty(0, np.uint32)


def _refuse(file: SpanFile, sample: int, offset: int, error: _native.NativeError) -> NoReturn:
    problem = f"sample {sample} cannot be read as a tf.train.Example: {error.detail}"
    raise FormatError(file.path, offset=offset, problem=problem, fix=_AS_BYTES) from None


def _index(file: SpanFile, table: _native.TfExampleTable, offsets: Spans, sizes: Spans) -> SampleIndex:
    names, features = [RECORD], {}
    for raw, is_list, kind, least, most, least_steps, most_steps, is_message, other_row in table.columns():
        name = _name(file, raw)
        if other_row >= 0:
            problem = f"feature {name!r} has values of more than one kind: those of sample {other_row} are others"
            raise FormatError(file.path, offset=int(offsets[other_row]), problem=problem, fix=_AS_BYTES)
        if is_list and name in features:
            name = f"feature_lists/{name}"
        names.append(name)
        feature: Any = Feature(
            kind=KINDS[kind],
            is_list=is_list,
            counts=(least, most),
            steps=(least_steps, most_steps),
            is_message=is_message,
        )
        features[name] = feature.to_json()
    if len(features) != len(names) - 1 or RECORD in features:
        raise FormatError(file.path, problem="features have the same name, or none", fix=_AS_BYTES)
    places = table.places(offsets, sizes)
    return SampleIndex(columns=tuple(names), offsets=places[0], sizes=places[1], facts={FEATURES: features})


def _name(file: SpanFile, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise FormatError(file.path, problem=f"{raw[:80]!r} is not a name in UTF-8", fix=_AS_BYTES) from None
