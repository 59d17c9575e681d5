"""Contents of the files of an archive."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headrace._native import crc32c
from headrace.errors import (
    ArchiveBusyError,
    ClosedError,
    CorruptFileError,
    EntryIsDirectoryError,
    EntryNotFoundError,
    FormatError,
)
from headrace.formats.barecat.batches import RESTORE, Places, gather_places
from headrace.formats.barecat.edit.handover import finish_handover
from headrace.formats.barecat.edit.undo import recover
from headrace.formats.barecat.index.connections import ReadConnections
from headrace.formats.barecat.index.preload import load_paths
from headrace.formats.barecat.index.queries import Index
from headrace.formats.barecat.index.table import open_table
from headrace.formats.barecat.names import clean_name, index_path, undo_path
from headrace.formats.barecat.shards import MappedShards

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace._native import FileTable, PathIndex
    from headrace.errors import PathLike
    from headrace.formats.barecat.edit.editor import Editor

__all__ = ["Reading"]

_T = TypeVar("_T")
_ATTEMPTS = 40
_FREE_ATTEMPTS = 4  # files are moved for a moment only: it may be over already
_PAUSE_S = 0.05


class Reading:
    """The part of an archive that reads files: from the mapped shards, or while it is written to from those."""

    path: str
    full_path: str
    index: Index
    _editor: Editor | None
    _is_checked: bool
    _is_preloaded: bool
    _cold: bool | None
    _paths: PathIndex | FileTable | None
    _place: Callable[[str], tuple[int, int, int, int | None] | None]

    @property
    def editor(self) -> Editor:
        """What changes the archive."""
        raise NotImplementedError

    def _open_for_reading(self, preload: bool) -> None:
        follow = False
        if os.path.exists(undo_path(self.path)):
            try:
                recover(self.path)
            except ArchiveBusyError:
                follow = True  # the writer is alive and will tidy up itself
        self._connections = ReadConnections(index_path(self.path), follow=follow)
        self._shards = MappedShards(self.path, cold=self._cold)
        table = None if self._connections.follows else open_table(index_path(self.path), self._connections.cursor)
        self.index = Index(
            self.path,
            self._connections.cursor,
            self._connections.new_cursor,
            table=table,
            refresh=self._connections.refresh,
        )
        self._is_preloaded = preload
        self._paths = load_paths(self.index) if preload else table
        self._place = self.index.place if self._paths is None else self._paths.find

    def refresh(self) -> bool:
        """Look whether somebody has written to the archive since it was opened; if so, the changes are followed."""
        return self._has_changed()

    @property
    def shards(self) -> MappedShards:
        """The mapped shards of an archive that is read."""
        if self._editor is not None:
            raise ClosedError(f"{self.path} is open for writing; its shards are not mapped")
        return self._shards

    def __getitem__(self, name: str) -> bytes:
        try:
            place = self._place(name)
        except (TypeError, UnicodeError):
            place = None  # the slow way finds out what is wrong
        if place is None:
            name, place = self._find(name)
        shard, offset, size, checksum = place
        try:
            data = self._bytes(name, shard, offset, size)
        except (CorruptFileError, FormatError) as error:
            return self._read_again(partial(self._read_slowly, name), error)
        if checksum is not None and self._is_checked and crc32c(data) != checksum:
            return self._read_again(partial(self._read_slowly, name), self._mismatch(name, data, checksum))
        return data

    def _read_slowly(self, name: str) -> bytes:
        cleaned, (shard, offset, size, checksum) = self._find(name)
        data = self._bytes(cleaned, shard, offset, size)
        if checksum is not None and self._is_checked and crc32c(data) != checksum:
            raise self._mismatch(cleaned, data, checksum)
        return data

    def _read_again(self, read: Callable[[], _T], error: CorruptFileError | FormatError) -> _T:
        """After a failure: read once more if somebody has changed the archive, and wait while files are moved."""
        for attempt in range(_ATTEMPTS):
            is_moving = attempt < _FREE_ATTEMPTS or os.path.exists(undo_path(self.path))
            if self._editor is not None or not (self._has_changed() or (self._connections.follows and is_moving)):
                raise error
            self._shards.forget()  # one that became shorter is of no use any more
            try:
                return read()
            except (CorruptFileError, FormatError) as again:
                error = again
            time.sleep(_PAUSE_S)
        problem = "somebody is moving files of this archive just now; read again when that is done"
        raise ArchiveBusyError(f"{self.path}: {problem}") from error

    def _find(self, name: PathLike) -> tuple[str, tuple[int, int, int, int | None]]:
        """The slow way: the name is not as the index has it, or the index has changed, or there is no such file."""
        cleaned = clean_name(name)
        place = self.index.place(cleaned)
        if place is None and self._has_changed():
            place = self.index.place(cleaned)
        if place is None:
            if self.index.is_dir(cleaned):
                raise EntryIsDirectoryError(self.path, cleaned)
            raise EntryNotFoundError(self.path, cleaned)
        return cleaned, place

    def _locate(self, name: PathLike) -> tuple[str, tuple[int, int, int, int | None]]:
        """Where a file is, for reads that no checksum covers: so look first whether the index was changed."""
        self._has_changed()
        try:
            place = self._place(name)  # type: ignore[arg-type]
        except (TypeError, UnicodeError):
            place = None
        return self._find(name) if place is None else (str(name), place)

    def _has_changed(self) -> bool:
        """Somebody has written to the archive since it was opened; from now on the changes are followed."""
        if self._editor is not None:
            return False
        finish_handover(self.full_path)
        is_news = self._connections.refresh() or self._paths is not None  # the index may have refreshed already
        if not is_news or not self._connections.follows:
            return False
        self._shards.forget()  # another archive may have taken the name
        self._paths = self.index.table = None
        self._place = self.index.place
        return True

    def _bytes(self, name: str, shard: int, offset: int, size: int) -> bytes:
        if self._editor is not None:
            return self._read_written(name, shard, offset, size)
        mapped = self._shards.mapped.get(shard)
        if mapped is not None and offset >= 0 and size >= 0 and offset + size <= mapped.size:
            return bytes(mapped.view[offset : offset + size])
        return bytes(self._view(name, shard, offset, size))

    def _view(self, name: str, shard: int, offset: int, size: int) -> memoryview:
        end = offset + size
        mapped = self._shards.shard(shard, end) if size else None
        if mapped is None:
            return memoryview(b"")
        if offset < 0 or size < 0 or end > mapped.size:
            raise CorruptFileError(
                self.path, name=name, problem=f"it should be {mapped.problem_of(offset, size)}", fix=RESTORE
            )
        return mapped.view[offset:end]

    def _read_written(self, name: str, shard: int, offset: int, size: int) -> bytes:
        editor = self.editor
        with editor.lock:
            data = editor.shards.read(shard, offset, size) if offset >= 0 else b""
        if len(data) != size:
            missing = f"{size} bytes at byte {offset} of shard {shard} are not there"
            raise CorruptFileError(self.path, name=name, problem=missing, fix=RESTORE)
        return data

    def _mismatch(self, name: str, data: bytes, checksum: int) -> CorruptFileError:
        return CorruptFileError(
            self.path,
            name=name,
            problem=f"checksum {checksum:#010x} expected, found {crc32c(data):#010x}",
            fix=RESTORE,
        )

    def read(self, name: PathLike, offset: int = 0, size: int = -1) -> bytes:
        """A part of a file; the whole file is checked, a part cannot be."""
        if offset == 0 and size < 0:
            return self[os.fspath(name)]
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        cleaned, (shard, start, length, _) = self._locate(name)
        first = min(offset, length)
        count = length - first if size < 0 else min(size, length - first)
        return self._bytes(cleaned, shard, start + first, count)

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Many files in one call, in the order of the names: read in the order of the shards, everything checked.

        Example:
            >>> import os, tempfile
            >>> from headrace.formats.barecat import Archive
            >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
            >>> with Archive(path, "x") as archive:
            ...     archive.update({"a": b"1", "b": b"2"})
            >>> Archive(path).read_many(["b", "a", "b"])
            [b'2', b'1', b'2']
        """
        if self._editor is not None:
            return [self[name] for name in names]
        wanted = names if isinstance(names, list) else list(names)
        try:
            return self._gather(wanted)
        except (CorruptFileError, FormatError) as error:
            return self._read_again(partial(self._gather, wanted), error)

    def _gather(self, names: list[str]) -> list[bytes]:
        places = self._find_many(names)
        return gather_places(self.path, self._shards, places, names.__getitem__, is_checked=self._is_checked)

    def _find_many(self, names: list[str]) -> Places:
        if self._paths is None:
            found = self.index.places(names)
            rows: list[Any] = [found[name] if name in found else self._find(name)[1] for name in names]
            return Places.of(rows)
        table = self._paths.find_many(names)
        for position in np.flatnonzero(table[:, 0] < 0).tolist():
            place = self._find(names[position])[1]
            table[position] = [-1 if value is None else value for value in place]
        return Places(table)

    def readinto(self, name: PathLike, buffer: Any, offset: int = 0) -> int:
        """Fill a buffer from a file; gives the number of bytes."""
        target = memoryview(buffer).cast("B")
        data = self.read(name, offset, len(target))
        target[: len(data)] = data
        return len(data)
