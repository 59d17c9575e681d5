"""A file as spans of bytes, many in one call.

Contract: immutable after opening, so any number of threads may read, and it survives fork. What is in the page cache is
copied from the mapping; what is not is read by a queue of asynchronous reads. If somebody cuts the file short
meanwhile, every read that follows says so. Of an object in a store the spans that are asked for are fetched.
"""

from __future__ import annotations

import itertools
import os
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError
from headrace.formats.spans.spooled import spans_between, spool
from headrace.progress import format_count
from headrace.storage import ColdReads, LocalFile, file_identity, is_remote, map_descriptor, open_stored
from headrace.types import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.errors import PathLike
    from headrace.storage import StoredFile
    from headrace.types import Announcement

__all__ = ["BadSpanError", "Positions", "SpanFile"]

Positions = npt.NDArray[np.uint64]
_EDGE_BYTES = 64 << 10
_WHOLE_BYTES = 1 << 20
_SPREAD_BLOCKS = 64
_PROBES = [0, 1, 14, 27, 40, 53]  # both ends, and four of the blocks
_BLOCK_BYTES = 4096
_HELD_BYTES = 1 << 30
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
        self.is_unpacked = fd is not None
        self._cold: ColdReads | None = None
        if fd is not None or is_remote(self.path):
            stored = open_stored(self.path) if fd is None else LocalFile(self.path, mapped=map_descriptor(fd))
        else:
            identity = file_identity(self.path)
            stored = open_stored(self.path)
            places = [os.path.abspath(self.path)]
            self._cold = ColdReads(places, [identity], size_bytes=stored.size_bytes, cold=cold)
        self._stored: StoredFile = stored
        self.size_bytes = stored.size_bytes

    @property
    def is_local(self) -> bool:
        """All of its bytes lie on this machine."""
        return self._stored.is_local

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """The bytes of the whole file, read-only; of an object those that ``bring`` has brought."""
        return self._stored.mapped

    @property
    def reading(self) -> str:
        """How spans are read, in words."""
        if self._cold is not None:
            return self._cold.describe()
        return "from the mapped file" if self.is_local else "fetched from the store"

    def head(self, size: int) -> bytes:
        """The first bytes."""
        return self._stored.hold(0, min(size, self.size_bytes)).tobytes()

    def bring(self) -> None:
        """Bring all of it to this machine, before a pass over it; for whoever has opened it and uses it alone."""
        if self.is_local:
            return
        if self.size_bytes <= _HELD_BYTES:
            self._stored.hold(0, self.size_bytes)
            return
        whole = spool(self._stored, np.zeros(1, np.uint64), np.array([self.size_bytes], np.uint64))
        self._stored.close()
        self._stored = LocalFile(self.path, mapped=whole)

    def frame_around(self, offsets: Positions, sizes: Positions) -> npt.NDArray[np.uint8]:
        """The file for a pass that looks at nothing inside of spans, which read as anything: headers between values."""
        if self.is_local:
            return self.mapped
        return spool(self._stored, *spans_between(offsets, sizes, self.size_bytes))

    @cached_property
    def fingerprint(self) -> int:
        """32 bits of the content: all of a small file; of a large one both ends and blocks that are spread over it."""
        return int(self.fingerprint_steps[-1])

    @cached_property
    def fingerprint_steps(self) -> npt.NDArray[np.uint32]:
        """What the fingerprint is behind each of the spans that it is made of."""
        offsets, sizes = self._fingerprint_spans()
        return self._steps(offsets, sizes, [_native.crc32c(str(self.size_bytes).encode())])

    def _steps(self, offsets: Positions, sizes: Positions, before: Sequence[int]) -> npt.NDArray[np.uint32]:
        """Checksums of spans; each goes on where the one before it has ended, or from its own number."""
        base, starts = self._stored.region(offsets, sizes)
        steps = np.empty(len(starts), np.uint32)
        for i, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
            value = before[i] if i < len(before) else int(steps[i - 1])
            steps[i] = _native.crc32c(base[start : start + size], value)
        return steps

    def _fingerprint_spans(self) -> tuple[Positions, Positions]:
        if self.size_bytes <= _WHOLE_BYTES:
            return np.zeros(1, np.uint64), np.array([self.size_bytes], np.uint64)
        spread = np.linspace(0, self.size_bytes - _BLOCK_BYTES, _SPREAD_BLOCKS, dtype=np.int64)
        offsets = np.concatenate([[0, self.size_bytes - _EDGE_BYTES], spread]).astype(np.uint64)
        return offsets, np.array([_EDGE_BYTES] * 2 + [_BLOCK_BYTES] * _SPREAD_BLOCKS, np.uint64)

    def announce_probes(self) -> Announcement | None:
        """Begin to bring what ``adopt_fingerprint`` looks at."""
        offsets, sizes = self._fingerprint_spans()
        chosen = _PROBES if len(offsets) > 1 else slice(None)
        return self._stored.announce(offsets[chosen], sizes[chosen])

    def adopt_fingerprint(self, steps: npt.NDArray[np.uint32]) -> bool:
        """Take the fingerprint from steps that somebody has noted, if both ends and a few spans of an object agree.

        All 66 spans of a large object would be as many requests, and these are few. A file of this machine is read.
        """
        offsets, sizes = self._fingerprint_spans()
        if self.is_local or len(offsets) == 1 or len(steps) != len(offsets):
            return False
        before = [_native.crc32c(str(self.size_bytes).encode()), *steps.tolist()]
        found = self._steps(offsets[_PROBES], sizes[_PROBES], [before[i] for i in _PROBES])
        if not np.array_equal(found, steps[_PROBES]):
            return False
        self.fingerprint_steps = steps
        return True

    def close(self) -> None:
        """Let go of the file. Views that were handed out stay valid."""
        self._stored.close()
        if self._cold is not None:
            self._cold.close()

    def check(self) -> None:
        """Raise FormatError if a part of the file could not be read, because somebody has cut it short."""
        self._stored.check()

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement | None:
        """Begin to bring spans, ahead of a read or region of the same; of what lies outside, reading it tells."""
        if self.is_local or not self.is_inside(offsets, sizes).all():
            return None
        return self._stored.announce(offsets, sizes)

    def read(
        self, offsets: Positions, sizes: Positions, checksums: npt.NDArray[np.uint32] | None = None
    ) -> list[bytes]:
        """Spans as bytes objects, compared with their CRC-32C where there are some; BadSpanError names a bad one."""
        if (reader := self._reader_for(offsets, sizes)) is not None:
            ragged = self._read_cold(reader, offsets, sizes, checksums)
            bounds = ragged.offsets.tolist()
            return [ragged.values[a:b].tobytes() for a, b in itertools.pairwise(bounds)]
        found = None if checksums is None else np.empty(len(offsets), np.uint32)
        base, starts = self._placed(offsets, sizes)
        try:
            values = _native.gather(base, starts, sizes, found)
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
        base, starts = self._stored.region(offsets, sizes)
        _native.gather_into(base, starts, sizes, out, bounds[:-1].astype(np.uint64), found)
        self.check()
        _compare(checksums, found)
        return Ragged(out, bounds)

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, and where in it they begin: the mapped file itself where it is in the cache."""
        if (reader := self._reader_for(offsets, sizes)) is None:
            self._check_inside(offsets, sizes)
            return self._stored.region(offsets, sizes)
        ragged = self._read_cold(reader, offsets, sizes, None)
        return ragged.values, ragged.offsets[:-1].astype(np.uint64)

    def _placed(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """As ``region``; whoever uses a local one finds what lies outside himself."""
        if not self.is_local:
            self._check_inside(offsets, sizes)
        return self._stored.region(offsets, sizes)

    def _reader_for(self, offsets: Positions, sizes: Positions) -> _native.RangeReader | None:
        if self._cold is None:
            return None
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
        inside = self.is_inside(offsets, sizes)
        if not inside.all():
            position = int(np.argmin(inside))
            raise BadSpanError(position, self._outside_words(int(offsets[position]), int(sizes[position])))

    def is_inside(self, offsets: Positions, sizes: Positions) -> npt.NDArray[np.bool_]:
        """Spans lie in the file."""
        end = np.uint64(self.size_bytes)
        inside: npt.NDArray[np.bool_] = (offsets <= end) & (sizes <= end - np.minimum(offsets, end))
        return inside

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
