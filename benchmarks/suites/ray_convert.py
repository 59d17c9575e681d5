"""A conversion that takes CPU time, photographs shrunk and encoded as JPEG, by one process and by tasks of Ray.

The source is a `.beton` of photographs, the target a set of `.beton` files with a limit of samples, and one with a
limit of bytes. Each way runs in a process of its own, on all cores of the machine, and they take turns: one thread, one
task at a time, two at a time. Two figures are shown for Ray: of the whole command, with the start and the end of the
cluster on this machine, which take the same time whatever the work; and of the work alone, in a cluster that runs.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.harness import ROOT, photographs, row

QUESTION = "What does Ray cost, and what do two of its workers bring, when photographs are encoded anew?"
SECONDS, ROUNDS, SHARDS = 20.0, 3, 16
OPTIONS = {"image_mode": "jpg", "quality": 90, "max_side": 400}
CONVERT = """
import contextlib, json, os, sys, time
import headrace as hr
from headrace.formats.ray_tasks import open_tasks
hr.convert
source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
def convert():
    start_s = time.perf_counter()
    hr.convert(source, target, force=True, **options)
    return time.perf_counter() - start_s
found = {"whole_s": convert()}
if options.get("engine") == "ray":
    with open_tasks(address=None, workers=options["workers"], needed_by="the benchmark"):
        hr.verify(sys.argv[4], engine="ray")  # the processes are there, and have imported headrace
        found["work_s"] = convert()
print(json.dumps(found))
"""
WAYS = {
    "one process, 1 thread": {"workers": 1},
    "Ray, 1 worker": {"workers": 1, "engine": "ray"},
    "Ray, 2 workers": {"workers": 2, "engine": "ray"},
    "one process, 2 threads": {"workers": 2},
}


def missing() -> str:
    """Why it cannot be measured here."""
    return "" if importlib.util.find_spec("ray") else "Ray is not installed"


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        source, small = f"{name}/in.beton", f"{name}/small.beton"
        fields = {"image": hr.Image(), "label": hr.Int()}
        photos = [(path.read_bytes(), i) for i, path in enumerate(photographs())]
        hr.write(small, photos, fields=fields, jpeg_index=False)
        taken_s = _seconds(small, name, {"workers": 1, "shard_samples": 1 << 20}, small)["whole_s"]
        count = max(1, round(SECONDS / taken_s))
        hr.write(source, photos * count, fields=fields, jpeg_index=False)
        samples = len(photos) * count
        rows = _compare("cut by samples", source, name, {"shard_samples": -(-samples // SHARDS)}, samples, small)
        size = Path(source).stat().st_size // (4 * SHARDS)
        return rows + _compare("cut by bytes", source, name, {"shard_size": size}, samples, small)


def _seconds(source: str, folder: str, options: dict[str, Any], small: str) -> dict[str, float]:
    told = json.dumps(OPTIONS | options)
    command = [sys.executable, "-c", CONVERT, source, f"{folder}/out-%04d.beton", told, small]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def _compare(
    what: str, source: str, folder: str, limit: dict[str, int], samples: int, small: str
) -> list[dict[str, Any]]:
    whole: dict[str, list[float]] = {name: [] for name in WAYS}
    work: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, options in WAYS.items():
            found = _seconds(source, folder, limit | options, small)
            whole[name].append(found["whole_s"])
            work[name].append(found.get("work_s", found["whole_s"]))
    rows = []
    for name in WAYS:
        rows.append(row(f"{what}: {name}", whole[name], samples=samples) | _ratios(whole, name))
        if work[name] != whole[name]:
            rows.append(row(f"{what}: {name}, cluster runs", work[name], samples=samples) | _ratios(work, name))
    return rows


def _ratios(seconds: dict[str, list[float]], name: str) -> dict[str, float]:
    """How long it takes beside one thread, and beside one worker, as medians of the rounds."""
    mine = seconds[name]
    bases = {"of_one_thread": "one process, 1 thread", "speedup_over_one_worker": "Ray, 1 worker"}
    of_thread = [own / base for own, base in zip(mine, seconds[bases["of_one_thread"]], strict=True)]
    over_worker = [base / own for own, base in zip(mine, seconds[bases["speedup_over_one_worker"]], strict=True)]
    return {
        "of_one_thread": round(statistics.median(of_thread), 3),
        "speedup_over_one_worker": round(statistics.median(over_worker), 3),
    }
