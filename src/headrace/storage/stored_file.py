"""Bytes at an address, wherever that is: what formats read.

Contract. A stored file has a size and one version, from opening to closing. ``mapped`` spans all of it, and what may be
touched there is what was asked for: ``hold`` for bytes that stay as long as the file is open (headers, tables), and
``region`` for bytes that are needed for a moment (the values of a batch), which stay as long as the array that it gave.
Of a local file everything is there at any time; of an object only what was brought. Bytes that nobody asked for read as
zeros and are counted, so that ``check``, which every reader calls when it is done, raises instead of letting wrong data
through. ``announce`` begins to bring spans ahead of their use; a ``region`` of all or some of them then does not wait.
Any number of threads may read. An object that changes is an error: bytes of two versions are never mixed.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.errors import ClosedError
from headrace.storage.local import check_mapping, map_file
from headrace.storage.regular import open_stream
from headrace.storage.remote_path import RemotePath, is_remote

if TYPE_CHECKING:
    from headrace.errors import PathLike
    from headrace.types import Announcement

__all__ = ["LocalFile", "Positions", "StoredFile", "StoredReader", "StoredStream", "open_reader", "open_stored"]

_BUFFER_BYTES = 1 << 20

Positions: TypeAlias = npt.NDArray[np.uint64]


class StoredFile(Protocol):
    """A file or object that is open for reading."""

    path: str
    size_bytes: int

    @property
    def is_local(self) -> bool:
        """All of it can be touched at any time."""
        ...

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """All of its bytes, read-only; of an object only what is held may be touched."""
        ...

    def hold(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        """Bytes that stay until the file is closed, and as long as the array lives: ``mapped[start:end]``."""
        ...

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, all inside the file, and where in it they begin; it stays as long as the array."""
        ...

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement | None:
        """Begin to bring spans here, ahead of ``region``; None where there is nothing to bring."""
        ...

    def check(self) -> None:
        """Raise FormatError if bytes that were touched could not be read."""
        ...

    def close(self) -> None:
        """Let go of it. Arrays that were handed out stay valid."""
        ...


class LocalFile:
    """A file of this machine, mapped.

    Args:
        path: of the file.
        nofollow: refuse a symbolic link.
        mapped: its bytes, where they are in memory already or stand in a file without a name.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "x")
        >>> _ = path.write_bytes(b"onetwothree")
        >>> LocalFile(path).hold(3, 6).tobytes()
        b'two'
    """

    is_local = True

    def __init__(self, path: PathLike, *, nofollow: bool = False, mapped: npt.NDArray[np.uint8] | None = None) -> None:
        self.path = os.fspath(path)
        self._mapped: npt.NDArray[np.uint8] | None = (
            map_file(self.path, nofollow=nofollow) if mapped is None else mapped
        )
        self.size_bytes = len(self._mapped)

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """All of its bytes, read-only."""
        if self._mapped is None:
            raise ClosedError(f"{self.path}: the dataset is closed; open it again")
        return self._mapped

    def hold(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        """A part of the mapped file."""
        return self.mapped[start:end]

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """The mapped file itself."""
        return self.mapped, offsets

    def announce(self, offsets: Positions, sizes: Positions) -> None:
        """Nothing has to be brought."""

    def check(self) -> None:
        """Raise FormatError if somebody has cut the file short."""
        if self._mapped is not None:
            check_mapping(self._mapped, self.path)

    def close(self) -> None:
        """Let go of the file. Arrays that were handed out stay valid."""
        self._mapped = None


def open_stored(path: PathLike, *, nofollow: bool = False) -> StoredFile:
    """Open a path or a URL for reading.

    Args:
        path: of a file, or a RemotePath.
        nofollow: refuse a symbolic link.

    Raises:
        FileNotFoundError: there is nothing.
        FormatError: it is a pipe, a device, or a link that is not to be followed.
        RemoteError: the store does not answer, or does not let us in.
    """
    name = os.fspath(path)
    if not is_remote(name):
        return LocalFile(name, nofollow=nofollow)
    from headrace.storage.remote_file import RemoteFile

    return RemoteFile(name if isinstance(name, RemotePath) else RemotePath(name))


class StoredStream(io.RawIOBase):
    """A stored file as a file object, for libraries that read by themselves; put an ``io.BufferedReader`` around it.

    Args:
        file: opened; closing the stream does not close it.
    """

    def __init__(self, file: StoredFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte, counted from the beginning, from here or from the end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size_bytes}[whence]
        if base + offset < 0:
            raise ValueError(f"{self._file.path}: byte {base + offset} does not exist")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The byte that is read next."""
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer as far as there are bytes."""
        size = min(len(buffer), max(0, self._file.size_bytes - self._position))
        if size == 0:
            return 0
        base, starts = self._file.region(np.array([self._position], np.uint64), np.array([size], np.uint64))
        start = int(starts[0])
        memoryview(buffer)[:size] = memoryview(base)[start : start + size]
        self._file.check()
        self._position += size
        return size


class StoredReader(io.BufferedReader):
    """A stored file as a buffered file object that closes it; for what reads from the front.

    Args:
        file: opened; it belongs to the reader from now on.
    """

    def __init__(self, file: StoredFile) -> None:
        super().__init__(StoredStream(file), _BUFFER_BYTES)
        self._file = file

    def close(self) -> None:
        """Close the file, too."""
        super().close()
        self._file.close()


def open_reader(path: PathLike) -> BinaryIO:
    """A file or an object as a file object for reading, links followed."""
    name = os.fspath(path)
    return StoredReader(open_stored(name)) if is_remote(name) else open_stream(name)
