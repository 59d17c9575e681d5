"""JSON Lines: a JSON object in each line, UTF-8, one for each sample.

Blank lines do not count, lines may end in CRLF, and a byte order mark at the beginning is skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.fields import KINDS, Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.manifests import (
    KEY,
    MISSING,
    BadRecordError,
    ManifestDataset,
    ManifestWriter,
    check_names,
    record_index,
    scan_records,
)
from headrace.formats.plain_values import INT64, plain_value
from headrace.formats.spans import IndexedFile, index_spans
from headrace.formats.values import encode_value
from headrace.types import Field as FieldType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.manifests import ManifestOptions
    from headrace.formats.spans import SampleIndex, SpanFile
    from headrace.types import Field, Progress

__all__ = ["FORMAT", "JsonlDataset", "JsonlWriter"]

_HELD = (Int, Float, Text, Json, NDArray, Bytes, Image)
_FIX = 'Each line must be an object in UTF-8, such as {"label": 3}; mend or remove this one.'
_SHARED = ("annex", "keep_index", "cold", "follow_links")


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """Lines of JSON objects."""

    def names(self, rows: list[Mapping[str, Any]]) -> list[str]:
        """All keys, in the order in which they come first."""
        return list(dict.fromkeys(name for row in rows for name in row))

    def parse(self, records: list[bytes]) -> list[Mapping[str, Any]]:
        """The objects."""
        rows: list[Mapping[str, Any]] = []
        for position, record in enumerate(records):
            try:
                row = json.loads(record)
            except json.JSONDecodeError as error:
                at = len(error.doc[: error.pos].encode())
                raise BadRecordError(position, f"the line is not JSON ({error.msg})", fix=_FIX, at=at) from None
            except (ValueError, RecursionError) as error:
                raise BadRecordError(position, f"the line cannot be read ({error})", fix=_FIX) from None
            if not isinstance(row, dict):
                found = f"the line is a {type(row).__name__}, and an object is needed"
                raise BadRecordError(position, found, fix=_FIX)
            rows.append(row)
        return rows

    def guess(self, values: list[Any]) -> Field:
        """Int, Float, Text, or Json for everything else."""
        kinds = {type(value) for value in values}
        if kinds == {bool}:
            return Int()
        if kinds == {int} and all(value in INT64 for value in values):
            return Int()
        if kinds in ({float}, {int, float}):
            return Float()
        return Text() if kinds == {str} else Json()

    def value(self, field: Field, value: Any) -> Any:
        """A value; one that is missing is None where the field holds JSON."""
        if value is MISSING:
            if isinstance(field, Json):
                return None
            raise ValueError("the line has no such key; open with fields= and Json() if keys may be missing")
        return plain_value(field, value)


class JsonlDataset(ManifestDataset):
    """The lines of a JSON Lines file: one field for each key.

    Keys and types are those of the first 1000 lines: ``Int`` for whole numbers and truth values, ``Float`` for numbers,
    ``Text`` for texts, pictures or bytes where the texts are paths of files, ``Json`` for everything else.

    Args:
        path: the file.
        progress: called while the lines are searched for.
        **options: see ``ManifestOptions``.
    """

    def __init__(self, path: PathLike, *, progress: Progress | None = None, **options: Unpack[ManifestOptions]) -> None:
        shared: dict[str, Any] = {name: value for name, value in options.items() if name in _SHARED}
        indexed = IndexedFile(path, format_name="jsonl", scan=_scan, progress=progress, **shared)
        super().__init__(indexed, JsonRecords(), options)


def _scan(file: SpanFile, progress: Progress | None) -> SampleIndex:
    records = scan_records(file, progress)
    return record_index(records.offsets, records.sizes)


def _check_fields(fields: Mapping[str, Field]) -> None:
    check_names(fields)
    for name, field in fields.items():
        if isinstance(field, NDArray) and field.dtype.kind not in "biuf":
            found = f"holds {field.dtype}, for which JSON has no numbers"
            raise ValueError(f"fields[{name!r}] {found}; store whole numbers, floats or Bytes()")


class JsonlWriter(ManifestWriter):
    """Writes a JSON Lines file; see ``ManifestWriter`` for the arguments. Arrays are lists of numbers."""

    def __init__(self, path: PathLike, fields: Mapping[str, Field], **options: Any) -> None:
        _check_fields(fields)
        for name, field in fields.items():
            if isinstance(field, FieldType) and not isinstance(field, _HELD):
                held = ", ".join(kind.kind for kind in _HELD)
                raise ValueError(f"fields[{name!r}] is of kind {field.kind}, which JSON Lines cannot hold; use {held}")
        self._keys = [json.dumps(name, ensure_ascii=False) for name in fields]
        super().__init__(path, fields, _store, **options)

    def _head(self, has_names: bool) -> str:
        return ""

    def _record(self, values: list[str], name: str | None) -> str:
        cells = [f"{key}: {value}" for key, value in zip(self._keys, values, strict=True)]
        if name is not None:
            cells.insert(0, f'"{KEY}": {json.dumps(name)}')
        return f"{{{', '.join(cells)}}}\n"

    def _text(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    def _open(self) -> JsonlDataset:
        return JsonlDataset(self._file.path, annex=False)


def _store(field: Field, value: Any, index: int) -> str | bytes:
    if isinstance(field, Bytes | Image):
        return encode_value(field, value, index)[1]
    if isinstance(field, NDArray):
        payload = field.encode(value, index).payload or b""
        return json.dumps(field.decode((), memoryview(payload)).tolist())
    encoded = field.encode(value, index)
    if isinstance(field, Int | Float):
        return json.dumps(encoded.facts[0])
    if isinstance(field, Text):
        return json.dumps(value, ensure_ascii=False)
    return (encoded.payload or b"").removesuffix(b"\0").decode()


FORMAT = Format(
    name="jsonl",
    suffixes=(".jsonl", ".ndjson"),
    matches=lambda path, head: False,
    open=JsonlDataset,
    create=JsonlWriter,
    writer_options=frozenset({"annex", "class_names", "files_folder", "jpeg_index", "metadata"}),
    field_kinds=KINDS,
    check_fields=_check_fields,
    decodes=DECODES,
    has_files_beside=True,
    index=partial(index_spans, JsonlDataset),
)
