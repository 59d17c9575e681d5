"""An archive that is read: mapped shards, connections to the index, and look-ups."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headrace._native import crc32c
from headrace.errors import ArchiveBusyError, CorruptFileError, FormatError, UnfinishedError
from headrace.formats.barecat.batches import RESTORE, Places, check_content, gather_places
from headrace.formats.barecat.index.connections import ReadConnections
from headrace.formats.barecat.index.preload import load_paths
from headrace.formats.barecat.index.queries import Index
from headrace.formats.barecat.index.table import open_table
from headrace.formats.barecat.names import index_path, place_of, replace_path, shard_path
from headrace.formats.barecat.remote_index import RemoteIndex
from headrace.formats.barecat.shards import MappedShards
from headrace.formats.barecat.unfinished import await_handover, is_being_changed, is_locked
from headrace.formats.entry_names import clean_name
from headrace.storage import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace._native import FileTable, PathIndex
    from headrace.errors import PathLike

__all__ = ["ArchiveReader"]

_T = TypeVar("_T")
_ATTEMPTS = 40
_QUIET_ATTEMPTS = 4  # files are moved for a moment only: it may be over before it is noticed
_PAUSE_S = 0.05


class ArchiveReader:
    """Reads an archive, and follows the changes when somebody writes to it meanwhile. It changes nothing.

    Args:
        path: of the archive.
        is_checked: check every file that is read as a whole against its CRC-32C.
        preload: read where all files are into memory.
        cold: how many files at once are read, see ``Archive``.
        follow_links: also read shards that are symbolic links.

    Raises:
        UnfinishedError: a writer was killed, and what it left must be put in order first.
    """

    def __init__(
        self, path: str, *, is_checked: bool, preload: bool, cold: bool | None, follow_links: bool = False
    ) -> None:
        self.path = path
        self.place = place_of(path, follow_links=follow_links)
        self._is_checked = is_checked
        await_handover(self.place, path)
        follow = is_being_changed(self.place, path)
        self.shards = MappedShards(
            path, place=self.place, cold=cold, follow_links=follow_links, check=self._refuse_other_archive
        )
        self._copy = RemoteIndex(self.place) if is_remote(self.place) else None
        place = index_path(self.place) if self._copy is None else self._copy.place
        self._connections = ReadConnections(
            index_path(path) if self._copy is None else path, place=place, follow=follow, on_replaced=self.shards.forget
        )
        table = None if self._connections.follows else open_table(place, self._connections.cursor)
        self.index = Index(
            path,
            self._connections.cursor,
            self._connections.new_cursor,
            table=table,
            refresh=self._connections.refresh,
            failure=self._connections.failure,
            changes=lambda: self._connections.changes,
        )
        self._paths: PathIndex | FileTable | None = load_paths(self.index) if preload else table
        self._place: Callable[[str], tuple[int, int, int, int | None] | None]
        self._place = self.index.place if self._paths is None else self._paths.find

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version of the schema."""
        return self._connections.version

    def close(self) -> None:
        """Let go of all files."""
        self._connections.close()
        self.shards.close()
        if self._copy is not None:
            self._copy.close()

    def refresh(self) -> bool:
        """Look whether somebody has written to the archive since it was looked at last; changes are then followed."""
        await_handover(self.place, self.path)
        is_news = self._connections.refresh()
        if self._paths is not None and self._connections.follows:  # the index may have refreshed already
            self.shards.forget()  # another archive may have taken the name
            self._paths = self.index.table = None
            self._place = self.index.place
            is_news = True
        return is_news

    def _refuse_other_archive(self) -> None:
        """FormatError when the files that have the name now may not be those of the index that is open.

        A new archive takes a name only while there is a note of it, and its index last.
        """
        if os.path.lexists(replace_path(self.place)) or self._connections.is_replaced():
            raise FormatError(self.path, problem="another archive has taken its name", fix="Open it again.")

    def read(self, name: str) -> bytes:
        """A whole file, checked."""
        try:
            place = self._place(name)
        except (TypeError, UnicodeError):
            place = None  # the slow way finds out what is wrong
        if place is None:
            name, place = self._find(name)
        shard, offset, size, checksum = place
        mapped = self.shards.mapped.get(shard)
        try:
            if mapped is not None and offset >= 0 and size >= 0 and offset + size <= mapped.size:
                data = bytes(mapped.view[offset : offset + size])
            else:
                data = bytes(self.view_at(name, shard, offset, size))
            if self._is_checked and checksum is not None and crc32c(data) != checksum:
                check_content(self.path, name, data, checksum)
        except (CorruptFileError, FormatError) as error:
            return self._read_again(partial(self._read_slowly, name), error)
        return data

    def _read_slowly(self, name: str) -> bytes:
        cleaned, (shard, offset, size, checksum) = self._find(name)
        data = bytes(self.view_at(cleaned, shard, offset, size))
        if self._is_checked:
            check_content(self.path, cleaned, data, checksum)
        return data

    def _read_again(self, read: Callable[[], _T], error: CorruptFileError | FormatError) -> _T:
        """After a failure: read once more if somebody has changed the archive, and wait while files are moved.

        What is wrong again and again, while nobody changes anything, is damaged.
        """
        if self._copy is not None:
            raise error  # nobody changes an object
        quiet_attempts, changes = 0, self._connections.changes
        try:
            for _ in range(_ATTEMPTS):
                is_moving = is_being_changed(self.place, self.path)
                # Two changes in one tick of the clock look like one, so a writer that is there is enough.
                if is_moving or self._connections.follows or is_locked(shard_path(self.place, 0)):
                    self._connections.follow()
                is_moving |= self.refresh() or self._connections.changes != changes
                changes = self._connections.changes
                if not is_moving and not self._connections.follows:
                    raise error
                quiet_attempts = 0 if is_moving else quiet_attempts + 1
                if quiet_attempts > _QUIET_ATTEMPTS:
                    raise error
                self.shards.forget()  # one that became shorter is of no use any more
                try:
                    return read()
                except UnfinishedError:
                    raise
                except (CorruptFileError, FormatError) as again:
                    error = again
                time.sleep(_PAUSE_S)
            problem = "somebody is moving files of this archive just now; read again when that is done"
            raise ArchiveBusyError(f"{self.path}: {problem}") from error
        finally:
            del error  # else it would hold this frame, this frame the error, and both the listings of all callers

    def _find(self, name: PathLike) -> tuple[str, tuple[int, int, int, int | None]]:
        """The slow way: the name is not as the index has it, or the index has changed, or there is no such file."""
        cleaned = clean_name(name)
        place = self.index.place(cleaned)
        if place is None and self.refresh():
            place = self.index.place(cleaned)
        if place is None:
            raise self.index.missing_file(cleaned)
        return cleaned, place

    def view(self, name: PathLike, offset: int = 0, size: int = -1) -> tuple[str, memoryview, int | None]:
        """The name of a file as the index has it, some of its bytes, and the CRC-32C of all.

        For reads that no checksum covers: so look first whether the index was changed.
        """
        self.refresh()
        try:
            return self._view(name, offset, size)
        except (CorruptFileError, FormatError) as error:
            return self._read_again(partial(self._view, name, offset, size), error)

    def _view(self, name: PathLike, offset: int, size: int) -> tuple[str, memoryview, int | None]:
        try:
            place = self._place(name)  # type: ignore[arg-type]
        except (TypeError, UnicodeError):
            place = None
        cleaned, place = self._find(name) if place is None else (str(name), place)
        view = self.view_at(cleaned, *place[:3])
        return cleaned, view[offset:] if size < 0 else view[offset : offset + size], place[3]

    def view_at(self, name: str, shard: int, offset: int, size: int) -> memoryview:
        """Bytes of a shard that belong to a file."""
        end = offset + size
        mapped = self.shards.shard(shard, end) if size else None
        if mapped is None:
            return memoryview(b"")
        if offset < 0 or size < 0 or end > mapped.size:
            raise CorruptFileError(
                self.path, name=name, problem=f"it should be {mapped.problem_of(offset, size)}", fix=RESTORE
            )
        return mapped.view[offset:end]

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Whole files, read in the order of the shards, checked."""
        wanted = names if isinstance(names, list) else list(names)
        try:
            return self._gather(wanted)
        except (CorruptFileError, FormatError) as error:
            return self._read_again(partial(self._gather, wanted), error)

    def _gather(self, names: list[str]) -> list[bytes]:
        places = self._find_many(names)
        return gather_places(self.path, self.shards, places, names.__getitem__, is_checked=self._is_checked)

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
