"""The files of a tar, zip, stream, archive or folder as samples, in any order.

What lies in a file as it is, in a tar that is not compressed, is read in place, and so is a zip. Everything else comes
once, from the front: it is unpacked into a temporary file without a name, beside the target.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.fields import Bytes, Image, Int, Text
from headrace.formats.contract import byte_chunks
from headrace.formats.entry_names import safe_name, safe_names
from headrace.formats.lent_columns import LentColumns, Spans
from headrace.formats.members import common_field, field_for, labels_of
from headrace.formats.values import decode_value
from headrace.progress import format_count
from headrace.storage import is_remote, map_descriptor, open_stream, release_behind, temporary_file
from headrace.transfer.arrangement import Arrangement, arrange
from headrace.transfer.containers import count_entries, kind_of, name_of, read_entries, translate_errors
from headrace.transfer.entry import Exactly
from headrace.transfer.zip import open_zip

if TYPE_CHECKING:
    import contextlib
    import zipfile
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.lent_columns import Column
    from headrace.formats.report import Transfer
    from headrace.transfer.entry import Entry
    from headrace.types import Buffer, Field, IndexArray, Progress

__all__ = ["ArchiveContents", "Contents", "FileContents", "FileSamples", "FolderContents"]

_HEADERS = 1024  # of a tar, in one native call
_LARGEST_READ = 1 << 30
_GAP_BYTES = 16 << 10  # between files: headers and padding
_KEPT_BYTES = 16 << 20
_GROUP_BYTES = 4 << 20  # in memory at a time
_ROOM_BYTES = 4 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NUMBER = re.compile(rb"[+-]?\d{1,18}")
Place: TypeAlias = tuple[int, int, int]
"""Where the content of a file lies: file descriptor, offset, bytes."""


class Places(NamedTuple):
    """Places of many files."""

    descriptors: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, places: list[Place]) -> Places:
        """Take them together."""
        rows = np.array(places, np.int64).reshape(-1, 3)
        return cls(rows[:, 0], rows[:, 1].astype(np.uint64), rows[:, 2].astype(np.uint64))

    def take(self, indices: IndexArray) -> Places:
        """Those of some of them."""
        return Places(self.descriptors[indices], self.offsets[indices], self.sizes[indices])


class FileContents:
    """The contents of all files of a tar, zip or stream, by name.

    Args:
        source: a path or a stream.
        kind: what it is, where no ending says so.
        folder: where a temporary file may stand.
        stack: closes what was opened.
    """

    def __init__(self, source: str | BinaryIO, *, kind: str | None, folder: str, stack: contextlib.ExitStack) -> None:
        self.path = source if isinstance(source, str) else name_of(source)
        self._source, self._kind, self._folder, self._stack = source, kind, folder, stack
        self._rows: dict[str, int] = {}
        self._places = Places.of([])
        self._zip: tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]] | None = None
        self._file: BinaryIO | None = None
        self._spool: BinaryIO | None = None
        self._pool = _native.BufferPool(_KEPT_BYTES)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def load(self, result: Transfer, *, max_bytes: int | None, progress: Progress | None) -> None:
        """Find all files; what cannot be carried is noted in the result, and what can is counted."""
        with translate_errors(self._source), count_entries(self._source, progress, kind=self._kind) as report:
            if isinstance(self._source, str):
                self._open(self._source)
            if self._find_by_headers(result, max_bytes):
                return
            found: list[Place] = []
            for entry in read_entries(self._source, result.skipped, kind=self._kind, max_bytes=max_bytes):
                if entry.is_dir:
                    continue
                if entry.name in self._rows:
                    raise FormatError(self.path, problem=f"there are two files of the name {entry.name}")
                self._rows[entry.name] = len(found)
                found.append(self._place(entry))
                result.files += 1
                result.size_bytes += entry.size
                if report is not None:
                    report(result.files, None, result.size_bytes)
            self._places = Places.of(found)
            if self._spool is not None:
                self._spool.flush()

    def _find_by_headers(self, result: Transfer, max_bytes: int | None) -> bool:
        """Find the files of a tar by one native pass; False where it is compressed, or has more than plain files."""
        if self._file is None or (self._kind or kind_of(self.path)) != "tar":
            return False
        mapped, released = map_descriptor(self._file.fileno()), 0
        scanner = _native.TarScanner(mapped)
        try:
            while scanner.advance(_HEADERS):
                released = release_behind(mapped, released, scanner.position)
            joined = b"\0".join(scanner.names[i] for i in range(len(scanner.names)))
            names = safe_names(os.fsdecode(joined).split("\0"))  # a NUL in a name makes one more
        except (_native.NativeError, ValueError):
            return False  # told by the way that goes file by file
        offsets, sizes = scanner.offsets, scanner.sizes
        rows, total = {name: row for row, name in enumerate(names)}, sum(sizes.tolist())
        if (
            scanner.notes
            or not len(rows) == len(names) == len(offsets)
            or (max_bytes is not None and total > max_bytes)
        ):
            return False
        descriptors = np.full(len(names), self._file.fileno(), np.int64)
        self._rows, self._places = rows, Places(descriptors, offsets, sizes)
        result.files, result.size_bytes = len(names), total
        return True

    def _open(self, path: str) -> None:
        if (self._kind or kind_of(path)) == "zip":
            opened = self._stack.enter_context(open_zip(path))
            self._zip = opened, {safe_name(member.filename): member for member in opened.infolist()}
        elif not is_remote(path):  # an object comes once, from the front
            self._file = self._stack.enter_context(open_stream(path, buffering=0))

    def _place(self, entry: Entry) -> Place:
        if self._zip is not None:
            return -1, 0, entry.size
        if entry.offset is not None and self._file is not None:
            return self._file.fileno(), entry.offset, entry.size
        if self._spool is None:
            self._spool = self._stack.enter_context(temporary_file(self._folder))
        start = self._spool.tell()
        try:
            with entry.open() as file:
                shutil.copyfileobj(cast("BinaryIO", Exactly(entry, file)), self._spool)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            problem = f"{error.strerror}; {self.path} is unpacked in this folder first"
            raise type(error)(error.errno, problem, self._folder) from None
        return self._spool.fileno(), start, entry.size

    def read(self, name: str) -> bytes:
        """The content of a file; any number of threads may read."""
        descriptor, offset, size = (int(part[self._rows[name]]) for part in self._places)
        if self._zip is not None:
            opened, members = self._zip
            data = opened.read(members[name])  # compares its checksum, too
        else:
            data = _pread(descriptor, offset, size)
        if len(data) != size:
            raise FormatError(self.path, problem=f"{name} should have {format_count(size, 'byte')} and has {len(data)}")
        return data

    def read_many(self, names: Sequence[str]) -> Iterator[Buffer]:
        """The contents of files, drawn one by one; files that lie close together by one read, in lent memory."""
        places = self.locate(names)
        if places is None:
            yield from map(self.read, names)
            return
        for group in byte_chunks(places.sizes, size_bytes=_GROUP_BYTES, most=len(names)):
            lent = self.lend(places.take(group))
            (spans,) = lent.columns
            assert isinstance(spans, Spans)
            yield from lent.views(spans)

    def locate(self, names: Sequence[str]) -> Places | None:
        """Where contents lie, for ``lend``; None where they lie in no file as they are."""
        if self._zip is not None:
            return None
        return self._places.take(np.fromiter(map(self._rows.__getitem__, names), np.int64, len(names)))

    def lend(self, places: Places) -> LentColumns:
        """The contents at many places, as one column; those that lie close together by one read."""
        order = np.lexsort((places.offsets, places.descriptors))
        descriptors, starts = places.descriptors[order], places.offsets[order]
        ends = starts + places.sizes[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (descriptors[1:] != descriptors[:-1]) | (starts[1:] > ends[:-1] + np.uint64(_GAP_BYTES))
        firsts = np.flatnonzero(is_first)
        lasts = np.maximum.reduceat(ends, firsts)
        lengths = lasts - starts[firsts]
        memory_at = np.cumsum(lengths) - lengths
        memory = self._read_runs(descriptors[firsts].tolist(), starts[firsts].tolist(), lengths.tolist())
        run = np.cumsum(is_first) - 1
        offsets = np.empty(len(order), np.uint64)
        offsets[order] = memory_at[run] + (starts - starts[firsts][run])
        return LentColumns(memory, [Spans(offsets, places.sizes)])

    def _read_runs(self, descriptors: list[int], starts: list[int], lengths: list[int]) -> memoryview:
        size = sum(lengths)
        room = -(-size // _ROOM_BYTES) * _ROOM_BYTES  # of few sizes, so that the pool has such a piece already
        taken: list[Any] = self._pool.take(np.array([room], np.uint64), np.zeros(1, np.uint64))
        memory, done = memoryview(taken[0])[:size], 0
        for descriptor, start, length in zip(descriptors, starts, lengths, strict=True):
            self._read_run(descriptor, start, memory[done : done + length])
            done += length
        return memory.toreadonly()

    def _read_run(self, descriptor: int, offset: int, view: memoryview) -> None:
        done = 0
        while done < len(view):
            count = os.preadv(descriptor, [view[done:]], offset + done)
            if count == 0:
                problem = f"it should have {format_count(len(view), 'byte')} from byte {offset} on and has {done}"
                raise FormatError(self.path, problem=problem)
            done += count


def _pread(descriptor: int, offset: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.pread(descriptor, min(size, _LARGEST_READ), offset)):
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class FolderContents:
    """The contents of some files of a folder, by name."""

    def __init__(self, path: str, names: list[str]) -> None:
        self.path = path
        self._names = names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with open_stream(os.path.join(self.path, name)) as file:
            return file.read()

    def read_many(self, names: Sequence[str]) -> Iterator[Buffer]:
        """The contents of files."""
        return map(self.read, names)


class ArchiveContents:
    """The contents of the files of an archive, by name; they are checked as they are read."""

    def __init__(self, archive: Archive) -> None:
        self.path = archive.path
        self.read = archive.__getitem__
        self.read_many = archive.read_many
        self._archive = archive

    def __iter__(self) -> Iterator[str]:
        return iter(self._archive.index.file_names("path"))


class Contents(Protocol):
    """Files by name."""

    path: str

    def __iter__(self) -> Iterator[str]: ...

    def read(self, name: str, /) -> bytes:
        """The content of a file; any number of threads may read."""
        ...

    def read_many(self, names: Sequence[str], /) -> Iterable[Buffer]:
        """The contents of files; where that saves a copy, in memory that is lent."""
        ...


class FileSamples:
    """Files as samples, sorted by path: pictures with what belongs to them, or files of one kind.

    Args:
        contents: of the files.
        as_bytes: every file is a sample of its bytes, whatever its name, without a label.
        only_pictures: leave out what belongs to pictures.

    Attributes:
        left_out: files that are no part of a sample, in words.
    """

    def __init__(self, contents: Contents, *, as_bytes: bool = False, only_pictures: bool = False) -> None:
        self._contents = contents
        names = sorted(contents)
        if not names:
            raise FormatError(contents.path, problem="there are no files in it, so there are no samples")
        arranged = None if as_bytes else arrange(names, only_pictures=only_pictures)
        self.left_out: list[str] = [] if arranged is None else arranged.left_out
        if arranged is None:
            field, kind = common_field(names, as_bytes=as_bytes)
            arranged = Arrangement(keys=names, files={field: names}, kinds={field: kind})
        self.path = contents.path
        self.keys = arranged.keys
        self._files = arranged.files
        self.schema: dict[str, Field] = {name: self._field(name, kind) for name, kind in arranged.kinds.items()}
        has_label = as_bytes or arranged.has_label
        classes, self._labels = ([], None) if has_label else labels_of(self.keys)
        self.class_names: Mapping[str, list[str]] = {} if self._labels is None else {"label": classes}
        if self._labels is not None:
            self.schema["label"] = Int()

    def _field(self, name: str, kind: str) -> Field:
        def first() -> bytes:
            return self._contents.read(self._files[name][0])

        if kind == "label":
            return Int() if _NUMBER.fullmatch(first().strip()) else Text()
        return field_for(kind, first)

    def sources(self) -> FileSamples:
        """Itself."""
        return self

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """A sample as a writer takes it: pictures as the bytes of their files."""
        values = [self._value(self.schema[name], files[index]) for name, files in self._files.items()]
        return tuple(values if self._labels is None else [*values, int(self._labels[index])])

    def __getitems__(self, indices: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Many of them."""
        return map(self.__getitem__, indices)

    def lend(self, indices: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Many of them; pictures and bytes may be in memory that is lent."""
        fields = [(self.schema[name], isinstance(self.schema[name], Image | Bytes)) for name in self._files]
        names = [files[i] for i in indices for files in self._files.values()]
        contents = iter(self._contents.read_many(names))
        for i in indices:
            values = [
                data if is_stored else self._decode(field, bytes(data), files[i])
                for (field, is_stored), files, data in zip(fields, self._files.values(), contents, strict=False)
            ]
            yield tuple(values if self._labels is None else [*values, int(self._labels[i])])

    def lend_columns(self, indices: Sequence[int]) -> LentColumns | None:
        """The first of them as columns, where files are stored as they are, or hold whole numbers."""
        if self._places is None or not isinstance(self._contents, FileContents):
            return None
        chosen = np.asarray(indices, np.int64)
        ends = np.cumsum(sum(places.sizes[chosen] for places in self._places.values()))
        chosen = chosen[: max(1, int(np.searchsorted(ends, _GROUP_BYTES, "right")))]
        parts = [places.take(chosen) for places in self._places.values()]
        lent = self._contents.lend(Places(*map(np.concatenate, zip(*parts, strict=True))))
        (spans,) = lent.columns
        assert isinstance(spans, Spans)
        each = map(Spans, *(np.split(part, len(parts)) for part in spans))
        columns: list[Column] = [
            np.array([int(bytes(data)) for data in lent.views(column)], np.int64) if kind.kind == "int" else column
            for kind, column in zip(self.schema.values(), each, strict=False)
        ]
        columns += [] if self._labels is None else [self._labels[chosen]]
        return LentColumns(lent.memory, columns)

    @cached_property
    def _places(self) -> dict[str, Places] | None:
        """Where the files of each field lie; None where not all can be columns."""
        kinds = {self.schema[name].kind for name in self._files}
        if not isinstance(self._contents, FileContents) or not kinds <= {"image", "bytes", "int"}:
            return None
        found = {name: self._contents.locate(files) for name, files in self._files.items()}
        return {name: places for name, places in found.items() if places is not None} or None

    def _value(self, field: Field, name: str) -> Any:
        data = self._contents.read(name)
        return data if isinstance(field, Image) else self._decode(field, data, name)

    def _decode(self, field: Field, data: bytes, name: str) -> Any:
        try:
            return decode_value(field, data)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
