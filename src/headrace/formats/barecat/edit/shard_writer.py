"""Shards for writing.

Contract: one thread at a time. Bytes are appended to the last shard through a buffer, and a new shard is begun where
the limit would be passed. ``sync`` puts everything on the disk; the rows that name the bytes are committed after it.
Nothing that a committed row names is overwritten or cut off before another commit took that row away: ``cut`` only
notes the new end until ``committed`` is called, and before bytes are appended there, the owner is made to commit.

Barecat cannot cut off a small file that it has written last and not yet touched again; its bytes stay as a gap. The
same happens here, so that the same operations give the same shards.

An operation that fails (no space, say) may leave less than its caller thinks: the owner must not commit any more, and
calls ``write_back`` for what was overwritten, then ``give_up``.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from headrace.errors import FormatError
from headrace.formats.barecat.edit.lock import lock_archive, sync_directory
from headrace.formats.barecat.names import archive_status, shard_numbers, shard_path
from headrace.storage.atomic import write_all
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.types import Buffer

__all__ = ["SMALL_BYTES", "ShardWriter"]

_BUFFER_BYTES = 1 << 20
SMALL_BYTES = 8192
"""Files up to this size stay in the shard as a gap when they are refused, or removed at once: as with barecat."""


class ShardWriter:
    """Appends to the last shard, reads back, overwrites and cuts.

    Args:
        path: of the archive.
        is_synced: put bytes on the disk before they count as written.
        allow_links: also write to shards that are symbolic links into another archive.
        commit: makes the owner commit; called before bytes of committed rows are overwritten.
    """

    def __init__(self, path: str, *, is_synced: bool, allow_links: bool, commit: Callable[[], None]) -> None:
        self._path = path
        self._is_synced = is_synced
        self._allow_links = allow_links
        self._commit = commit
        self._fds: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._kept: dict[int, int] = {}  # up to where committed rows may have bytes
        self._unsynced: set[int] = set()
        self._made: set[int] = set()  # shards that did not exist at the last commit
        self._is_new_name = False
        self._buffer: list[Buffer] = []
        self._buffer_bytes = 0
        self._untouched: tuple[int, int] | None = None  # shard and offset of a small file, the last that was written
        self._lock_fd = -1
        if not allow_links:
            _refuse_links(path)
        self._lock_fd = lock_archive(path, create=True, follow=allow_links)
        try:
            self.last = shard_numbers(path)[-1]
            self._fd(self.last)
        except BaseException:
            self.close()  # a caller that keeps the error keeps this object, too
            raise

    def _fd(self, shard: int) -> int:
        if shard not in self._fds:
            file = shard_path(self._path, shard)
            if not os.path.lexists(file):
                self._is_new_name = True
                self._made.add(shard)
            like = archive_status(self._path)
            fd = open_own(file, os.O_RDWR, like=like, create=True, follow=self._allow_links)
            self._fds[shard] = fd
            self._ends[shard] = self._kept[shard] = os.fstat(fd).st_size
        return self._fds[shard]

    def end(self, shard: int) -> int:
        """The byte after the last of a shard, with what is still in the buffer."""
        self._fd(shard)
        return self._ends[shard]

    def reserve(self, size: int, limit: int) -> tuple[int, int]:
        """Shard and offset at which ``size`` bytes can be appended; begins a new shard where there is no room."""
        if self._ends[self.last] + size > limit:
            self.begin_shard()
        offset = self._ends[self.last]
        self._untouched = (self.last, offset) if size <= SMALL_BYTES else None
        if size and offset < self._kept[self.last]:
            self._commit()
        return self.last, offset

    def begin_shard(self) -> None:
        """Go on with the next shard."""
        self.flush()
        self._fd(self.last + 1)
        self.last += 1

    def append(self, data: Buffer) -> None:
        """Append to the place that was reserved."""
        size = len(data)
        self._buffer.append(data)
        self._buffer_bytes += size
        self._ends[self.last] += size
        if self._buffer_bytes >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand the buffer to the system."""
        if not self._buffer_bytes:
            self._buffer.clear()
            return
        position = self._ends[self.last] - self._buffer_bytes
        buffers, self._buffer, self._buffer_bytes = self._buffer, [], 0
        self._unsynced.add(self.last)
        self._write(self.last, buffers, position)

    def _write(self, shard: int, buffers: list[Buffer], position: int) -> None:
        try:
            write_all(self._fd(shard), buffers, position)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, shard_path(self._path, shard)) from None

    def read(self, shard: int, offset: int, size: int) -> bytes:
        """Read bytes, fewer where the shard ends."""
        self.flush()
        self._touch(shard)
        parts = []
        while size > 0:
            part = os.pread(self._fd(shard), size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _touch(self, shard: int) -> None:
        if self._untouched is not None and self._untouched[0] == shard:
            self._untouched = None

    def is_kept(self, shard: int, offset: int) -> bool:
        """A committed row may have bytes here: save them before they are overwritten."""
        self._fd(shard)
        return offset < self._kept[shard]

    def overwrite(self, shard: int, offset: int, data: Buffer) -> None:
        """Write over bytes; the caller has saved them if they are kept."""
        self.flush()
        self._touch(shard)
        self._fd(shard)
        self._unsynced.add(shard)
        self._write(shard, [data], offset)
        self._ends[shard] = max(self._ends[shard], offset + len(data))

    def cut(self, shard: int, end: int) -> None:
        """End a shard earlier; what committed rows may name stays until the next commit."""
        if self._untouched == (shard, end):
            return
        self.flush()
        fd = self._fd(shard)
        self._ends[shard] = end
        if end >= self._kept[shard]:
            os.ftruncate(fd, end)

    def cut_now(self, shard: int, end: int) -> None:
        """End a shard earlier at once; no row, committed ones included, may have bytes there."""
        self._untouched = None
        self._kept[shard] = min(self._kept[shard], end)
        self.cut(shard, end)

    def let_go(self) -> None:
        """Close all shards, because others will have their names."""
        self.sync()
        for fd in self._fds.values():
            os.close(fd)
        for table in (self._fds, self._ends, self._kept):
            table.clear()
        self._untouched = None

    def take_up(self, lock_fd: int | None) -> None:
        """Go on with the shards there are; the descriptor holds the lock of shard 0, if that is another file now."""
        self.let_go()
        if lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = lock_fd
        self.last = shard_numbers(self._path)[-1]
        self._fd(self.last)

    def remove_after(self, last: int) -> None:
        """Delete the shards after one; no row may name them, committed ones included."""
        self.flush()
        for number in shard_numbers(self._path):
            if number > last:
                for table in (self._ends, self._kept):
                    table.pop(number, None)
                self._unsynced.discard(number)
                if number in self._fds:
                    os.close(self._fds.pop(number))
                os.unlink(shard_path(self._path, number))
        self.last = last
        self._fd(last)

    def sync(self) -> None:
        """Put all bytes on the disk."""
        self.flush()
        if self._is_synced:
            for shard in self._unsynced:
                os.fsync(self._fds[shard])
            if self._is_new_name:
                sync_directory(self._path)
        self._unsynced.clear()
        self._is_new_name = False

    def write_back(self, shard: int, offset: int, data: Buffer) -> None:
        """After a failure: write bytes that were there before, at once."""
        self._unsynced.add(shard)
        self._write(shard, [data], offset)

    def give_up(self, ends: Mapping[int, int]) -> None:
        """After a failure: cut off what no committed row names, and delete shards that were made since.

        Args:
            ends: the byte after the last that the index names, by shard, where that may have changed.
        """
        self._buffer, self._buffer_bytes = [], 0
        for shard, fd in list(self._fds.items()):
            end = max(self._kept[shard], ends.get(shard, 0))
            if os.fstat(fd).st_size > end:
                os.ftruncate(fd, end)
            if self._is_synced and shard in self._unsynced:
                os.fsync(fd)
            if shard in self._made and not end:
                self._unlink(shard)
        self._unsynced.clear()

    def _unlink(self, shard: int) -> None:
        """Delete a shard, unless somebody else has put another file under its name."""
        file = shard_path(self._path, shard)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._fds[shard]), os.lstat(file)):
                os.unlink(file)

    def committed(self) -> None:
        """The rows are committed: cut what they do not name any more."""
        for shard, end in self._ends.items():
            if end < self._kept[shard]:
                with contextlib.suppress(OSError):  # then it is a gap
                    os.ftruncate(self._fds[shard], end)
            self._kept[shard] = end
        self._made.clear()

    def close(self) -> None:
        """Close all files; does not flush."""
        for fd in (*self._fds.values(), self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fds.clear()
        self._lock_fd = -1

    def __del__(self) -> None:
        # A writer that nobody has closed must not hold the lock for ever.
        if getattr(self, "_lock_fd", -1) >= 0:
            self.close()


def _refuse_links(path: str) -> None:
    for number in shard_numbers(path):
        file = shard_path(path, number)
        if os.path.islink(file):
            raise FormatError(
                file,
                problem="this shard is a symbolic link, so writing could change another archive",
                fix="Make a copy with headrace merge --follow-links, or open with allow_links=True.",
            )
