"""The page cache: files are taken out of it, and it is asked whether that worked."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

__all__ = ["forget", "is_cached", "why_warm_only"]

_PROBE_BYTES = 1 << 20


def forget(folder: str | Path) -> None:
    """Take the files of a folder out of the page cache, as far as nobody has them mapped."""
    for at, _, names in os.walk(folder):
        for name in names:
            forget_file(os.path.join(at, name))


def forget_file(path: str) -> None:
    """The same for one file: what is not yet on the disk is written first, for it could not be forgotten."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def is_cached(path: str | Path) -> bool | None:
    """Tell whether the first page of a file is in memory, without reading it; None where the system does not say."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(fd, [bytearray(mmap.PAGESIZE)], 0, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    except OSError:
        return None
    finally:
        os.close(fd)


def why_warm_only(folder: str | Path) -> str:
    """Why files of a folder cannot be read cold; empty where they can.

    A file is written there and forgotten, as the suites do it. Dropping all caches, which only root may do, is no way:
    it would take the files of everybody else along.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".probe-") as home:
        path = Path(home, "probe")
        path.write_bytes(b"\1" * _PROBE_BYTES)
        forget_file(str(path))
        if (cached := is_cached(path)) is False:
            return ""
        if cached is None:
            return "warm only: this system does not say what is in the page cache"
        return "warm only: the system keeps files of this folder in the page cache, as it does on a RAM disk"
