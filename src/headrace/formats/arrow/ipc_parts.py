"""Record batches of an Arrow file or stream, mapped.

A file begins and ends with ``ARROW1`` and has a footer that says where its batches are. A stream is the same batches
one after the other: the schema first, each message behind FF FF FF FF and its length, and zeros at the end. Feather
version 2 is an Arrow file. Batches that are not compressed are used where they lie. Of an object in a store, a column
of a batch is brought as a whole, and a stream all at once.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import FormatError
from headrace.formats.arrow.chunk_maker import is_within
from headrace.formats.arrow.ipc_layout import read_layout
from headrace.formats.arrow.parts import ForkedLock, told
from headrace.progress import format_bytes, format_count
from headrace.registry import require
from headrace.storage import StoredStream, open_stored

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.formats.arrow.parts import Parts
    from headrace.storage import StoredFile
    from headrace.types import Announcement, IndexArray

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
    file = open_stored(path, nofollow=nofollow)
    head = file.hold(0, min(file.size_bytes, 6)).tobytes()
    if head == FILE_MAGIC:
        return FileParts(file) if file.is_local else RemoteFileParts(file)
    if head.startswith(FEATHER_1):
        fix = "Read it with an old pandas, and write it again."
        raise FormatError(path, problem="this is Feather version 1, and only version 2 is read", fix=fix)
    if not head.startswith(STREAM_MAGIC):
        problem = f"this is neither an Arrow file nor a stream; it begins with {head!r}"
        raise FormatError(path, problem=problem, offset=0, fix="The write was probably interrupted; write it again.")
    return StreamParts(file, max_bytes)


class _IpcParts:
    """What all have."""

    word = "record batch"
    schema: Any
    counts: IndexArray

    def __init__(self, file: StoredFile) -> None:
        self.path, self._file = file.path, file
        self.size_bytes = file.size_bytes

    def _source(self) -> Any:
        """What pyarrow reads from."""
        pyarrow = require("pyarrow", "reading .arrow files")
        if self._file.is_local:
            return pyarrow.py_buffer(self._file.mapped)
        return pyarrow.PythonFile(StoredStream(self._file), "r")

    def files(self) -> list[StoredFile]:
        """The file."""
        return [self._file]

    def announce(self, part: int, column: int) -> Announcement | None:
        """Nothing has to be brought."""
        return None

    def _open(self, columns: list[int]) -> Any:
        ipc = require("pyarrow.ipc", "reading .arrow files")
        options = ipc.IpcReadOptions(included_fields=columns, use_threads=False)
        return ipc.open_file(self._source(), options=options)

    def parts_of_files(self) -> list[int]:
        """Its record batches."""
        return [len(self.counts)]

    def _outside_bytes(self, batch: Any) -> int:
        """Bytes of a batch that are not in the mapped file."""
        every = [one for column in batch.columns for one in column.buffers() if one is not None]
        return sum(one.size for one in every if not self._is_mapped(one))

    def _is_mapped(self, buffer: Any) -> bool:
        return self._file.is_local and is_within(buffer, self._file.mapped)


class FileParts(_IpcParts):
    """Batches of a file: any of them at any time, and only the columns that are asked for."""

    def __init__(self, file: StoredFile) -> None:
        super().__init__(file)
        path = self.path
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
            return batch.column(column if self.is_mapped else 0), self._file.mapped

    def _reader_of(self, column: int) -> Any:
        """A reader of one column decompresses no other; but it copies, so it is not for batches that are mapped."""
        if self.is_mapped:
            return self._readers[_ALL]
        if column not in self._readers:
            self._readers[column] = self._open([column])
        return self._readers[column]


class RemoteFileParts(_IpcParts):
    """Batches of an Arrow file in a store; each thread has readers of its own, so that none waits for another."""

    is_mapped = False

    def __init__(self, file: StoredFile) -> None:
        super().__init__(file)
        self._local = threading.local()
        with told(self.path, "the footer"):
            self._layout = read_layout(file)
            self.schema = self._reader_of(_ALL).schema
        self.counts = self._layout.counts

    def _reader_of(self, column: int) -> Any:
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.readers = os.getpid(), {}
        readers: dict[int, Any] = self._local.readers
        if column not in readers:
            readers[column] = self._open([] if column == _ALL else [column])
        return readers[column]

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a batch."""
        with told(self.path, f"record batch {part}, column {self.schema.field(column).name!r}"):
            batch = self._reader_of(column).get_batch(part)
            if batch.num_rows != self.counts[part]:
                raise ValueError(f"it has {format_count(batch.num_rows, 'row')}, and {self.counts[part]} are expected")
            batch.validate()
            return batch.column(0), None

    def announce(self, part: int, column: int) -> Announcement | None:
        """Begin to bring a batch."""
        offsets, sizes, _ = self._layout
        return self._file.announce(offsets[[part]].astype(np.uint64), sizes[[part]].astype(np.uint64))


class StreamParts(_IpcParts):
    """Batches of a stream: all are looked up at once, which is quick where they are not compressed."""

    def __init__(self, file: StoredFile, max_bytes: int) -> None:
        super().__init__(file)
        self.is_mapped, path = file.is_local, self.path
        ipc = require("pyarrow.ipc", "reading .arrow files")
        self._batches: list[Any] = []
        outside = 0
        with told(path, "the stream"):
            reader = ipc.open_stream(self._source(), options=ipc.IpcReadOptions(use_threads=False))
            self.schema = reader.schema
            for batch in reader:
                batch.validate()
                outside += self._outside_bytes(batch)
                if outside > max_bytes:
                    raise self._too_large(max_bytes)
                self._batches.append(batch)
        self.counts = np.fromiter((batch.num_rows for batch in self._batches), np.int64, len(self._batches))

    def _too_large(self, max_bytes: int) -> FormatError:
        kind = "compressed stream" if self._file.is_local else "stream in a store"
        problem = f"a {kind} has no random access, and this one takes more than {format_bytes(max_bytes)}"
        return FormatError(self.path, problem=problem, fix="Raise kept_bytes, or write it as an Arrow file.")

    def load(self, part: int, column: int) -> tuple[Any, npt.NDArray[np.uint8] | None]:
        """A column of a batch."""
        return self._batches[part].column(column), self._file.mapped if self._file.is_local else None


def _is_number(kind: Any) -> bool:
    types = require("pyarrow", "reading .arrow files").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
