"""A file as spans of bytes, many in one call.

Contract: immutable after opening, so any number of threads may read, and it survives fork. What is in the page cache is
copied from the mapping; what is not is read by a queue of asynchronous reads. If somebody cuts the file short
meanwhile, every read that follows says so.
"""

from __future__ import annotations

import itertools
import os
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import ClosedError, FormatError
from headrace.progress import format_count
from headrace.storage import ColdReads, check_mapping, file_identity, map_descriptor, map_file
from headrace.types import Ragged

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["BadSpanError", "Positions", "SpanFile"]

Positions = npt.NDArray[np.uint64]
_EDGE_BYTES = 64 << 10
_WHOLE_BYTES = 1 << 20
_SPREAD_BLOCKS = 64
_BLOCK_BYTES = 4096
_REPLACED = "Replace files by renaming, never in place, and open them again afterwards."


class BadSpanError(Exception):
    """A span cannot be read or does not match its checksum: its position among those asked for, and why."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


class SpanFile:
    """A file whose values are found by offset and size.

    Args:
        path: the file.
        cold: True reads past the page cache, False always from the mapped file; by default as it fits.
        fd: of an open file that holds the bytes in place of the one at the path, such as what ``unpack`` has unpacked;
            it may be closed afterwards. Such a file is always read from its mapping.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "x")
        >>> _ = path.write_bytes(b"onetwothree")
        >>> SpanFile(path).read(np.array([6, 0], np.uint64), np.array([5, 3], np.uint64))
        [b'three', b'one']
    """

    def __init__(self, path: PathLike, *, cold: bool | None = None, fd: int | None = None) -> None:
        self.path = os.fspath(path)
        identity = file_identity(self.path)
        self._mapped: npt.NDArray[np.uint8] | None = map_file(self.path) if fd is None else map_descriptor(fd)
        self.size_bytes = len(self._mapped)
        cold = cold if fd is None else False
        self._cold = ColdReads([os.path.abspath(self.path)], [identity], size_bytes=self.size_bytes, cold=cold)

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """The bytes of the whole file, read-only."""
        if self._mapped is None:
            raise ClosedError(f"{self.path}: the dataset is closed; open it again")
        return self._mapped

    @property
    def reading(self) -> str:
        """How spans are read, in words."""
        return self._cold.describe()

    @cached_property
    def fingerprint(self) -> int:
        """32 bits of the content: all of a small file; of a large one both ends and blocks that are spread over it."""
        mapped = self.mapped
        value = _native.crc32c(str(self.size_bytes).encode())
        if self.size_bytes <= _WHOLE_BYTES:
            return _native.crc32c(mapped, value)
        value = _native.crc32c(mapped[-_EDGE_BYTES:], _native.crc32c(mapped[:_EDGE_BYTES], value))
        for at in np.linspace(0, self.size_bytes - _BLOCK_BYTES, _SPREAD_BLOCKS, dtype=np.int64).tolist():
            value = _native.crc32c(mapped[at : at + _BLOCK_BYTES], value)
        return value

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        self._mapped = None
        self._cold.close()

    def check(self) -> None:
        """Raise FormatError if a part of the file could not be read, because somebody has cut it short."""
        if self._mapped is not None:
            check_mapping(self._mapped, self.path)

    def read(
        self, offsets: Positions, sizes: Positions, checksums: npt.NDArray[np.uint32] | None = None
    ) -> list[bytes]:
        """Spans as bytes objects, compared with their CRC-32C where there are some; BadSpanError names a bad one."""
        if (reader := self._reader_for(offsets, sizes)) is not None:
            ragged = self._read_cold(reader, offsets, sizes, checksums)
            bounds = ragged.offsets.tolist()
            return [ragged.values[a:b].tobytes() for a, b in itertools.pairwise(bounds)]
        found = None if checksums is None else np.empty(len(offsets), np.uint32)
        try:
            values = _native.gather(self.mapped, offsets, sizes, found)
        except _native.NativeError as error:
            raise self._outside(error) from None
        self.check()
        _compare(checksums, found)
        return values

    def read_ragged(
        self, offsets: Positions, sizes: Positions, checksums: npt.NDArray[np.uint32] | None = None
    ) -> Ragged:
        """Spans one after the other in one array."""
        if (reader := self._reader_for(offsets, sizes)) is not None:
            return self._read_cold(reader, offsets, sizes, checksums)
        self._check_inside(offsets, sizes)
        found = None if checksums is None else np.empty(len(offsets), np.uint32)
        bounds = _bounds_of(sizes)
        out = np.empty(int(bounds[-1]), np.uint8)
        _native.gather_into(self.mapped, offsets, sizes, out, bounds[:-1].astype(np.uint64), found)
        self.check()
        _compare(checksums, found)
        return Ragged(out, bounds)

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, and where in it they begin: the mapped file itself where it is in the cache."""
        if (reader := self._reader_for(offsets, sizes)) is None:
            self._check_inside(offsets, sizes)
            return self.mapped, offsets
        ragged = self._read_cold(reader, offsets, sizes, None)
        return ragged.values, ragged.offsets[:-1].astype(np.uint64)

    def _reader_for(self, offsets: Positions, sizes: Positions) -> _native.RangeReader | None:
        _ = self.mapped
        return self._cold.reader_for(np.zeros(len(offsets), np.uint32), offsets, sizes)

    def _read_cold(
        self,
        reader: _native.RangeReader,
        offsets: Positions,
        sizes: Positions,
        checksums: npt.NDArray[np.uint32] | None,
    ) -> Ragged:
        self._check_inside(offsets, sizes)
        bounds = _bounds_of(sizes)
        out = np.empty(int(bounds[-1]), np.uint8)
        failures = reader.read(offsets, sizes, out, bounds[:-1].astype(np.uint64), checksums)
        if failures:
            position, code, detail = min(failures)
            if code == "truncated":
                problem = f"the file became shorter while it was in use: {detail}"
                raise FormatError(self.path, problem=problem, fix=_REPLACED)
            raise BadSpanError(position, detail if code == "wrong_checksum" else f"it cannot be read ({detail})")
        return Ragged(out, bounds)

    def _check_inside(self, offsets: Positions, sizes: Positions) -> None:
        end = np.uint64(self.size_bytes)
        bad = (offsets > end) | (sizes > end - np.minimum(offsets, end))
        if bad.any():
            position = int(np.argmax(bad))
            raise BadSpanError(position, self._outside_words(int(offsets[position]), int(sizes[position])))

    def _outside(self, error: _native.NativeError) -> Exception:
        return BadSpanError(error.offset, error.detail) if error.offset >= 0 else error

    def _outside_words(self, offset: int, size: int) -> str:
        return f"{format_count(size, 'byte')} from byte {offset} on should be there, and the file has {self.size_bytes}"


def _bounds_of(sizes: Positions) -> npt.NDArray[np.int64]:
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def _compare(wanted: npt.NDArray[np.uint32] | None, found: npt.NDArray[np.uint32] | None) -> None:
    if wanted is None or found is None or np.array_equal(wanted, found):
        return
    position = int(np.argmax(wanted != found))
    raise BadSpanError(position, f"checksum {wanted[position]:#010x} expected, found {found[position]:#010x}")
