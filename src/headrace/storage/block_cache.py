"""Blocks of objects on the local disk, for all processes of a machine.

Contract. Any number of threads and processes; the objects live as long as their process. No lock that others wait for
is held while a block is read or written, and none over a call of the caller. What is read is proven by its checksum,
key and length included, so a slot that is written anew meanwhile is no harm: the block was not there. A block is found
when it is whole. The books (``cache_table``) say before every write how much it takes, so the folder is never larger
than its size, over all processes, whoever is killed. What goes wrong with the disk is a warning, once: a cache that
cannot store still reads. Whoever fetches a block marks it meanwhile, so that others need not fetch it, too; they heed
that for a bounded time (``fetch_marks``).

What goes first: every block has a time at which it is needed next, by the clock of the machine: what whoever reads it
says, or what was learnt from earlier uses (``use_rhythm``). The one whose time is
furthest away goes, into the future as well as into the past: a block that was not used when it should have been, or
that was used long ago with no word on its next use, is needed less the longer that was. A new block that is needed
later than all the others is not stored.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np

from headrace.errors import FormatError
from headrace.storage.cache_table import BLOCKS_NAME, PAGE_BYTES, TABLE_NAME, CacheTable, Rows
from headrace.storage.cached_block import (
    MAX_BLOCK_BYTES,
    BlockKey,
    CachedBlock,
    pages_of,
    read_block,
    read_header,
    write_block,
)
from headrace.storage.fetch_marks import Patience
from headrace.storage.use_rhythm import UseRhythm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from headrace.errors import PathLike

__all__ = ["LEAST_CACHE_BYTES", "BlockCache", "BlockKey", "CachedBlock", "block_cache", "known_cache"]

LEAST_CACHE_BYTES = 1 << 20
_USUAL_BYTES = 64 << 30
_REST_S = 60.0
_OTHERS = {TABLE_NAME, BLOCKS_NAME, "lost+found"}
_CACHES: dict[tuple[int, int], BlockCache] = {}  # of this process, by folder; changed in single steps


def block_cache(folder: PathLike, size_bytes: int | None = None) -> BlockCache:
    """The cache in a folder; one object for each folder and process.

    Args:
        folder: is made if it is missing, for its owner alone.
        size_bytes: that the folder may take on the disk; what the last process said counts for all. None leaves it as
            it is; a new cache then gets 64 GiB, or half of what is free on the disk if that is less.

    Raises:
        FormatError: the folder belongs to somebody else, or holds something else than a cache.
        ValueError: the size is less than 1 MiB.

    Example:
        >>> import tempfile, numpy as np
        >>> cache = block_cache(tempfile.mkdtemp(), 64 << 20)
        >>> key, block = BlockKey("s3://bucket/train.beton", "etag", 0), np.arange(100, dtype=np.uint8)
        >>> cache.store(key, block), cache.read(key, out := np.empty_like(block)), int(out[99])
        (True, True, 99)
    """
    if size_bytes is not None and size_bytes < LEAST_CACHE_BYTES:
        raise ValueError(f"cache_size must be at least {LEAST_CACHE_BYTES} bytes (1 MiB), got {size_bytes}")
    path = os.path.abspath(folder)
    with contextlib.suppress(OSError):  # what cannot be made is told as what cannot be written
        _make_folder(path)
    cache = _opened(path)
    wanted = _usual_size(path, cache) if size_bytes is None else size_bytes
    if cache is None:
        cache = BlockCache(path, wanted)
        with contextlib.suppress(OSError):
            cache = _CACHES.setdefault(_identity(path), cache)
    cache.resize(wanted)
    return cache


def _usual_size(path: str, cache: BlockCache | None) -> int:
    """The size that a cache has already, or that of a new one."""
    with contextlib.suppress(OSError, FormatError), contextlib.ExitStack() as opened:
        if cache is None:
            cache = BlockCache(path, None)
            opened.callback(cache.close)
        return cache.facts["size_bytes"] or _USUAL_BYTES
    try:
        place = os.statvfs(path)
    except OSError:  # it could not be made, and will be told
        return _USUAL_BYTES
    return max(LEAST_CACHE_BYTES, min(_USUAL_BYTES, place.f_bavail * place.f_frsize // 2))


def known_cache(folder: PathLike) -> BlockCache:
    """The cache that is in a folder already; nothing is made or changed.

    Raises:
        FormatError: the folder holds no cache, or belongs to somebody else.
        FileNotFoundError: there is no such folder.
    """
    path = os.path.abspath(folder)
    _check_folder(path)
    if not os.path.lexists(os.path.join(path, TABLE_NAME)):
        raise FormatError(path, problem="this folder holds no cache", fix="Name the folder that cache_dir= names.")
    return _opened(path) or BlockCache(path, None)


def _opened(path: str) -> BlockCache | None:
    try:
        return _CACHES.get(_identity(path))
    except OSError:
        return None


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _make_folder(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def _check_folder(path: str) -> None:
    """Refuse what is not ours; OSError if it is not there."""
    if os.stat(path).st_uid != os.geteuid():
        fix = "Blocks of private objects would be in their hands. Name a folder of your own."
        raise FormatError(path, problem="this folder belongs to another user, and cannot be your cache", fix=fix)
    names = set(os.listdir(path))
    if TABLE_NAME not in names and names - _OTHERS:
        problem = f"this folder is not empty and holds no cache, but {sorted(names - _OTHERS)[0]!r}"
        raise FormatError(path, problem=problem, fix="Name a new or an empty folder for the cache.")


class BlockCache:
    """A cache of blocks in a folder; made by ``block_cache``.

    Args:
        folder: of the cache.
        size_bytes: that it may take; None to look at a cache that is there.

    Attributes:
        folder: of the cache.
        patience: with others that fetch blocks.
    """

    def __init__(self, folder: str, size_bytes: int | None) -> None:
        self.folder, self._size_bytes = folder, size_bytes
        self.patience = Patience()
        self._table: CacheTable | None = None
        self._rhythm = UseRhythm()
        self._resting_until = 0.0
        self._has_warned = False
        if size_bytes is None:
            self._table = _open_table(folder)
        else:
            self._open()

    def _open(self) -> None:
        """Open the files, or make them; where that is not possible, read what can be read."""
        try:
            _check_folder(self.folder)
            table = CacheTable(self.folder, writable=True)
        except OSError as error:
            self._rest(error)
            with contextlib.suppress(OSError):
                self._table = CacheTable(self.folder, writable=False)
            return
        self._table = table

    def resize(self, size_bytes: int) -> None:
        """Let the cache take so many bytes from now on, in all processes; if that is less, blocks go."""
        self._size_bytes = size_bytes
        table = self._table
        if table is None or self._is_resting:
            return
        try:
            with table.locked():
                self._set_size(table, size_bytes)
        except OSError as error:
            self._rest(error)

    def _set_size(self, table: CacheTable, size_bytes: int) -> None:
        try:
            is_set = os.fstat(table.fd).st_size > 0 and table.header()[1] == size_bytes
        except FormatError:
            if not table.is_ours():
                raise
            table.begin(size_bytes)
            return
        if not is_set:
            table.set_size(size_bytes)
            Rows(table).shrink()

    def close(self) -> None:
        """Let go of the files, when no thread of the process reads or stores any more; nothing has to be closed."""
        for identity in [identity for identity, cache in _CACHES.items() if cache is self]:
            del _CACHES[identity]
        table, self._table = self._table, None
        if table is not None:
            table.close()

    def read(self, key: BlockKey, out: npt.NDArray[np.uint8], next_use: float | None = None) -> bool:
        """Copy a block; False if it is not there, or damaged, in which case it is removed.

        Args:
            key: of the block.
            out: where it goes, as large as the block; what is there after False means nothing.
            next_use: when the block is needed after this, by ``time.time()``. ``math.inf``: nobody knows, it counts
                as just used. None: after the time that blocks of this process usually take until they are used again.
        """
        table, key = self._table, BlockKey(*key)
        if table is None:
            return False
        try:
            for slot in table.find(key.id):
                if read_block(table.blocks, slot, key, out) or self._copy_again(table, slot, key, out):
                    self._set_when(table, slot, self._when(key, next_use))
                    return True
        except (OSError, FormatError):
            pass  # what cannot be read is not there
        return False

    def _copy_again(self, table: CacheTable, slot: int, key: BlockKey, out: npt.NDArray[np.uint8]) -> bool:
        """A block that seems damaged may have been replaced meanwhile; under the lock it cannot be."""
        with table.locked():
            if slot not in table.find(key.id):
                return False
            if read_block(table.blocks, slot, key, out):
                return True
            table.set("ids", slot, 0)
        return False

    def note_uses(self, next_uses: Mapping[BlockKey, float]) -> None:
        """Say when blocks are needed next, by ``time.time()``; nothing happens for those that are not there."""
        table = self._table
        if table is not None and next_uses:
            with contextlib.suppress(OSError, FormatError):
                times = {key.id: self._when(key, next_use) for key, next_use in next_uses.items()}
                for slot, block_id in table.find_all(times):
                    self._set_when(table, slot, times[block_id])

    def forget(self, key: BlockKey) -> None:
        """Remove a block whose bytes are not what they should be, although they are what was stored."""
        table = self._table
        if table is not None:
            with contextlib.suppress(OSError, FormatError), table.locked():
                for slot in table.find(key.id):
                    table.set("ids", slot, 0)

    def take_mark(self, key: BlockKey) -> bool:
        """Say that the caller fetches a block and will store it; False while another one does, here or elsewhere."""
        table = self._table
        return table is None or self._is_resting or table.marks.take(key.id)

    def drop_mark(self, key: BlockKey) -> None:
        """The caller does not fetch the block any more; only for whoever has taken the mark."""
        table = self._table
        if table is not None:
            table.marks.drop(key.id)

    def _set_when(self, table: CacheTable, slot: int, when: float) -> None:
        with contextlib.suppress(OSError):  # a cache that can only be read stays as it is
            table.set("when", slot, when)

    def _when(self, key: BlockKey, next_use: float | None) -> float:
        if next_use is None:
            return self._rhythm.next_use(key.id)
        return time.time() if math.isinf(next_use) else next_use

    def store(
        self, key: BlockKey, data: npt.NDArray[np.uint8] | bytes | memoryview, next_use: float | None = None
    ) -> bool:
        """Keep a block; False if it is needed later than all others, or cannot be stored.

        Args:
            key: of the block.
            data: of at most 4 MiB.
            next_use: as ``read`` takes it.
        """
        key = BlockKey(*key)
        view = memoryview(data).cast("B")
        if view.nbytes > MAX_BLOCK_BYTES:
            raise ValueError(f"a block has at most {MAX_BLOCK_BYTES} bytes, got {view.nbytes}")
        try:
            return not self._is_resting and self._store(key, view, self._when(key, next_use))
        except TimeoutError:
            return False  # a process that holds the lock was stopped
        except (OSError, FormatError) as error:
            self._rest(error)
            return False

    def _store(self, key: BlockKey, data: memoryview, when: float) -> bool:
        table = self._writable_table()
        if table is None:
            return False
        slot = self._claim(table, key, data.nbytes, when)
        if slot is None:
            return bool(table.find(key.id))
        try:
            write_block(table.blocks, slot, key, data)
            self._enter(table, slot, key)
        except BaseException:
            self._give_back(table, slot)
            raise
        finally:
            table.unlock_slot(slot)
        return True

    def _writable_table(self) -> CacheTable | None:
        if self._table is None or self._table.is_removed():
            self._table = None  # it lets go of its files when the last thread that reads from it is done
            _make_folder(self.folder)
            self._open()
            if self._size_bytes is not None:
                self.resize(self._size_bytes)
        return None if self._is_resting else self._table

    def _claim(self, table: CacheTable, key: BlockKey, size_bytes: int, when: float) -> int | None:
        """A slot that only we may write, whose space is reserved; None if the block is there, or not wanted."""
        pages = pages_of(size_bytes, table.blocks)
        with table.locked():
            rows = Rows(table)
            distance_s = abs(when - rows.now)
            if (rows.ids == key.id).any():
                return None
            slot = rows.make_room(pages, distance_s)
            if slot is None and rows.real_pages > rows.promised_pages and table.empty():  # the table was damaged
                rows = Rows(table)
                slot = rows.make_room(pages, distance_s)
            if slot is not None:
                rows.reserve(slot, pages, when)
        return slot

    def _enter(self, table: CacheTable, slot: int, key: BlockKey) -> None:
        with table.locked():
            if table.find(key.id):
                Rows(table).release(slot)  # another process was quicker
            else:
                table.set("ids", slot, key.id)

    def _give_back(self, table: CacheTable, slot: int) -> None:
        with contextlib.suppress(OSError, FormatError), table.locked():
            Rows(table).release(slot)

    @property
    def _is_resting(self) -> bool:
        return time.monotonic() < self._resting_until

    def _rest(self, error: Exception) -> None:
        """Store nothing for a while, and say why, once."""
        self._resting_until = time.monotonic() + _REST_S
        if self._has_warned:
            return
        self._has_warned = True
        problem = getattr(error, "strerror", None) or str(error)
        message = (
            f"{self.folder}: blocks cannot be stored in this cache ({problem}), so they are fetched again when they "
            "are needed. Make room on its disk, let its folder be written, or name another one (cache_dir=)."
        )
        warnings.warn(message, RuntimeWarning, stacklevel=4)

    @property
    def facts(self) -> dict[str, int]:
        """Size of the cache, bytes that it takes on the disk, and number of its blocks."""
        table = self._table
        if table is None:
            return {"size_bytes": self._size_bytes or 0, "disk_bytes": 0, "blocks": 0}
        disk_bytes = sum(os.fstat(fd).st_blocks * 512 for fd in (table.fd, table.blocks))
        rows = Rows(table)
        blocks = int(np.count_nonzero(rows.ids))
        return {"size_bytes": rows.size_bytes, "disk_bytes": disk_bytes, "blocks": blocks}

    def blocks(self) -> Iterator[CachedBlock]:
        """What is in the cache, by the headers of the blocks."""
        table = self._table
        if table is None:
            return
        rows = Rows(table)
        for slot in np.flatnonzero(rows.ids).tolist():
            found = read_header(table.blocks, slot)
            if found is not None:
                yield CachedBlock(slot, *found, int(rows.pages[slot]) * PAGE_BYTES)

    def clear(self, url_prefix: str = "") -> int:
        """Remove blocks, all of them or those of some objects, and give their space back; gives how many there were.

        Args:
            url_prefix: with which the URLs of the objects begin.

        Raises:
            OSError: the cache cannot be changed.
        """
        table = self._table if self._size_bytes is not None else CacheTable(self.folder, writable=True)
        if table is None:
            return 0
        try:
            with table.locked():
                return self._clear(table, url_prefix)
        finally:
            if table is not self._table:
                table.close()

    def _clear(self, table: CacheTable, url_prefix: str) -> int:
        rows = Rows(table)
        if url_prefix:
            slots = [block.slot for block in self.blocks() if block.url.startswith(url_prefix)]
        else:
            slots = np.flatnonzero(rows.ids).tolist()
        for slot in slots:
            rows.forget(slot)
        if url_prefix or not table.empty():
            rows.release_free()
        return len(slots)


def _open_table(folder: str) -> CacheTable:
    table = CacheTable(folder, writable=False)
    table.header()  # tells what is wrong with it
    return table
