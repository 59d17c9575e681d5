"""Reads that the disk answers many at a time, for what is not in the page cache.

Contract: files that are mapped as well. ``reader_for`` looks at a few of the spans that are wanted; what is in the
cache is better copied from the mapping, and it gives None. The queue is made when it is needed first, which opens the
files; any number of threads may use it, and forked children.
"""

from __future__ import annotations

import logging
import os
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace import _native
from headrace.errors import FormatError
from headrace.storage.memory import available_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["ColdReads", "file_identity"]

_log = logging.getLogger("headrace")
_PROBES = 4
_QUEUE_DEPTH = 128  # small spans of a batch: measurably more than 64, and 256 brings nothing
_SHARE_OF_MEMORY = 0.7  # files above this share of the free memory are read past the system's cache


def file_identity(path: str) -> tuple[int, int]:
    """What stays the same as long as a path names the same file."""
    facts = os.stat(path)
    return facts.st_dev, facts.st_ino


def _is_still(path: str, identity: tuple[int, int]) -> bool:
    try:
        return file_identity(path) == identity
    except FileNotFoundError:
        return False


class ColdReads:
    """A queue of asynchronous reads for some files, where that is the better way.

    Args:
        paths: of the files, absolute.
        identities: of the files that are mapped: those that are read must be the same.
        size_bytes: of all files together.
        cold: True: always, and past the page cache. False: never. None: when the spans are not in the page cache, and
            past it when the files would not fit into memory.
    """

    def __init__(
        self, paths: Sequence[str], identities: Sequence[tuple[int, int]], *, size_bytes: int, cold: bool | None
    ) -> None:
        self._paths = list(paths)
        self._identities = list(identities)
        self._size_bytes = size_bytes
        self._cold = cold

    def reader_for(
        self,
        files: npt.NDArray[np.uint32],
        offsets: npt.NDArray[np.uint64],
        sizes: npt.NDArray[np.uint64],
    ) -> _native.RangeReader | None:
        """What reads these spans; None when the mapped files should be used.

        The question may bring what is missing into the cache, so the answer to a second one may be another.
        """
        if self._cold is False or len(offsets) == 0 or self.reader is None:
            return None
        return self.reader if self._cold or not self._is_cached(self.reader, files, offsets, sizes) else None

    def describe(self) -> str:
        """Say in words how spans are read."""
        reader = None if self._cold is False else self.reader
        if reader is None:
            return "from the mapped file"
        read = f"read{' past the page cache' if reader.is_direct else ''} by {reader.engine}"
        return read if self._cold else f"from the page cache, or else {read}"

    def close(self) -> None:
        """Let go of the files."""
        self.__dict__.pop("reader", None)

    @cached_property
    def _is_large(self) -> bool:
        return self._size_bytes > _SHARE_OF_MEMORY * available_bytes()

    @cached_property
    def reader(self) -> _native.RangeReader | None:
        """What reads spans of all files; None where the system cannot."""
        is_direct = bool(self._cold) or self._is_large
        try:
            reader = _native.RangeReader(self._paths, direct=is_direct, queue_depth=_QUEUE_DEPTH)
        except (OSError, _native.NativeError) as error:
            _log.warning("%s: read through the mapped file only (%s)", self._paths[0], error)
            return None
        for path, identity in zip(self._paths, self._identities, strict=True):
            if not _is_still(path, identity):
                problem = "another file has taken its place since it was opened"
                raise FormatError(path, problem=problem, fix="Open it again.")
        return reader

    def _is_cached(
        self,
        reader: _native.RangeReader,
        files: npt.NDArray[np.uint32],
        offsets: npt.NDArray[np.uint64],
        sizes: npt.NDArray[np.uint64],
    ) -> bool:
        some = slice(None, None, -(-len(offsets) // _PROBES))
        middles = offsets[some] + sizes[some] // np.uint64(2)
        try:
            return reader.count_cached(middles, np.ascontiguousarray(files[some])) == len(middles)
        except _native.NativeError:  # this file system does not say
            return not self._is_large
