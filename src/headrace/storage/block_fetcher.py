"""How the blocks of one object come: from the cache on the local disk, from another process, or by a request.

Contract. All of it runs in the courier's thread, but for ``needed_again``, which any thread may call, and for copying
from the cache, which a thread for the disk does. Requests go through a gate, so many at a time. Where there is a cache,
a block that is not there is marked before it is fetched; one that somebody else fetches is waited for, beside the gate
and for a bounded time (see ``fetch_marks``). Of the blocks of a request those that are free come first, and then the
others are waited for, so nobody waits who holds a mark. What nobody wants any more is given up at the next look.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import ClosedError
from headrace.storage.block_memory import BLOCK_BYTES
from headrace.storage.spans import runs_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from headrace.storage.block_cache import BlockCache, BlockKey
    from headrace.storage.block_memory import Block, BlockMemory, Request
    from headrace.storage.courier import Courier

    Fetch: TypeAlias = Callable[[list[Block]], Awaitable[list[Any]]]

__all__ = ["BlockFetcher", "RemoteStats", "closed"]

_thread = threading.local()  # has a buffer of the thread
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05


@dataclass(slots=True)
class RemoteStats:
    """What was brought for one object."""

    requests: int = 0
    bytes_fetched: int = 0
    bytes_from_cache: int = 0


class BlockFetcher:
    """Brings the blocks of one object.

    Args:
        url: of the object.
        version: of the object.
        courier: whose thread does the work.
        memory: where the blocks are.
        cache: on the local disk, if there is one.
        stats: where what came from the cache is counted.
    """

    def __init__(
        self,
        url: str,
        version: str | None,
        courier: Courier,
        memory: BlockMemory,
        cache: BlockCache | None,
        stats: RemoteStats,
    ) -> None:
        self._url, self._version = url, version
        self._courier, self._memory, self._cache = courier, memory, cache
        self._stats = stats
        self._uses: dict[int, frozenset[float]] = {}  # when blocks will be used, as far as that was said

    async def bring(self, request: Request, fetch: Fetch, *, is_urgent: bool) -> None:
        """Bring all blocks of a request.

        Args:
            request: what is wanted.
            fetch: gives the bytes of blocks that lie side by side, each by itself.
            is_urgent: somebody waits for them.
        """
        left = await self._bring_free(request, request.blocks, fetch, is_urgent)
        if not left or self._cache is None:
            return
        deadline = self._cache.patience.deadline(is_urgent)
        while left and time.monotonic() < deadline:
            left = await self._wait_for_others(request, left, deadline)
            left = await self._bring_free(request, left, fetch, is_urgent)
        if left:
            self._cache.patience.lose()
            await self._bring_free(request, left, fetch, is_urgent, is_impatient=True)

    async def _bring_free(
        self, request: Request, blocks: list[Block], fetch: Fetch, is_urgent: bool, *, is_impatient: bool = False
    ) -> list[Block]:
        """Bring those blocks that nobody else fetches, or all of them; gives the others."""
        if not blocks:
            return []
        async with self._courier.gates[is_urgent]:
            missing = await self._missing(request, blocks)
            marked = [block for block in missing if self._take_mark(block)]
            chosen = missing if is_impatient else marked
            try:
                if self._cache is not None:  # they may have come between the look and the mark
                    chosen = await self._missing(request, chosen)
                await self._fetch_all(chosen, fetch)
            finally:
                self._drop_marks(marked)
        return [block for block in missing if not block.is_here]

    async def _wait_for_others(self, request: Request, blocks: list[Block], deadline: float) -> list[Block]:
        """Wait for blocks that others fetch; gives those that did not come when one of them is fetched no more."""
        pause_s = _SHORTEST_PAUSE_S
        while blocks and time.monotonic() < deadline:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            free = [block for block in blocks if self._is_free(block)]
            if await self._missing(request, free):
                break
            blocks = [block for block in blocks if not block.is_here]
        return [block for block in blocks if not block.is_here]

    async def _missing(self, request: Request, blocks: list[Block]) -> list[Block]:
        """Those blocks that are not in the cache; the others are here then."""
        if self._memory.give_up_unwanted(request):
            raise closed(self._url)
        if self._cache is None:
            return blocks
        missing = [block for block in blocks if not await self._read_cached(block)]
        if self._memory.give_up_unwanted(request):
            raise closed(self._url)
        return missing

    async def _fetch_all(self, blocks: list[Block], fetch: Fetch) -> None:
        by_number = {block.number: block for block in blocks}
        for run in runs_of(list(by_number), len(blocks)):
            side_by_side = [by_number[number] for number in run]
            for block, part in zip(side_by_side, await fetch(side_by_side), strict=True):
                self._memory.fill(block, part)
                if self._cache is None:
                    self._memory.arrived(block)
                else:
                    await self._store(self._cache, block, part)

    async def _store(self, cache: BlockCache, block: Block, part: Any) -> None:
        """Hand a block out, and keep it until the cache on the disk has it: in between it would be fetched again."""
        self._memory.keep(block)
        try:
            self._memory.arrived(block)
            when = self._next_use(block)
            await self._courier.on_disk(cache.store, self.key_of(block), part, when)
            if self._next_use(block) != when:  # it was said meanwhile
                await self.note_uses([block])
        finally:
            self._memory.release([block])

    async def _read_cached(self, block: Block) -> bool:
        assert block.request is not None
        assert self._cache is not None
        when = self._next_use(block)
        block.request.is_on_disk = True
        try:
            is_found = await self._courier.on_disk(self._copy_cached, self._cache, block, when)
            if is_found and self._next_use(block) != when:  # it was said meanwhile
                await self.note_uses([block])
        finally:
            block.request.is_on_disk = False
        if is_found:
            self._stats.bytes_from_cache += block.size_bytes
            self._memory.arrived(block)
        return is_found

    def _copy_cached(self, cache: BlockCache, block: Block, when: float | None) -> bool:
        """In a thread of its own, by way of a buffer, which is warm: memory of a block that went is copied to, too."""
        if not hasattr(_thread, "buffer"):
            _thread.buffer = np.empty(BLOCK_BYTES, np.uint8)
        part = _thread.buffer[: block.size_bytes]
        if not cache.read(self.key_of(block), part, when):
            return False
        self._memory.fill(block, part)
        return True

    # -- when blocks are needed again --

    def needed_again(self, blocks: list[Block], use: float, next_uses: Mapping[int, float]) -> list[Block]:
        """Note when blocks are used and when next; gives those that the cache must be told of by ``note_uses``.

        A block may hold parts of several pages, each with a time of its own. Those up to this use are over.
        """
        if self._cache is None:
            return []
        known = [block for block in blocks if block.number in next_uses]
        for block in known:
            later = {one for one in self._uses.get(block.number, ()) if one > use}
            self._uses[block.number] = frozenset(later | {next_uses[block.number]})
        return [block for block in known if block.is_here]  # of the others it is told when they come

    async def note_uses(self, blocks: list[Block]) -> None:
        """Tell the cache when blocks are needed that are here already."""
        assert self._cache is not None
        times = {self.key_of(block): when for block in blocks if (when := self._next_use(block)) is not None}
        await self._courier.on_disk(self._cache.note_uses, times)

    def _next_use(self, block: Block) -> float | None:
        return min(self._uses.get(block.number, ()), default=None)

    # -- marks: taken and dropped at once, in no other thread, so that no mark is left behind by what is cancelled --

    def _take_mark(self, block: Block) -> bool:
        return self._cache is None or self._cache.take_mark(self.key_of(block))

    def _drop_marks(self, blocks: list[Block]) -> None:
        if self._cache is not None:
            for block in blocks:
                self._cache.drop_mark(self.key_of(block))

    def _is_free(self, block: Block) -> bool:
        if not self._take_mark(block):
            return False
        self._drop_marks([block])
        return True

    def key_of(self, block: Block) -> BlockKey:
        """What a block is in the cache."""
        from headrace.storage.block_cache import BlockKey

        assert self._version is not None
        return BlockKey(self._url, self._version, block.number)


def closed(url: str) -> ClosedError:
    """What whoever waits for blocks gets when nobody wants them any more."""
    return ClosedError(f"{url}: the dataset was closed while something was read from it")
