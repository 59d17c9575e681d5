"""Record batches of an Arrow file or stream, mapped.

A file begins and ends with ``ARROW1`` and has a footer that says where its batches are. A stream is the same batches
one after the other: the schema first, each message behind FF FF FF FF and its length, and zeros at the end. Feather
version 2 is an Arrow file. Batches that are not compressed are used where they lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import FormatError
from headrace.formats.arrow.chunk_maker import is_within
from headrace.formats.arrow.parts import ForkedLock, told
from headrace.progress import format_bytes, format_count
from headrace.registry import require
from headrace.storage import map_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.formats.arrow.parts import Parts
    from headrace.types import IndexArray

__all__ = ["FEATHER_1", "FILE_MAGIC", "STREAM_MAGIC", "open_ipc"]

FILE_MAGIC = b"ARROW1"
STREAM_MAGIC = b"\xff\xff\xff\xff"
FEATHER_1 = b"FEA1"
_ALL = -1


def open_ipc(path: str, *, max_bytes: int, nofollow: bool = False) -> Parts:
    """The batches of a file of either kind.

    Args:
        path: of the file.
        max_bytes: how much of a compressed stream may be kept in memory.
        nofollow: refuse a symbolic link.
    """
    mapped = map_file(path, nofollow=nofollow)
    head = mapped[:6].tobytes()
    if head == FILE_MAGIC:
        return FileParts(path, mapped)
    if head.startswith(FEATHER_1):
        fix = "Read it with an old pandas, and write it again."
        raise FormatError(path, problem="this is Feather version 1, and only version 2 is read", fix=fix)
    if not head.startswith(STREAM_MAGIC):
        problem = f"this is neither an Arrow file nor a stream; it begins with {head!r}"
        raise FormatError(path, problem=problem, offset=0, fix="The write was probably interrupted; write it again.")
    return StreamParts(path, mapped, max_bytes)


class _Mapped:
    """What both have."""

    word = "record batch"
    schema: Any
    counts: IndexArray

    def __init__(self, path: str, mapped: npt.NDArray[np.uint8]) -> None:
        self.path, self._mapped = path, mapped
        self.size_bytes = len(mapped)
        self._buffer = require("pyarrow", "reading .arrow files").py_buffer(mapped)

    def files(self) -> list[tuple[str, npt.NDArray[np.uint8]]]:
        """The mapped file."""
        return [(self.path, self._mapped)]

    def parts_of_files(self) -> list[int]:
        """Its record batches."""
        return [len(self.counts)]

    def _outside_bytes(self, batch: Any) -> int:
        """Bytes of a batch that are not in the mapped file."""
        every = [one for column in batch.columns for one in column.buffers() if one is not None]
        return sum(one.size for one in every if not is_within(one, self._mapped))


class FileParts(_Mapped):
    """Batches of a file: any of them at any time, and only the columns that are asked for."""

    def __init__(self, path: str, mapped: npt.NDArray[np.uint8]) -> None:
        super().__init__(path, mapped)
        self._lock = ForkedLock()
        self._readers: dict[int, Any] = {}
        with told(path, "the footer"):
            whole = self._readers[_ALL] = self._open([])
            self.schema = whole.schema
            counts = whole.num_record_batches
        with told(path, "a record batch"):
            self.is_mapped = counts == 0 or not self._outside_bytes(whole.get_batch(0))
            slim = whole if self.is_mapped or not len(self.schema) else self._open([self._narrowest()])
            self.counts = np.fromiter((slim.get_batch(i).num_rows for i in range(counts)), np.int64, counts)

    def _open(self, columns: list[int]) -> Any:
        ipc = require("pyarrow.ipc", "reading .arrow files")
        options = ipc.IpcReadOptions(included_fields=columns, use_threads=False)
        return ipc.open_file(self._buffer, options=options)

    def _narrowest(self) -> int:
        """The column whose batches are the least work to count."""
        widths = [
            getattr(column.type, "bit_width", None) if _is_number(column.type) else None for column in self.schema
        ]
        return min(range(len(widths)), key=lambda i: widths[i] or 1 << 20)

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a batch, decompressed if need be."""
        with told(self.path, f"record batch {part}, column {self.schema.field(column).name!r}"), self._lock:
            batch = self._reader_of(column).get_batch(part)
            if batch.num_rows != self.counts[part]:
                raise ValueError(f"it has {format_count(batch.num_rows, 'row')}, and had {self.counts[part]}")
            batch.validate()
            return batch.column(column if self.is_mapped else 0), self._mapped

    def _reader_of(self, column: int) -> Any:
        """A reader of one column decompresses no other; but it copies, so it is not for batches that are mapped."""
        if self.is_mapped:
            return self._readers[_ALL]
        if column not in self._readers:
            self._readers[column] = self._open([column])
        return self._readers[column]


class StreamParts(_Mapped):
    """Batches of a stream: all are looked up at once, which is quick where they are not compressed."""

    is_mapped = True

    def __init__(self, path: str, mapped: npt.NDArray[np.uint8], max_bytes: int) -> None:
        super().__init__(path, mapped)
        ipc = require("pyarrow.ipc", "reading .arrow files")
        self._batches: list[Any] = []
        outside = 0
        with told(path, "the stream"):
            reader = ipc.open_stream(self._buffer, options=ipc.IpcReadOptions(use_threads=False))
            self.schema = reader.schema
            for batch in reader:
                batch.validate()
                outside += self._outside_bytes(batch)
                if outside > max_bytes:
                    raise self._too_large(max_bytes)
                self._batches.append(batch)
        self.counts = np.fromiter((batch.num_rows for batch in self._batches), np.int64, len(self._batches))

    def _too_large(self, max_bytes: int) -> FormatError:
        problem = f"a compressed stream has no random access, and this one takes more than {format_bytes(max_bytes)}"
        return FormatError(self.path, problem=problem, fix="Raise cache_size, or write it as an Arrow file.")

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a batch."""
        return self._batches[part].column(column), self._mapped


def _is_number(kind: Any) -> bool:
    types = require("pyarrow", "reading .arrow files").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
