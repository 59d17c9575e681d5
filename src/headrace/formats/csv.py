"""Tables of text: CSV and TSV, as RFC 4180 has them, UTF-8.

The first record names the columns. A cell in quotes may hold delimiters, line ends and, doubled, quotes. Lines may end
in LF or CRLF, empty ones do not count, and a byte order mark at the beginning is skipped.
"""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.contract import Format
from headrace.formats.decodes import DECODES
from headrace.formats.manifests import (
    KEY,
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
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from headrace.errors import PathLike
    from headrace.formats.manifests import ManifestOptions
    from headrace.formats.spans import SampleIndex, SpanFile
    from headrace.types import Field, Progress

__all__ = ["FORMAT", "CsvDataset", "CsvWriter"]

_SHARED = ("annex", "keep_index", "cold", "follow_links")
_MAX_COLUMNS = 16384
_QUOTES = "A cell with quotes stands in quotes, and those inside are doubled."
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DIGITS = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?|[+-]?(?i:nan|inf|infinity)")


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """Records of a table whose columns are known."""

    header: tuple[str, ...]
    delimiter: str

    def names(self, rows: list[Mapping[str, Any]]) -> list[str]:
        """The columns."""
        return list(self.header)

    def parse(self, records: list[bytes]) -> list[Mapping[str, Any]]:
        """The cells, all of them texts."""
        try:
            texts = [str(record, "utf-8") for record in records]
            rows = list(csv.reader(texts, delimiter=self.delimiter, strict=True))
        except (csv.Error, UnicodeDecodeError):
            rows = []
        if len(rows) != len(records) or any(len(row) != len(self.header) for row in rows):
            rows = [self._cells(position, record) for position, record in enumerate(records)]
        return [dict(zip(self.header, row, strict=True)) for row in rows]

    def _cells(self, position: int, record: bytes) -> list[str]:
        try:
            cells = split_cells(str(record, "utf-8"), self.delimiter)
        except UnicodeDecodeError as error:
            problem, fix = "the record is not UTF-8", "Save the table as UTF-8."
            raise BadRecordError(position, problem, fix=fix, at=error.start) from None
        except ValueError as error:
            raise BadRecordError(position, str(error), fix=_QUOTES) from None
        if len(cells) != len(self.header):
            found = format_count(len(cells), "cell")
            raise BadRecordError(
                position,
                f"the record has {found}, and there are {format_count(len(self.header), 'column')}",
                fix=f"Every record needs a cell for each column, in quotes if {self.delimiter!r} is in it.",
            )
        return cells

    def guess(self, values: list[Any]) -> Field:
        """Int, Float or Text; numbers with zeros in front, or too large for 64 bits, are texts."""
        if values and all(_is_whole(value) for value in values):
            return Int()
        if values and all(_is_whole(value) or _NUMBER.fullmatch(value) for value in values):
            return Float()
        return Text()

    def value(self, field: Field, value: str) -> Any:
        """The value of a cell."""
        if isinstance(field, Text):
            return value
        text = value.strip()
        if isinstance(field, Int) and _DIGITS.fullmatch(text):
            return plain_value(field, int(text))
        if isinstance(field, Float) and (_NUMBER.fullmatch(text) or _DIGITS.fullmatch(text)):
            return float(text)
        if isinstance(field, Json | NDArray):
            try:
                return plain_value(field, json.loads(value))
            except RecursionError:
                raise ValueError("the JSON is too deep; open with fields= and Text() to have it as it is") from None
        return plain_value(field, value)


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and int(text) in INT64


def split_cells(text: str, delimiter: str) -> list[str]:
    """The cells of a record; ValueError when its quotes are not right. For what the csv module refuses.

    Example:
        >>> split_cells('1,"say ""hi"", twice",', ",")
        ['1', 'say "hi", twice', '']
    """
    cells, at = [], 0
    while True:
        if not text.startswith('"', at):
            end = text.find(delimiter, at)
            cells.append(text[at:] if end < 0 else text[at:end])
            if end < 0:
                return cells
            at = end + 1
            continue
        close = text.find('"', at + 1)
        while close >= 0 and text.startswith('"', close + 1):
            close = text.find('"', close + 2)
        if close < 0:
            raise ValueError("a quote that is never closed")
        cells.append(text[at + 1 : close].replace('""', '"'))
        if close + 1 == len(text):
            return cells
        if text[close + 1] != delimiter:
            raise ValueError(f"{text[close + 1]!r} behind the closing quote of a cell, where {delimiter!r} should be")
        at = close + 2


class CsvDataset(ManifestDataset):
    """The records of a CSV or TSV file: one field for each column.

    Types are those of the first 1000 records: ``Int``, ``Float`` or ``Text``, pictures or bytes where the texts are
    paths of files.

    Args:
        path: the file.
        delimiter: what stands between cells; by default a tab for ``.tsv`` and a comma otherwise.
        header: names of the columns, for a file that does not begin with them.
        progress: called while the records are searched for.
        **options: see ``ManifestOptions``.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        delimiter: str | None = None,
        header: Sequence[str] | None = None,
        progress: Progress | None = None,
        **options: Unpack[ManifestOptions],
    ) -> None:
        between = _delimiter_of(path) if delimiter is None else delimiter
        if len(between) != 1 or not between.isascii() or between in '"\r\n\0':
            raise ValueError(f"delimiter must be one ASCII character other than quotes and line ends, got {between!r}")
        given = None if header is None else tuple(header)
        scan = partial(_scan, delimiter=between, header=given)
        shared: dict[str, Any] = {name: value for name, value in options.items() if name in _SHARED}
        indexed = IndexedFile(path, format_name="csv", scan=scan, progress=progress, **shared)
        facts = indexed.index.facts
        if facts.get("given") != (given and list(given)) or facts.get("delimiter") != between:
            indexed.file.close()  # the annex is of the same file, read in another way
            indexed = IndexedFile(path, format_name="csv", scan=scan, progress=progress, **(shared | {"annex": False}))
        names = _checked_header(indexed.file.path, indexed.index.facts.get("header"))
        keep = {"delimiter": delimiter, "header": header, **options}
        super().__init__(indexed, CsvRecords(names, between), keep)


def _delimiter_of(path: PathLike) -> str:
    return "\t" if os.fspath(path).lower().endswith(".tsv") else ","


def _scan(file: SpanFile, progress: Progress | None, *, delimiter: str, header: tuple[str, ...] | None) -> SampleIndex:
    records = scan_records(file, progress, delimiter=delimiter)
    offsets, sizes = records.offsets, records.sizes
    facts = {"delimiter": delimiter, "given": header and list(header), "header": header and list(header)}
    if header is not None:
        return record_index(offsets, sizes, facts)
    if not len(records):
        problem = "there is no header, the line with the names of the columns"
        raise FormatError(file.path, problem=problem, fix="Give the names with header=, or write them into the file.")
    start, size = int(offsets[0]), int(sizes[0])
    try:
        facts["header"] = split_cells(str(file.mapped[start : start + size].tobytes(), "utf-8"), delimiter)
    except ValueError as error:
        problem = f"the header cannot be read ({error})"
        raise FormatError(file.path, offset=start, problem=problem, fix=f"{_QUOTES} Save it as UTF-8.") from None
    return record_index(offsets[1:], sizes[1:], facts)


def _checked_header(path: str, header: object) -> tuple[str, ...]:
    if not isinstance(header, list) or not all(isinstance(name, str) for name in header):
        fix = f"The annex is damaged; make a new one with: headrace index --fresh {path}"
        raise FormatError(path, problem="the header has names that are no texts", fix=fix)
    if len(header) > _MAX_COLUMNS:
        raise FormatError(
            path,
            problem=f"the header has {format_count(len(header), 'column')}, the most is {_MAX_COLUMNS}",
            fix="Is it a table, with the names of the columns in the first line? Give header= where they are missing.",
        )
    twice = next((name for name in header if header.count(name) > 1), None) if len({*header}) < len(header) else None
    if twice is not None:
        raise FormatError(path, problem=f"the header has the column {twice!r} twice", fix="Give each its own name.")
    return tuple(header)


class CsvWriter(ManifestWriter):
    """Writes a CSV or TSV file; see ``ManifestWriter`` for the arguments. It holds numbers, texts, pictures and bytes.

    Args:
        path: where the file goes; ``.tsv`` has tabs between cells.
        fields: name to field, in order.
        **options: see ``ManifestWriter``.
    """

    def __init__(self, path: PathLike, fields: Mapping[str, Field], **options: Any) -> None:
        for name, field in fields.items():
            if not isinstance(field, Int | Float | Text | Bytes | Image):
                kind = getattr(field, "kind", field)
                raise ValueError(f"fields[{name!r}] is of kind {kind}, which a table of text cannot hold; write .jsonl")
        self._delimiter = _delimiter_of(path)
        self._special = re.compile(f'["\r\n{re.escape(self._delimiter)}]')
        super().__init__(path, fields, _store, **options)

    def _head(self, has_names: bool) -> str:
        return self._line([KEY, *self.fields] if has_names else list(self.fields))

    def _record(self, values: list[str], name: str | None) -> str:
        return self._line(values if name is None else [name, *values])

    def _line(self, cells: list[str]) -> str:
        return self._delimiter.join(self._cell(cell) for cell in cells) + "\n"

    def _cell(self, text: str) -> str:
        if text and not self._special.search(text):
            return text
        quoted = text.replace('"', '""')
        return f'"{quoted}"'

    def _text(self, text: str) -> str:
        return text

    def _open(self) -> CsvDataset:
        return CsvDataset(self._file.path, annex=False, delimiter=self._delimiter)


def _store(field: Field, value: Any, index: int) -> str | bytes:
    if isinstance(field, Bytes | Image):
        return encode_value(field, value, index)[1]
    encoded = field.encode(value, index)
    return str(value) if isinstance(field, Text) else repr(encoded.facts[0])


FORMAT = Format(
    name="csv",
    suffixes=(".csv", ".tsv"),
    matches=lambda path, head: False,
    open=CsvDataset,
    create=CsvWriter,
    writer_options=frozenset({"annex", "class_names", "files_folder", "jpeg_index", "metadata"}),
    field_kinds=frozenset({"int", "float", "image", "bytes", "text"}),
    check_fields=check_names,
    decodes=DECODES,
    has_files_beside=True,
    index=partial(index_spans, CsvDataset),
)
