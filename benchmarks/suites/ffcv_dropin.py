"""The very same FFCV program, once on FFCV and once through headrace's launcher."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import headrace
from benchmarks.harness import FFCV_PYTHON, ROOT, ratio, row, run_peer
from benchmarks.suites.load_photos import EPOCHS, FILES, ROUNDS, write
from headrace import _native
from headrace.bench.turns import one_core

QUESTION = "How much faster does an unchanged FFCV program run on headrace?"
PROGRAM = ROOT / "benchmarks" / "peers" / "ffcv_load.py"


def run() -> list[dict[str, Any]]:
    if not FFCV_PYTHON:
        return [{"what": "the drop-in", "text": "not measured: HEADRACE_FFCV_PYTHON names no interpreter with FFCV"}]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        site = Path(folder) / "site"
        copy_package(site)
        for name, field in FILES.items():
            path = Path(folder) / f"{field.mode}.beton"
            write(path, field)
            for flip in (True, False):
                rows += compare(f"{name}, {'flip' if flip else 'no flip'}", path, flip, site)
    return rows


def copy_package(site: Path) -> None:
    """The package as a folder of its own, so that FFCV's interpreter can import it."""
    shutil.copytree(Path(headrace.__file__).parent, site / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    extension = Path(_native._core.__file__)
    shutil.copy(extension, site / "headrace" / "_native" / extension.name)


def compare(what: str, path: Path, flip: bool, site: Path) -> list[dict[str, Any]]:
    ours: list[float] = []
    theirs: list[float] = []
    arguments = [str(path), str(int(flip)), str(EPOCHS)]
    for _ in range(ROUNDS):
        theirs += json.loads(run_peer("ffcv_load.py", *arguments).splitlines()[-1])["seconds"]
        ours += through_launcher(arguments, site)
    images = len(headrace.open(path))
    times = statistics.median(theirs) / statistics.median(ours)
    return [
        row(f"on FFCV, {what}", theirs, samples=images, unit="images"),
        row(f"through headrace, {what}", ours, samples=images, unit="images"),
        ratio(f"the same program, {what}, one core", times, "the speed on FFCV"),
    ]


def through_launcher(arguments: list[str], site: Path) -> list[float]:
    command = [FFCV_PYTHON, "-W", "ignore", "-m", "headrace.compat", "run", str(PROGRAM), *arguments]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return seconds
