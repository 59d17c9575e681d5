"""Writing .ffr files.

The header stands in front and grows with the number of samples. Where that number is known, room is left for it. Where
it is not, the first samples are kept in memory: most files end before that is full. What comes after that goes to the
file, and is moved back once when the file is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from headrace._native import crc32_buffers
from headrace.errors import ClosedError, WriteError
from headrace.formats.contract import BaseWriter
from headrace.formats.ffr.layout import header_size, pack_header
from headrace.progress import format_count
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.errors import PathLike

__all__ = ["FfrWriter", "as_sample"]

_CHUNK_BYTES = 4 << 20
_CHUNK_SAMPLES = 1024
_HELD_BYTES = 64 << 20


def as_sample(value: Any) -> bytes | memoryview:
    """The bytes of a sample: all of them, in C order, whatever the shape, strides and type of the value.

    Example:
        >>> list(as_sample(np.arange(6, dtype=np.uint8).reshape(2, 3)[:, ::2]))
        [0, 2, 3, 5]
    """
    if isinstance(value, bytes):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"a sample of an .ffr is bytes or something with a buffer, such as an array; got {kind}"
        ) from None
    if "O" in view.format:
        raise TypeError("an array of Python objects has no bytes to store; encode the objects first")
    if view.nbytes == 0:
        return b""
    return view.cast("B") if view.c_contiguous else view.tobytes()


class FfrWriter(BaseWriter):
    """Writes an .ffr file, byte for byte what FFRecord writes; it appears when ``close`` succeeded, or not at all.

    Args:
        path: where the file goes; an existing one is replaced.
        n: the number of samples, if known; saves moving data at the end of a large file. Then exactly so many must
            be written.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.ffr")
        >>> with FfrWriter(path) as writer:
        ...     writer.append(b"abc")
        ...     writer.append_many([np.arange(3), b""])
        >>> os.path.getsize(path)
        75
    """

    def __init__(self, path: PathLike, n: int | None = None) -> None:
        if n is not None and n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        self._n = n
        self._file = AtomicFile(path)
        self._is_open = True
        self._data_start = 0 if n is None else header_size(n)
        self._file.position = self._data_start
        self._is_held = n is None  # nothing is in the file yet
        self._pending: list[bytes | memoryview] = []
        self._pending_bytes = 0
        self._checksums: list[npt.NDArray[np.uint32]] = []
        self._sizes: list[npt.NDArray[np.int64]] = []
        self._count = 0
        self._size_bytes = 0

    @property
    def path(self) -> str:
        """Where the file goes."""
        return self._file.path

    @property
    def n(self) -> int | None:
        """The number of samples that was announced."""
        return self._n

    @property
    def is_open(self) -> bool:
        """Neither closed nor aborted."""
        return self._is_open

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._file.path}: a writer cannot be pickled or copied; write in the process that opened it")

    def __len__(self) -> int:
        """Samples taken so far."""
        return self._count

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        return self._size_bytes

    def append(self, sample: Any) -> None:
        """Add one sample: bytes, or anything with a buffer."""
        self._check_room(1)
        data = as_sample(sample)
        is_full = self._pending_bytes + len(data) >= self._limit
        is_full |= not self._is_held and len(self._pending) + 1 >= _CHUNK_SAMPLES
        # Copied, unless it is written now or cannot change: the caller may use its buffer again.
        self._take([data if is_full or isinstance(data, bytes) else bytes(data)])
        if is_full:
            self._flush()

    def append_many(self, samples: Iterable[Any]) -> None:
        """Add samples. Those of a list are written, at the latest, before the call returns, without being copied."""
        chunk: list[bytes | memoryview] = []
        size_bytes = 0
        for sample in samples:
            self._check_room(len(chunk) + 1)
            data = as_sample(sample)
            chunk.append(data)
            size_bytes += len(data)
            if size_bytes >= _CHUNK_BYTES or len(chunk) >= _CHUNK_SAMPLES:
                self._take_chunk(chunk)
                chunk, size_bytes = [], 0
        self._take_chunk(chunk)

    def append_chunk(self, samples: Sequence[bytes | memoryview]) -> None:
        """Add samples that are plain bytes, and that may lie in memory together; they are not copied either."""
        self._check_room(len(samples))
        self._take_chunk(samples)

    def _take_chunk(self, chunk: Sequence[bytes | memoryview]) -> None:
        if self._is_held and self._pending_bytes + sum(map(len, chunk)) < self._limit:
            self._take([data if isinstance(data, bytes) else bytes(data) for data in chunk])
            return
        self._take(chunk)
        self._flush()

    def _take(self, samples: Sequence[bytes | memoryview]) -> None:
        self._pending += samples
        size_bytes = sum(map(len, samples))
        self._pending_bytes += size_bytes
        self._size_bytes += size_bytes
        self._count += len(samples)

    @property
    def _limit(self) -> int:
        return _HELD_BYTES if self._is_held else _CHUNK_BYTES

    def _check_room(self, count: int) -> None:
        if not self._is_open:
            raise ClosedError(f"{self._file.path}: the writer is closed")
        if self._n is not None and self._count + count > self._n:
            raise WriteError(
                f"{self._file.path}: the file was announced with {format_count(self._n, 'sample')}, "
                "and this is one more. "
                "Leave n out if you do not know it",
                sample=self._n,
            )

    def _flush(self) -> None:
        self._is_held = False
        if self._pending:
            samples, self._pending, self._pending_bytes = self._pending, [], 0
            self._checksums.append(crc32_buffers(samples))
            self._sizes.append(np.fromiter(map(len, samples), np.int64, len(samples)))
            try:
                self._file.write(samples)
            except BaseException:
                self.abort()  # part of them may be in the file: what would follow is not where it should be
                raise

    def close(self) -> None:
        """Finish the file and give it its name; does nothing when it is closed already.

        Raises:
            WriteError: fewer samples were written than announced; nothing is left behind.
        """
        if not self._is_open:
            return
        try:
            self._check_complete()
            self._finish()
            self._file.commit()
        except BaseException:
            self.abort()
            raise
        self._release()

    def _check_complete(self) -> None:
        if self._n is not None and self._count != self._n:
            raise WriteError(
                f"{self._file.path}: the file was announced with {format_count(self._n, 'sample')}, "
                f"and {self._count:,} were written; "
                "no file was made",
                sample=self._count,
            )

    def _finish(self) -> None:
        start = header_size(self._count)
        if self._is_held:
            self._data_start = self._file.position = start
        self._flush()
        if self._data_start != start:
            self._file.insert_space(0, start)
        sizes = np.concatenate(self._sizes) if self._sizes else np.empty(0, np.int64)
        checksums = np.concatenate(self._checksums) if self._checksums else np.empty(0, np.uint32)
        end, self._file.position = self._file.position, 0
        self._file.write(pack_header(checksums, start + np.cumsum(sizes) - sizes))
        self._file.position = end

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        self._file.abort()
        self._release()

    def _release(self) -> None:
        self._is_open = False
        self._pending, self._checksums, self._sizes = [], [], []
