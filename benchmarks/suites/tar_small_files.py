"""100,000 files of 1 kB into a tar, from a folder and from an archive, against tar(1) on the same folder.

The contenders take turns. headrace brings the tar to the disk before it has its name, tar does not: so both also run
where there is no disk, in memory. Time of the processor is that of all threads, and does not depend on what else runs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import headrace
from benchmarks.harness import ROOT, ratio, row

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "How fast do small files become a tar?"
COUNT, SIZE, ROUNDS = 100_000, 1000, 5


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    folders = [("disk", str(ROOT / "build"))] + ([("memory", "/dev/shm")] if os.path.isdir("/dev/shm") else [])
    for where, folder in folders:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name:
            rows += _compare(name, where)
    return rows


def _compare(place: str, where: str) -> list[dict[str, Any]]:
    _fill(os.path.join(place, "in"))
    source, archive, target = (os.path.join(place, name) for name in ("in", "in.barecat", "x.tar"))
    headrace.convert(source, archive)
    command = [sys.executable, "-m", "headrace", "convert", source, target, "-q"]
    contenders: dict[str, Callable[[], object]] = {
        "tar cf": lambda: subprocess.run(["tar", "cf", target, "-C", source, "."], check=True),
        "headrace.convert, folder": lambda: headrace.convert(source, target),
        "headrace.convert, .barecat": lambda: headrace.convert(archive, target),
        "headrace convert, folder, with its start": lambda: subprocess.run(command, check=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in contenders}
    sizes: dict[str, int] = {}
    for turn in range(1 + ROUNDS):
        for name, work in contenders.items():
            start_s, start_cpu_s = time.perf_counter(), _cpu_s()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - start_s)
                cpu_seconds[name].append(_cpu_s() - start_cpu_s)
            sizes[name] = os.path.getsize(target)
            os.unlink(target)
    rows = [row(f"{where}: {n}", s, samples=COUNT, size_bytes=COUNT * SIZE, unit="files") for n, s in seconds.items()]
    base, *ours = contenders
    for name in ours:
        for what, measured in (("time", seconds), ("processor time", cpu_seconds)):
            pairs = [a / b for a, b in zip(measured[name], measured[base], strict=True)]
            rows.append(ratio(f"{where}: {name}", statistics.median(pairs), f"the {what} of {base}"))
        rows.append(ratio(f"{where}: {name}", sizes[name] / sizes[base], f"the size of {base}'s"))
    return rows


def _cpu_s() -> float:
    return sum(os.times()[:4])


def _fill(folder: str) -> None:
    content = os.urandom(SIZE)
    for i in range(COUNT):
        below = os.path.join(folder, f"{i // 1000:03d}")
        os.makedirs(below, exist_ok=True)
        with open(os.path.join(below, f"{i:06d}.bin"), "wb") as file:
            file.write(content)
