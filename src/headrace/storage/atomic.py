"""Files that get their name only when they are complete.

Contract: one thread writes. Until ``commit`` returns, nothing is visible under the final name; after it, the
bytes are on the disk under that name, even if the power fails. A file that is replaced passes its permissions on.
``abort`` (or leaving the ``with`` block by an exception, Ctrl-C included) leaves nothing behind. Where the file system
can do it (O_TMPFILE) the file has no name at all while it is written, so that even ``kill -9`` leaves nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import stat
from typing import TYPE_CHECKING, Any, Self

from headrace.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from headrace.errors import PathLike
    from headrace.types import Buffer

__all__ = ["AtomicFile", "write_all"]

_IOV_MAX = 1024
_COPY_CHUNK_BYTES = 8 << 20
_FALLOC_FL_INSERT_RANGE = 0x20
_SYNC_FILE_RANGE_WRITE = 2
_WRITE_OUT_BYTES = 16 << 20
_STREAM_BYTES = 1 << 20


class AtomicFile:
    """A file that is written beside its final name and appears there in one step.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "x")
        >>> with AtomicFile(path) as file:
        ...     file.write([b"ab", b"c"])
        ...     path.exists()
        False
        >>> path.read_bytes()
        b'abc'
    """

    def __init__(self, path: PathLike) -> None:
        # What a link stands for is replaced, not the link; unless it leads to a directory that does not exist.
        behind = os.path.realpath(path)
        is_followed = os.path.islink(path) and os.path.isdir(os.path.dirname(behind))
        self.path = behind if is_followed else os.path.abspath(path)
        self._directory = os.path.dirname(self.path)
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"{self.path} is a directory; name a file to write to")
        if not os.path.isdir(self._directory):
            raise FileNotFoundError(
                f"{self._directory} does not exist, so {os.path.basename(self.path)} cannot be written there. "
                f"Make it with: mkdir -p {self._directory}"
            )
        self._fd, self._temporary = self._create()
        self.position = 0
        self._dirty_bytes = 0

    def _create(self) -> tuple[int, str | None]:
        try:
            return os.open(self._directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666), None
        except (OSError, AttributeError):
            pass  # this file system (or kernel) has no nameless files; the named attempt tells what is wrong
        temporary = self._temporary_name()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            return os.open(temporary, flags, 0o666), temporary
        except OSError as error:
            raise type(error)(
                error.errno, f"cannot create a file in this directory ({error.strerror})", self._directory
            ) from None

    def _temporary_name(self) -> str:
        return os.path.join(self._directory, f".{os.path.basename(self.path)}.{os.urandom(4).hex()}.incomplete")

    def fileno(self) -> int:
        """The file descriptor."""
        if self._fd < 0:
            raise ClosedError(f"{self.path}: already closed")
        return self._fd

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Append buffers at ``position``."""
        try:
            for count in _write_pieces(self.fileno(), buffers, self.position):
                self.position += count
                self._dirty_bytes += count
        except OSError as error:
            reason = f"{error.strerror} after {self.position} bytes; nothing is left under the final name"
            raise type(error)(error.errno, reason, self.path) from None
        if self._dirty_bytes >= _WRITE_OUT_BYTES:
            self._write_out()

    def _write_out(self) -> None:
        # The disk works while we do; otherwise nothing would move until commit, which then waits for all of it.
        self._dirty_bytes = 0
        start = getattr(ctypes.CDLL(None), "sync_file_range", None)
        if start is not None:
            whole = (ctypes.c_int64(0), ctypes.c_int64(0))
            start(ctypes.c_int(self._fd), *whole, ctypes.c_uint(_SYNC_FILE_RANGE_WRITE))

    def write_at(self, offset: int, buffer: Buffer) -> None:
        """Write a buffer somewhere without moving ``position``."""
        position, self.position = self.position, offset
        self.write([buffer])
        self.position = position

    def stream(self) -> io.BufferedWriter:
        """A file object that writes here, for libraries that want one; close it before ``commit``."""
        return io.BufferedWriter(_Stream(self), _STREAM_BYTES)

    def truncate(self) -> None:
        """End the file at ``position``."""
        os.ftruncate(self.fileno(), self.position)

    def copy_from(self, path: PathLike, size: int) -> None:
        """Append the first ``size`` bytes of a file; file systems that can share blocks do so."""
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            offset = 0
            while offset < size:
                count = min(size - offset, _COPY_CHUNK_BYTES)
                try:
                    copied = os.copy_file_range(source, self.fileno(), count, offset, self.position)
                    self.position += copied
                except OSError as error:
                    if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
                        raise
                    data = os.pread(source, count, offset)
                    copied = len(data)
                    self.write([data])
                if copied == 0:
                    raise OSError(errno.EIO, f"the file ended at byte {offset}, {size} expected", os.fspath(path))
                offset += copied
        finally:
            os.close(source)

    def insert_space(self, offset: int, size: int) -> None:
        """Move everything from ``offset`` on back by ``size`` bytes; the space is zero."""
        end = max(self.position, os.fstat(self.fileno()).st_size)
        if offset < end and not self._insert_range(offset, size):
            stale_end = min(end, offset + size)
            while end > offset:
                start = max(offset, end - _COPY_CHUNK_BYTES)
                self.write_at(start + size, os.pread(self._fd, end - start, start))
                end = start
            for start in range(offset, stale_end, _COPY_CHUNK_BYTES):
                self.write_at(start, bytes(min(_COPY_CHUNK_BYTES, stale_end - start)))
        self.position += size

    def _insert_range(self, offset: int, size: int) -> bool:
        # Some file systems move whole extents instead of bytes.
        fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
        if fallocate is None:
            return False
        args = (ctypes.c_int(self._fd), ctypes.c_int(_FALLOC_FL_INSERT_RANGE))
        return bool(fallocate(*args, ctypes.c_int64(offset), ctypes.c_int64(size)) == 0)

    def commit(self) -> None:
        """Put the bytes on the disk and give the file its name."""
        fd = self.fileno()
        with contextlib.suppress(OSError):  # there is none, or it is not ours
            os.fchmod(fd, stat.S_IMODE(os.stat(self.path).st_mode))
        os.fsync(fd)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            if self._temporary is None:
                self._temporary = self._temporary_name()
                # With a directory's descriptor Python calls linkat, which follows the link in /proc; link does not.
                os.link(f"/proc/self/fd/{fd}", self._temporary, src_dir_fd=directory, follow_symlinks=True)
            os.replace(self._temporary, self.path)
            self._temporary = None
            os.fsync(directory)
        finally:
            os.close(directory)
        self._close()

    def abort(self) -> None:
        """Throw the bytes away; does nothing when the file is closed already."""
        self._close()
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)
            self._temporary = None

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._fd >= 0:
            try:
                self.commit()
            except BaseException:
                self.abort()
                raise
        else:
            self.abort()


class _Stream(io.RawIOBase):
    """Writes to an AtomicFile at its position."""

    def __init__(self, file: AtomicFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write([data])
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self._file.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = os.fstat(self._file.fileno()).st_size if whence == io.SEEK_END else 0
        self._file.position = offset + (0, self._file.position, size)[whence]
        return self._file.position


def write_all(fd: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write buffers one after the other at a position of a file."""
    for _ in _write_pieces(fd, buffers, position):
        pass


def _write_pieces(fd: int, buffers: Sequence[Buffer], position: int) -> Iterator[int]:
    """The same; gives the number of bytes after each call of the system."""
    views = [view for view in (memoryview(buffer).cast("B") for buffer in buffers) if view.nbytes]
    while views:
        count = os.pwritev(fd, views[:_IOV_MAX], position)
        position += count
        yield count
        done = 0
        while done < len(views) and count >= views[done].nbytes:
            count -= views[done].nbytes
            done += 1
        del views[:done]
        if count:
            views[0] = views[0][count:]
