"""Bytes from one open file to another, by the kernel where it can.

Where no offset is given, a file is read or written at its position, which moves on. With an offset, its position
stays. Copying inside one file is right also where the spans overlap.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c as crc32c_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["accumulate_crc32c", "copy", "copy_crc32c", "write_zeroes"]

_DEFAULT_BUFSIZE = 64 * 1024
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
    bufsize: int = _DEFAULT_BUFSIZE,
) -> int:
    """Copy bytes, all that are left if no size is given; says how many it were."""
    ctx = _CopyContext(src, dst, size, src_offset, dst_offset, bufsize)
    for copy_with in ctx.ways:
        with contextlib.suppress(_CannotError):
            return copy_with(ctx)
    if ctx.is_inside:
        return _copy_same_file_overlap(ctx)
    return _copy_buffered(ctx)


def copy_crc32c(
    src: Any,
    dst: Any,
    size: int | None = None,
    src_offset: int | None = None,
    dst_offset: int | None = None,
    bufsize: int = _DEFAULT_BUFSIZE,
    initial: int = 0,
) -> tuple[int, int]:
    """Copy bytes and give their number and CRC-32C, counted on from ``initial``."""
    ctx = _CopyContext(src, dst, size, src_offset, dst_offset, bufsize)
    if not ctx.is_inside:
        return _through_memory(ctx, initial)
    target = ctx.dst_offset or 0
    count = _copy_same_file_overlap(ctx)
    before = src.tell()
    checksum = accumulate_crc32c(src, count, target, bufsize, initial)
    src.seek(before)
    return count, checksum


def accumulate_crc32c(
    fileobj: Any,
    size: int | None = None,
    offset: int | None = None,
    bufsize: int = _DEFAULT_BUFSIZE,
    initial: int = 0,
) -> int:
    """The CRC-32C of bytes of a file, counted on from ``initial``."""
    if offset is not None:
        fileobj.seek(offset)
    checksum = initial
    for piece in _pieces(fileobj, size, bufsize):
        checksum = crc32c_of(piece, checksum)
    return checksum


def write_zeroes(file: Any, n: int, bufsize: int = _DEFAULT_BUFSIZE) -> int:
    """Write so many zeros at the position; says how many it were."""
    for start in range(0, n, bufsize):
        _write_all(file, bytes(min(bufsize, n - start)))
    return max(0, n)


class _CannotError(Exception):
    """The kernel, or the file system, cannot do it; nothing was copied."""


class _FdType(Enum):
    FILE = auto()
    PIPE = auto()
    SOCKET = auto()
    NONE = auto()


def _get_fd_type(fd: int) -> _FdType:
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        return _FdType.PIPE
    return _FdType.SOCKET if stat.S_ISSOCK(mode) else _FdType.FILE


def _is_seekable(file: Any) -> bool:
    try:
        return bool(file.seekable())
    except _NO_FILE:
        return False


def _same_file(fd1: int, fd2: int) -> bool:
    return fd1 == fd2 or os.path.samestat(os.fstat(fd1), os.fstat(fd2))


def _sync_position(file: Any) -> None:
    """Let the descriptor stand where the file object does."""
    file.flush()
    position = file.tell()
    file.seek(0, os.SEEK_END)
    file.seek(position)


class _CopyContext:
    """What is copied: two files, their kinds, and the spans."""

    def __init__(
        self, src: Any, dst: Any, size: int | None, src_offset: int | None, dst_offset: int | None, bufsize: int
    ) -> None:
        self.src, self.dst, self.bufsize = src, dst, bufsize
        self.src_fd = self.dst_fd = -1
        self.src_type = self.dst_type = _FdType.NONE
        with contextlib.suppress(*_NO_FILE):
            self.src_fd, self.dst_fd = src.fileno(), dst.fileno()
            self.src_type, self.dst_type = _get_fd_type(self.src_fd), _get_fd_type(self.dst_fd)
        self.has_fd = self.dst_type is not _FdType.NONE
        self.src_seekable, self.dst_seekable = _is_seekable(src), _is_seekable(dst)
        are_files = self.src_type is self.dst_type is _FdType.FILE
        self.same_file = src is dst or (are_files and _same_file(self.src_fd, self.dst_fd))
        self.src_position_based, self.dst_position_based = src_offset is None, dst_offset is None
        if src_offset is None and self.src_seekable:
            src_offset = src.tell()
        if dst_offset is None and self.dst_seekable:
            dst_offset = dst.tell()
        self.src_offset, self.dst_offset = src_offset, dst_offset
        self.size = self._bytes_there(size)
        self.has_overlap = self._overlaps()

    def _bytes_there(self, size: int | None) -> int | None:
        """The size as far as there are bytes; None if that is not known."""
        if not self.src_seekable or self.src_offset is None:
            return size
        position = self.src.tell()
        left: int = max(0, self.src.seek(0, os.SEEK_END) - self.src_offset)
        self.src.seek(position)
        return left if size is None else min(size, left)

    def _overlaps(self) -> bool:
        if not self.same_file or self.size is None or self.src_offset is None or self.dst_offset is None:
            return False
        return abs(self.src_offset - self.dst_offset) < self.size

    @property
    def is_inside(self) -> bool:
        """Both files have one position, or the spans overlap: what is read could have been written just before."""
        return self.has_overlap or (self.src is self.dst and self.size is not None)

    @property
    def src_is_pipe(self) -> bool:
        return self.src_type is _FdType.PIPE

    @property
    def dst_is_pipe(self) -> bool:
        return self.dst_type is _FdType.PIPE

    @property
    def dst_is_socket(self) -> bool:
        return self.dst_type is _FdType.SOCKET

    @property
    def ways(self) -> Iterator[Callable[[_CopyContext], int]]:
        """What the kernel can do here."""
        if not self.has_fd or not self.size or self.is_inside:
            return
        is_plain = self.src_type is _FdType.FILE and self.src_seekable
        if is_plain and self.dst_type is _FdType.FILE and self.dst_seekable and _HAS_COPY_FILE_RANGE:
            yield _copy_file_range_loop
        elif is_plain and self.dst_is_socket and _HAS_SENDFILE:
            yield _copy_sendfile
        elif (self.dst_is_pipe or self.src_is_pipe) and _HAS_SPLICE:
            yield _copy_splice

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """Both files at their offsets; files with an offset of their own go back afterwards."""
        back = []
        for file, offset, is_moving in (
            (self.src, self.src_offset, self.src_position_based),
            (self.dst, self.dst_offset, self.dst_position_based),
        ):
            if offset is not None:
                if not is_moving:
                    back.append((file, file.tell()))
                file.seek(offset)
        try:
            yield
        finally:
            for file, position in back:
                file.seek(position)

    def advance(self, count: int) -> None:
        """Move the positions of files that are read or written at them."""
        if self.src_position_based and self.src_offset is not None:
            self.src.seek(self.src_offset + count)
        if self.dst_position_based and self.dst_offset is not None:
            self.dst.seek(self.dst_offset + count)


def _pieces(file: Any, size: int | None, bufsize: int) -> Iterator[bytes]:
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


def _through_memory(ctx: _CopyContext, initial: int | None) -> tuple[int, int]:
    """Gives the number of bytes and, if there is a number to begin with, their CRC-32C."""
    done, checksum = 0, initial or 0
    with ctx.placed():
        for piece in _pieces(ctx.src, ctx.size, ctx.bufsize):
            if initial is not None:
                checksum = crc32c_of(piece, checksum)
            _write_all(ctx.dst, piece)
            done += len(piece)
    return done, checksum


def _copy_buffered(ctx: _CopyContext) -> int:
    return _through_memory(ctx, None)[0]


def _copy_same_file_overlap(ctx: _CopyContext) -> int:
    """Inside one file: from the end where the target lies behind the beginning of the source."""
    start, target, count = ctx.src_offset or 0, ctx.dst_offset or 0, ctx.size or 0
    before = ctx.src.tell(), ctx.dst.tell()
    pieces = [(at, min(ctx.bufsize, count - at)) for at in range(0, count, ctx.bufsize)]
    for at, length in reversed(pieces) if target > start else pieces:
        ctx.src.seek(start + at)
        data = ctx.src.read(length)
        ctx.dst.seek(target + at)
        _write_all(ctx.dst, data)
        ctx.dst.flush()
    ctx.src.seek(before[0])
    ctx.dst.seek(before[1])
    ctx.advance(count)
    return count


def _repeat(ctx: _CopyContext, step: Callable[[int, int], int]) -> int:
    """Call ``step`` with what is done and what is left until nothing is; it says how far it came."""
    ctx.dst.flush()
    done, size = 0, ctx.size or 0
    while done < size:
        try:
            count = step(done, size - done)
        except OSError as error:
            if done:
                raise
            raise _CannotError from error
        if count == 0:
            break
        done += count
    ctx.advance(done)
    return done


def _copy_file_range_loop(ctx: _CopyContext) -> int:
    start, target = ctx.src_offset or 0, ctx.dst_offset or 0
    return _repeat(
        ctx, lambda done, left: os.copy_file_range(ctx.src_fd, ctx.dst_fd, left, start + done, target + done)
    )


def _copy_sendfile(ctx: _CopyContext) -> int:
    start = ctx.src_offset or 0
    return _repeat(ctx, lambda done, left: os.sendfile(ctx.dst_fd, ctx.src_fd, start + done, left))


def _copy_splice(ctx: _CopyContext) -> int:
    def step(done: int, left: int) -> int:
        if done == 0 and ctx.src_is_pipe and isinstance(ctx.src, io.BufferedReader):
            return _write_fd(ctx, ctx.src.read1(left))  # all that Python has read ahead, which the kernel cannot see
        offsets: list[Any] = [None if one is None else one + done for one in (ctx.src_offset, ctx.dst_offset)]
        return os.splice(ctx.src_fd, ctx.dst_fd, left, *offsets)

    return _repeat(ctx, step)


def _write_fd(ctx: _CopyContext, data: bytes) -> int:
    """Write to the target's descriptor, at its offset if it has one."""
    done = 0
    while done < len(data):
        rest = data[done:]
        if ctx.dst_offset is None:
            done += os.write(ctx.dst_fd, rest)
        else:
            done += os.pwrite(ctx.dst_fd, rest, ctx.dst_offset + done)
    return done
