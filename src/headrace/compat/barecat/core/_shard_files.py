"""The shards of an archive as files, whether they are mapped for reading or held by a writer."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from typing import TYPE_CHECKING, Any

from headrace.formats.barecat.edit.shard_writer import ShardWriter
from headrace.formats.barecat.names import shard_path
from headrace.formats.barecat.shards import MappedShards

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headrace.formats.barecat import Archive
    from headrace.types import Buffer

__all__ = ["ShardFile", "ShardStore"]


class ShardStore:
    """The shards of an archive, or some without one: mapped if they are only read, else held by what writes them."""

    def __init__(self, path: str, archive: Archive | None, *, readonly: bool, allow_links: bool) -> None:
        self.path = path
        self._archive = archive
        self._lock = threading.RLock()
        self._mapped: MappedShards | None = None
        self._own: ShardWriter | None = None
        if readonly:
            self._mapped = MappedShards(path, follow_links=True) if archive is None else archive.shards
        elif archive is None:
            self._own = ShardWriter(path, is_synced=True, allow_links=allow_links, commit=lambda: None)

    @property
    def shards(self) -> ShardWriter:
        """What writes."""
        if self._mapped is not None:
            raise io.UnsupportedOperation("not writable")
        if self._archive is not None:
            return self._archive.editor.shards
        if self._own is None:
            raise ValueError(f"{self.path}: the shards are closed")
        return self._own

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Lets one thread at a time in."""
        return self._lock if self._archive is None or self._mapped is not None else self._archive.editor.lock

    def end(self, shard: int) -> int:
        """The byte after the last of a shard."""
        if self._mapped is not None:
            return os.path.getsize(shard_path(self.path, shard))
        with self.lock:
            return self.shards.end(shard)

    def read(self, shard: int, offset: int, size: int) -> bytes:
        """Bytes of a shard, fewer where it ends."""
        if self._mapped is None:
            with self.lock:
                return self.shards.read(shard, offset, min(size, self.shards.end(shard) - offset))
        if size <= 0 or offset < 0:
            return b""
        return bytes(self._mapped.shard(shard, offset + size).view[offset : offset + size])

    def flush(self) -> None:
        """Give what is still in memory to the system."""
        if self._mapped is None:
            with self.lock:
                self.shards.flush()

    def overwrite(self, shard: int, offset: int, data: Buffer) -> None:
        """Write at a place; of an archive, what committed rows have there is saved until the commit."""
        with self.lock:
            writer = self.shards if self._archive is None or self._mapped is not None else self._archive.editor
            writer.overwrite(shard, offset, data)

    def cut(self, shard: int, end: int) -> None:
        """End a shard earlier; what committed rows may name stays until the next commit."""
        with self.lock:
            self.shards.cut(shard, end)

    def close(self) -> None:
        """Put everything on the disk and let go of the files; those of an archive are closed with it."""
        if self._mapped is not None and self._archive is None:
            self._mapped.close()
        if self._own is not None:
            with self._lock:
                self._own.sync()
                self._own.committed()
                self._own.close()
                self._own = None


class ShardFile(io.RawIOBase):
    """One shard as a file; any number of threads may ``pread``."""

    def __init__(self, store: ShardStore, number: int, mode: str) -> None:
        super().__init__()
        self._store = store
        self.number = number
        self.name = shard_path(store.path, number)
        self.mode = mode
        self._position = 0
        self._fd = -1

    def pread(self, size: int, offset: int) -> bytes:
        """Bytes at a place, fewer where the shard ends."""
        return self._store.read(self.number, offset, size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return self.mode != "rb"

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        data = self.pread(len(target), self._position)
        target[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        data = self.pread(max(0, self._store.end(self.number) - self._position), self._position)
        self._position += len(data)
        return data

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        self._store.overwrite(self.number, self._position, bytes(view))
        self._position += len(view)
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        wanted = self._position if size is None else size
        self._store.cut(self.number, wanted)
        return wanted

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        ends = self._store.end(self.number) if whence == io.SEEK_END else 0
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: ends}[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        if not self.closed:
            self._store.flush()

    def fileno(self) -> int:
        """A descriptor for reading."""
        self.flush()
        if self._fd < 0:
            self._fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        return self._fd

    def close(self) -> None:
        """Close the descriptor, if there is one; the archive keeps the shard."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        with contextlib.suppress(AttributeError):  # an object that was never made
            super().close()

    def __repr__(self) -> str:
        return f"<ShardFile name={self.name!r}>"
