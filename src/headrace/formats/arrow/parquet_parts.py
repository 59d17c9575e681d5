"""Row groups of a Parquet file: a column of a group is read and decoded as a whole.

A file begins and ends with ``PAR1``; a footer before that says where the pages of each column of each row group are.
What a page decodes to can be far larger than the page, so it is decoded bit by bit, and counted.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import FormatError
from headrace.formats.arrow.column_types import kind_of
from headrace.formats.arrow.parts import told
from headrace.progress import format_bytes, format_count
from headrace.registry import require
from headrace.storage import StoredStream, available_bytes, join_announcements, open_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.storage import StoredFile
    from headrace.types import Announcement

__all__ = ["ENCRYPTED_MAGIC", "MAGIC", "ParquetParts"]

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
_MAX_ROWS_FOR_BYTE = 10_000
_MANY_BYTES = 256 << 20  # the system is not asked about less
_MAX_SHORT = (1 << 31) - 1
_ROWS_OF_NUMBERS, _ROWS_OF_BYTES = 1 << 16, 1 << 10  # decoded at a time


class ParquetParts:
    """Row groups of a file, each thread with a reader of its own, for those of pyarrow are not made to be shared.

    Args:
        path: of the file.
        checksums: check the CRC of pages that have one.
    """

    word = "row group"
    is_mapped = False

    def __init__(self, path: str, *, checksums: bool) -> None:
        self.path, self._is_checked = path, checksums
        self._file = open_stored(path)
        self.size_bytes = self._file.size_bytes
        head = self._file.hold(0, min(self.size_bytes, 4)).tobytes()
        if head == ENCRYPTED_MAGIC:
            raise FormatError(path, problem="this Parquet file is encrypted", fix="Decrypt it first.")
        if head != MAGIC:
            raise FormatError(
                path,
                problem=f"a Parquet file begins with {MAGIC!r}, this one with {head!r}",
                offset=0,
                fix="The write was probably interrupted; write it again.",
            )
        self._local = threading.local()
        self._metadata: Any = None
        with told(path, "the footer"):
            reader = self._reader()
            self._metadata = reader.metadata
            self.schema = reader.schema_arrow
            groups = range(reader.metadata.num_row_groups)
            self.counts = np.array([reader.metadata.row_group(i).num_rows for i in groups], np.int64)
        self._check_counts()

    def _check_counts(self) -> None:
        most = _MAX_ROWS_FOR_BYTE * self.size_bytes
        total = sum(self.counts.tolist())
        if (self.counts < 0).any() or total > most or total != self._metadata.num_rows:
            told = format_count(total, "row")
            problem = f"the footer tells of {told} in row groups, and of {self._metadata.num_rows} in all"
            raise FormatError(self.path, problem=problem, fix="The file is damaged; write or copy it again.")

    def _reader(self) -> Any:
        if getattr(self._local, "process", None) != os.getpid():
            pyarrow = require("pyarrow", "reading .parquet files")
            self._local.reader = require("pyarrow.parquet", "reading .parquet files").ParquetFile(
                pyarrow.BufferReader(pyarrow.py_buffer(self._file.mapped))
                if self._file.is_local
                else pyarrow.PythonFile(StoredStream(self._file), "r"),
                metadata=self._metadata,
                page_checksum_verification=self._is_checked,
            )
            self._local.process = os.getpid()
        return self._local.reader

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a row group."""
        name = self.schema.field(column).name
        with told(self.path, f"row group {part}, column {name!r}"):
            pieces = list(self._pieces(part, column))
            rows = sum(map(len, pieces))
            if rows != self.counts[part]:
                raise ValueError(f"it has {format_count(rows, 'row')}, and {self.counts[part]} are expected")
            return self._joined(pieces, column), None

    def _pieces(self, part: int, column: int) -> Iterator[Any]:
        wanted = self.schema.field(column)
        size_bytes, limit = 0, 0
        is_short = kind_of(wanted.type) in ("int", "float")
        batches = self._reader().iter_batches(
            batch_size=_ROWS_OF_NUMBERS if is_short else _ROWS_OF_BYTES,
            row_groups=[part],
            columns=[wanted.name],
            use_threads=False,
        )
        for batch in batches:
            found = batch.schema.get_all_field_indices(wanted.name)
            if len(found) != 1:
                raise ValueError(f"{format_count(len(found), 'column')} have this name")
            size_bytes += batch.nbytes
            if size_bytes > _MANY_BYTES:
                limit = limit or size_bytes + available_bytes() // 2
                if size_bytes > limit:
                    raise ValueError(f"it takes more than {format_bytes(limit)}; write it with smaller row groups")
            yield batch.column(found[0])

    def _joined(self, pieces: list[Any], column: int) -> Any:
        pyarrow = require("pyarrow", "reading .parquet files")
        kind = self.schema.field(column).type
        if not pieces:
            return pyarrow.array([], kind)
        if pyarrow.types.is_dictionary(kind):
            return pyarrow.chunked_array(pieces).unify_dictionaries().combine_chunks()
        size = sum(piece.nbytes for piece in pieces)
        if size > _MAX_SHORT:
            pieces = [_with_long_offsets(piece) for piece in pieces]
        return pieces[0] if len(pieces) == 1 else pyarrow.concat_arrays(pieces)

    def announce(self, part: int, column: int) -> Announcement | None:
        """Begin to bring a column of a row group: each of its chunks is read by one request."""
        if self._file.is_local:
            return None
        wanted = self.schema.field(column).name
        group = self._metadata.row_group(part)
        chunks = (group.column(i) for i in range(group.num_columns))
        mine = [one for one in chunks if one.path_in_schema == wanted or one.path_in_schema.startswith(f"{wanted}.")]
        return join_announcements(self._announce_chunk(one) for one in mine)

    def _announce_chunk(self, chunk: Any) -> Announcement | None:
        first = chunk.dictionary_page_offset
        start = chunk.data_page_offset if not first or first > chunk.data_page_offset else first
        size = chunk.total_compressed_size
        if start < 0 or size <= 0 or start + size > self.size_bytes:
            return None  # reading it says what is wrong
        return self._file.announce(np.array([start], np.uint64), np.array([size], np.uint64))

    def files(self) -> list[StoredFile]:
        """The file."""
        return [self._file]

    def parts_of_files(self) -> list[int]:
        """Its row groups."""
        return [len(self.counts)]


def _with_long_offsets(array: Any) -> Any:
    """Bytes whose places need more than 31 bits together; other columns as they are."""
    pyarrow = require("pyarrow", "reading .parquet files")
    kind = array.type
    if pyarrow.types.is_binary(kind) or pyarrow.types.is_string(kind):
        return array.cast(pyarrow.large_binary())
    if pyarrow.types.is_struct(kind):
        inner = [_with_long_offsets(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return pyarrow.StructArray.from_arrays(inner, names, mask=array.is_null())
    return array
