"""An object in a store, read as ``StoredFile`` says.

How bytes come. Opening is one request, which also brings the beginning of the object. What is held comes in ranges
of 64 KiB or more and stays in a mapping of its own. What a batch needs comes in blocks of 4 MiB, up to two by one
request, into a second mapping, from which blocks go when nobody uses them (see ``block_memory``). Where the spans of a
batch fill less than half of the blocks that they touch, they come as ranges into a buffer instead, those that lie close
together as one; but not where the blocks are kept on the local disk, so that each byte crosses the network once. What
is in several announced buffers and in blocks is copied together.
Whoever reads one span after the other gets blocks, too, and the next ones ahead.

Concurrency: any thread calls anything at any time; whoever waits while another closes the file gets a ClosedError. The
courier does all requests, so many at a time; those that somebody waits for have a gate of their own, before what is
read ahead. An array that ``region`` gave holds its blocks; a finalizer gives them back. Nothing refers to the file
itself from the courier's side, so a file that is dropped without being closed goes, too.
"""

from __future__ import annotations

import os
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import SparseMapping
from headrace.errors import ClosedError, RemoteError
from headrace.progress import format_count
from headrace.storage.block_fetcher import BlockFetcher, RemoteStats, closed
from headrace.storage.block_memory import BLOCK_BYTES, Block, BlockTable, Request, shared_memory
from headrace.storage.courier import Courier, result_of
from headrace.storage.gathered import Piece, gathered
from headrace.storage.object_store import locate
from headrace.storage.spans import (
    Interval,
    MergedSpans,
    missing_parts,
    runs_of,
    touched_blocks,
    touches,
    with_interval,
)
from headrace.storage.store_errors import shown_url

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

    from headrace.storage.object_store import Answer, ObjectFacts
    from headrace.storage.remote_path import RemotePath
    from headrace.storage.stored_file import Positions
    from headrace.types import Announcement, BlockTimes

__all__ = ["RemoteFile", "RemoteStats"]

REQUEST_BYTES = 2 * BLOCK_BYTES
_FIRST_BYTES = 64 << 10  # what opening brings along
_HELD_BYTES = 64 << 10  # what is held is rounded to these
_GAP_BYTES = 128 << 10  # less than a request costs
_SMALL_BYTES = 64 << 20  # an object up to this size comes in blocks in any case
_DENSE, _WHOLE = 0.5, 0.9
_NO_SUCH_RANGE = 416
_AHEAD_BLOCKS = 4


class RemoteFile:
    """An object that is open for reading.

    Args:
        path: its URL.

    Raises:
        FileNotFoundError: there is none.
        RemoteError: the store does not answer, or does not let us in.
    """

    is_local = False

    def __init__(self, path: RemotePath) -> None:
        self.path: str = path
        self._lines = _Lines(path)
        self._finalizer = weakref.finalize(self, self._lines.end_later)
        self._finalizer.atexit = False
        try:
            self._lines.open()
        except BaseException:
            self.close()
            raise
        self.size_bytes = self._lines.facts.size_bytes
        self._mapped: npt.NDArray[np.uint8] | None = _array_of(self._lines.held)

    @property
    def stats(self) -> RemoteStats:
        """What was brought so far."""
        return self._lines.stats

    @property
    def version(self) -> str | None:
        """What tells this object from another one under the same name."""
        return self._lines.facts.version

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """All of its bytes, read-only; only those that are held may be touched."""
        if self._mapped is None:
            raise ClosedError(f"{shown_url(self.path)}: the dataset is closed; open it again")
        return self._mapped

    def hold(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        """Bytes that stay until the file is closed, and as long as the array lives."""
        mapped = self.mapped
        start, end, _ = slice(start, end).indices(self.size_bytes)
        if start < end:
            self._lines.hold(start, end)
        return mapped[start:end]

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        """Memory that holds spans, and where in it they begin; it stays as long as the array."""
        mapped = self.mapped
        if self._is_held(offsets, sizes):
            return mapped, offsets
        return self._lines.region(offsets, sizes)

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement | None:
        """Begin to bring spans, ahead of ``region``; None where all of them are here for good."""
        _ = self.mapped
        return None if self._is_held(offsets, sizes) else self._lines.announce(offsets, sizes)

    def _is_held(self, offsets: Positions, sizes: Positions) -> bool:
        """The spans are inside the object, and all of them are held."""
        limit = np.uint64(self.size_bytes)
        if not (np.all(offsets <= limit) and np.all(sizes <= limit - np.minimum(offsets, limit))):
            raise ValueError(
                f"{shown_url(self.path)}: spans reach beyond the end of the object, byte {self.size_bytes}"
            )
        is_some = sizes > 0
        if not np.any(is_some):
            return True
        known = np.array(self._lines.intervals, np.uint64).reshape(-1, 2)
        places = np.searchsorted(known[:, 0], offsets[is_some], "right") - 1
        if np.any(places < 0):
            return False
        return bool(np.all(offsets[is_some] + sizes[is_some] <= known[places, 1]))

    def check(self) -> None:
        """Raise RemoteError if bytes were touched that nobody has asked for: they have read as zeros."""
        if self._lines.faults:
            raise RemoteError(
                shown_url(self.path),
                problem="bytes were used that had not been brought",
                fix="This is a mistake of headrace; please report it with the format of the file.",
            )

    def close(self) -> None:
        """Let go of it, and of what is on its way. Arrays that were handed out stay valid."""
        self._mapped = None
        if self._finalizer.detach() is not None:
            self._lines.end()


class _Lines:
    """How the bytes of one object come; what the courier works with."""

    facts: ObjectFacts
    held: SparseMapping
    table: BlockTable

    def __init__(self, path: RemotePath) -> None:
        self.store, self.key = locate(path)
        if not self.key or self.key.endswith("/"):
            raise ValueError(f"{shown_url(path)}: the URL names no object")
        self.path, self.url = str(path), shown_url(path)
        self.stats = RemoteStats()
        self.intervals: list[Interval] = []  # replaced as a whole, so that it can be read without the lock
        self._memory = shared_memory()
        self._cache = _cache_of(path)
        self._hold_lock = threading.Lock()
        self._buffers: list[_Buffer] = []  # announced; replaced as a whole
        self._buffers_lock = threading.Lock()
        self._tasks: set[Future[Any]] = set()
        self._last_end = -1
        self._pid = os.getpid()
        self._courier = Courier.hire()

    def open(self) -> None:
        first = result_of(self._submit(self._first()))
        size = self.facts.size_bytes
        try:
            self.held = SparseMapping(size)
            self.table = BlockTable(SparseMapping(size), size)
            self._memory.admit(self.table)
        except OSError:
            problem = (
                f"the store says that the object has {format_count(size, 'byte')}, and there are not so many addresses"
            )
            raise RemoteError(self.url, problem=problem) from None
        if self.facts.version is None:
            self._cache = None  # nothing would tell an old block from a new one
        version = None if self.facts.version is None else f"{self.facts.version}{self.store.place}"
        self._fetcher = BlockFetcher(self.url, version, self._courier, self._memory, self._cache, self.stats)
        if first is not None:
            self._put_held(0, first.data)

    async def _first(self) -> Answer | None:
        try:
            answer = await self.store.get(self.key, 0, _FIRST_BYTES)
        except RemoteError as error:
            if error.status != _NO_SUCH_RANGE:
                raise
            answer = None  # an empty object has no ranges
        self.facts = await self.store.head(self.key) if answer is None else answer.facts
        if answer is None and self.facts.size_bytes:
            raise RemoteError(self.url, problem="the store gives no ranges of the object")
        self._count(answer)
        return answer

    @property
    def faults(self) -> int:
        return self.held.faults + self.table.mapping.faults

    def _submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        future = self._courier.submit(work)
        self._tasks.add(future)
        future.add_done_callback(self._tasks.discard)
        return future

    def end(self) -> None:
        if self._pid != os.getpid():
            return
        self._cancel()
        self._courier.dismiss()

    def end_later(self) -> None:
        if self._pid == os.getpid():
            self._courier.call(self._cancel)
            self._courier.dismiss_later()

    def _cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if hasattr(self, "table"):
            self._memory.forget(self.table)

    # -- what is held --

    def hold(self, start: int, end: int) -> None:
        start = start // _HELD_BYTES * _HELD_BYTES
        end = min(-(-end // _HELD_BYTES) * _HELD_BYTES, self.facts.size_bytes)
        if not missing_parts(self.intervals, start, end):
            return
        with self._hold_lock:
            parts = missing_parts(self.intervals, start, end)
            if self._cache is not None or all(self._has(part) for part in parts):
                for part in parts:
                    self._hold_blocks(*part)
                return
            pieces = [
                (at, min(at + REQUEST_BYTES, last)) for first, last in parts for at in range(first, last, REQUEST_BYTES)
            ]
            for piece, future in [(piece, self._submit(self._get(*piece))) for piece in pieces]:
                self._put_held(piece[0], result_of(future))

    def _has(self, part: Interval) -> bool:
        return self._memory.has_all(self.table, range(part[0] // BLOCK_BYTES, -(-part[1] // BLOCK_BYTES)))

    def _hold_blocks(self, start: int, end: int) -> None:
        for first in range(start, end, REQUEST_BYTES):
            last = min(first + REQUEST_BYTES, end)
            array = self._leased(list(range(first // BLOCK_BYTES, -(-last // BLOCK_BYTES))))
            self._put_held(first, array[first:last])

    def _put_held(self, start: int, data: Any) -> None:
        if len(data):
            self.held.fill(start, data)
            self.intervals = with_interval(self.intervals, start, start + len(data))

    # -- what a batch needs --

    def region(self, offsets: Positions, sizes: Positions) -> tuple[npt.NDArray[np.uint8], Positions]:
        numbers = touched_blocks(offsets, sizes, BLOCK_BYTES)
        for buffer in self._buffers:
            if buffer.spans.covers(offsets, sizes):
                return buffer.wait(), buffer.spans.positions(offsets)
        if self._is_in_sequence(offsets, sizes) or self._wants_blocks(numbers, sizes):
            return self._leased(numbers), offsets
        pieces = self._pieces(offsets, sizes)
        if len(pieces) == 1 and len(pieces[0].numbers) == len(offsets):
            return pieces[0].array, pieces[0].positions
        return gathered(pieces, sizes)

    def _pieces(self, offsets: Positions, sizes: Positions) -> list[Piece]:
        """Take spans from blocks that are here and from announced buffers, so that only the rest is fetched."""
        pieces: list[Piece] = []
        left = np.arange(len(offsets))
        missing = [n for n in touched_blocks(offsets, sizes, BLOCK_BYTES) if n not in self.table.blocks]
        is_here = ~touches(offsets, sizes, BLOCK_BYTES, missing)
        if np.any(sizes[is_here]):
            array = self._leased(touched_blocks(offsets[is_here], sizes[is_here], BLOCK_BYTES))
            pieces.append(Piece(left[is_here], array, offsets[is_here]))
            left = left[~is_here]
        for buffer in self._buffers:
            is_there = buffer.spans.has(offsets[left], sizes[left])
            if np.any(sizes[left[is_there]]):
                pieces.append(_piece_of(buffer, left[is_there], offsets))
                left = left[~is_there]
        if len(left) or not pieces:
            pieces.append(_piece_of(self._begin_buffer(offsets[left], sizes[left], is_urgent=True), left, offsets))
        return pieces

    def announce(self, offsets: Positions, sizes: Positions) -> Announcement:
        numbers = touched_blocks(offsets, sizes, BLOCK_BYTES)
        if self._wants_blocks(numbers, sizes):
            is_whole = int(sizes.sum()) >= _WHOLE * len(numbers) * BLOCK_BYTES
            return _AnnouncedBlocks(self, self._begin_blocks(numbers, is_urgent=False), is_whole)
        buffer = self._begin_buffer(offsets, sizes, is_urgent=False)
        with self._buffers_lock:
            self._buffers = [*self._buffers, buffer]
        return _AnnouncedBuffer(self, buffer)

    def _wants_blocks(self, numbers: list[int], sizes: Positions) -> bool:
        if self._cache is not None or self.facts.size_bytes <= _SMALL_BYTES:
            return True
        return int(sizes.sum()) >= _DENSE * len(numbers) * BLOCK_BYTES or self._memory.has_all(self.table, numbers)

    def _is_in_sequence(self, offsets: Positions, sizes: Positions) -> bool:
        """One span that begins where the last one has ended; then the next blocks are brought ahead."""
        if len(offsets) != 1:
            return False
        start, last_end = int(offsets[0]), self._last_end
        self._last_end = end = start + int(sizes[0])
        if start != last_end:
            return False
        first = -(-end // BLOCK_BYTES)
        ahead = range(first, min(first + _AHEAD_BLOCKS, -(-self.facts.size_bytes // BLOCK_BYTES)))
        if not self._memory.has_all(self.table, ahead[:1]):
            self._release_later(self._begin_blocks(list(ahead), is_urgent=False))
        return True

    def _leased(self, numbers: list[int]) -> npt.NDArray[np.uint8]:
        """All of the object, with these blocks there as long as the array lives."""
        blocks = self._begin_blocks(numbers, is_urgent=True)
        try:
            for block in blocks:
                result_of(block.ready)
        except BaseException:
            self._release_later(blocks)
            raise
        array = _array_of(self.table.mapping)
        weakref.finalize(array, self._release_later, blocks).atexit = False
        return array

    def _begin_blocks(self, numbers: list[int], *, is_urgent: bool) -> list[Block]:
        blocks, missing = self._memory.lease(self.table, numbers)
        by_number = {block.number: block for block in missing}
        for run in runs_of(list(by_number), REQUEST_BYTES // BLOCK_BYTES):
            request = Request([by_number[number] for number in run])
            try:
                request.future = self._submit(self._fetcher.bring(request, self._fetch, is_urgent=is_urgent))
            except BaseException as error:
                self._memory.failed(missing, error)
                self._release_later(blocks)
                raise
            request.future.add_done_callback(partial(self._settle, request.blocks))
        return blocks

    def _settle(self, blocks: list[Block], future: Future[Any]) -> None:
        """Whatever became of a request, nobody waits for its blocks for ever."""
        error = closed(self.url) if future.cancelled() else future.exception()
        if error is not None:
            self._memory.failed(blocks, error)

    def _release_later(self, blocks: list[Block]) -> None:
        if self._pid == os.getpid():
            self._courier.call(self._memory.release, blocks)

    def use_up(self, blocks: list[Block]) -> None:
        self._memory.use_up(blocks)

    def distrust(self, blocks: list[Block]) -> None:
        self._memory.distrust(blocks)
        if self._cache is not None:
            for block in blocks:
                self._cache.forget(self._fetcher.key_of(block))

    @property
    def is_cached(self) -> bool:
        return self._cache is not None

    def needed_again(self, blocks: list[Block], use: float, next_use: float | BlockTimes) -> None:
        numbers = [block.number for block in blocks]
        times = next_use(self.path, numbers) if callable(next_use) else dict.fromkeys(numbers, next_use)
        if here := self._fetcher.needed_again(blocks, use, times):
            self._submit(self._fetcher.note_uses(here))

    def _begin_buffer(self, offsets: Positions, sizes: Positions, *, is_urgent: bool) -> _Buffer:
        buffer = _Buffer(MergedSpans(offsets, sizes, _GAP_BYTES))
        position = 0
        for start, end in buffer.spans.ranges:
            for first in range(start, end, REQUEST_BYTES):
                size = min(first + REQUEST_BYTES, end) - first
                out = buffer.array[position : position + size]
                buffer.futures.append(self._submit(self._copy(first, out, is_urgent)))
                position += size
        return buffer

    def drop_buffer(self, buffer: _Buffer) -> None:
        with self._buffers_lock:
            self._buffers = [other for other in self._buffers if other is not buffer]
        for future in buffer.futures:
            future.cancel()

    # -- requests, in the courier's thread --

    async def _get(self, start: int, end: int, is_urgent: bool = True) -> Any:
        async with self._courier.gates[is_urgent]:
            return await self._get_now(start, end)

    async def _get_now(self, start: int, end: int) -> Any:
        answer = await self.store.get(self.key, start, end, self.facts)
        self._count(answer)
        return answer.data

    def _count(self, answer: Answer | None) -> None:
        self.stats.requests += 1
        self.stats.bytes_fetched += 0 if answer is None else len(memoryview(answer.data))

    async def _copy(self, start: int, out: npt.NDArray[np.uint8], is_urgent: bool) -> None:
        out[:] = np.frombuffer(await self._get(start, start + len(out), is_urgent), np.uint8)

    async def _fetch(self, blocks: list[Block]) -> list[Any]:
        """The bytes of blocks that lie side by side, by one request; what is held is not asked for again."""
        end = blocks[-1].start + blocks[-1].size_bytes
        missing = missing_parts(self.intervals, blocks[0].start, end) or [(end, end)]
        start, end = missing[0][0], missing[-1][1]
        data = memoryview(await self._get_now(start, end) if start < end else b"")
        return [self._joined(block, start, end, data) for block in blocks]

    def _joined(self, block: Block, start: int, end: int, data: memoryview) -> Any:
        """The bytes of a block, of which those before ``start`` and from ``end`` on are held."""
        first, last = block.start, block.start + block.size_bytes
        if start <= first and last <= end:
            return data[first - start : last - start]
        held = _array_of(self.held)
        middle = data[max(first - start, 0) : max(last - start, 0)]
        before, after = held[first : min(start, last)], held[max(end, first) : last]
        return np.concatenate([before, np.frombuffer(middle, np.uint8), after])


class _Buffer:
    """Ranges on their way into memory of their own."""

    def __init__(self, spans: MergedSpans) -> None:
        self.spans = spans
        self.array = np.empty(spans.size_bytes, np.uint8)
        self.futures: list[Future[None]] = []

    def wait(self) -> npt.NDArray[np.uint8]:
        for future in self.futures:
            result_of(future)
        return self.array


def _piece_of(buffer: _Buffer, numbers: npt.NDArray[np.intp], offsets: Positions) -> Piece:
    return Piece(numbers, buffer.wait(), buffer.spans.positions(offsets[numbers]))


class _AnnouncedBlocks:
    """Blocks that are leased until it is closed. ``is_whole``: there is little in them that was not announced."""

    def __init__(self, lines: _Lines, blocks: list[Block], is_whole: bool) -> None:
        self._lines, self._blocks, self._is_whole = lines, blocks, is_whole
        self.size_bytes = sum(block.size_bytes for block in blocks)
        self._finalizer = weakref.finalize(self, lines._release_later, blocks)
        self._finalizer.atexit = False

    def wait(self) -> None:
        """Return when all of them are here; raises what went wrong on their way."""
        for block in self._blocks:
            result_of(block.ready)

    def close(self, *, used_up: bool = False) -> None:
        """Let them go. Does nothing the second time."""
        if used_up and self._is_whole and self._finalizer.alive:
            self._lines.use_up(self._blocks)
        self._finalizer()

    def distrust(self) -> None:
        """Keep none of them, in memory or in the cache."""
        self._lines.distrust(self._blocks)

    @property
    def is_cached(self) -> bool:
        """There is a cache on the local disk."""
        return self._lines.is_cached

    def needed_again(self, use: float, next_use: float | BlockTimes) -> None:
        """Say when they are used, and when next."""
        self._lines.needed_again(self._blocks, use, next_use)


class _AnnouncedBuffer:
    """Ranges that ``region`` finds until it is closed."""

    is_cached = False

    def __init__(self, lines: _Lines, buffer: _Buffer) -> None:
        self._buffer = buffer
        self.size_bytes = buffer.spans.size_bytes
        self._finalizer = weakref.finalize(self, lines._courier.call, lines.drop_buffer, buffer)
        self._finalizer.atexit = False

    def wait(self) -> None:
        """Return when all of them are here; raises what went wrong on their way."""
        self._buffer.wait()

    def close(self, *, used_up: bool = False) -> None:
        """Let them go, used up or not. Does nothing the second time."""
        self._finalizer()

    def distrust(self) -> None:
        """Nothing of them is kept."""

    def needed_again(self, use: float, next_use: float | BlockTimes) -> None:
        """The same."""


def _array_of(mapping: SparseMapping) -> npt.NDArray[np.uint8]:
    memory: Any = mapping
    view = memoryview(memory)
    return np.frombuffer(memory, np.uint8) if len(view) else np.empty(0, np.uint8)


def _cache_of(path: RemotePath) -> Any:
    """The cache on the local disk that is wanted for this object, if one is."""
    storage = path.storage
    if storage.cache_dir is None:
        return None
    from headrace.storage.block_cache import block_cache

    return block_cache(storage.cache_dir, storage.cache_size)
