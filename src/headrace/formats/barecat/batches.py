"""Many files at once: sorted by shard and offset, copied and checked by one native call.

What is in the page cache is copied from the mapped shards; what is not is read by a queue of asynchronous reads.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from headrace._native import NativeError, crc32c, crc32c_spans, gather_into
from headrace.arrays import distinct
from headrace.errors import CorruptFileError, FormatError
from headrace.storage import check_mapping, join_announcements
from headrace.types import Ragged, StoredSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace._native import PlaceReader, RangeReader
    from headrace.formats.barecat.shards import MappedShard, MappedShards
    from headrace.types import Announcement

__all__ = [
    "RESTORE",
    "Places",
    "announce_places",
    "check_content",
    "check_spans",
    "checksum_problem",
    "gather_places",
    "gather_ragged",
    "is_cold",
]

_T = TypeVar("_T")
_KEPT_BYTES = 24 << 20
_FEW = 4  # so many are asked for, and fewer are not worth a queue of reads
RESTORE = "Restore the shards from a copy, or remove the file."


class Places:
    """Where many files are: rows of shard, offset, size and CRC-32C, which is -1 where it is not known."""

    __slots__ = ("table",)

    def __init__(self, table: npt.NDArray[np.int64]) -> None:
        self.table = table

    @classmethod
    def of(cls, rows: list[tuple[int, int, int, int | None]]) -> Places:
        """From rows of the index."""
        flat = [-1 if value is None else value for row in rows for value in row]
        return cls(np.array(flat, np.int64).reshape(-1, 4))

    @property
    def shard(self) -> npt.NDArray[np.int64]:
        """Numbers of the shards."""
        return self.table[:, 0]

    @property
    def offset(self) -> npt.NDArray[np.int64]:
        """First bytes in the shards."""
        return self.table[:, 1]

    @property
    def size(self) -> npt.NDArray[np.int64]:
        """Numbers of bytes."""
        return self.table[:, 2]

    @property
    def crc32c(self) -> npt.NDArray[np.int64]:
        """Checksums, -1 where there is none."""
        return self.table[:, 3]

    def take(self, indices: npt.NDArray[np.int64]) -> Places:
        """Those at some positions."""
        return Places(self.table[indices])

    def __len__(self) -> int:
        return len(self.table)


def checksum_problem(expected: int, found: int) -> str:
    """What is wrong with a file whose checksum is another one."""
    return f"checksum {expected:#010x} expected, found {found:#010x}"


def check_content(path: str, name: str, data: bytes, checksum: int | None) -> None:
    """Raise CorruptFileError if a whole file does not have the CRC-32C that is known of it."""
    if checksum is not None and (found := crc32c(data)) != checksum:
        raise CorruptFileError(path, name=name, problem=checksum_problem(checksum, found), fix=RESTORE)


def check_spans(path: str, shard: MappedShard, places: Places, name_of: Callable[[int], str]) -> None:
    """Raise CorruptFileError if a file is not inside this shard; empty ones are nowhere."""
    offsets, sizes = places.offset, places.size
    bad = (offsets < 0) | (sizes < 0) | (offsets > shard.size) | (sizes > shard.size - offsets)
    bad &= sizes != 0
    if bad.any():
        position = int(np.argmax(bad))
        problem = shard.problem_of(int(offsets[position]), int(sizes[position]))
        raise CorruptFileError(path, name=name_of(position), problem=f"it should be {problem}", fix=RESTORE)


@functools.cache
def _keep_memory() -> None:
    """Make the allocator keep the memory of a batch for the next one.

    glibc gives the top of the heap back to the system when more than twice the largest block that was ever freed lies
    there unused, 256 KiB at first; then every batch would be paid for with page faults.
    """
    np.empty(_KEPT_BYTES, np.uint8)


def gather_places(
    path: str, shards: MappedShards, places: Places, name_of: Callable[[int], str], *, is_checked: bool
) -> list[bytes]:
    """The bytes of many files, in the order of the places."""
    _keep_memory()
    if not shards.is_local:
        values, bounds = gather_ragged(path, shards, places, name_of, is_checked=is_checked)
        return [values[begin:end].tobytes() for begin, end in pairwise(bounds.tolist())]
    batch = _Batch(path, shards, places, name_of, is_checked)
    if is_cold(shards, places):
        values, bounds = batch.ragged(from_disk=True)
        return [values[begin:end].tobytes() for begin, end in pairwise(bounds.tolist())]
    return batch.from_mapping(lambda reader: reader.read(batch.table, is_checked))


def gather_ragged(
    path: str,
    shards: MappedShards,
    places: Places,
    name_of: Callable[[int], str],
    *,
    is_checked: bool,
    from_disk: bool | None = None,
) -> Ragged:
    """The bytes of many files one after the other, in the order of the places.

    ``from_disk`` is what ``is_cold`` said; without it, it is asked.
    """
    batch = _Batch(path, shards, places, name_of, is_checked)
    if not shards.is_local:
        return batch.from_store()
    return batch.ragged(from_disk=is_cold(shards, places) if from_disk is None else from_disk)


def announce_places(shards: MappedShards, places: Places) -> Announcement | None:
    """Begin to bring files here that lie in a store; those of a shard together."""
    if shards.is_local:
        return None
    return join_announcements(
        shard.announce(places.offset[where].astype(np.uint64), places.size[where].astype(np.uint64))
        for number, where in _by_shard(places)
        if (shard := _shard_with(shards, number, places.take(where))) is not None
    )


def stored_spans(shards: MappedShards, places: Places) -> Iterator[StoredSpans]:
    """Where files lie in the shards; those that are in no shard are left out."""
    for number, where in _by_shard(places):
        shard = _shard_with(shards, number, places.take(where))
        if shard is not None:
            offsets, sizes = (one[where].astype(np.uint64) for one in (places.offset, places.size))
            yield StoredSpans(shard.path, shard.size, where, offsets, sizes)


def _shard_with(shards: MappedShards, number: int, places: Places) -> MappedShard | None:
    """A shard that has all of these files; None where reading them will say what is wrong."""
    try:
        shard = shards.shard(number)
    except FormatError:
        return None
    is_inside = (places.offset >= 0) & (places.size >= 0) & (places.offset <= shard.size - places.size)
    return shard if is_inside.all() else None


def _by_shard(places: Places) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Numbers of shards, and the positions of files that are in them; empty files are nowhere."""
    filled = np.flatnonzero(places.size != 0)
    for number in distinct(places.shard[filled]).tolist():
        yield number, filled[places.shard[filled] == number]


def is_cold(shards: MappedShards, places: Places) -> bool:
    """Of a few of these files, not all are in memory, or the archive was opened so that it is read from the disk.

    To be asked once for a batch: the question may bring what is missing into memory.
    """
    some = places.table[:: -(-len(places) // _FEW) or 1]
    some = some[some[:, 2] > 0]
    return len(places) >= _FEW and shards.is_cold(*_spans_of(some))


class _Batch:
    """One request: what is read, from where, and how its errors are told."""

    def __init__(
        self, path: str, shards: MappedShards, places: Places, name_of: Callable[[int], str], is_checked: bool
    ) -> None:
        self._path = path
        self._shards = shards
        self._places = places
        self._name_of = name_of
        self._is_checked = is_checked
        self._snapshot = shards.snapshot  # other threads may let go of shards meanwhile
        self.table = np.ascontiguousarray(places.table)

    def ragged(self, *, from_disk: bool) -> Ragged:
        """The files one after the other."""
        self._check_places()
        bounds = np.zeros(len(self.table) + 1, np.int64)
        np.cumsum(self._places.size, out=bounds[1:])
        out = np.empty(int(bounds[-1]), np.uint8)
        starts = bounds[:-1].astype(np.uint64)
        queue = self._shards.queue(self._places.shard) if from_disk else None
        if queue is not None:
            self._read_cold(*queue, out, starts)
        else:
            self.from_mapping(lambda reader: (None, reader.read_into(self.table, out, starts, self._is_checked)))
        return Ragged(out, bounds)

    def from_store(self) -> Ragged:
        """The files one after the other, from shards in a store; all shards are asked at once."""
        self._check_places()
        places = self._places
        bounds = np.zeros(len(self.table) + 1, np.int64)
        np.cumsum(places.size, out=bounds[1:])
        out, starts = np.empty(int(bounds[-1]), np.uint8), bounds[:-1].astype(np.uint64)
        coming = announce_places(self._shards, places)
        try:
            for number, where in _by_shard(places):
                shard, sizes = self._shards.shard(number), places.size[where].astype(np.uint64)
                base, offsets = shard.region(places.offset[where].astype(np.uint64), sizes)
                gather_into(base, offsets, sizes, out, starts[where])
                shard.check()
        finally:
            if coming is not None:
                coming.close()
        if self._is_checked:
            self._check_sums(out, starts, places.size.astype(np.uint64))
        return Ragged(out, bounds)

    def from_mapping(self, read: Callable[[PlaceReader], tuple[_T, list[int]]], *, is_mapped: bool = False) -> _T:
        """Call what copies from the mapped shards; once more when a shard had to be mapped first."""
        try:
            values, used = read(self._snapshot.reader)
        except NativeError as error:
            if error.code != "out_of_bounds" or is_mapped:
                raise self._explained(error.offset, error.detail) from None
            self._check_places()
            return self.from_mapping(read, is_mapped=True)
        self._check_cut(used)
        return values

    def _read_cold(
        self,
        reader: RangeReader,
        files: npt.NDArray[np.uint32],
        out: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.uint64],
    ) -> None:
        known = self._places.crc32c >= 0
        all_known = bool(known.all())
        sums = self._places.crc32c.astype(np.uint32) if self._is_checked and all_known else None
        _, offsets, sizes = _spans_of(self.table)
        for position, code, detail in reader.read(offsets, sizes, out, starts, sums, "crc32c", files)[:1]:
            raise self._explained(position, detail if code == "wrong_checksum" else f"it cannot be read ({detail})")
        if self._is_checked and not all_known:
            self._check_sums(out, starts, sizes)

    def _check_sums(
        self, out: npt.NDArray[np.uint8], starts: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> None:
        known, found = self._places.crc32c >= 0, crc32c_spans(out, starts, sizes)
        for position in np.flatnonzero(known & (found != self._places.crc32c))[:1].tolist():
            problem = checksum_problem(int(self._places.crc32c[position]), int(found[position]))
            raise self._explained(position, problem)

    def _check_places(self) -> None:
        """Map the shards that are needed, also those that have grown; CorruptFileError for a file outside of its."""
        places = self._places
        needed: dict[int, MappedShard] = {}
        for number, of_shard in _by_shard(places):
            # Whatever these numbers are, together they cannot be more than an end.
            end = int(places.offset[of_shard].max()) + int(places.size[of_shard].max())
            needed[number] = shard = self._shards.shard(number, end)

            def name_of(position: int, of_shard: npt.NDArray[np.int64] = of_shard) -> str:
                return self._name_of(int(of_shard[position]))

            check_spans(self._path, shard, places.take(of_shard), name_of)
        if self._shards.is_local:
            self._snapshot = self._shards.snapshot_with(needed)

    def _explained(self, position: int, problem: str) -> Exception:
        try:
            self._check_cut([int(self.table[position, 0])])
        except FormatError as cut:
            return cut
        return CorruptFileError(self._path, name=self._name_of(position), problem=problem, fix=RESTORE)

    def _check_cut(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            shard = self._snapshot.shards.get(number)
            if shard is not None:
                check_mapping(shard.array, shard.path)


def _spans_of(
    table: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    return table[:, 0], table[:, 1].astype(np.uint64), table[:, 2].astype(np.uint64)
