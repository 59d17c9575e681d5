"""Loading a file that is not cached and larger than the loader's cache, beside plain sequential reading."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.harness import ROOT, ratio, row

QUESTION = "How much of the disk's speed is left when a file larger than memory is loaded in quasi-random order?"
ROUNDS = 5
SAMPLES, SAMPLE_BYTES, CACHE = 20_000, 100_000, "256MB"
CHUNK_BYTES = 8 << 20
DROP = Path("/proc/sys/vm/drop_caches")


def run() -> list[dict[str, Any]]:
    if not os.access(DROP, os.W_OK):
        return [{"what": "cold loading", "text": "not measured: the page cache cannot be dropped here"}]
    names = ("plain sequential reading", "sequential reading past the cache", "quasi-random loading", "random loading")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        path = Path(folder) / "cold.beton"
        rng = np.random.default_rng(0)
        hr.write(path, ((rng.bytes(SAMPLE_BYTES), i) for i in range(SAMPLES)), fields=FIELDS)
        size = path.stat().st_size
        for _ in range(ROUNDS):
            seconds[names[0]].append(cold(lambda: read_through(path)))
            seconds[names[1]].append(cold(lambda: read_direct(path)))
            seconds[names[2]].append(cold(lambda: load(path, "quasi_random")))
            seconds[names[3]].append(cold(lambda: load(path, "random")))
    rows = [row(name, values, size_bytes=size) for name, values in seconds.items()]
    for name in names[2:]:
        for other in names[:2]:
            times = rows[names.index(other)]["median_s"] / rows[names.index(name)]["median_s"]
            rows.append(ratio(f"{name}, cold, cache of {CACHE}", times, f"the speed of {other}"))
    return rows


FIELDS = {"data": hr.Bytes(), "label": hr.Int()}


def cold(work: Any) -> float:
    os.sync()
    DROP.write_text("3")
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def read_through(path: Path) -> None:
    buffer = bytearray(CHUNK_BYTES)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def read_direct(path: Path) -> None:
    """One large read after the other, without the page cache."""
    import mmap

    buffer = mmap.mmap(-1, CHUNK_BYTES)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        while os.readv(fd, [buffer]) == CHUNK_BYTES:
            pass
    finally:
        os.close(fd)


def load(path: Path, order: Any) -> None:
    loader = hr.Loader(path, 64, order=order, cache=CACHE, collate="offsets", drop_last=False)
    assert sum(len(batch.label) for batch in loader) == SAMPLES
