"""Random batches of an .ffr: cold, warm, by two threads; and opening a file of five million samples.

Cold: the page cache is dropped before each round where that is permitted, and the contenders take turns, each with the
same samples. Readers that were mapped and touched would keep their pages, so every round opens its own. On a virtual
machine the host may still hold the file in its memory: then "cold" is the cost of the way, not of the disk.

Warm: with checksums; the peer reads each sample by os.pread into a fresh bytes object and computes zlib.crc32, as a
loop in Python would. Two threads do the same work as one after the other; zlib.crc32, which also runs without the
interpreter's lock, shows what the machine gives at that moment.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import ROOT, ratio, row
from benchmarks.suites.read_ranges import drop_caches
from headrace.bench.turns import timed
from headrace.formats.ffr import FfrReader, FfrWriter
from headrace.formats.ffr.layout import header_size, pack_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Read = Callable[[np.ndarray], object]

QUESTION = "How fast are random samples of an .ffr read, cold and warm, and how fast is a large one opened?"
THREADS = 16
CASES = (("256 x 10 kB", 100_000, 10_000, 256, 12), ("64 x 1 MB", 800, 1_000_000, 64, 4))
FIVE_MILLION = 5_000_000


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=folder) as name:
        for what, count, size, batch, batches in CASES:
            path = os.path.join(name, "x.ffr")
            _write(path, count, size)
            rows += _cold(path, what, size, batch, batches)
            rows += _warm(path, what, size, batch, batches)
            rows += _two_threads(path, what, batch, batches)
        rows += _opening(os.path.join(name, "x.ffr"))
    return rows


def _write(path: str, count: int, size: int) -> None:
    blob = np.random.default_rng(0).bytes(size + count)
    with FfrWriter(path, count) as writer:
        writer.append_many(blob[i : i + size] for i in range(count))


def _offsets(path: str) -> np.ndarray:
    return FfrReader(path, checksums=False).offsets()


def _pread_loop(path: str, size: int) -> Read:
    fd, offsets = os.open(path, os.O_RDONLY), _offsets(path)
    return lambda batch: [os.pread(fd, size, offset) for offset in offsets[batch].tolist()]


def _pread_pool(path: str, size: int, pool: ThreadPoolExecutor) -> Read:
    fd, offsets = os.open(path, os.O_RDONLY), _offsets(path)
    return lambda batch: list(pool.map(lambda offset: os.pread(fd, size, offset), offsets[batch].tolist()))


def _pread_and_zlib(path: str, size: int) -> Read:
    fd, offsets = os.open(path, os.O_RDONLY), _offsets(path)

    def read(batch: np.ndarray) -> list[bytes]:
        samples = []
        for offset in offsets[batch].tolist():
            data = os.pread(fd, size, offset)
            zlib.crc32(data)
            samples.append(data)
        return samples

    return read


def _take_turns(
    makers: dict[str, Callable[[], Read]], count: int, batch: int, batches: int, rounds: int, cold: bool
) -> dict[str, list[float]]:
    rng = np.random.default_rng(1)
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    kept = {} if cold else {name: make() for name, make in makers.items()}
    for turn in range(1 + rounds):  # the first does not count
        order = rng.integers(0, count, (batches, batch))
        for name, make in makers.items():
            read = kept.get(name) or make()
            if cold:
                drop_caches()
            start_s = time.perf_counter()
            for indices in order:
                read(indices)  # a batch is used and let go, as in training
            if turn:
                seconds[name].append(time.perf_counter() - start_s)
    return seconds


def _rows(what: str, seconds: dict[str, list[float]], samples: int, size: int) -> list[dict[str, Any]]:
    rows = [row(f"{what}: {name}", s, samples=samples, size_bytes=samples * size) for name, s in seconds.items()]
    base, *others = seconds
    for name in others:
        # Of paired rounds: the machine's mood is the same for both.
        pairs = sorted(a / b for a, b in zip(seconds[base], seconds[name], strict=True))
        line = ratio(f"{what}: {name}", statistics.median(pairs), f"the speed of {base}")
        rows.append(line | {"quartiles": [pairs[len(pairs) // 4], pairs[-1 - len(pairs) // 4]]})
    return [{**r, "cache": what.partition(",")[0]} for r in rows]


def _cold(path: str, what: str, size: int, batch: int, batches: int) -> list[dict[str, Any]]:
    if not drop_caches():
        return []
    with ThreadPoolExecutor(THREADS) as pool:
        makers: dict[str, Callable[[], Read]] = {
            "an os.pread loop": lambda: _pread_loop(path, size),
            f"os.pread on {THREADS} threads": lambda: _pread_pool(path, size, pool),
            "FfrReader.read": lambda: _warmed_up(FfrReader(path)),
            "FfrReader.read, cold=True": lambda: _warmed_up(FfrReader(path, cold=True)),
            "FfrReader.read, cold=True, checksums=False": lambda: _warmed_up(
                FfrReader(path, cold=True, checksums=False)
            ),
        }
        count = len(FfrReader(path, checksums=False))
        seconds = _take_turns(makers, count, batch, batches, rounds=12, cold=True)
    return _rows(f"cold, {what}", seconds, batch * batches, size)


def _warmed_up(reader: FfrReader) -> Read:
    reader.read(range(64))  # the queue is made, its memory touched: once for a training, not once for a batch
    return reader.read


def _warm(path: str, what: str, size: int, batch: int, batches: int) -> list[dict[str, Any]]:
    with open(path, "rb") as file:
        while file.read(16 << 20):
            pass
    count = len(FfrReader(path, checksums=False))
    makers: dict[str, Callable[[], Read]] = {
        "os.pread and zlib.crc32 into fresh buffers": lambda: _pread_and_zlib(path, size),
        "FfrReader.read": lambda: FfrReader(path).read,
        "FfrReader.read_bytes": lambda: FfrReader(path).read_bytes,
        "FfrReader.read, checksums=False": lambda: FfrReader(path, checksums=False).read,
    }
    seconds = _take_turns(makers, count, batch, batches * 2, rounds=15, cold=False)
    return _rows(f"warm, {what}", seconds, batch * batches * 2, size)


def _two_threads(path: str, what: str, batch: int, batches: int) -> list[dict[str, Any]]:
    reader = FfrReader(path)
    order = np.random.default_rng(2).integers(
        0, len(reader), (2, 24 * batches, batch)
    )  # long beside the start of a thread
    memory = [bytes(1 << 20) for _ in range(16)]
    works: dict[str, Callable[[int], None]] = {
        "FfrReader.read": lambda half: _use(map(reader.read, order[half])),
        "zlib.crc32 (what the machine gives)": lambda half: _use(map(zlib.crc32, memory * 10)),
    }
    rows = []
    for name, work in works.items():
        gains = [_gain(work) for _ in range(9)]
        rows.append(ratio(f"warm, {what}, two threads: {name}", statistics.median(gains), "one thread"))
        rows[-1]["best"] = max(gains)
    return rows


def _use(results: Iterable[object]) -> None:
    """Take one after the other and let it go."""
    for _ in results:
        pass


def _gain(work: Callable[[int], None]) -> float:
    start_s = time.perf_counter()
    work(0)
    work(1)
    one_s = time.perf_counter() - start_s
    threads = [threading.Thread(target=work, args=(half,)) for half in (0, 1)]
    start_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return one_s / (time.perf_counter() - start_s)


def _opening(path: str) -> list[dict[str, Any]]:
    start = header_size(FIVE_MILLION)
    checksums = np.zeros(FIVE_MILLION, np.uint32)
    with open(path, "wb") as file:
        for piece in pack_header(checksums, start + 4 * np.arange(FIVE_MILLION)):
            file.write(piece)
        file.truncate(start + 4 * FIVE_MILLION)
    rows = [row("open five million samples, header checked", timed(lambda: FfrReader(path), 15))]
    with open(path, "r+b") as file:
        file.write(bytes(4))
    rows.append(row("open five million samples, first generation, order checked", timed(lambda: FfrReader(path), 15)))
    rows.append(row("open five million samples, unchecked", timed(lambda: FfrReader(path, checksums=False), 15)))
    return rows
