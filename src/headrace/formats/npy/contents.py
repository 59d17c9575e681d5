"""The bytes of an array: those of the mapped file, or unpacked into memory when they are needed first.

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
from headrace.storage import check_mapping, room_for

if TYPE_CHECKING:
    from headrace.formats.npy.zip_directory import ZipMember

__all__ = ["Content", "MappedContent", "PackedContent", "check_unpacked_size"]

_MOST_TIMES = 1032  # deflate cannot do better
_STEP_BYTES = 1 << 20
_FIX = "The file is damaged; write it again."


@dataclass(frozen=True, slots=True)
class MappedContent:
    """Bytes that lie in the file as they are."""

    path: str
    mapped: npt.NDArray[np.uint8]
    crc32: int | None = None

    @property
    def size_bytes(self) -> int:
        """How many there are."""
        return len(self.mapped)

    def start(self) -> npt.NDArray[np.uint8]:
        """The first bytes, enough for a header."""
        return self.mapped[:MAX_HEADER_BYTES]

    def whole(self) -> npt.NDArray[np.uint8]:
        """All bytes."""
        return self.mapped

    def check(self) -> None:
        """Raise FormatError if the file was cut short while it was read."""
        check_mapping(self.mapped, self.path)

    def verify(self) -> bool:
        """Compare the checksum, if there is one; gives whether there was one."""
        if self.crc32 is not None:
            _check_crc(self.path, "a member", self.mapped, self.crc32)
            self.check()
        return self.crc32 is not None


class PackedContent:
    """A compressed member of a zip.

    Args:
        path: of the file, for errors.
        packed: its bytes in the file.
        member: what the directory says of it.
    """

    def __init__(self, path: str, packed: npt.NDArray[np.uint8], member: ZipMember) -> None:
        if member.size_bytes > _MOST_TIMES * len(packed) + _STEP_BYTES:
            problem = (
                f"member {member.name!r} of {format_count(len(packed), 'byte')} cannot unpack to {member.size_bytes}"
            )
            raise FormatError(path, problem=problem, fix="The file is damaged or hostile.")
        self.path, self._packed, self._member = path, packed, member
        self._memory: npt.NDArray[np.uint8] | None = None
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def size_bytes(self) -> int:
        """How many bytes there are when unpacked."""
        return self._member.size_bytes

    def start(self) -> npt.NDArray[np.uint8]:
        """The first bytes, enough for a header."""
        try:
            some = zlib.decompressobj(-zlib.MAX_WBITS).decompress(self._packed[:_STEP_BYTES], MAX_HEADER_BYTES)
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
        check_mapping(self._packed, self.path)
        _check_crc(self.path, f"member {self._member.name!r}", memory, self._member.crc32)
        memory.flags.writeable = False
        return memory

    def _inflate(self, memory: npt.NDArray[np.uint8]) -> None:
        unpacker, done = zlib.decompressobj(-zlib.MAX_WBITS), 0
        for begin in range(0, len(self._packed), _STEP_BYTES):
            waiting: npt.NDArray[np.uint8] | bytes = self._packed[begin : begin + _STEP_BYTES]
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

    def check(self) -> None:
        """The bytes are in memory, and were checked."""

    def verify(self) -> bool:
        """Unpack, which compares the checksum."""
        self.whole()
        return True


Content = MappedContent | PackedContent


def _check_crc(path: str, what: str, data: npt.NDArray[np.uint8], expected: int) -> None:
    found = crc32(data)
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
