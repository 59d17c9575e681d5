"""Loading over cores: the same epoch with more and more workers."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import ratio, row
from benchmarks.suites.load_photos import FILES, load, write

QUESTION = "How does loading scale over cores?"
ROUNDS = 3


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, field in FILES.items():
            path = Path(folder) / f"{field.mode}.beton"
            write(path, field)
            rows += scale(name, path)
    return rows


def scale(name: str, path: Path) -> list[dict[str, Any]]:
    rows = []
    one_s = 0.0
    for workers in counts():
        runs = [load(path, workers=workers) for _ in range(ROUNDS)]
        seconds = [s for r in runs for s in r["seconds"]]
        rows.append(row(f"{name}, {workers} workers", seconds, samples=runs[0]["images"], unit="images"))
        one_s = one_s or statistics.median(seconds)
        if workers > 1:
            rows.append(ratio(f"{name}, {workers} workers", one_s / statistics.median(seconds), "one worker"))
    return rows


def counts() -> list[int]:
    """1, 2, 4 and so on up to the number of cores."""
    cores = len(os.sched_getaffinity(0))
    return [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= cores]
