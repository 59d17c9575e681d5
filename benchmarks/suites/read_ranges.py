"""Ranges of a file that is not in the page cache, read in batches; and of one that is.

The cache is dropped before each round where that is permitted, and the contenders take turns, each with the same
ranges. A batch is kept until it is complete, as in training. On a virtual machine the host may still hold the file in
its own memory: then "cold" is the cost of the way, not of the disk.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import ROOT, ratio, row
from headrace._native import RangeReader, gather_into
from headrace.bench.turns import one_core
from headrace.storage import map_file

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "How fast are random ranges of a cold file read, and of a warm one?"
FILE_SIZE, PAGE = 3 << 30, 8 << 20
BLOCK = 4096
THREADS = 16


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path = os.path.join(name, "data")
        piece = np.random.default_rng(0).bytes(64 << 20)
        with open(path, "wb") as file:
            for _ in range(FILE_SIZE // len(piece)):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        rows = _cold_batches(path, "cold, 256 x 10 kB", 256, 10_000, batches=12)
        rows += _cold_batches(path, "cold, 64 x 1 MB", 64, 1_000_000, batches=4)
        rows += _pages(path)
        with one_core():
            rows += _warm_batches(path, 256, 10_000)
    return rows


def drop_caches() -> bool:
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    except OSError:
        return False
    return True


def reading(path: str, **options: Any) -> Any:
    """Batches packed one sample after another."""
    reader, memory = RangeReader(path, **options), _Memory()

    def read(offsets: np.ndarray, size: int) -> None:
        sizes = np.full(len(offsets), size, np.uint64)
        places = np.arange(len(offsets), dtype=np.uint64) * np.uint64(size)
        assert not reader.read(offsets, sizes, memory.of(len(offsets) * size), places)

    return read


def reading_in_place(path: str, **options: Any) -> Any:
    """Batches whose samples lie on blocks of memory as they do on blocks of the file."""
    reader, memory = RangeReader(path, **options), _Memory()

    def read(offsets: np.ndarray, size: int) -> None:
        sizes = np.full(len(offsets), size, np.uint64)
        step = (size // BLOCK + 2) * BLOCK
        places = np.arange(len(offsets), dtype=np.uint64) * np.uint64(step) + offsets % np.uint64(BLOCK)
        assert not reader.read(offsets, sizes, memory.of(len(offsets) * step), places)

    return read


class _Memory:
    """Aligned memory that is used again for every batch, as that of a loader."""

    def __init__(self) -> None:
        self._array = np.zeros(0, np.uint8)

    def of(self, size: int) -> np.ndarray:
        if len(self._array) < size:
            memory = np.zeros(size + BLOCK, np.uint8)
            self._array = memory[-memory.ctypes.data % BLOCK :]
        return self._array[:size]


def preads(path: str, pool: ThreadPoolExecutor | None = None) -> Any:
    fd = os.open(path, os.O_RDONLY)

    def read(offsets: np.ndarray, size: int) -> list[bytes]:
        if pool is not None:
            return list(pool.map(lambda offset: os.pread(fd, size, offset), offsets.tolist()))
        return [os.pread(fd, size, offset) for offset in offsets.tolist()]

    return read


def _take_turns(contenders: dict[str, Any], n: int, size: int, batches: int, rounds: int, cold: bool) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(1 + rounds):  # the first does not count
        order = rng.integers(0, FILE_SIZE - size, (batches, n)).astype(np.uint64)
        for name, read in contenders.items():
            if cold:
                drop_caches()
            start_s = time.perf_counter()
            for offsets in order:
                read(offsets, size)
            if turn:
                seconds[name].append(time.perf_counter() - start_s)
    return seconds


def _rows(what: str, seconds: dict[str, Any], samples: int, size: int) -> list[dict[str, Any]]:
    rows = [row(f"{what}: {name}", s, samples=samples, size_bytes=samples * size) for name, s in seconds.items()]
    base, *others = seconds
    for name in others:
        # Of paired rounds: the machine's mood is the same for both.
        value = statistics.median(a / b for a, b in zip(seconds[base], seconds[name], strict=True))
        rows.append(ratio(f"{what}: {name}", value, f"the speed of {base}"))
    return [{**r, "cache": what.partition(",")[0]} for r in rows]


def _cold_batches(path: str, what: str, n: int, size: int, batches: int) -> list[dict[str, Any]]:
    if not drop_caches():
        return []
    with ThreadPoolExecutor(THREADS) as pool:
        contenders = {
            "an os.pread loop": preads(path),
            f"os.pread on {THREADS} threads": preads(path, pool),
            "RangeReader": reading(path),
            "RangeReader, queue_depth 256": reading(path, queue_depth=256),
            "RangeReader, engine threads": reading(path, engine="threads"),
            "RangeReader, direct": reading(path, direct=True),
            "RangeReader, direct, in place": reading_in_place(path, direct=True),
        }
        seconds = _take_turns(contenders, n, size, batches, rounds=9, cold=True)
    return _rows(what, seconds, n * batches, size)


def _pages(path: str) -> list[dict[str, Any]]:
    if not drop_caches():
        return []
    order = np.random.default_rng(2).permutation(FILE_SIZE // PAGE)

    def sequential() -> None:
        memory = bytearray(PAGE)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(memory):
                pass

    def at_random(**options: Any) -> Callable[[], None]:
        read = reading(path, **options)

        def work() -> None:
            for pages in order.reshape(-1, 4):
                read(pages.astype(np.uint64) * np.uint64(PAGE), PAGE)

        return work

    contenders = {
        "the whole file in sequence": sequential,
        "RangeReader": at_random(),
        "RangeReader, direct": at_random(direct=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(3):
        for name, work in contenders.items():
            drop_caches()
            start_s = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start_s)
    return _rows("cold, 8 MiB pages in random order", seconds, len(order), PAGE)


def _warm_batches(path: str, n: int, size: int) -> list[dict[str, Any]]:
    mapped, memory = map_file(path), _Memory()

    def copying(offsets: np.ndarray, size: int) -> None:
        sizes = np.full(len(offsets), size, np.uint64)
        places = np.arange(len(offsets), dtype=np.uint64) * np.uint64(size)
        gather_into(mapped, offsets, sizes, memory.of(len(offsets) * size), places)

    int(mapped[::BLOCK].sum())  # everything is in the cache, and mapped
    contenders = {
        "an os.pread loop": preads(path),
        "RangeReader": reading(path),
        "copied from the mapped file": copying,
    }
    seconds = _take_turns(contenders, n, size, batches=20, rounds=15, cold=False)
    return _rows(f"warm, one core, {n} x 10 kB", seconds, n * 20, size)
