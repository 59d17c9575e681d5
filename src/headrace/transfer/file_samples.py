"""The files of a tar, zip, stream, archive or folder as samples, in any order.

What lies in a file as it is, in a tar that is not compressed, is read in place, and so is a zip. Everything else comes
once, from the front: it is unpacked into a temporary file without a name, beside the target.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias, cast

import numpy as np

from headrace import _native
from headrace.errors import FormatError
from headrace.fields import Bytes, Image, Int, Text
from headrace.formats.contract import byte_chunks
from headrace.formats.entry_names import safe_name, safe_names
from headrace.formats.members import field_for, labels_of, ungrouped_members
from headrace.formats.values import decode_value
from headrace.progress import format_count
from headrace.storage import map_descriptor, open_stream, release_behind, temporary_file
from headrace.transfer.arrangement import Arrangement, arrange
from headrace.transfer.containers import count_entries, kind_of, name_of, read_entries, translate_errors
from headrace.transfer.entry import Exactly
from headrace.transfer.zip import open_zip

if TYPE_CHECKING:
    import contextlib
    import zipfile
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.report import Transfer
    from headrace.transfer.entry import Entry
    from headrace.types import Buffer, Field, Progress

__all__ = ["ArchiveContents", "Contents", "FileContents", "FileSamples", "FolderContents"]

_HEADERS = 1024  # of a tar, in one native call
_LARGEST_READ = 1 << 30
_GAP_BYTES = 16 << 10  # between files: headers and padding
_KEPT_BYTES = 16 << 20
_GROUP_BYTES = 4 << 20  # in memory at a time
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NUMBER = re.compile(rb"[+-]?\d{1,18}")
Place: TypeAlias = tuple[int, int, int]
"""Where the content of a file lies: file descriptor, offset, bytes."""


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
        self._places: dict[str, Place] = {}
        self._zip: tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]] | None = None
        self._file: BinaryIO | None = None
        self._spool: BinaryIO | None = None
        self._pool = _native.BufferPool(_KEPT_BYTES)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def load(self, result: Transfer, *, max_bytes: int | None, progress: Progress | None) -> None:
        """Find all files; what cannot be carried is noted in the result, and what can is counted."""
        with translate_errors(self._source), count_entries(self._source, progress, kind=self._kind) as report:
            if isinstance(self._source, str):
                self._open(self._source)
            if self._find_by_headers(result, max_bytes):
                return
            for entry in read_entries(self._source, result.skipped, kind=self._kind, max_bytes=max_bytes):
                if entry.is_dir:
                    continue
                if entry.name in self._places:
                    raise FormatError(self.path, problem=f"there are two files of the name {entry.name}")
                self._places[entry.name] = self._place(entry)
                result.files += 1
                result.size_bytes += entry.size
                if report is not None:
                    report(result.files, None, result.size_bytes)
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
            names = safe_names([os.fsdecode(scanner.names[i]) for i in range(len(scanner.names))])
        except (_native.NativeError, ValueError):
            return False  # told by the way that goes file by file
        sizes = scanner.sizes.tolist()
        total = sum(sizes)
        if scanner.notes or len(set(names)) < len(names) or (max_bytes is not None and total > max_bytes):
            return False
        descriptor = self._file.fileno()
        places = zip(scanner.offsets.tolist(), sizes, strict=True)
        self._places = {name: (descriptor, *place) for name, place in zip(names, places, strict=True)}
        result.files, result.size_bytes = len(names), total
        return True

    def _open(self, path: str) -> None:
        if (self._kind or kind_of(path)) == "zip":
            opened = self._stack.enter_context(open_zip(path))
            self._zip = opened, {safe_name(member.filename): member for member in opened.infolist()}
        else:
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
        descriptor, offset, size = self._places[name]
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
        if self._zip is not None:
            yield from map(self.read, names)
            return
        places = [self._places[name] for name in names]
        sizes = np.fromiter((size for _, _, size in places), np.uint64, len(places))
        for group in byte_chunks(sizes, size_bytes=_GROUP_BYTES, most=len(places)):
            yield from self._lend_group([places[i] for i in group.tolist()])

    def _lend_group(self, places: list[Place]) -> list[Buffer]:
        order = sorted(range(len(places)), key=places.__getitem__)
        found: list[Buffer] = [b""] * len(places)
        first = 0
        while first < len(order):
            descriptor, start, size = places[order[first]]
            end, last = start + size, first + 1
            while last < len(order) and _is_close(places[order[last]], descriptor, end):
                _, offset, size = places[order[last]]
                end, last = max(end, offset + size), last + 1
            data = self._lend(descriptor, start, end - start)
            for i in order[first:last]:
                _, offset, size = places[i]
                found[i] = data[offset - start : offset - start + size]
            first = last
        return found

    def _lend(self, descriptor: int, offset: int, size: int) -> memoryview:
        taken: list[Any] = self._pool.take(np.array([size], np.uint64), np.zeros(1, np.uint64))
        view, done = memoryview(taken[0]), 0
        while done < size:
            count = os.preadv(descriptor, [view[done:]], offset + done)
            if count == 0:
                problem = f"it should have {format_count(size, 'byte')} from byte {offset} on and has {done}"
                raise FormatError(self.path, problem=problem)
            done += count
        return view.toreadonly()


def _is_close(place: Place, descriptor: int, end: int) -> bool:
    """A file lies so close behind the end of another that both are read together."""
    return place[0] == descriptor and place[1] - end <= _GAP_BYTES


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
            members = ungrouped_members([(name,) for name in names], as_bytes=as_bytes)
            arranged = Arrangement(keys=members.keys, files=members.names, kinds=members.kinds)
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

    def _value(self, field: Field, name: str) -> Any:
        data = self._contents.read(name)
        return data if isinstance(field, Image) else self._decode(field, data, name)

    def _decode(self, field: Field, data: bytes, name: str) -> Any:
        try:
            return decode_value(field, data)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
