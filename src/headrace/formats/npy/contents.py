"""The bytes of an array: those of the file as it is stored, or unpacked into memory when they are needed first.

Contract: any number of threads. The thread that comes first unpacks, the others wait for it. A forked child has the
memory of its parent, and unpacks itself what the parent had not yet unpacked.
"""

from __future__ import annotations

import os
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace._native import crc32
from headrace.errors import FormatError
from headrace.formats.npy.header import MAX_HEADER_BYTES
from headrace.progress import format_bytes, format_count
from headrace.storage import room_for
from headrace.types import StoredSpans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.npy.zip_directory import ZipMember
    from headrace.storage import StoredFile
    from headrace.storage.stored_file import Positions
    from headrace.types import Announcement

__all__ = ["Content", "PackedContent", "PlainContent", "check_unpacked_size"]

_MOST_TIMES = 1032  # deflate cannot do better
_STEP_BYTES = 1 << 20
_REMOTE_STEP_BYTES = 32 << 20
_FIX = "The file is damaged; write it again."


@dataclass(frozen=True, slots=True)
class PlainContent:
    """Bytes that lie in the file as they are, from ``begin`` to ``end``."""

    file: StoredFile
    begin: int
    end: int
    crc32: int | None = None

    @property
    def is_here(self) -> bool:
        """All of it can be touched at any time."""
        return self.file.is_local

    @property
    def size_bytes(self) -> int:
        """How many there are."""
        return self.end - self.begin

    def start(self) -> npt.NDArray[np.uint8]:
        """The first bytes, enough for a header."""
        return self.file.hold(self.begin, min(self.end, self.begin + MAX_HEADER_BYTES))

    def whole(self) -> npt.NDArray[np.uint8]:
        """All bytes; those of an object stay in memory from then on."""
        if self.is_here:
            return self.file.hold(self.begin, self.end)
        with room_for(self.size_bytes, f"an array of {self.file.path}", fix="Copy the file to this machine."):
            return self.file.hold(self.begin, self.end)

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, and where in it they begin."""
        return self.file.region(offsets + np.uint64(self.begin), sizes)

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement | None:
        """Begin to bring spans here."""
        return self.file.announce(offsets + np.uint64(self.begin), sizes)

    def stored_spans(self, offsets: Positions, sizes: Positions) -> list[StoredSpans]:
        """Where spans lie in the file, for as many samples."""
        owners, begins = np.arange(len(offsets)), offsets + np.uint64(self.begin)
        return [StoredSpans(self.file.path, self.file.size_bytes, owners, begins, sizes)]

    def check(self) -> None:
        """Raise FormatError if the file was cut short while it was read."""
        self.file.check()

    def verify(self) -> bool:
        """Compare the checksum, if there is one; gives whether there was one."""
        if self.crc32 is not None:
            value = 0
            for piece in _pieces(self.file, self.begin, self.end):
                value = crc32(piece, value)
            self.check()
            _check_crc(self.file.path, "a member", value, self.crc32)
        return self.crc32 is not None


class PackedContent:
    """A compressed member of a zip.

    Args:
        file: that it is in.
        member: what the directory says of it.
    """

    is_here = True
    """It is unpacked into memory when it is needed."""

    def __init__(self, file: StoredFile, member: ZipMember) -> None:
        if member.size_bytes > _MOST_TIMES * member.packed_bytes + _STEP_BYTES:
            packed = format_count(member.packed_bytes, "byte")
            problem = f"member {member.name!r} of {packed} cannot unpack to {member.size_bytes}"
            raise FormatError(file.path, problem=problem, fix="The file is damaged or hostile.")
        self.path, self._file, self._member = file.path, file, member
        self._begin, self._end = member.offset, member.offset + member.packed_bytes
        self._memory: npt.NDArray[np.uint8] | None = None
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def size_bytes(self) -> int:
        """How many bytes there are when unpacked."""
        return self._member.size_bytes

    def start(self) -> npt.NDArray[np.uint8]:
        """The first bytes, enough for a header."""
        try:
            packed = self._file.hold(self._begin, min(self._end, self._begin + _STEP_BYTES))
            some = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MAX_HEADER_BYTES)
        except zlib.error as error:
            raise self._damaged(str(error)) from None
        return np.frombuffer(some, np.uint8)

    def whole(self) -> npt.NDArray[np.uint8]:
        """All bytes, unpacked once."""
        if self._memory is None:
            if self._process != os.getpid():  # another thread of the parent may have held it at the fork
                self._lock, self._process = threading.Lock(), os.getpid()
            with self._lock:
                if self._memory is None:
                    self._memory = self._unpack()
        return self._memory

    def _unpack(self) -> npt.NDArray[np.uint8]:
        size = self._member.size_bytes
        try:
            with room_for(size, f"member {self._member.name!r}", fix="Store it without compression (numpy.savez)."):
                memory = np.empty(size, np.uint8)
        except ValueError as error:
            raise FormatError(self.path, problem=str(error)) from None
        try:
            self._inflate(memory)
        except zlib.error as error:
            raise self._damaged(str(error)) from None
        self._file.check()
        _check_crc(self.path, f"member {self._member.name!r}", crc32(memory), self._member.crc32)
        memory.flags.writeable = False
        return memory

    def _inflate(self, memory: npt.NDArray[np.uint8]) -> None:
        unpacker, done = zlib.decompressobj(-zlib.MAX_WBITS), 0
        for packed in _pieces(self._file, self._begin, self._end):
            waiting: npt.NDArray[np.uint8] | bytes = packed
            while len(waiting) and not unpacker.eof:
                some = unpacker.decompress(waiting, _STEP_BYTES)
                if done + len(some) > len(memory):
                    raise self._damaged(
                        f"it unpacks to more than the {format_count(len(memory), 'byte')} that it should have"
                    )
                memory[done : done + len(some)] = np.frombuffer(some, np.uint8)
                done, waiting = done + len(some), unpacker.unconsumed_tail
            if unpacker.eof:
                break
        tail = unpacker.flush()  # nothing where the stream is whole and fits
        if not unpacker.eof or unpacker.unused_data or done + len(tail) != len(memory):
            raise self._damaged(f"it unpacks to {format_count(done + len(tail), 'byte')}, {len(memory)} expected")
        memory[done:] = np.frombuffer(tail, np.uint8)

    def _damaged(self, problem: str) -> FormatError:
        return FormatError(self.path, problem=f"member {self._member.name!r} cannot be unpacked ({problem})", fix=_FIX)

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """The unpacked bytes themselves."""
        return self.whole(), offsets

    def stored_spans(self, offsets: Positions, sizes: Positions) -> list[StoredSpans]:
        """Nothing is brought for single samples."""
        return []

    def announce(self, offsets: Positions, sizes: Positions) -> None:
        """Nothing is brought span by span."""

    def check(self) -> None:
        """The bytes are in memory, and were checked."""

    def verify(self) -> bool:
        """Unpack, which compares the checksum."""
        self.whole()
        return True


Content = PlainContent | PackedContent


def _pieces(file: StoredFile, begin: int, end: int) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of a stretch one after the other; of an object a few at a time."""
    step = _STEP_BYTES if file.is_local else _REMOTE_STEP_BYTES
    for start in range(begin, end, step):
        size = min(step, end - start)
        base, starts = file.region(np.array([start], np.uint64), np.array([size], np.uint64))
        for at in range(int(starts[0]), int(starts[0]) + size, _STEP_BYTES):
            yield base[at : min(at + _STEP_BYTES, int(starts[0]) + size)]


def _check_crc(path: str, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise FormatError(path, problem=f"{what} has the CRC-32 {found:08x}, {expected:08x} expected", fix=_FIX)


def check_unpacked_size(path: str, members: list[ZipMember], most_bytes: int) -> None:
    """FormatError when all compressed members together take more memory than is allowed."""
    total = sum(member.size_bytes for member in members if member.is_packed)
    if total > most_bytes:
        raise FormatError(
            path,
            problem=f"its compressed members unpack to {format_bytes(total)}, more than {format_bytes(most_bytes)}",
            fix="If that is what it should hold, open it with max_unpacked_bytes=, or store it without compression.",
        )
