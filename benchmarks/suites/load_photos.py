"""Loading photographs for training, beside FFCV: RandomResizedCrop(224) + flip to NCHW, quasi-random."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.harness import FFCV_PYTHON, ROOT, photographs, ratio, row, run_peer
from headrace.bench.turns import one_core

QUESTION = "How many images a second does a core load, beside FFCV?"
ROUNDS, EPOCHS, COPIES = 3, 2, 8
BATCH, BATCHES_AHEAD = 64, 3
FILES = {
    "jpg q90, longer side 500": hr.Image(mode="jpg", max_side=500, quality=90),
    "raw, longer side 256": hr.Image(mode="raw", max_side=256),
}


def run() -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, field in FILES.items():
            path = Path(folder) / f"{field.mode}.beton"
            write(path, field)
            with one_core():
                for flip in (True, False):
                    rows += compare(f"{name}, {'flip' if flip else 'no flip'}", path, flip)
                rows += float16_cost(name, path)
                rows.append(first_batch(name, path))
            rows += two_workers(name, path)
            rows.append(memory(name, path))
    return rows


def write(path: Path, field: hr.Image) -> None:
    """All photographs several times, every one encoded anew so that both sides decode the same bytes."""
    pictures = [hr.Image(mode="raw").encode(str(p), 0) for p in photographs()]
    arrays = [hr.Image(mode="raw").decode(e.facts, memoryview(e.payload or b"")) for e in pictures]
    samples = [(array, i) for _ in range(COPIES) for i, array in enumerate(arrays)]
    hr.write(path, samples, fields={"image": field, "label": hr.Int()})


def compare(what: str, path: Path, flip: bool) -> list[dict[str, Any]]:
    """Both sides in turn, each in a process of its own on the same core."""
    ours: list[float] = []
    theirs: list[float] = []
    images = len(hr.open(path))
    for _ in range(ROUNDS):
        ours += load(path, flip=flip)["seconds"]
        if FFCV_PYTHON:
            theirs += json.loads(run_peer("ffcv_load.py", str(path), str(int(flip)), str(EPOCHS)).splitlines()[-1])[
                "seconds"
            ]
    rows = [row(f"headrace, {what}", ours, samples=images, unit="images")]
    if theirs and flip and "jpg" in what:
        peer = [s for _ in range(ROUNDS) for s in simplejpeg_seconds(path)]
        if peer:
            rows.append(row(f"simplejpeg + OpenCV without antialiasing, {what}", peer, samples=images, unit="images"))
            times = statistics.median(peer) / statistics.median(ours)
            rows.append(ratio(f"loading {what}, one core", times, "the speed of simplejpeg + OpenCV"))
    if theirs:
        rows.append(row(f"FFCV, {what}", theirs, samples=images, unit="images"))
        times = statistics.median(theirs) / statistics.median(ours)
        rows.append(ratio(f"loading {what}, one core", times, "the speed of FFCV"))
    return rows


def simplejpeg_seconds(path: Path) -> list[float]:
    """The fastest peer in Python; nothing when FFCV's environment does not have it."""
    try:
        lines = run_peer("simplejpeg_load.py", str(path), str(EPOCHS)).splitlines()
    except RuntimeError:
        return []
    seconds: list[float] = json.loads(lines[-1])["seconds"]
    return seconds


def float16_cost(name: str, path: Path) -> list[dict[str, Any]]:
    """Normalized to float16 against plain uint8, in turn."""
    plain: list[float] = []
    half: list[float] = []
    for _ in range(ROUNDS):
        plain += load(path)["seconds"]
        half += load(path, dtype="float16")["seconds"]
    times = statistics.median(half) / statistics.median(plain)
    rows = [row(f"headrace, {name}, flip, normalized to float16", half, samples=len(hr.open(path)), unit="images")]
    return [*rows, ratio(f"normalizing to float16, {name}", times, "the time of uint8")]


def two_workers(name: str, path: Path) -> list[dict[str, Any]]:
    """Two workers on two cores against one worker on one."""
    if len(os.sched_getaffinity(0)) < 2:
        return []
    one: list[float] = []
    two: list[float] = []
    for _ in range(ROUNDS):
        with one_core():
            one += load(path)["seconds"]
        two += load(path, workers=2)["seconds"]
    return [ratio(f"two workers on two cores, {name}", statistics.median(one) / statistics.median(two), "one worker")]


def first_batch(name: str, path: Path) -> dict[str, Any]:
    """From the start of the process to the first batch."""
    return row(f"first batch in a fresh process, {name}", [load(path)["first_batch_s"] for _ in range(ROUNDS)])


def memory(name: str, path: Path) -> dict[str, Any]:
    """How much memory the loader takes, in batches and beyond."""
    used = load(path, memory=True)["memory_bytes"]
    batches = (BATCHES_AHEAD + 2) * BATCH * 3 * 224 * 224
    text = f"{used / 2**20:.0f} MiB, {(used - batches) / 2**20:+.0f} MiB beside {BATCHES_AHEAD + 2} batches"
    return {"what": f"memory of its own, {name}", "memory_bytes": used, "batches_bytes": batches, "text": text}


def load(path: Path, **options: Any) -> dict[str, Any]:
    """Run headrace_load with these options."""
    command = [sys.executable, "-m", "benchmarks.peers.headrace_load", str(path)]
    told = json.dumps({"epochs": EPOCHS, "started": time.time()} | options)
    done = subprocess.run([*command, told], cwd=ROOT, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
