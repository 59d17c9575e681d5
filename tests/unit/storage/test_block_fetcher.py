"""Each block is fetched once for each machine: what processes and files do that want the same at the same time."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.range_server import RangeServer, serve

pytest.importorskip("obstore")

from headrace.errors import ChangedError, ClosedError
from headrace.storage import block_cache as block_cache_module
from headrace.storage import block_memory, fetch_marks
from headrace.storage.block_cache import BlockKey, block_cache
from headrace.storage.block_memory import BLOCK_BYTES
from headrace.storage.remote_file import RemoteFile
from headrace.storage.remote_path import RemotePath, StorageOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BLOCKS = 12
CACHE_BYTES = 100 << 20
DATA = np.random.default_rng(0).integers(0, 256, BLOCKS * BLOCK_BYTES - 1000, np.uint8).tobytes()
DIGEST = hashlib.sha256(DATA).hexdigest()

READER = f"""
import hashlib, sys, numpy as np
from headrace.storage import block_memory
from headrace.storage.remote_file import RemoteFile
from headrace.storage.remote_path import RemotePath, StorageOptions
url, folder, way = sys.argv[1:]
block_memory._shared = block_memory.BlockMemory(0)
file = RemoteFile(RemotePath(url, StorageOptions(cache_dir=folder, cache_size={CACHE_BYTES})))
starts = np.arange(0, file.size_bytes, {BLOCK_BYTES}, dtype=np.uint64)
sizes = np.minimum(np.uint64({BLOCK_BYTES}), np.uint64(file.size_bytes) - starts)
print("open", flush=True)
sys.stdin.readline()
announced = file.announce(starts, sizes) if way == "ahead" else None
numbers = [n * 5 % len(starts) for n in range(len(starts))]  # none after the one before it: no more is read ahead
numbers = numbers[::-1] if way == "backwards" else numbers
found = {{}}
for n in numbers:
    base, places = file.region(starts[n : n + 1], sizes[n : n + 1])
    found[n] = base[int(places[0]) : int(places[0] + sizes[n])].tobytes()
    del base
print(hashlib.sha256(b"".join(found[n] for n in range(len(starts)))).hexdigest(), flush=True)
"""


class Reader:
    """A process that reads all blocks when it is told to."""

    def __init__(self, server: RangeServer, folder: Path, way: str = "ahead") -> None:
        command = [sys.executable, "-W", "error", "-c", READER, server.url, str(folder), way]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._line() == "open"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self) -> Reader:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def digest(self) -> str:
        found = self._line()
        self.process.communicate(timeout=30)
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=30)


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serve(DATA) as server:
        yield server


@pytest.fixture(autouse=True)
def closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(block_memory, "_shared", block_memory.BlockMemory(0))
    yield
    for cache in list(block_cache_module._CACHES.values()):
        cache.close()


@pytest.fixture
def start(server: RangeServer, tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    readers: list[Reader] = []

    def start(way: str = "ahead") -> Reader:
        readers.append(Reader(server, tmp_path / "cache", way))
        return readers[-1]

    yield start
    for reader in readers:
        reader.end()


def opened(server: RangeServer, tmp_path: Path) -> RemoteFile:
    storage = StorageOptions(cache_dir=str(tmp_path / "cache"), cache_size=CACHE_BYTES)
    return RemoteFile(RemotePath(server.url, storage))


def spans(*numbers: int) -> tuple[Any, Any]:
    starts = np.array([number * BLOCK_BYTES for number in numbers or range(BLOCKS)], np.uint64)
    return starts, np.minimum(np.uint64(BLOCK_BYTES), np.uint64(len(DATA)) - starts)


def read(file: RemoteFile, *numbers: int) -> None:
    starts, sizes = spans(*numbers)
    base, places = file.region(starts, sizes)
    for start, size, place in zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True):
        assert base[place : place + size].tobytes() == DATA[start : start + size]


def key_of(file: RemoteFile, number: int) -> BlockKey:
    return BlockKey(str(file.path), str(file.version), number)


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not become true within 10 s")


def slowly(number: int) -> None:
    """Each request takes a while."""
    time.sleep(0.05)


# Several processes


@pytest.mark.parametrize("ways", [("ahead", "ahead"), ("one by one", "one by one"), ("ahead", "backwards")])
def test_two_processes_that_start_cold_fetch_each_byte_once(
    ways: tuple[str, str], server: RangeServer, start: Callable[..., Reader]
) -> None:
    server.fault = slowly
    both = [start(way) for way in ways]
    for reader in both:
        reader.begin()
    assert [reader.digest() for reader in both] == [DIGEST] * 2
    assert len(DATA) <= server.sent_bytes <= 1.1 * len(DATA)


def stall_one(server: RangeServer, reader: Reader) -> None:
    """Let all requests of a process hang, and only these."""
    server.gate.clear()
    server.fault = lambda number: "stall"
    reader.begin()
    eventually(lambda: server._running >= BLOCKS // 2)
    server.fault = lambda number: None


def test_a_process_that_is_killed_while_it_fetches_holds_up_nobody(
    server: RangeServer, start: Callable[..., Reader]
) -> None:
    dies, lives = start(), start()
    stall_one(server, dies)
    before = server.sent_bytes
    lives.begin()
    time.sleep(0.5)
    assert server.sent_bytes == before  # it waits
    dies.process.send_signal(signal.SIGKILL)
    begun = time.monotonic()
    eventually(lambda: server.sent_bytes > before)
    assert time.monotonic() - begun < 1
    assert lives.digest() == DIGEST


@pytest.mark.parametrize(("way", "bound_s"), [("ahead", 5.0), ("one by one", 2.0)])
def test_a_process_that_is_stopped_while_it_fetches_holds_up_others_for_a_while(
    way: str, bound_s: float, server: RangeServer, start: Callable[..., Reader]
) -> None:
    sleeps, goes_on = start(), start(way)
    stall_one(server, sleeps)
    sleeps.process.send_signal(signal.SIGSTOP)
    before, begun = server.sent_bytes, time.monotonic()
    goes_on.begin()
    eventually(lambda: server.sent_bytes > before)
    assert bound_s < time.monotonic() - begun < bound_s + 2
    assert goes_on.digest() == DIGEST
    assert time.monotonic() - begun < bound_s + 6  # it has waited once, and not for each block


# One process


def test_two_files_of_one_process_fetch_each_byte_once(server: RangeServer, tmp_path: Path) -> None:
    server.fault = slowly
    files = [opened(server, tmp_path) for _ in range(2)]
    announced = [file.announce(*spans()) for file in files]
    for file in files:
        read(file)
    for one in announced:
        assert one is not None
        one.close()
    assert server.sent_bytes <= 1.1 * len(DATA)
    for file in files:
        file.close()


def test_what_others_fetch_comes_after_what_is_free(server: RangeServer, tmp_path: Path) -> None:
    file = opened(server, tmp_path)
    cache = block_cache(tmp_path / "cache")
    assert cache.take_mark(key_of(file, 3))
    before = server.sent_bytes
    announced = file.announce(*spans(2, 3))
    eventually(lambda: server.sent_bytes == before + BLOCK_BYTES)
    time.sleep(0.2)
    assert server.sent_bytes == before + BLOCK_BYTES
    read(file, 2)
    cache.store(key_of(file, 3), DATA[3 * BLOCK_BYTES : 4 * BLOCK_BYTES])
    cache.drop_mark(key_of(file, 3))
    read(file, 2, 3)
    assert server.sent_bytes == before + BLOCK_BYTES
    assert announced is not None
    announced.close()
    file.close()


def test_who_closes_while_another_fetches_does_not_wait_and_leaves_no_marks(
    server: RangeServer, tmp_path: Path
) -> None:
    file = opened(server, tmp_path)
    cache = block_cache(tmp_path / "cache")
    keys = [key_of(file, number) for number in range(BLOCKS)]
    assert cache.take_mark(keys[5])
    server.gate.clear()
    server.fault = lambda number: "stall"
    failed: list[BaseException] = []

    def want() -> None:
        try:
            read(file, 1, 5)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=want)
    thread.start()
    eventually(lambda: server._running == 1)
    assert not cache.take_mark(keys[1])
    begun = time.monotonic()
    file.close()
    thread.join()
    assert time.monotonic() - begun < 3
    assert isinstance(failed[0], ClosedError)
    cache.drop_mark(keys[5])
    assert all(cache.take_mark(key) for key in keys)


def test_a_cache_that_cannot_store_adds_no_waiting(
    server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_block(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(block_cache_module, "write_block", write_block)
    first, second = opened(server, tmp_path), opened(server, tmp_path)
    begun = time.monotonic()
    announced = second.announce(*spans())
    with pytest.warns(RuntimeWarning, match="cannot be stored"):
        read(first)
    read(second)
    assert time.monotonic() - begun < 3
    assert announced is not None
    announced.close()
    first.close()
    second.close()


def test_a_damaged_answer_drops_the_mark(server: RangeServer, tmp_path: Path) -> None:
    file = opened(server, tmp_path)
    server.fault = lambda number: 404
    with pytest.raises(ChangedError):
        read(file, 1)
    server.fault = lambda number: None
    read(file, 1)
    eventually(lambda: block_cache(tmp_path / "cache").take_mark(key_of(file, 1)))  # when it is stored
    file.close()


# When blocks are needed again


def test_a_block_is_needed_again_at_the_earliest_of_its_times(server: RangeServer, tmp_path: Path) -> None:
    file = opened(server, tmp_path)
    now = time.time()
    for use, next_use, earliest in [(1, 1000, 1000), (2, 500, 500), (500, 2000, 1000), (1000, 3000, 2000)]:
        announced = file.announce(*spans(1))
        assert announced is not None
        assert announced.is_cached
        announced.needed_again(now + use, now + next_use)
        announced.wait()
        eventually(partial(is_needed, file, tmp_path, 1, now + earliest))
        announced.close()
    file.close()


def test_what_is_in_memory_already_is_told_as_well(
    server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_memory, "_shared", block_memory.BlockMemory(1 << 30))
    file = opened(server, tmp_path)
    read(file, 1, 3)
    announced = file.announce(*spans(1, 3))
    assert announced is not None
    next_use = time.time() + 1000
    announced.needed_again(time.time(), next_use)
    eventually(lambda: all(is_needed(file, tmp_path, number, next_use) for number in (1, 3)))
    announced.close()
    file.close()


def is_needed(file: RemoteFile, tmp_path: Path, number: int, when: float) -> bool:
    """That is the next use of a block by the table of the cache."""
    table = block_cache(tmp_path / "cache")._table
    assert table is not None
    slots = table.find(key_of(file, number).id)
    return bool(slots) and table.column("when", slots[0] + 1)[slots[0]] == when


# Marks by themselves


def test_marks(tmp_path: Path) -> None:
    with open(tmp_path / "table", "w+b") as table, open(tmp_path / "table", "rb") as looker:
        marks = fetch_marks.FetchMarks(table.fileno())
        assert marks.take(7)
        assert marks.take((1 << 64) - 1)
        assert not marks.take(7)
        marks.drop(7)
        marks.drop(7)
        assert marks.take(7)
        only_reads = fetch_marks.FetchMarks(looker.fileno())
        assert only_reads.take(7)  # which cannot lock, and need not
        assert only_reads.take(7)


def test_patience_ends_for_all_when_it_was_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    patience, now = fetch_marks.Patience(), [1000.0]
    monkeypatch.setattr(fetch_marks.time, "monotonic", lambda: now[0])
    assert patience.deadline(is_urgent=False) == 1005
    assert patience.deadline(is_urgent=True) == 1002
    now[0] = 1005
    patience.lose()
    assert patience.deadline(is_urgent=False) == 1005
    now[0] = 1020
    patience.lose()  # whoever had begun to wait before
    now[0] = 1035
    assert patience.deadline(is_urgent=False) == 1040
