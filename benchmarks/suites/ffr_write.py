"""Samples of 10 kB written to an .ffr, against one write call for each sample.

The contenders take turns and all bring their bytes to the disk. The plain loop writes the samples only: no checksums,
no header, no name that appears at the end. It is also shown with zlib.crc32, which a file of that format needs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import ROOT, ratio, row
from headrace.formats.ffr import FfrWriter

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "How fast are 10 kB samples written to an .ffr?"
COUNT, SIZE, ROUNDS = 20_000, 10_000, 9


def run() -> list[dict[str, Any]]:
    blob = np.random.default_rng(0).bytes(SIZE + COUNT)
    samples = [blob[i : i + SIZE] for i in range(COUNT)]
    rows: list[dict[str, Any]] = []
    folders = [("disk", str(ROOT / "build"))] + ([("memory", "/dev/shm")] if os.path.isdir("/dev/shm") else [])
    for where, folder in folders:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            rows += _compare(os.path.join(name, "x.ffr"), where, samples)
    return rows


def _compare(path: str, where: str, samples: list[bytes]) -> list[dict[str, Any]]:
    contenders: dict[str, Callable[[], None]] = {
        "one write call for each, and zlib.crc32": lambda: _plain(path, samples, has_checksums=True),
        "one write call for each": lambda: _plain(path, samples, has_checksums=False),
        "FfrWriter.append_many": lambda: _many(path, samples, len(samples)),
        "FfrWriter.append": lambda: _one_by_one(path, samples),
        "FfrWriter.append_many, number not known": lambda: _many(path, samples, None),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(1 + ROUNDS):
        for name, work in contenders.items():
            if os.path.exists(path):
                os.unlink(path)
            start_s = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - start_s)
    rows = [row(f"{where}: {n}", s, samples=COUNT, size_bytes=COUNT * SIZE) for n, s in seconds.items()]
    first, second, *ours = contenders
    for name in ours:
        for base in (first, second):
            pairs = [a / b for a, b in zip(seconds[base], seconds[name], strict=True)]
            rows.append(ratio(f"{where}: {name}", statistics.median(pairs), f"the speed of {base}"))
    return rows


def _plain(path: str, samples: list[bytes], *, has_checksums: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for sample in samples:
        if has_checksums:
            zlib.crc32(sample)
        os.write(fd, sample)
    os.fsync(fd)
    os.close(fd)


def _many(path: str, samples: list[bytes], n: int | None) -> None:
    with FfrWriter(path, n) as writer:
        writer.append_many(samples)


def _one_by_one(path: str, samples: list[bytes]) -> None:
    with FfrWriter(path, len(samples)) as writer:
        for sample in samples:
            writer.append(sample)
