"""Loading photographs for training, beside FFCV: RandomResizedCrop(224) + flip, quasi-random, one core."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import penstock as ps
from benchmarks.harness import FFCV_PYTHON, ROOT, one_core, photographs, ratio, row, run_peer

QUESTION = "How many images a second does one core load, beside FFCV?"
ROUNDS, EPOCHS, COPIES = 3, 2, 8
FILES = {
    "jpg q90, longer side 500": ps.Image(mode="jpg", max_side=500, quality=90),
    "raw, longer side 256": ps.Image(mode="raw", max_side=256),
}


def run() -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        for name, field in FILES.items():
            path = Path(folder) / f"{field.mode}.beton"
            write(path, field)
            for flip in (True, False):
                rows += compare(f"{name}, {'flip' if flip else 'no flip'}", path, flip)
    for r in rows:
        r["headline"] = "ratio" in r
    return rows


def write(path: Path, field: ps.Image) -> None:
    """All photographs several times, every one encoded anew so that both sides decode the same bytes."""
    pictures = [ps.Image(mode="raw").encode(str(p), 0) for p in photographs()]
    arrays = [ps.Image(mode="raw").decode(e.facts, memoryview(e.payload or b"")) for e in pictures]
    samples = [(array, i) for _ in range(COPIES) for i, array in enumerate(arrays)]
    ps.write(path, samples, fields={"image": field, "label": ps.Int()})


def compare(what: str, path: Path, flip: bool) -> list[dict[str, Any]]:
    """Both sides in turn, each in a process of its own on the same core."""
    ours: list[float] = []
    theirs: list[float] = []
    images = len(ps.open(path))
    for _ in range(ROUNDS):
        ours += seconds_of(
            [sys.executable, "-m", "benchmarks.peers.penstock_load", str(path), str(int(flip)), str(EPOCHS)]
        )
        if FFCV_PYTHON:
            theirs += json.loads(run_peer("ffcv_load.py", str(path), str(int(flip)), str(EPOCHS)).splitlines()[-1])[
                "seconds"
            ]
    rows = [row(f"penstock, {what}", ours, samples=images, unit="images")]
    if theirs:
        rows.append(row(f"FFCV, {what}", theirs, samples=images, unit="images"))
        times = statistics.median(theirs) / statistics.median(ours)
        rows.append(ratio(f"loading {what}, one core", times, "the speed of FFCV"))
    return rows


def seconds_of(command: list[str]) -> list[float]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    result: list[float] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return result
