"""Where the records of a manifest are, and what is wrong with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace._native import NativeError, TextRecords
from headrace.errors import FormatError
from headrace.formats.spans import SampleIndex
from headrace.storage import release_behind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from headrace.formats.spans import SpanFile
    from headrace.types import Progress

__all__ = ["KEY", "MAX_RECORD_BYTES", "MISSING", "RECORD", "BadRecordError", "record_index", "scan_records"]

KEY = "__key__"
"""The column with the names of the samples."""
RECORD = "/record"
"""The one column of the index; no field can be called that."""
MAX_RECORD_BYTES = 256 << 20
"""More than a record ever has; as in the native scan."""
MISSING: Final = object()
"""Stands for the value of a record that lacks a column."""
_STEP_BYTES = 32 << 20
_FIXES = {
    True: "Each line should be one JSON object; is it JSON Lines at all? A single JSON list is not.",
    False: "Close the quote, and double those inside of a cell; or give the right delimiter=. Is it a table at all?",
}
"""What to do about records that cannot be found, by whether they are lines of JSON."""


class BadRecordError(ValueError):
    """A record cannot be read: its position among those asked for, why, what to do, and at which of its bytes."""

    def __init__(self, position: int, problem: str, *, fix: str, at: int = 0) -> None:
        super().__init__(problem)
        self.position = position
        self.fix = fix
        self.at = at


def scan_records(file: SpanFile, progress: Progress | None, *, delimiter: str | None = None) -> TextRecords:
    """Find all records in one pass: lines of JSON or, with a delimiter, records of CSV."""
    records, released = TextRecords(delimiter), 0
    while records.position < file.size_bytes:
        try:
            records.scan(file.mapped, records.position + _STEP_BYTES)
        except NativeError as error:
            offset = error.offset if error.offset >= 0 else None
            problem = f"line {records.line}: {error.detail}"
            raise FormatError(file.path, offset=offset, problem=problem, fix=_FIXES[delimiter is None]) from None
        released = release_behind(file.mapped, released, records.position)
        if progress is not None:
            progress(len(records), None, records.position)
    return records


def record_index(
    offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64], facts: Mapping[str, Any] | None = None
) -> SampleIndex:
    """The index of a manifest: one record for each sample."""
    return SampleIndex(
        columns=(RECORD,), offsets=offsets.reshape(-1, 1), sizes=sizes.reshape(-1, 1), facts=dict(facts or {})
    )
