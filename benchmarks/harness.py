"""Timing, photographs and peers: what the suites share."""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace
from headrace._native import simd_level
from headrace.cli.verbs.demo import photo
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FFCV_PYTHON = os.environ.get("HEADRACE_FFCV_PYTHON", "")
BARECAT_PYTHON = os.environ.get("HEADRACE_BARECAT_PYTHON", "")


def environment() -> dict[str, Any]:
    """The facts that a figure means nothing without."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "commit": commit.stdout.strip(),
        "headrace": headrace.__version__,
        "python": platform.python_version(),
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "simd": simd_level(),
        "cache": "warm",
    }


@contextlib.contextmanager
def one_core() -> Iterator[int]:
    """Keep this process, and what it starts, on one core."""
    with cores(1):
        yield max(os.sched_getaffinity(0))


@contextlib.contextmanager
def cores(count: int) -> Iterator[int]:
    """Keep this process, and what it starts, on some cores; gives how many there are, which may be fewer."""
    before = os.sched_getaffinity(0)
    chosen = sorted(before)[-count:]
    os.sched_setaffinity(0, chosen)
    try:
        yield len(chosen)
    finally:
        os.sched_setaffinity(0, before)


def timed(work: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Seconds of each repetition, after one that does not count."""
    work()
    seconds = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start_s)
    return seconds


def row(
    what: str, seconds: list[float], *, samples: int = 0, size_bytes: int = 0, unit: str = "samples"
) -> dict[str, Any]:
    """One line of a result: the median, its spread and the rates that follow."""
    median_s = statistics.median(seconds)
    result: dict[str, Any] = {
        "what": what,
        "median_s": median_s,
        "min_s": min(seconds),
        "max_s": max(seconds),
        "repeats": len(seconds),
    }
    parts = []
    if samples:
        result["samples_per_s"] = samples / median_s
        parts.append(f"{samples / median_s:,.0f} {unit}/s")
    if size_bytes:
        result["bytes_per_s"] = size_bytes / median_s
        parts.append(f"{size_bytes / median_s / 1e9:.2f} GB/s")
    result["text"] = ", ".join(parts) or f"{median_s * 1e3:.1f} ms"
    return result


def ratio(what: str, value: float, meaning: str) -> dict[str, Any]:
    """A line that compares two others of the same run."""
    return {"what": what, "ratio": value, "text": f"{value:.2f}x {meaning}"}


def photographs() -> list[Path]:
    """Real photographs if there are any at hand, made-up ones otherwise."""
    folder = Path(os.environ.get("HEADRACE_PHOTOS") or ROOT.parent / "shared" / "photos")
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    if found:
        return found
    made = Path(tempfile.mkdtemp(prefix="headrace-photos-"))
    atexit.register(shutil.rmtree, made)
    for number in range(240):
        (made / f"{number:04d}.jpg").write_bytes(jpeg.encode(photo(number), quality=92))
    return sorted(made.iterdir())


def run_peer(script: str, *arguments: str, python: str = FFCV_PYTHON) -> str:
    """Run a script of peers/ with another interpreter and give its standard output."""
    command = [python, str(ROOT / "benchmarks" / "peers" / script), *arguments]
    for _ in range(5):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            continue  # FFCV's writer now and then never returns; that run does not count
        if done.returncode == 0:
            return done.stdout
        raise RuntimeError(f"{script} failed: {done.stderr[-2000:]}")
    raise RuntimeError(f"{script} did not end within a minute, five times")
