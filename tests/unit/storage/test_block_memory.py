"""Memory of blocks that went is that of the next ones."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from headrace._native import SparseMapping
from headrace.storage.block_memory import BLOCK_BYTES, Block, BlockMemory, BlockTable


def _bring(memory: BlockMemory, table: BlockTable, number: int) -> Block:
    (block,), missing = memory.lease(table, [number])
    assert missing == [block]
    memory.fill(block, np.full(block.size_bytes, number + 1, np.uint8))
    memory.arrived(block)
    return block


def _bytes(table: BlockTable, block: Block) -> set[int]:
    array = np.frombuffer(table.mapping, np.uint8)  # type: ignore[call-overload]
    return set(np.unique(array[block.start : block.start + block.size_bytes]).tolist())


@pytest.fixture
def tables() -> list[BlockTable]:
    sizes = (5 * BLOCK_BYTES + 100, 4 * BLOCK_BYTES)
    return [BlockTable(SparseMapping(size), size) for size in sizes]


def test_every_block_has_its_own_bytes_whatever_memory_it_gets(tables: list[BlockTable]) -> None:
    memory = BlockMemory(2 * BLOCK_BYTES)
    rng = np.random.default_rng(1)
    for _ in range(60):
        table = tables[int(rng.integers(2))]
        number = int(rng.integers(-(-table.size_bytes // BLOCK_BYTES)))
        if number in table.blocks:
            (block,), _ = memory.lease(table, [number])
        else:
            block = _bring(memory, table, number)
        assert _bytes(table, block) == {number + 1}
        memory.release([block])
        assert memory.size_bytes <= 2 * BLOCK_BYTES
        for other in tables:
            for kept in other.blocks.values():
                assert _bytes(other, kept) == {kept.number + 1}
    assert all(table.mapping.faults == 0 for table in tables)


def test_threads_do_not_take_each_others_memory(tables: list[BlockTable]) -> None:
    memory = BlockMemory(2 * BLOCK_BYTES)
    wrong: list[object] = []

    def work(table: BlockTable, first: int, end: int) -> None:
        rng = np.random.default_rng(first)
        for _ in range(60):
            number = int(rng.integers(first, end))
            (block,), missing = memory.lease(table, [number])
            if missing:
                memory.fill(block, np.full(block.size_bytes, number + 1, np.uint8))
                memory.arrived(block)
            array = np.frombuffer(table.mapping, np.uint8)  # type: ignore[call-overload]
            seen = array[block.start : block.start + block.size_bytes : 4096]
            if (seen != number + 1).any():
                wrong.append((number, seen))
            memory.release([block])

    parts = [(tables[0], 0, 2), (tables[0], 2, 5), (tables[1], 0, 2), (tables[1], 2, 4)]
    threads = [threading.Thread(target=work, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(table.mapping.faults == 0 for table in tables)


def test_a_closed_object_keeps_no_memory(tables: list[BlockTable]) -> None:
    memory = BlockMemory(0)
    first, second = tables
    memory.release([_bring(memory, first, 0)])
    memory.forget(first)
    assert _bytes(first, Block(first, 0)) == {0}  # it is not there
    assert first.mapping.faults > 0
    memory.release([_bring(memory, second, 1)])
    assert _bytes(second, _bring(memory, second, 1)) == {2}


def test_where_the_system_cannot_move_memory(tables: list[BlockTable], monkeypatch: pytest.MonkeyPatch) -> None:
    class Unmoving(SparseMapping):
        def adopt(self, *arguments: object) -> bool:
            return False

    table = BlockTable(Unmoving(4 * BLOCK_BYTES), 4 * BLOCK_BYTES)
    memory = BlockMemory(0)
    for number in (0, 1, 2, 0):
        block = _bring(memory, table, number)
        assert _bytes(table, block) == {number + 1}
        memory.release([block])


@pytest.mark.parametrize("budget", [3 * BLOCK_BYTES, 4 * BLOCK_BYTES])
def test_what_is_used_up_goes_at_once_where_the_objects_do_not_fit(tables: list[BlockTable], budget: int) -> None:
    table = tables[1]
    memory = BlockMemory(budget)
    memory.admit(table)
    first, second = (_bring(memory, table, number) for number in (0, 1))
    memory.lease(table, [0])
    memory.use_up([first])
    memory.release([first])
    assert first.number in table.blocks  # somebody uses it still
    memory.release([first, second])
    is_large = budget < table.size_bytes
    assert set(table.blocks) == ({1} if is_large else {0, 1})
    assert _bytes(table, _bring(memory, table, 2)) == {3}
    assert _bytes(table, second) == {2}
    assert table.mapping.faults == 0


def test_what_is_asked_for_again_is_not_used_up(tables: list[BlockTable]) -> None:
    table = tables[1]
    memory = BlockMemory(BLOCK_BYTES)
    memory.admit(table)
    block = _bring(memory, table, 0)
    memory.use_up([block])
    memory.lease(table, [0])
    memory.release([block, block])
    assert 0 in table.blocks
    memory.forget(table)
    assert memory.object_bytes == memory.size_bytes == 0
