"""Values of any length in an HDF5 file: where the *global heap* keeps them.

What a dataset stores of such a value is a reference of 16 bytes: how many elements it has (u32), where the collection
is in which it lies (u64), and its number there (u32). A collection begins with ``GCOL``, version 1, three bytes of
padding and its size (u64). Then come objects: number (u16), count of references (u16), padding (u32), size (u64), and
the bytes, padded to a multiple of 8. Number 0 is the free space at the end. All integers are little-endian.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.formats.mapped_values import Places
from headrace.progress import format_count

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["REFERENCE", "Heap", "HeapError"]

REFERENCE = np.dtype([("count", "<u4"), ("address", "<u8"), ("number", "<u4")])
_HEAD = struct.Struct("<4sB3xQ")
_OBJECT = struct.Struct("<HH4xQ")
_BEGINNING = np.dtype(
    [("magic", "V5"), ("pad", "V3"), ("size", "<u8"), ("number", "<u2"), ("x", "V6"), ("bytes", "<u8")]
)
_MAGIC = np.void(b"GCOL\x01")
_MAX_OBJECTS = 1 << 16
_KEPT_OBJECTS = 1 << 20


class HeapError(ValueError):
    """A reference leads to nothing: which one, and what is wrong."""

    def __init__(self, position: int, problem: str, offset: int | None = None) -> None:
        self.position, self.problem, self.offset = position, problem, offset
        super().__init__(problem)


class Heap:
    """Finds values in a mapped file. Any number of threads may ask at once."""

    def __init__(self, mapped: npt.NDArray[np.uint8]) -> None:
        self._mapped = mapped
        self._collections: dict[int, dict[int, tuple[int, int]]] = {}
        self._kept = 0

    def locate(self, references: npt.NDArray[np.void], width: int) -> Places:
        """Where values are; every one lies inside of its object.

        Args:
            references: of dtype ``REFERENCE``.
            width: bytes of an element.
        """
        sizes = references["count"].astype(np.uint64) * np.uint64(width)
        offsets = np.zeros(len(references), np.uint64)
        wanted = np.flatnonzero(sizes)
        rest = wanted[~self._locate_first(references[wanted], sizes[wanted], wanted, offsets)]
        wanted_there = (references["address"][rest], references["number"][rest], sizes[rest])
        rows = zip(rest.tolist(), *(part.tolist() for part in wanted_there), strict=True)
        offsets[rest] = [self._locate_one(*row) for row in rows]
        return Places(offsets, sizes)

    def _locate_first(
        self,
        references: npt.NDArray[np.void],
        sizes: npt.NDArray[np.uint64],
        positions: IndexArray,
        offsets: npt.NDArray[np.uint64],
    ) -> npt.NDArray[np.bool_]:
        """All at once those that are the first object of their collection, as large values are; tells which."""
        addresses = references["address"]
        is_inside = addresses <= np.uint64(max(0, len(self._mapped) - _BEGINNING.itemsize))
        is_inside &= len(self._mapped) >= _BEGINNING.itemsize
        found = np.zeros(len(references), bool)
        at = addresses[is_inside].astype(np.int64)
        raw = self._mapped[at[:, None] + np.arange(_BEGINNING.itemsize)]
        head = np.ascontiguousarray(raw).view(_BEGINNING).reshape(-1)
        room = np.uint64(len(self._mapped)) - addresses[is_inside]
        is_right = (head["magic"] == _MAGIC) & (head["number"] == references["number"][is_inside])
        is_right &= (head["size"] <= room) & (head["bytes"] >= sizes[is_inside])
        is_right &= (head["size"] >= _BEGINNING.itemsize) & (head["bytes"] <= head["size"] - np.uint64(32))
        found[is_inside] = is_right
        offsets[positions[found]] = addresses[found] + np.uint64(_BEGINNING.itemsize)
        return found

    def _locate_one(self, position: int, address: int, number: int, size: int) -> int:
        objects = self._collections.get(address)
        if objects is None:
            objects = self._read_collection(position, address)
            if self._kept > _KEPT_OBJECTS:
                self._collections, self._kept = {}, 0
            self._collections[address] = objects
            self._kept += len(objects) + 1
        start, has = objects.get(number, (0, -1))
        if has < size:
            problem = f"its {format_count(size, 'byte')} should be object {number} of a heap, "
            raise HeapError(position, problem + ("which is not there" if has < 0 else f"which has {has}"), address)
        return start

    def _read_collection(self, position: int, address: int) -> dict[int, tuple[int, int]]:
        file_size = len(self._mapped)
        if address + _HEAD.size > file_size:
            raise HeapError(position, "its bytes should be in a heap behind the end of the file", address)
        magic, version, size = _HEAD.unpack(self._mapped[address : address + _HEAD.size].tobytes())
        if magic != b"GCOL" or version != 1 or not _HEAD.size <= size <= file_size - address:
            raise HeapError(position, "its bytes should be in a heap, and there is none", address)
        objects: dict[int, tuple[int, int]] = {}
        at, end = address + _HEAD.size, address + size
        while at + _OBJECT.size <= end and len(objects) < _MAX_OBJECTS:
            number, _, length = _OBJECT.unpack(self._mapped[at : at + _OBJECT.size].tobytes())
            at += _OBJECT.size
            if number == 0 or length > end - at:
                break
            objects[number] = at, length
            at += -(-length // 8) * 8
        return objects
