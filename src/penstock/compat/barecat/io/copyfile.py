"""Bytes from one open file to another.

Where no offset is given, a file is read or written at its position, which moves on. With an offset, its position
stays. Copying inside one file is right also where the spans overlap.
"""

from __future__ import annotations

import io
import os
from typing import Any

from penstock._native import crc32c as crc32c_of

__all__ = ["accumulate_crc32c", "copy", "copy_crc32c", "write_zeroes"]

_BUFFER_BYTES = 64 * 1024


def copy(
    src: Any,
    dst: Any,
    size: int | None = None,
    src_offset: int | None = None,
    dst_offset: int | None = None,
    bufsize: int = _BUFFER_BYTES,
) -> int:
    """Copy bytes, all that are left if no size is given; says how many it were."""
    return copy_crc32c(src, dst, size, src_offset, dst_offset, bufsize, is_checked=False)[0]


def copy_crc32c(
    src: Any,
    dst: Any,
    size: int | None = None,
    src_offset: int | None = None,
    dst_offset: int | None = None,
    bufsize: int = _BUFFER_BYTES,
    initial: int = 0,
    *,
    is_checked: bool = True,
) -> tuple[int, int]:
    """Copy bytes and give their number and CRC-32C, counted on from ``initial``."""
    if size == 0:
        return 0, initial
    if _is_same(src, dst):
        return _copy_inside(src, dst, size, src_offset, dst_offset, bufsize, initial)
    source, target = _Placed(src, src_offset), _Placed(dst, dst_offset)
    done, checksum = 0, initial
    try:
        while size is None or done < size:
            piece = src.read(bufsize if size is None else min(bufsize, size - done))
            if not piece:
                break
            if is_checked:
                checksum = crc32c_of(piece, checksum)
            _write_all(dst, piece)
            done += len(piece)
    finally:
        source.restore()
        target.restore()
    return done, checksum


def accumulate_crc32c(
    fileobj: Any, size: int | None = None, offset: int | None = None, bufsize: int = _BUFFER_BYTES, initial: int = 0
) -> int:
    """The CRC-32C of bytes of a file, counted on from ``initial``."""
    if offset is not None:
        fileobj.seek(offset)
    checksum, done = initial, 0
    while size is None or done < size:
        piece = fileobj.read(bufsize if size is None else min(bufsize, size - done))
        if not piece:
            break
        checksum = crc32c_of(piece, checksum)
        done += len(piece)
    return checksum


def write_zeroes(file: Any, n: int, bufsize: int = _BUFFER_BYTES) -> int:
    """Write so many zeros at the position; says how many it were."""
    for start in range(0, n, bufsize):
        _write_all(file, bytes(min(bufsize, n - start)))
    return max(0, n)


class _Placed:
    """A file at an offset, and back."""

    def __init__(self, file: Any, offset: int | None) -> None:
        self._file = file
        self._position: int | None = None
        if offset is not None:
            self._position = file.tell()
            file.seek(offset)

    def restore(self) -> None:
        """Go back to where the file was."""
        if self._position is not None:
            self._file.seek(self._position)


def _write_all(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while len(view):
        written = file.write(view)
        view = view[len(view) if written is None else written :]


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        ours, theirs = os.fstat(one.fileno()), os.fstat(other.fileno())
        return one.seekable() and os.path.samestat(ours, theirs)
    except (AttributeError, OSError, ValueError, io.UnsupportedOperation):
        return False


def _copy_inside(
    src: Any, dst: Any, size: int | None, src_offset: int | None, dst_offset: int | None, bufsize: int, initial: int
) -> tuple[int, int]:
    """Copy inside one file, from the end where the target lies behind the beginning of the source."""
    before = src.tell(), dst.tell()
    dst.flush()
    start = before[0] if src_offset is None else src_offset
    target = before[1] if dst_offset is None else dst_offset
    count = max(0, src.seek(0, os.SEEK_END) - start)
    count = count if size is None else min(size, count)
    pieces = [(at, min(bufsize, count - at)) for at in range(0, count, bufsize)]
    for at, length in reversed(pieces) if target > start else pieces:
        src.seek(start + at)
        data = src.read(length)
        dst.seek(target + at)
        _write_all(dst, data)
        dst.flush()
    checksum = accumulate_crc32c(dst if dst.readable() else src, count, target, bufsize, initial)
    src.seek(start + count if src_offset is None else before[0])
    if dst is not src or dst_offset is None:
        dst.seek(target + count if dst_offset is None else before[1])
    return count, checksum
