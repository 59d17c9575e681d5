"""Operations and decoders of a user's own, compiled by numba: the same program on FFCV and through headrace's launcher.

Both sides run the user's compiled functions, which take most of the time; what counts is the rest.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import headrace
from benchmarks.harness import FFCV_PYTHON, ROOT, ratio, row, run_peer
from benchmarks.suites.ffcv_dropin import copy_package
from headrace.bench.turns import one_core

QUESTION = "How fast do operations of a user's own run that numba compiles, beside FFCV?"
PROGRAM = ROOT / "benchmarks" / "peers" / "ffcv_own_operation.py"
SAMPLES, JPEGS = 50_000, 5_000
ROUNDS, EPOCHS = 3, 4
CASES = (  # what, file, kind
    ("an operation that inverts pictures of 32 x 32", "raw", "invert"),
    ("an operation that mirrors them at random", "raw", "mirror"),
    ("a decoder that decodes, crops and resizes JPEGs of 96 x 128", "jpg", "decoder"),
)


def run() -> list[dict[str, Any]]:
    if not FFCV_PYTHON:
        return [{"what": "own operations", "text": "not measured: HEADRACE_FFCV_PYTHON names no interpreter with FFCV"}]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        site = Path(folder) / "site"
        copy_package(site)
        files = write_all(Path(folder))
        for what, file, kind in CASES:
            rows += compare(what, [str(files[file]), kind, str(EPOCHS)], site)
    return rows


def write_all(folder: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (256, 32, 32, 3), dtype=np.uint8)
    large = rng.integers(0, 256, (256, 12, 16, 3), dtype=np.uint8).repeat(8, 1).repeat(8, 2)
    files = {"raw": folder / "raw.beton", "jpg": folder / "jpg.beton"}
    for mode, pixels, count in (("raw", small, SAMPLES), ("jpg", large, JPEGS)):
        fields: dict[str, Any] = {"image": headrace.Image(mode=mode), "label": headrace.Int()}
        headrace.write(files[mode], [(pixels[i % 256], i % 10) for i in range(count)], fields=fields)
    return files


def compare(what: str, arguments: list[str], site: Path) -> list[dict[str, Any]]:
    """Both sides in turn; on one core the CPU time is what it takes when nothing else runs there."""
    told: dict[str, dict[str, list[float]]] = {
        side: {"seconds": [], "cpu_seconds": []} for side in ("FFCV", "headrace")
    }
    for _ in range(ROUNDS):
        for side, output in (
            ("FFCV", run_peer("ffcv_own_operation.py", *arguments)),
            ("headrace", through_launcher(arguments, site)),
        ):
            for name, seconds in json.loads(output.splitlines()[-1]).items():
                if name in told[side]:
                    told[side][name] += seconds
    samples = len(headrace.open(arguments[0]))
    rows = []
    for side, times in told.items():
        cpu_s = statistics.median(times["cpu_seconds"])
        line = row(f"on {side}, {what}", times["seconds"], samples=samples, unit="images")
        rows.append(line | {"cpu_median_s": cpu_s, "text": f"{line['text']}, {samples / cpu_s:,.0f} by CPU time"})
    faster = statistics.median(told["FFCV"]["cpu_seconds"]) / statistics.median(told["headrace"]["cpu_seconds"])
    return [*rows, ratio(f"{what}, one core, by CPU time", faster, "the speed on FFCV")]


def through_launcher(arguments: list[str], site: Path) -> str:
    command = [FFCV_PYTHON, "-W", "ignore", "-m", "headrace.compat", "run", str(PROGRAM), *arguments]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout
