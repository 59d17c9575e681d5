"""The books of a cache: which block lies where, when it is needed next, and how much of the disk it may take.

A cache is a folder with two files, both with holes:

- ``headrace-cache``: a page with magic, number of slots, size of the cache, checksum of these (28 bytes) and, at byte
  64, how many slots were ever used; then three columns with a row for each slot: what is in it (from byte 4096 on, 8
  bytes, 0 for nothing), when that is needed next (from 1 GiB on, 8 bytes) and how many pages of 4 KiB the slot may take
  on the disk (from 2 GiB on, 4 bytes). All numbers are little-endian.
- ``headrace-blocks``: the slots, one after the other. See ``block_cache``.

Contract. Rows change only under the lock of the table, but for the time of the next use, which may be lost. A slot
takes no space that its row has not: the row grows before the slot is written, and shrinks after the slot was emptied. A
slot is written only while nothing is in it by its row, by the process that holds its lock. So the sum over the rows
is never less than what is on the disk, whoever is killed, and nobody has to look through the slots to know it.

Both locks are locks of processes (``fcntl``): they go with the process, and a forked child does not keep them. Threads
of a process are kept apart by a lock of their own. Nobody waits for the lock of a slot, and for that of the table
only a few seconds, so that even a process that was stopped holds up no other. Marks of blocks that are being fetched
are locks in the file of the table, too (``fetch_marks``).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import crc32c
from headrace.errors import FormatError
from headrace.storage.fetch_marks import FetchMarks
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["BLOCKS_NAME", "PAGE_BYTES", "SLOT_BYTES", "TABLE_NAME", "CacheTable", "Rows"]

TABLE_NAME, BLOCKS_NAME = "headrace-cache", "headrace-blocks"
PAGE_BYTES = 4096
SLOT_BYTES = (4 << 20) + (64 << 10)
"""From one slot to the next: a block, its header, and holes up to a place where every file system begins a block."""

_HEADER = struct.Struct("<8sQQI")
_MAGIC = b"hrcache1"
_USED_AT = 64
_COLUMNS = {"ids": (PAGE_BYTES, "<u8"), "when": (1 << 30, "<f8"), "pages": (2 << 30, "<u4")}
_MAX_SLOTS = 1 << 26
_FEWEST_SLOTS = 1024  # so that small blocks can fill a small cache
_MAX_FILE_BYTES = 15 << 40  # ext4 has files of up to 16 TiB
_PUNCH_HOLE = 3  # and keep the size of the file
_OTHER_PAGES = 16  # the folder, the header, and what file systems need for files with holes
_PATIENCE_S = 10.0
_LONGEST_PAUSE_S = 0.01


class CacheTable:
    """The two files of a cache.

    Args:
        folder: of the cache.
        writable: make the files if they are missing, and let them be changed.

    Attributes:
        marks: of the blocks that are being fetched.
    """

    def __init__(self, folder: str, *, writable: bool) -> None:
        flags = os.O_RDWR if writable else os.O_RDONLY
        self.path = os.path.join(folder, TABLE_NAME)
        self._threads, self._process, self._writing = threading.Lock(), os.getpid(), set[int]()
        self.fd = open_own(self.path, flags, create=writable)
        try:
            self.blocks = open_own(os.path.join(folder, BLOCKS_NAME), flags, create=writable)
        except BaseException:
            os.close(self.fd)
            raise
        self.marks = FetchMarks(self.fd)
        self._finalizer = weakref.finalize(self, _close, self.fd, self.blocks)

    def close(self) -> None:
        """Let go of the files, as the garbage collector does. Does nothing the second time."""
        self._finalizer()

    def is_removed(self) -> bool:
        """Somebody has deleted the files."""
        return os.fstat(self.fd).st_nlink == 0 or os.fstat(self.blocks).st_nlink == 0

    def find(self, block_id: int) -> list[int]:
        """Slots in which a block should be; without a lock, so look at what is there."""
        return [slot for slot, _ in self.find_all([block_id])]

    def find_all(self, block_ids: Collection[int]) -> Iterator[tuple[int, int]]:
        """Slots in which blocks should be, and the block of each; the same."""
        ids = self.column("ids", min(self.header()[2], _MAX_SLOTS))
        wanted = np.fromiter(block_ids, np.uint64, len(block_ids))
        slots = np.flatnonzero(ids == wanted[0] if len(wanted) == 1 else np.isin(ids, wanted))
        yield from zip(slots.tolist(), ids[slots].tolist(), strict=True)

    def header(self) -> tuple[int, int, int]:
        """Number of slots, size of the cache in bytes, number of slots that were ever used.

        Raises:
            FormatError: the file is no table of a cache.
        """
        page = os.pread(self.fd, PAGE_BYTES, 0)
        if not self.is_ours(page):
            raise self._damaged("this is no table of a cache")
        if len(page) < PAGE_BYTES:
            raise self._damaged("the cache's table was cut short")
        _, slots, size_bytes, checksum = _HEADER.unpack_from(page)
        if crc32c(page[: _HEADER.size - 4]) != checksum or slots > _MAX_SLOTS:
            raise self._damaged("the first page of the cache's table is damaged")
        return slots, size_bytes, min(slots, int.from_bytes(page[_USED_AT : _USED_AT + 8], "little"))

    def is_ours(self, page: bytes | None = None) -> bool:
        """The file begins like a table, or was lost when the machine lost its power: then it may be begun anew."""
        start = (os.pread(self.fd, PAGE_BYTES, 0) if page is None else page)[: len(_MAGIC)]
        return start in (_MAGIC, bytes(len(start)))

    def _damaged(self, problem: str) -> FormatError:
        fix = "Nothing is lost with a cache: remove the folder, and it is made anew."
        return FormatError(self.path, problem=problem, fix=fix)

    def set_size(self, size_bytes: int) -> None:
        """Say how much the cache may take; the lock is held. A new table is begun."""
        used = 0 if os.fstat(self.fd).st_size == 0 else self.header()[2]
        slots = max(_slots(size_bytes), used)
        fields = _HEADER.pack(_MAGIC, slots, size_bytes, 0)[:-4]
        page = (fields + crc32c(fields).to_bytes(4, "little")).ljust(_USED_AT, b"\0") + used.to_bytes(8, "little")
        os.pwrite(self.fd, page.ljust(PAGE_BYTES, b"\0"), 0)
        with contextlib.suppress(OSError):  # writing inside the file keeps XFS from taking more than is written
            os.ftruncate(self.blocks, slots * SLOT_BYTES)

    def column(self, name: str, rows: int) -> npt.NDArray[Any]:
        """A column of the table; rows that were never written are zero."""
        start, kind = _COLUMNS[name]
        values = np.zeros(rows, kind)
        os.preadv(self.fd, [values.view(np.uint8)], start)
        return values

    def set(self, name: str, slot: int, value: float) -> None:
        """Write one value."""
        start, kind = _COLUMNS[name]
        cell = np.array(value, kind)
        os.pwrite(self.fd, cell.tobytes(), start + slot * cell.itemsize)

    def set_used(self, used: int) -> None:
        """Say how many slots were ever used."""
        os.pwrite(self.fd, used.to_bytes(8, "little"), _USED_AT)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the table.

        Raises:
            TimeoutError: others hold it for too long.
        """
        self._notice_fork()
        deadline = time.monotonic() + _PATIENCE_S
        if not self._threads.acquire(timeout=_PATIENCE_S):
            raise TimeoutError(errno.ETIMEDOUT, "the lock of the cache is held by another thread", self.path)
        try:
            self._lock_process(deadline)
            try:
                yield
            finally:
                fcntl.lockf(self.fd, fcntl.LOCK_UN, 1)
        finally:
            self._threads.release()

    def _notice_fork(self) -> None:
        if self._process != os.getpid():  # other threads of the parent may have held the lock, and are not here
            self._threads, self._process, self._writing = threading.Lock(), os.getpid(), set()

    def _lock_process(self, deadline: float) -> None:
        pause = 1e-4
        while not _try_lock(self.fd, 1, 0):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "the lock of the cache is held by another process", self.path)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def lock_slot(self, slot: int) -> bool:
        """Try to become the one who writes a slot; the lock of the table is held."""
        if slot in self._writing or not _try_lock(self.blocks, 1, slot):
            return False
        self._writing.add(slot)
        return True

    def unlock_slot(self, slot: int) -> None:
        """Let others write the slot."""
        fcntl.lockf(self.blocks, fcntl.LOCK_UN, 1, slot)
        self._writing.discard(slot)

    def punch(self, slot: int) -> bool:
        """Give a slot's space back to the disk; False where the file system cannot."""
        fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
        if fallocate is None:
            return False
        place = (ctypes.c_int64(slot * SLOT_BYTES), ctypes.c_int64(SLOT_BYTES))
        return bool(fallocate(ctypes.c_int(self.blocks), ctypes.c_int(_PUNCH_HOLE), *place) == 0)

    def empty(self) -> bool:
        """Forget everything and give all space back; the lock is held. False while somebody writes a block."""
        return self.begin(self.header()[1])

    def begin(self, size_bytes: int) -> bool:
        """Make a table of an empty cache, whatever was there; the lock is held. False while somebody writes a block."""
        if self._writing or not _try_lock(self.blocks, 0, 0):
            return False
        try:
            os.ftruncate(self.blocks, 0)
            os.ftruncate(self.fd, 0)
            self.set_size(size_bytes)
        finally:
            fcntl.lockf(self.blocks, fcntl.LOCK_UN, 0)
        return True


def _try_lock(fd: int, length: int, start: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _slots(size_bytes: int) -> int:
    """Twice as many as there are whole blocks: the last block of an object is smaller."""
    wanted = min(2 * size_bytes, max(size_bytes, _MAX_FILE_BYTES)) // SLOT_BYTES
    return min(max(wanted, _FEWEST_SLOTS), _MAX_SLOTS)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


class Rows:
    """All rows of a table, read and changed while its lock is held.

    Attributes:
        now: the time by which uses are near or far.
        limit_pages: what all slots together may take.
    """

    def __init__(self, table: CacheTable) -> None:
        self._table, self.now = table, time.time()
        self._slots, self.size_bytes, self.used = table.header()
        rows = min(self.used + 1, self._slots)  # with one that was never used, if there is one
        self.ids, self.when, self.pages = (table.column(name, rows) for name in _COLUMNS)
        self.limit_pages = (self.size_bytes - self.table_bytes) // PAGE_BYTES

    @property
    def table_bytes(self) -> int:
        """What the table itself may take on the disk at most, as the file system counts it."""
        columns = sum(-(-self._slots * np.dtype(kind).itemsize // PAGE_BYTES) for _, kind in _COLUMNS.values())
        return (columns + _OTHER_PAGES) * PAGE_BYTES

    @property
    def total_pages(self) -> int:
        """What the slots take: by the rows, or, if they are damaged, by the disk."""
        return max(self.promised_pages, self.real_pages)

    @property
    def promised_pages(self) -> int:
        """What the slots may take by their rows."""
        return int(self.pages.sum(dtype=np.uint64))

    @property
    def real_pages(self) -> int:
        """What the slots take by the file system."""
        return -(-os.fstat(self._table.blocks).st_blocks * 512 // PAGE_BYTES)

    def make_room(self, pages: int, distance_s: float) -> int | None:
        """An empty slot that may take so many pages, with its lock; None if all else is needed before.

        Args:
            pages: that the new block takes.
            distance_s: how far away its next use is; what is needed later goes.
        """
        if pages > self.limit_pages:
            return None
        while True:
            slot = self._lock_free(pages)
            if slot is not None:
                if self.total_pages + max(0, pages - int(self.pages[slot])) <= self.limit_pages:
                    return slot
                self._table.unlock_slot(slot)
                if self.release_free():
                    continue
            if not self.evict(distance_s):
                return None

    def _lock_free(self, pages: int) -> int | None:
        """The free slot that fits best. One that has too much space gives it back first."""
        free = np.flatnonzero(self.ids == 0)
        misfit = np.abs(self.pages[free].astype(np.int64) - pages)
        for slot in free[np.argsort(misfit, kind="stable")].tolist():
            if self._table.lock_slot(slot):
                if self.pages[slot] > pages:
                    self._release(slot)
                if slot >= self.used:
                    self.used = slot + 1
                    self._table.set_used(self.used)
                return int(slot)
        return None

    def evict(self, distance_s: float) -> bool:
        """Forget the block whose next use is furthest away, if that is further than this."""
        distances = np.where(self.ids != 0, np.abs(self.when - self.now), -1.0)
        if not len(distances):
            return False
        victim = int(distances.argmax())  # what is no number comes first
        if distances[victim] <= distance_s:
            return False
        self.forget(victim)
        return True

    def forget(self, slot: int) -> None:
        """Nothing is in the slot any more; its space stays taken."""
        self._table.set("ids", slot, 0)
        self.ids[slot] = 0

    def release_free(self) -> bool:
        """Give the space of empty slots that nobody writes back to the disk; False if that was none."""
        before = self.promised_pages
        for slot in np.flatnonzero((self.ids == 0) & (self.pages != 0)).tolist():
            if self._table.lock_slot(slot):
                self._release(slot)
                self._table.unlock_slot(slot)
        return self.promised_pages < before

    def _release(self, slot: int) -> None:
        if self._table.punch(slot):
            self._table.set("pages", slot, 0)
            self.pages[slot] = 0

    def release(self, slot: int) -> None:
        """Empty a slot whose lock is held."""
        self.forget(slot)
        self._release(slot)

    def reserve(self, slot: int, pages: int, when: float) -> None:
        """Let a slot take so many pages from now on."""
        self._table.set("pages", slot, max(pages, int(self.pages[slot])))
        self._table.set("when", slot, when)

    def shrink(self) -> None:
        """Forget blocks until the cache keeps its size, those that are needed last first."""
        over = self.total_pages - self.limit_pages
        if over <= 0:
            return
        filled = np.flatnonzero(self.ids)
        filled = filled[np.argsort(-np.abs(self.when[filled] - self.now))]
        freed = np.cumsum(self.pages[filled], dtype=np.uint64)
        for slot in filled[: int(np.searchsorted(freed, over)) + 1].tolist():
            self.forget(slot)
        self.release_free()
