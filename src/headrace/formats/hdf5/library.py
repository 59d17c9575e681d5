"""The HDF5 library, given a mapped file: it never sees the file itself, takes no locks and opens no other files.

Contract: the library has one lock for all of Python, which h5py takes care of. A forked child opens the file again.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError, HeadraceError
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

__all__ = ["LibraryFile", "explained", "open_by_library"]


def open_by_library(path: str, mapped: npt.NDArray[np.uint8]) -> Any:
    """Open a mapped file for reading."""
    h5py = require("h5py", "an HDF5 file")
    with explained(path):
        return h5py.File(_MappedStream(mapped), "r")


class _MappedStream(io.RawIOBase):
    """A mapped file as an object that can be read."""

    def __init__(self, mapped: npt.NDArray[np.uint8]) -> None:
        self._mapped, self._position = mapped, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._mapped[self._position : self._position + len(buffer)]
        buffer[: len(part)] = memoryview(part)
        buffer[len(part) :] = bytes(len(buffer) - len(part))  # the library takes what it gets for whole
        self._position += len(part)
        return len(buffer)

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, len(self._mapped))[whence]
        return self._position


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Around calls of the library: whatever it raises is a FormatError."""
    try:
        yield
    except (HeadraceError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # what the library raises for a damaged file depends on where the damage is
        problem = f"the HDF5 library cannot read it ({type(error).__name__}: {error})"
        raise FormatError(path, problem=problem, fix="It is damaged or cut short; copy it again.") from error


@dataclass(slots=True)
class LibraryFile:
    """A file opened by the HDF5 library, for what only it can read; opened again in a forked child."""

    path: str
    mapped: npt.NDArray[np.uint8]
    _owner: int = -1
    _file: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def dataset(self, name: bytes) -> Any:
        """A dataset of it."""
        if self._owner != os.getpid():
            self._file, self._owner, self._lock = None, os.getpid(), threading.Lock()
        with self._lock:
            if self._file is None:
                self._file = open_by_library(self.path, self.mapped)
            return self._file[name]

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None and self._owner == os.getpid():
            self._file.close()
        self._file = None
