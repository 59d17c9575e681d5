"""Local files, mapped into memory for reading.

Contract: a mapping is guarded for as long as the array or any view of it lives. A page that cannot be read, because
somebody has cut the file short or the disk fails, reads as zeros and is counted. So whoever reads asks afterwards:
``check_mapping`` costs no more than looking at a number. The count never goes back; a mapping with a fault stays one.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import MappingGuard
from headrace.errors import FormatError
from headrace.storage.regular import open_for_reading

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["check_mapping", "is_mapped_file", "map_descriptor", "map_file", "mapping_faults", "release_mapped"]

_LIBC = ctypes.CDLL(None, use_errno=True)
_MADV_DONTNEED = 4
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


def mapping_faults(array: npt.NDArray[Any]) -> int:
    """How many pages of the mapped file behind an array (or a view of one) could not be read so far.

    Example:
        >>> mapping_faults(np.zeros(3))
        0
    """
    guard = _guard_of(array)
    return 0 if guard is None else guard.faults


def is_mapped_file(array: npt.NDArray[Any]) -> bool:
    """The memory of the array is a file that ``map_file`` has mapped.

    Example:
        >>> is_mapped_file(np.zeros(3))
        False
    """
    return _guard_of(array) is not None


def _guard_of(array: npt.NDArray[Any]) -> MappingGuard | None:
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, MappingGuard) else None


def check_mapping(array: npt.NDArray[Any], path: PathLike) -> None:
    """Raise FormatError if a part of a mapped file could not be read: then some of its bytes were taken as zero."""
    if mapping_faults(array):
        raise FormatError(
            path,
            problem="the file became shorter while it was in use",
            fix="Replace files by renaming, never in place.",
        )
