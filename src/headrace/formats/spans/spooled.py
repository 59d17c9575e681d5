"""Objects of a store, or parts of them, in a temporary file without a name: for a pass that needs them in memory.

The file lies where such files do (TMPDIR), is as large as the object, takes room only for what was fetched, and goes
with the last array of its bytes; a killed process leaves nothing.
"""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from headrace.storage import map_descriptor, temporary_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.storage import StoredFile
    from headrace.types import Announcement

    Spans = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

__all__ = ["spans_between", "spool"]

_PIECE_BYTES = 32 << 20
_BATCH_SPANS = 8192
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def spool(file: StoredFile, offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Fetch spans, all inside the file, to their places in a temporary file; gives its bytes, zeros between them.

    Raises:
        OSError: there is no room for it.
    """
    with temporary_file(tempfile.gettempdir()) as out:
        try:
            os.ftruncate(out.fileno(), file.size_bytes)
            _fetch(file, out.fileno(), list(_batches(offsets, sizes)))
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            reason = f"no room in {tempfile.gettempdir()} for what must be fetched of it; point TMPDIR elsewhere"
            raise OSError(error.errno, reason, file.path) from None
        return map_descriptor(out.fileno())


def _fetch(file: StoredFile, fd: int, batches: list[Spans]) -> None:
    ahead: Announcement | None = None
    for batch, following in itertools.zip_longest(batches, batches[1:]):
        announced, ahead = ahead, None if following is None else file.announce(*following)
        try:
            base, starts = file.region(*batch)
            for start, offset, size in zip(starts.tolist(), *(column.tolist() for column in batch), strict=True):
                _write_at(fd, memoryview(base[start : start + size]), offset)
            file.check()
        except BaseException:
            if ahead is not None:
                ahead.close()
            raise
        finally:
            if announced is not None:
                announced.close()


def _write_at(fd: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.pwrite(fd, data, offset)
        data, offset = data[count:], offset + count


def _batches(offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> Iterator[Spans]:
    """Spans, large ones in pieces, as many at a time as are small together."""
    some: list[tuple[int, int]] = []
    size_bytes = 0
    for begin, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
        for at in range(begin, begin + size, _PIECE_BYTES):
            piece = min(_PIECE_BYTES, begin + size - at)
            if some and (size_bytes + piece > _PIECE_BYTES or len(some) == _BATCH_SPANS):
                yield _as_arrays(some)
                some, size_bytes = [], 0
            some.append((at, piece))
            size_bytes += piece
    if some:
        yield _as_arrays(some)


def _as_arrays(spans: list[tuple[int, int]]) -> Spans:
    table = np.array(spans, np.uint64)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def spans_between(offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64], end: int) -> Spans:
    """What lies in a file of ``end`` bytes outside of some spans, which may overlap and lie anywhere.

    Example:
        >>> [part.tolist() for part in spans_between(np.array([6, 2], "u8"), np.array([3, 2], "u8"), 10)]
        [[0, 4, 9], [2, 2, 1]]
    """
    begins = np.minimum(offsets.reshape(-1), np.uint64(end))
    ends = begins + np.minimum(sizes.reshape(-1), np.uint64(end) - begins)
    order = np.argsort(begins, kind="stable")
    gaps_from = np.concatenate([np.zeros(1, np.uint64), np.maximum.accumulate(ends[order])])
    gaps_to = np.concatenate([begins[order], np.array([end], np.uint64)])
    is_gap = gaps_to > gaps_from
    return gaps_from[is_gap], gaps_to[is_gap] - gaps_from[is_gap]
