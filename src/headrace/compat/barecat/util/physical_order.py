"""Where files lie on the disk, for disks that turn."""

from __future__ import annotations

import fcntl
import os
import struct

__all__ = ["get_inode", "get_physical_offset"]

_UNKNOWN = (1 << 63) - 1
_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP of Linux
_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQQQLLLL")


def get_physical_offset(path: str) -> int:
    """The first byte of a file on its disk; a large number where the file system does not tell."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _UNKNOWN
    try:
        request = _HEAD.pack(0, 0xFFFFFFFFFFFFFFFF, 0, 0, 1, 0) + bytes(_EXTENT.size)
        answer = fcntl.ioctl(fd, _FIEMAP, request)
        if _HEAD.unpack_from(answer)[3] == 0:
            return _UNKNOWN
        return int(_EXTENT.unpack_from(answer, _HEAD.size)[1])
    except OSError:
        return _UNKNOWN
    finally:
        os.close(fd)


def get_inode(path: str) -> int:
    """The inode of a file; a large number if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return _UNKNOWN
