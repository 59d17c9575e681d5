"""Many files at once: sorted by shard and offset, copied and checked by one native call for each shard."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.errors import CorruptFileError
from penstock.storage import check_mapping
from penstock.types import Ragged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.formats.barecat.shards import MappedShard, MappedShards

__all__ = ["Places", "check_spans", "gather_places", "gather_ragged"]

_KEPT_BYTES = 24 << 20
RESTORE = "Restore the shards from a copy, or remove the file."


class Places:
    """Where many files are, as columns; a CRC-32C of -1 is not known."""

    __slots__ = ("crc32c", "offset", "shard", "size")

    def __init__(
        self,
        shard: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        size: npt.NDArray[np.int64],
        crc32c: npt.NDArray[np.int64],
    ) -> None:
        self.shard = shard
        self.offset = offset
        self.size = size
        self.crc32c = crc32c

    @classmethod
    def of(cls, rows: list[tuple[int, int, int, int | None]]) -> Places:
        """From rows of the index."""
        flat = np.fromiter(
            # An empty file may stand behind the end of its shard: nobody looks there.
            itertools.chain.from_iterable((s, o if n else 0, n, -1 if c is None else c) for s, o, n, c in rows),
            np.int64,
            4 * len(rows),
        ).reshape(-1, 4)
        return cls(*(np.ascontiguousarray(flat[:, i]) for i in range(4)))

    @classmethod
    def of_table(cls, table: npt.NDArray[np.int64]) -> Places:
        """From an array with four columns, a CRC-32C of -1 not known."""
        shard, offset, size, checksum = np.ascontiguousarray(table.T)
        return cls(shard, np.where(size == 0, 0, offset), size, checksum)

    def take(self, indices: npt.NDArray[np.int64]) -> Places:
        """Those at some positions."""
        return Places(self.shard[indices], self.offset[indices], self.size[indices], self.crc32c[indices])

    def __len__(self) -> int:
        return len(self.shard)


def _by_shard(
    shards: MappedShards, places: Places
) -> Iterator[tuple[MappedShard, npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """For each shard: positions in the batch, in the order of the file, offsets and sizes; empty files left out."""
    order = np.lexsort((places.offset, places.shard))
    order = order[places.size[order] != 0]
    numbers = places.shard[order]
    for positions in np.split(order, np.flatnonzero(np.diff(numbers)) + 1):
        if len(positions):
            offsets, sizes = places.offset[positions], places.size[positions]
            end = int((offsets + sizes).max())
            shard = shards.shard(int(places.shard[positions[0]]), end)
            yield shard, positions, offsets.astype(np.uint64), sizes.astype(np.uint64)


def check_spans(
    path: str, shard: MappedShard, places: Places, name_of: Callable[[int], str], positions: npt.NDArray[np.int64]
) -> None:
    """Raise CorruptFileError if a span is not inside its shard."""
    offsets, sizes = places.offset[positions], places.size[positions]
    bad = (offsets < 0) | (sizes < 0) | (offsets > shard.size) | (sizes > shard.size - offsets)
    if bad.any():
        position = int(positions[np.argmax(bad)])
        problem = shard.problem_of(int(places.offset[position]), int(places.size[position]))
        raise CorruptFileError(path, name=name_of(position), problem=f"it should be {problem}", fix=RESTORE)


def _check_sums(
    path: str,
    places: Places,
    positions: npt.NDArray[np.int64],
    found: npt.NDArray[np.uint32],
    name_of: Callable[[int], str],
) -> None:
    expected = places.crc32c[positions]
    bad = (expected >= 0) & (expected != found)
    if bad.any():
        at = int(np.argmax(bad))
        raise CorruptFileError(
            path,
            name=name_of(int(positions[at])),
            problem=f"checksum {int(expected[at]):#010x} expected, found {int(found[at]):#010x}",
            fix=RESTORE,
        )


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
    out: list[bytes] = [b""] * len(places)
    for shard, positions, offsets, sizes in _by_shard(shards, places):
        check_spans(path, shard, places, name_of, positions)
        found = np.empty(len(positions), np.uint32) if is_checked else None
        values = _native.gather(shard.array, offsets, sizes, found)
        if found is not None:
            _check_sums(path, places, positions, found, name_of)
        for position, value in zip(positions.tolist(), values, strict=True):
            out[position] = value
        _check_cut(shard)
    return out


def gather_ragged(
    path: str, shards: MappedShards, places: Places, name_of: Callable[[int], str], *, is_checked: bool
) -> Ragged:
    """The bytes of many files one after the other, in the order of the places."""
    bounds = np.zeros(len(places) + 1, np.int64)
    np.cumsum(places.size, out=bounds[1:])
    for shard, positions, _, _ in _by_shard(shards, places):
        check_spans(path, shard, places, name_of, positions)
    out = np.empty(int(bounds[-1]), np.uint8)
    for shard, positions, offsets, sizes in _by_shard(shards, places):
        found = np.empty(len(positions), np.uint32) if is_checked else None
        targets = bounds[positions].astype(np.uint64)
        _native.gather_into(shard.array, offsets, sizes, out, targets, found)
        if found is not None:
            _check_sums(path, places, positions, found, name_of)
        _check_cut(shard)
    return Ragged(out, bounds)


def _check_cut(shard: MappedShard) -> None:
    check_mapping(shard.array, shard.path)
