"""Blocks of objects in memory: who uses them, and which go when there are too many.

Contract. A block is on its way or here. Whoever wants blocks leases them, waits for ``ready`` of each, and releases
them when done. A block that is asked for a second time while it is on its way is the same block. Those that nobody
leases stay until all blocks of the process take more than the budget; then the one that was used longest ago goes
first. What is leased never goes, so the budget is exceeded where that much is in use at a time. Where the open objects
are larger than the budget, a block that is used up for an epoch would be gone before the next one in any case: it goes
at once, and its memory is that of the next block, because fresh memory must be cleared. All of it is guarded by one
lock, under which nothing waits for the network. Finalizers never call this, they leave it to the courier.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

from headrace.storage.memory import available_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace._native import SparseMapping

__all__ = ["BLOCK_BYTES", "Block", "BlockMemory", "BlockTable", "Request", "shared_memory"]

BLOCK_BYTES = 4 << 20
_LARGEST_BUDGET = 1 << 30
_SPARE_BLOCKS = 32  # as many as requests bring at a time


class Block:
    """A part of an object that is here, or on its way."""

    __slots__ = (
        "is_distrusted",
        "is_here",
        "is_used_up",
        "leases",
        "number",
        "ready",
        "request",
        "size_bytes",
        "start",
        "table",
    )

    def __init__(self, table: BlockTable, number: int) -> None:
        self.table = table
        self.number = number
        self.start = number * BLOCK_BYTES
        self.size_bytes = min(BLOCK_BYTES, table.size_bytes - self.start)
        self.leases = 0
        self.is_here = False
        self.is_distrusted = False
        self.is_used_up = False
        self.request: Request | None = None
        self.ready: Future[None] = Future()


class Request:
    """What brings blocks that lie side by side.

    Args:
        blocks: that it brings.
    """

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.future: Future[None] | None = None
        self.is_on_disk = False  # another thread writes into the blocks, and must not be left alone with them
        for block in blocks:
            block.request = self

    @property
    def is_wanted(self) -> bool:
        """Somebody waits for one of the blocks; the lock is held."""
        return any(block.leases for block in self.blocks)


class BlockTable:
    """The blocks of one object.

    Args:
        mapping: where they lie.
        size_bytes: of the object.
    """

    def __init__(self, mapping: SparseMapping, size_bytes: int) -> None:
        self.mapping = mapping
        self.size_bytes = size_bytes
        self.blocks: dict[int, Block] = {}


class BlockMemory:
    """All blocks of a process.

    Args:
        budget_bytes: what blocks may take that nobody uses.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.size_bytes = 0
        self.object_bytes = 0  # of those that are open
        self.lock = threading.Lock()
        self._idle: OrderedDict[Block, None] = OrderedDict()
        self._spare: dict[tuple[BlockTable, int], Block] = {}  # they went; the next blocks get their memory

    def admit(self, table: BlockTable) -> None:
        """The object is open; ``forget`` follows."""
        with self.lock:
            self.object_bytes += table.size_bytes

    def has_all(self, table: BlockTable, numbers: Iterable[int]) -> bool:
        """All of these blocks are here or on their way."""
        return all(number in table.blocks for number in numbers)

    def lease(self, table: BlockTable, numbers: Iterable[int]) -> tuple[list[Block], list[Block]]:
        """These blocks, and those among them that the caller must bring."""
        blocks, missing = [], []
        with self.lock:
            for number in numbers:
                block = table.blocks.get(number)
                if block is None:
                    self._drop_spare(table, number)  # its place is needed
                    block = table.blocks[number] = Block(table, number)
                    self.size_bytes += block.size_bytes
                    missing.append(block)
                block.leases += 1
                block.is_used_up = False
                self._idle.pop(block, None)
                blocks.append(block)
            self._shrink()
        return blocks, missing

    def keep(self, block: Block) -> None:
        """One user more of a block that is on its way: whoever writes it to the disk, so that nobody brings it anew."""
        with self.lock:
            block.leases += 1
            self._idle.pop(block, None)

    def release(self, blocks: Iterable[Block]) -> None:
        """One user less of each. A request that nobody waits for any more is given up; the courier calls this."""
        unwanted: list[Request] = []
        with self.lock:
            for block in blocks:
                block.leases -= 1
                if block.leases == 0 and block.is_distrusted:
                    self._remove(block)
                    block.table.mapping.drop(block.start, block.size_bytes)
                elif block.leases == 0 and block.is_here and block.table.blocks.get(block.number) is block:
                    self._rest(block)
                elif block.request is not None and not block.is_here:
                    unwanted.append(block.request)
            unwanted = [request for request in unwanted if not (request.is_wanted or request.is_on_disk)]
            for request in unwanted:
                self._give_up(request)
            self._shrink()
        for request in unwanted:
            if request.future is not None:
                request.future.cancel()

    def _rest(self, block: Block) -> None:
        """Nobody uses a block any more, for now."""
        if block.is_used_up and self.object_bytes > self.budget_bytes:
            self._remove(block)
            self._spare_memory(block)
        else:
            self._idle[block] = None

    def use_up(self, blocks: Iterable[Block]) -> None:
        """Blocks are not needed again soon, by what is known now; those who lease them go on."""
        with self.lock:
            for block in blocks:
                block.is_used_up = True

    def distrust(self, blocks: Iterable[Block]) -> None:
        """Blocks have other bytes than they should: they go when nobody uses them any more."""
        with self.lock:
            for block in blocks:
                block.is_distrusted = True

    def _give_up(self, request: Request) -> None:
        for block in request.blocks:
            if not block.is_here:
                self._remove(block)

    def fill(self, block: Block, data: Any) -> None:
        """Put the bytes of a block into place, if possible into memory of one that went: it need not be cleared."""
        mapping = block.table.mapping
        with self.lock:  # nobody may begin to fill the place of a spare one meanwhile
            is_adopted = self._adopt(block)
        if is_adopted:
            mapping.overwrite(block.start, data)
        else:
            mapping.fill(block.start, data)

    def _adopt(self, block: Block) -> bool:
        if block.size_bytes != BLOCK_BYTES or not self._spare:
            return False
        spare = self._spare.popitem()[1]
        is_adopted = block.table.mapping.adopt(block.start, block.size_bytes, spare.table.mapping, spare.start)
        if not is_adopted:
            spare.table.mapping.drop(spare.start, spare.size_bytes)
        return is_adopted

    def arrived(self, block: Block) -> None:
        """The bytes of a block are in place."""
        with self.lock:
            block.is_here = True
            if block.leases == 0 and block.table.blocks.get(block.number) is block:
                self._idle[block] = None
                self._shrink()
        with contextlib.suppress(InvalidStateError):
            block.ready.set_result(None)

    def failed(self, blocks: Iterable[Block], error: BaseException) -> None:
        """Blocks did not come; the next one who asks brings them anew."""
        for block in blocks:
            with self.lock:
                if block.is_here or block.ready.done():
                    continue
                self._remove(block)
            with contextlib.suppress(InvalidStateError):
                block.ready.set_exception(error)

    def give_up_unwanted(self, request: Request) -> bool:
        """Nobody waits for any of its blocks any more, and they are forgotten."""
        with self.lock:
            if request.is_wanted:
                return False
            self._give_up(request)
            return True

    def forget(self, table: BlockTable) -> None:
        """The object is closed. What is leased stays until the last array of its mapping is gone."""
        with self.lock:
            self.object_bytes -= table.size_bytes
            for number in [number for one, number in self._spare if one is table]:
                self._drop_spare(table, number)
            for block in list(table.blocks.values()):
                self._remove(block)
                if block.is_here and block.leases == 0:
                    table.mapping.drop(block.start, block.size_bytes)

    def _drop_spare(self, table: BlockTable, number: int) -> None:
        spare = self._spare.pop((table, number), None)
        if spare is not None:
            table.mapping.drop(spare.start, spare.size_bytes)

    def _remove(self, block: Block) -> None:
        if block.table.blocks.get(block.number) is block:
            del block.table.blocks[block.number]
            self.size_bytes -= block.size_bytes
        self._idle.pop(block, None)

    def _shrink(self) -> None:
        while self.size_bytes > self.budget_bytes and self._idle:
            block, _ = self._idle.popitem(last=False)
            self._remove(block)
            self._spare_memory(block)

    def _spare_memory(self, block: Block) -> None:
        """Keep the memory of a block that went for the next one."""
        if block.size_bytes == BLOCK_BYTES and len(self._spare) < _SPARE_BLOCKS:
            self._spare[block.table, block.number] = block
        else:
            block.table.mapping.drop(block.start, block.size_bytes)


_shared: BlockMemory | None = None
_shared_lock = threading.Lock()


def shared_memory() -> BlockMemory:
    """The blocks of this process."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = BlockMemory(min(_LARGEST_BUDGET, available_bytes() // 4))
        return _shared


def _renew_locks() -> None:
    """In a forked process: another thread may have held them."""
    global _shared_lock
    _shared_lock = threading.Lock()
    if _shared is not None:
        _shared.lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)
