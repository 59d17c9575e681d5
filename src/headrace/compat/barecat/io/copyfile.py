"""Bytes from one open file to another, by the kernel where it can.

Where no offset is given, a file is read or written at its position, which moves on. With an offset, its position
stays. Copying inside one file is right also where the spans overlap.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c as crc32c_of
from headrace.storage.new_file import copy_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["accumulate_crc32c", "copy", "copy_crc32c", "pieces", "write_zeroes"]

_BUFSIZE = 64 * 1024
_HAS_SPLICE = hasattr(os, "splice")
_HAS_SENDFILE = hasattr(os, "sendfile")
_copy_file_range = getattr(os, "copy_file_range", None)
_HAS_COPY_FILE_RANGE = _copy_file_range is not None
_NO_FILE = (AttributeError, OSError, ValueError, io.UnsupportedOperation)


def copy(
    src: Any,
    dst: Any,
    size: int | None = None,
    src_offset: int | None = None,
    dst_offset: int | None = None,
    bufsize: int = _BUFSIZE,
) -> int:
    """Copy bytes, all that are left if no size is given; says how many it were."""
    job = _Job(src, dst, size, src_offset, dst_offset, bufsize)
    with job.placed():
        if job.is_inside:
            return _copy_same_file_overlap(job)
        try:
            if job.src_kind == job.dst_kind == stat.S_IFREG:
                return _copy_file_range_loop(job)
            if job.src_kind == stat.S_IFREG and job.dst_kind == stat.S_IFSOCK and _HAS_SENDFILE:
                return _copy_sendfile(job)
            if stat.S_IFIFO in (job.src_kind, job.dst_kind) and _HAS_SPLICE:
                return _copy_splice(job)
        except OSError:
            if job.done:
                raise
        return _copy_buffered(job)[0]


def copy_crc32c(
    src: Any,
    dst: Any,
    size: int | None = None,
    src_offset: int | None = None,
    dst_offset: int | None = None,
    bufsize: int = _BUFSIZE,
    initial: int = 0,
) -> tuple[int, int]:
    """Copy bytes and give their number and CRC-32C, counted on from ``initial``."""
    job = _Job(src, dst, size, src_offset, dst_offset, bufsize)
    with job.placed():
        if not job.is_inside:
            return _copy_buffered(job, initial)
        _copy_same_file_overlap(job)
        return job.done, accumulate_crc32c(src, job.done, job.dst_offset, bufsize, initial)


def accumulate_crc32c(
    fileobj: Any, size: int | None = None, offset: int | None = None, bufsize: int = _BUFSIZE, initial: int = 0
) -> int:
    """The CRC-32C of bytes of a file, counted on from ``initial``."""
    if offset is not None:
        fileobj.seek(offset)
    checksum = initial
    for piece in pieces(fileobj, size, bufsize):
        checksum = crc32c_of(piece, checksum)
    return checksum


def write_zeroes(file: Any, n: int, bufsize: int = _BUFSIZE) -> int:
    """Write so many zeros at the position; says how many it were."""
    for start in range(0, n, bufsize):
        _write_all(file, bytes(min(bufsize, n - start)))
    return max(0, n)


class _Job:
    """What is copied: two files, the kinds of their descriptors where they have some, and the spans."""

    def __init__(
        self, src: Any, dst: Any, size: int | None, src_offset: int | None, dst_offset: int | None, bufsize: int
    ) -> None:
        self.src, self.dst, self.bufsize = src, dst, bufsize
        self.done = 0
        self.moves = (src_offset is None, dst_offset is None)
        can_seek = _can_seek(src), _can_seek(dst)
        self.src_offset = src.tell() if src_offset is None and can_seek[0] else src_offset
        self.dst_offset = dst.tell() if dst_offset is None and can_seek[1] else dst_offset
        self.size = self._bytes_there(size) if can_seek[0] else size
        self.src_kind = self.dst_kind = 0
        is_same = src is dst
        with contextlib.suppress(*_NO_FILE):
            found = os.fstat(src.fileno()), os.fstat(dst.fileno())
            is_same = is_same or (os.path.samestat(*found) and all(can_seek))
            if self.size:
                self.src_kind, self.dst_kind = (stat.S_IFMT(status.st_mode) for status in found)
        count = self.size or 0
        overlaps = is_same and all(can_seek) and abs((self.src_offset or 0) - (self.dst_offset or 0)) < count
        # Both have one position, or the spans overlap: what is read could have been written just before.
        self.is_inside = overlaps or (src is dst and self.size is not None)

    def _bytes_there(self, size: int | None) -> int:
        """The size as far as there are bytes."""
        position = self.src.tell()
        left: int = max(0, self.src.seek(0, os.SEEK_END) - (self.src_offset or 0))
        self.src.seek(position)
        return left if size is None else min(size, left)

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """Both files at their offsets; afterwards those without an offset of their own have moved on."""
        files = [(self.src, self.src_offset, self.moves[0]), (self.dst, self.dst_offset, self.moves[1])]
        back = [(file, None if moves else file.tell(), offset) for file, offset, moves in files if offset is not None]
        for file, _, offset in back:
            file.seek(offset)
        try:
            yield
        finally:
            for file, position, offset in back:
                file.seek(offset + self.done if position is None else position)


def _can_seek(file: Any) -> bool:
    try:
        return bool(file.seekable())
    except _NO_FILE:
        return False


def pieces(file: Any, size: int | None, bufsize: int) -> Iterator[bytes]:
    """What a file holds from its position on, so many bytes of it, a piece at a time."""
    done = 0
    while size is None or done < size:
        piece = file.read(bufsize if size is None else min(bufsize, size - done))
        if not piece:
            return
        yield piece
        done += len(piece)


def _write_all(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while len(view):
        written = file.write(view)
        view = view[len(view) if written is None else written :]


def _copy_buffered(job: _Job, checksum: int = 0) -> tuple[int, int]:
    """By way of memory; gives the number of bytes and their CRC-32C, counted on from ``checksum``."""
    for piece in pieces(job.src, job.size, job.bufsize):
        checksum = crc32c_of(piece, checksum)
        _write_all(job.dst, piece)
        job.done += len(piece)
    return job.done, checksum


def _copy_same_file_overlap(job: _Job) -> int:
    """Inside one file: from the end where the target lies behind the beginning of the source."""
    start, target, count = job.src_offset or 0, job.dst_offset or 0, job.size or 0
    spans = [(at, min(job.bufsize, count - at)) for at in range(0, count, job.bufsize)]
    for at, length in reversed(spans) if target > start else spans:
        job.src.seek(start + at)
        data = job.src.read(length)
        job.dst.seek(target + at)
        _write_all(job.dst, data)
        job.dst.flush()
    job.done = count
    return count


def _copy_file_range_loop(job: _Job) -> int:
    """From file to file."""
    job.dst.flush()
    offsets = {"offset": job.src_offset or 0, "to": job.dst_offset or 0}
    job.done = copy_bytes(job.src.fileno(), job.dst.fileno(), job.size or 0, **offsets)
    return job.done


def _repeat(job: _Job, step: Callable[[int, int], int]) -> int:
    """Call ``step`` with what is done and what is left until nothing is; it says how far it came."""
    job.dst.flush()
    while job.done < (job.size or 0):
        count = step(job.done, (job.size or 0) - job.done)
        if count == 0:
            break
        job.done += count
    return job.done


def _copy_sendfile(job: _Job) -> int:
    """From a file to a socket."""
    fds, start = (job.dst.fileno(), job.src.fileno()), job.src_offset or 0
    return _repeat(job, lambda done, left: os.sendfile(*fds, start + done, left))


def _copy_splice(job: _Job) -> int:
    """From or to a pipe."""

    def step(done: int, left: int) -> int:
        if done == 0 and job.src_kind == stat.S_IFIFO and isinstance(job.src, io.BufferedReader):
            ahead = job.src.read1(left)  # all that Python has read ahead, which the kernel cannot see
            _write_all(job.dst, ahead)
            job.dst.flush()
            return len(ahead)
        offsets: list[Any] = [None if one is None else one + done for one in (job.src_offset, job.dst_offset)]
        return os.splice(job.src.fileno(), job.dst.fileno(), left, *offsets)

    return _repeat(job, step)
