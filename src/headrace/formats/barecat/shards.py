"""Shards for reading: mapped, or opened in a store, when they are first needed, each under its own number."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from headrace._native import PlaceReader
from headrace.arrays import distinct
from headrace.errors import ClosedError, FormatError
from headrace.formats.barecat.names import MAX_SHARDS, shard_path
from headrace.progress import format_count
from headrace.storage import (
    ColdReads,
    absolute,
    check_mapping,
    file_identity,
    is_remote,
    map_file,
    mapping_faults,
    open_for_reading,
    open_stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from headrace._native import RangeReader
    from headrace.storage import StoredFile
    from headrace.storage.stored_file import Positions
    from headrace.types import Announcement

__all__ = ["MappedShard", "MappedShards", "Snapshot"]


class MappedShard:
    """One shard: its bytes as an array and as a memoryview."""

    __slots__ = ("array", "identity", "path", "size", "view")

    def __init__(self, path: str, *, follow_links: bool = False) -> None:
        self.path = path
        try:
            self.identity = file_identity(path)
            self.array: npt.NDArray[np.uint8] = map_file(path, nofollow=not follow_links)
        except FileNotFoundError:
            raise FormatError(
                path, problem="this shard is missing", fix="Put it back: all files of an archive belong together."
            ) from None
        self.view = memoryview(self.array)
        self.size = len(self.array)

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, and where in it they begin: the mapped shard itself."""
        return self.array, offsets

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement | None:
        """Nothing has to be brought."""
        return None

    def check(self) -> None:
        """Raise FormatError if the shard became shorter while it was read."""
        check_mapping(self.array, self.path)

    def problem_of(self, offset: int, size: int) -> str | None:
        """Why a span cannot be read, if so."""
        if offset >= 0 and size >= 0 and offset + size <= self.size:
            return None
        wanted, there = format_count(size, "byte"), format_count(self.size, "byte")
        return f"{wanted} at byte {offset} of {os.path.basename(self.path)}, which has {there}"

    def open(self) -> int:
        """A descriptor of the same file, for reading."""
        fd = open_for_reading(self.path, nofollow=False)
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) == self.identity:
            return fd
        os.close(fd)
        problem = "another file has taken its place since it was opened"
        raise FormatError(self.path, problem=problem, fix="Open the archive again.")

    def has_grown(self) -> bool:
        """The file that has its name now is longer; or there is none, so that mapping it anew says what is wrong."""
        try:
            return os.path.getsize(self.path) > self.size
        except FileNotFoundError:
            return True

    @property
    def is_cut(self) -> bool:
        """Some of it could not be read, because the file became shorter while it was mapped."""
        return mapping_faults(self.array) > 0


class RemoteShard(MappedShard):
    """A shard in a store."""

    __slots__ = ("file",)

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.file = open_stored(path)
        except FileNotFoundError:
            raise FormatError(
                path, problem="this shard is missing", fix="Put it back: all files of an archive belong together."
            ) from None
        self.size = self.file.size_bytes
        self.view = _RemoteView(self.file)  # type: ignore[assignment]

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, and where in it they begin."""
        return self.file.region(offsets, sizes)

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement | None:
        """Begin to bring spans here."""
        return self.file.announce(offsets, sizes)

    def check(self) -> None:
        """Raise an error if bytes that were touched could not be read."""
        self.file.check()

    def has_grown(self) -> bool:
        """An object is as long as it was when it was opened."""
        return False

    @property
    def is_cut(self) -> bool:
        """An object does not become shorter."""
        return False


class _RemoteView:
    """Bytes of an object by slices, as a memoryview has them; each is brought when it is asked for."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file

    def __getitem__(self, span: slice) -> memoryview:
        start, stop, _ = span.indices(self._file.size_bytes)
        size = max(0, stop - start)
        base, starts = self._file.region(np.array([start], np.uint64), np.array([size], np.uint64))
        self._file.check()
        return memoryview(base)[int(starts[0]) : int(starts[0]) + size]


class Snapshot:
    """Some mapped shards, and what reads from them; never changes."""

    def __init__(self, shards: dict[int, MappedShard], cold: bool | None) -> None:
        self.shards = shards
        self.reader = PlaceReader(list(shards), [shard.array for shard in shards.values()])
        self.cold = ColdReads(
            [shard.path for shard in shards.values()],
            [shard.identity for shard in shards.values()],
            size_bytes=sum(shard.size for shard in shards.values()),
            cold=cold,
        )
        self._file_of = np.full(max(shards, default=0) + 1, -1, np.int64)
        self._file_of[list(shards)] = np.arange(len(shards))

    def files_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32] | None:
        """Which file of the queue each shard is; None when one of them is not there."""
        if len(self._file_of) == 1:
            return np.zeros(len(numbers), np.uint32) if self.shards and not numbers.any() else None
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= len(self._file_of):
            return None
        files = self._file_of[numbers]
        return None if files.min(initial=0) < 0 else files.astype(np.uint32)


class MappedShards:
    """The shards of an archive that is read; any number of threads may use it, and forked children, too.

    ``mapped`` has those that were needed so far, ``snapshot`` those that were mapped when ``refresh`` was called last.

    Args:
        path: of the archive.
        place: where it is, if the path is a link.
        cold: see ``Archive``.
        follow_links: also read shards that are symbolic links.
        check: called after a shard was mapped; raises when it may belong to another archive, which has taken the name.
    """

    def __init__(
        self,
        path: str,
        *,
        place: str | None = None,
        cold: bool | None = None,
        follow_links: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._place = absolute(place or path)  # shards are opened later, perhaps from another directory
        self.is_local = not is_remote(self._place)
        self._cold = cold if self.is_local else False
        self._follow_links = follow_links
        self._check = check
        self._is_closed = False
        self.mapped: dict[int, MappedShard] = {}
        self.snapshot = Snapshot({}, False)

    def shard(self, number: int, end: int = 0) -> MappedShard:
        """A shard by number, mapped anew if it is shorter than ``end`` and has grown since."""
        mapped = self.mapped  # of now: what is mapped while another thread calls ``forget`` must not be kept
        found = mapped.get(number)
        if found is not None and end <= found.size:
            return found
        if self._is_closed:
            raise ClosedError(f"{self._path}: the archive is closed; open it again")
        if not 0 <= number < MAX_SHARDS:
            raise FormatError(self._path, problem=f"shard {number} cannot exist; numbers go from 0 to {MAX_SHARDS - 1}")
        if found is None or found.has_grown():
            found = self._open(shard_path(self._place, number))
            self._check()
            mapped[number] = found
        return found

    def _open(self, path: str) -> MappedShard:
        return MappedShard(path, follow_links=self._follow_links) if self.is_local else RemoteShard(path)

    def refresh(self) -> None:
        """Take all mapped shards to the snapshot."""
        # Another thread may do the same: the last snapshot must have all of them.
        while self.snapshot.shards != self.mapped:
            self.snapshot = Snapshot(self.mapped.copy(), self._cold)

    def snapshot_with(self, needed: dict[int, MappedShard]) -> Snapshot:
        """A snapshot that has these shards, even if they were forgotten meanwhile."""
        self.refresh()
        snapshot = self.snapshot
        return snapshot if needed.items() <= snapshot.shards.items() else Snapshot(needed, self._cold)

    def is_cold(
        self, numbers: npt.NDArray[np.int64], offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> bool:
        """Spans of these shards are better read by the queue than from the mapping.

        To be asked once: the question may bring what is missing into memory.
        """
        snapshot, files = self._files_of(numbers)
        return files is not None and snapshot.cold.reader_for(files, offsets, sizes) is not None

    def queue(self, numbers: npt.NDArray[np.int64]) -> tuple[RangeReader, npt.NDArray[np.uint32]] | None:
        """A queue of asynchronous reads, and which of its files each of these shards is; None where there is none."""
        snapshot, files = self._files_of(numbers)
        reader = snapshot.cold.reader
        return None if reader is None or files is None else (reader, files)

    def describe(self) -> str:
        """Say in words how many files at once are read."""
        if not self.is_local:
            return "from the store"
        snapshot, _ = self._files_of(np.zeros(1, np.int64))  # maps a shard, so that there is something to read from
        return snapshot.cold.describe()

    def _files_of(self, numbers: npt.NDArray[np.int64]) -> tuple[Snapshot, npt.NDArray[np.uint32] | None]:
        """A snapshot, and which of its files each of these shards is; None where one of them is not there."""
        snapshot = self.snapshot
        files = snapshot.files_of(numbers)
        if files is None and self._cold is not False:
            try:
                snapshot = self.snapshot_with({number: self.shard(number) for number in distinct(numbers).tolist()})
            except (FormatError, OSError):
                return snapshot, None  # reading from the mapped shards then says what is wrong
            files = snapshot.files_of(numbers)
        return snapshot, files

    def forget(self) -> None:
        """Map everything anew when it is needed next; views that were handed out stay valid."""
        self.mapped = {}
        self.snapshot = Snapshot({}, self._cold)

    def close(self) -> None:
        """Let go of the mappings; views that were handed out stay valid."""
        self._is_closed = True
        self._cold = False
        self.forget()
