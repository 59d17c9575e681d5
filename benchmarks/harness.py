"""Rows, photographs and peers of the suites here; timing and the machine's facts come from ``headrace.bench``."""

from __future__ import annotations

import atexit
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from headrace.bench import machine
from headrace.bench.pictures import photo
from headrace.codecs import jpeg

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FFCV_PYTHON = os.environ.get("HEADRACE_FFCV_PYTHON", "")
BARECAT_PYTHON = os.environ.get("HEADRACE_BARECAT_PYTHON", "")


def environment() -> dict[str, Any]:
    """The facts that a figure means nothing without."""
    return machine.environment() | {"cache": "warm"}


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
    folder = photographs_folder()
    if folder is not None:
        return _jpegs(folder)
    made = Path(tempfile.mkdtemp(prefix="headrace-photos-"))
    atexit.register(shutil.rmtree, made)
    for number in range(240):
        (made / f"{number:04d}.jpg").write_bytes(jpeg.encode(photo(number), quality=92))
    return sorted(made.iterdir())


def photographs_folder() -> Path | None:
    """Where real photographs are; None where there are none."""
    folder = Path(os.environ.get("HEADRACE_PHOTOS") or ROOT.parent / "shared" / "photos")
    return folder if _jpegs(folder) else None


def _jpegs(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))


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
