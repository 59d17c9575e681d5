"""Local files, mapped into memory for reading.

Contract: a mapping is guarded for as long as the array or any view of it lives. A page that cannot be read, because
somebody has cut the file short or the disk fails, reads as zeros and is counted. So whoever reads asks afterwards:
``check_mapping`` costs no more than looking at a number. The count never goes back; a mapping with a fault stays one.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import MappingGuard, SparseMapping
from headrace.errors import FormatError, RemoteError
from headrace.storage.regular import open_for_reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import PathLike

__all__ = [
    "check_mapping",
    "is_mapped_file",
    "map_descriptor",
    "map_file",
    "mapping_faults",
    "records_ahead",
    "release_behind",
    "release_mapped",
    "released_meanwhile",
]

_LIBC = ctypes.CDLL(None, use_errno=True)
_MADV_DONTNEED = 4
_BEHIND_BYTES = 16 << 20
_FEW = 4
_PAUSE_S = 0.01
_MAPPED: dict[int, weakref.ref[npt.NDArray[np.uint8]]] = {}  # all mapped files, by id; changed in single steps


def map_file(path: PathLike, *, nofollow: bool = False) -> npt.NDArray[np.uint8]:
    """Map a whole file as a read-only array of bytes.

    The mapping lives as long as the array or any view of it; the file descriptor is closed at once. Where the file
    is cut short by somebody else while it is mapped, the missing part reads as zeros: ``check_mapping`` tells.
    ``nofollow`` refuses a symbolic link; see ``open_for_reading``.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "x")
        >>> _ = file.write_bytes(b"abc")
        >>> map_file(file).tobytes()
        b'abc'
    """
    fd = open_for_reading(path, nofollow=nofollow)
    try:
        return map_descriptor(fd)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        os.close(fd)


def map_descriptor(fd: int) -> npt.NDArray[np.uint8]:
    """The same for a regular file that is open, such as one without a name; the descriptor may be closed then."""
    if os.fstat(fd).st_size == 0:
        return np.frombuffer(b"", np.uint8)
    guard: Any = MappingGuard(fd)
    array = np.frombuffer(guard, np.uint8)
    _MAPPED[id(array)] = weakref.ref(array, partial(_forget, id(array)))
    return array


def _forget(number: int, reference: object) -> None:
    if _MAPPED.get(number) is reference:
        _MAPPED.pop(number, None)


def release_mapped() -> None:
    """Give back the memory in which mapped files lie; what is used again comes from the system's cache.

    For work that passes once through files larger than the memory that it may take. Any thread may read meanwhile.
    """
    for reference in list(_MAPPED.values()):
        array = reference()
        if array is not None:
            _LIBC.madvise(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), _MADV_DONTNEED)


def release_behind(array: npt.NDArray[np.uint8], start: int, end: int) -> int:
    """Give back the memory of a mapped file behind a reader that has come from byte ``start`` to byte ``end``.

    Returns:
        What to pass as ``start`` the next time: a few bytes are not worth a call, and wait until there are more.

    Example:
        >>> release_behind(np.zeros(3, np.uint8), 0, 3)
        0
    """
    if end - start < _BEHIND_BYTES or not is_mapped_file(array):
        return start
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    _LIBC.madvise(ctypes.c_void_p(array.ctypes.data + first), ctypes.c_size_t(end - first), _MADV_DONTNEED)
    return end


def records_ahead(done: int, position: int, most: int) -> int:
    """How many records to read before ``release_behind``, by the size of those that were read; at most ``most``.

    Args:
        done: how many were read.
        position: where they end.
        most: not more, also of small ones.

    Example:
        >>> records_ahead(0, 0, 1000), records_ahead(10, 80, 1000), records_ahead(10, 10 << 20, 1000)
        (4, 1000, 16)
    """
    return max(_FEW, min(most, _BEHIND_BYTES * done // max(position, 1)))


@contextlib.contextmanager
def released_meanwhile(fd: int) -> Iterator[None]:
    """Give back the memory of a file again and again, while a library that has mapped it passes through it once.

    Shared mappings alone: there nothing is lost, also where the library has written.

    Args:
        fd: of the file; it stays open.
    """
    is_done = threading.Event()

    def release() -> None:
        while not is_done.wait(_PAUSE_S):
            for start, end in _shared_mappings(os.fstat(fd).st_ino):
                _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)

    thread = threading.Thread(target=release, name="headrace-release")
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _shared_mappings(inode: int) -> Iterator[tuple[int, int]]:
    """Where in memory a file is mapped; a line is ``start-end rwxs offset device inode name``."""
    with contextlib.suppress(OSError), open("/proc/self/maps", errors="replace") as file:
        for line in file:
            place, flags, _, _, number = line.split(maxsplit=5)[:5]
            if flags[3] == "s" and int(number) == inode:
                start, _, end = place.partition("-")
                yield int(start, 16), int(end, 16)


def mapping_faults(array: npt.NDArray[Any]) -> int:
    """How many pages of the mapped file behind an array (or a view of one) could not be read so far.

    Example:
        >>> mapping_faults(np.zeros(3))
        0
    """
    owner = _owner_of(array)
    return owner.faults if isinstance(owner, MappingGuard | SparseMapping) else 0


def is_mapped_file(array: npt.NDArray[Any]) -> bool:
    """The memory of the array is a file that ``map_file`` has mapped.

    Example:
        >>> is_mapped_file(np.zeros(3))
        False
    """
    return isinstance(_owner_of(array), MappingGuard)


def _owner_of(array: npt.NDArray[Any]) -> object:
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner


def check_mapping(array: npt.NDArray[Any], path: PathLike) -> None:
    """Raise FormatError if a part of a mapped file could not be read: then some of its bytes were taken as zero.

    Of an object in a store it is a RemoteError: somebody has touched what was not brought.
    """
    if not mapping_faults(array):
        return
    if isinstance(_owner_of(array), MappingGuard):
        raise FormatError(
            path,
            problem="the file became shorter while it was in use",
            fix="Replace files by renaming, never in place.",
        )
    raise RemoteError(
        path,
        problem="bytes were used that had not been brought",
        fix="This is a mistake of headrace; please report it with the format of the file.",
    )
