"""Local files, mapped into memory for reading."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from penstock.errors import PathLike

__all__ = ["map_file"]


def map_file(path: PathLike) -> npt.NDArray[np.uint8]:
    """Map a whole file as a read-only array of bytes.

    The mapping lives as long as the array or any view of it; the file descriptor is closed at once. A file that
    is cut short by somebody else while it is mapped makes the operating system end the process (SIGBUS), as
    with every memory-mapped file: replace files by renaming, never in place.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "x")
        >>> _ = file.write_bytes(b"abc")
        >>> map_file(file).tobytes()
        b'abc'
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size == 0:
            return np.frombuffer(b"", np.uint8)
        return np.frombuffer(mmap.mmap(fd, 0, access=mmap.ACCESS_READ), np.uint8)
    finally:
        os.close(fd)
