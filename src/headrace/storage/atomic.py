"""Files that get their name only when they are complete.

Contract: one thread writes. Until ``commit`` returns, nothing is visible under the final name; after it, the
bytes are on the disk under that name, even if the power fails. A file that is replaced passes its permissions on, and
until then nobody but the owner may read the new one. ``abort`` (or leaving the ``with`` block by an exception, Ctrl-C
included) leaves nothing behind; what ``kill -9`` may leave, the next writer of the name removes: see ``leftovers``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
from typing import TYPE_CHECKING, Any, Self

from headrace.errors import ClosedError
from headrace.progress import format_count
from headrace.storage.leftovers import remove_leftovers_in
from headrace.storage.new_file import NewFile, copy_bytes, kept_mode
from headrace.storage.regular import open_for_reading
from headrace.storage.remote_path import check_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from headrace.errors import PathLike
    from headrace.types import Buffer

__all__ = ["AtomicFile", "write_all"]

_IOV_MAX = 1024
_MOVE_BYTES = 8 << 20
_FALLOC_FL_INSERT_RANGE = 0x20
_SYNC_FILE_RANGE_WRITE = 2
_WRITE_OUT_BYTES = 16 << 20
_STREAM_BYTES = 1 << 20


class AtomicFile:
    """A file that is written beside its final name and appears there in one step.

    Args:
        path: the final name. What a link leads to is replaced, not the link.
        like: a file that this one belongs to: nobody may read the new file who may not read that one.
        is_synced: wait for the disk before it appears. Without, a crash of the machine may leave less of it.

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

    def __init__(self, path: PathLike, *, like: PathLike | None = None, is_synced: bool = True) -> None:
        check_local(path)
        self._is_synced = is_synced
        # What a link stands for is replaced, not the link; unless it leads to a directory that does not exist.
        behind = os.path.realpath(path)
        is_followed = os.path.islink(path) and os.path.isdir(os.path.dirname(behind))
        self.path = behind if is_followed else os.path.abspath(path)
        folder, self._name = os.path.split(self.path)
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"{self.path} is a directory; name a file to write to")
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"{folder} does not exist, so {self._name} cannot be written there. Make it with: mkdir -p {folder}"
            )
        self._like = None if like is None else _look_at(like)
        self._old = _look_at(self.path)
        self._owner = os.getpid()
        self.position = 0
        self._dirty_bytes = 0
        self._new: NewFile | None = None
        self._directory = -1
        try:
            self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            remove_leftovers_in(self._directory, self._name)
            is_private = self._old is not None or self._like is not None
            self._new = NewFile(self._directory, self._name, is_private=is_private)
            self._new.create()
        except BaseException as error:
            self._close()
            if not isinstance(error, OSError):
                raise
            reason = f"cannot create a file in this directory ({error.strerror})"
            raise type(error)(error.errno, reason, folder) from None

    def fileno(self) -> int:
        """The file descriptor."""
        if self._new is None:
            raise ClosedError(f"{self.path}: already closed")
        return self._new.fd

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Append buffers at ``position``."""
        try:
            for count in _write_pieces(self.fileno(), buffers, self.position):
                self.position += count
                self._dirty_bytes += count
        except OSError as error:
            raise self._failure(error) from None
        if self._dirty_bytes >= _WRITE_OUT_BYTES:
            self._write_out()

    def _failure(self, error: OSError) -> OSError:
        kept = "nothing was written under this name" if self._old is None else "the file that was there is unchanged"
        return type(error)(
            error.errno, f"{error.strerror} after {format_count(self.position, 'byte')}; {kept}", self.path
        )

    def _write_out(self) -> None:
        # The disk works while we do; otherwise nothing would move until commit, which then waits for all of it.
        self._dirty_bytes = 0
        start = getattr(ctypes.CDLL(None), "sync_file_range", None)
        if start is not None:
            whole = (ctypes.c_int64(0), ctypes.c_int64(0))
            start(ctypes.c_int(self.fileno()), *whole, ctypes.c_uint(_SYNC_FILE_RANGE_WRITE))

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
        source = open_for_reading(path, nofollow=False)
        try:
            copied = copy_bytes(source, self.fileno(), size, to=self.position)
        except OSError as error:
            raise self._failure(error) from None
        finally:
            os.close(source)
        self.position += copied
        if copied < size:
            raise OSError(errno.EIO, f"the file ended at byte {copied}, {size} expected", os.fspath(path))

    def insert_space(self, offset: int, size: int) -> None:
        """Move everything from ``offset`` on back by ``size`` bytes; the space is zero."""
        end = max(self.position, os.fstat(self.fileno()).st_size)
        if offset < end and not self._insert_range(offset, size):
            stale_end = min(end, offset + size)
            while end > offset:
                start = max(offset, end - _MOVE_BYTES)
                self.write_at(start + size, os.pread(self.fileno(), end - start, start))
                end = start
            for start in range(offset, stale_end, _MOVE_BYTES):
                self.write_at(start, bytes(min(_MOVE_BYTES, stale_end - start)))
        self.position += size

    def _insert_range(self, offset: int, size: int) -> bool:
        # Some file systems move whole extents instead of bytes.
        fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
        if fallocate is None:
            return False
        args = (ctypes.c_int(self.fileno()), ctypes.c_int(_FALLOC_FL_INSERT_RANGE))
        return bool(fallocate(*args, ctypes.c_int64(offset), ctypes.c_int64(size)) == 0)

    def commit(self) -> None:
        """Put the bytes on the disk and give the file its name."""
        fd = self.fileno()
        assert self._new is not None
        self._set_mode(fd)
        if self._is_synced:
            os.fsync(fd)
        self._new.give_name(replace=True, is_synced=self._is_synced)
        if self._is_synced:
            os.fsync(self._directory)
        self._close()

    def _set_mode(self, fd: int) -> None:
        old, like = _look_at(self.path) or self._old, self._like
        model = old or like
        if model is None:
            return
        mode = kept_mode(fd, model) & (0o777 if like is None else like.st_mode & 0o666)
        with contextlib.suppress(OSError):  # a file system without permissions
            os.fchmod(fd, mode)

    def abort(self) -> None:
        """Throw the bytes away; does nothing when the file is closed already."""
        self._close()

    def __del__(self) -> None:
        # An interrupt may come before anybody has this object. A forked child has a copy, but not the file.
        if getattr(self, "_owner", None) == os.getpid():
            self._close()

    def _close(self) -> None:
        if self._new is not None:
            new, self._new = self._new, None
            new.close()
        if self._directory >= 0:
            directory, self._directory = self._directory, -1
            os.close(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._new is not None:
            try:
                self.commit()
            except BaseException:
                self.abort()
                raise
        else:
            self.abort()


def _look_at(path: PathLike) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None  # there is none


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
