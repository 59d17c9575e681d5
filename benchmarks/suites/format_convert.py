"""Converting photographs from each format to `.beton` as they are, beside `cp` of the same file, and its memory.

Each conversion runs in a process of its own with one worker on one core, which says its seconds (without those of its
imports), its CPU time, and the most memory it ever had, mapped files included (VmHWM). `cp` copies the source and what
lies beside it. Both put the copy on the disk before they end: `convert` by fsync, and `cp` is followed by `sync FILE`.
They take turns: `cp`, then each conversion. Pass-through is without tile indices; to make them, a JPEG is read once
from end to end, which no copy does: that is shown for tar alone, and so is `.ffr` as a target.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.format_files import left_out, ratios
from benchmarks.harness import ROOT, photographs
from headrace.bench.format_files import FormatFile, make_files, size_on_disk
from headrace.bench.turns import one_core
from headrace.formats.open import all_formats

QUESTION = "How fast is each format converted to .beton, JPEGs as they are, beside cp, and with how much memory?"
COPIES, ROUNDS = 8, 3
FIELDS = ({"image": hr.Image(), "label": hr.Int()}, {"image": hr.Image()})
CONVERT = """
import json, os, re, sys, time
import headrace as hr
from headrace.formats.open import all_formats
all_formats(), hr.convert  # what is imported late is imported now
source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
start_s, before = time.perf_counter(), os.times()
hr.convert(source, target, **options)
seconds, after = time.perf_counter() - start_s, os.times()
with open("/proc/self/status") as file:
    peak_bytes = int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1]) * 1024
cpu = {"user_s": after.user - before.user, "system_s": after.system - before.system}
print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes, "samples": len(hr.open(target)), **cpu}))
"""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A target and the options of one conversion; whether each sample of the source is one of the target."""

    target: str
    options: dict[str, Any]
    is_one_to_one: bool = True


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    photos = [path.read_bytes() for path in photographs()]
    samples = [(data, i) for _ in range(COPIES) for i, data in enumerate(photos)]
    rows: list[dict[str, Any]] = []
    for known in all_formats():
        with tempfile.TemporaryDirectory(dir=folder) as name, one_core():
            files, reasons = make_files(
                Path(name), samples, FIELDS, decode="image", only=[known.name], indexed=False, jpeg_index=False
            )
            rows += [line for file in files for line in _compare(file, len(samples))] + left_out(reasons)
    return rows


def _compare(file: FormatFile, samples: int) -> list[dict[str, Any]]:
    size = size_on_disk(file.path)
    base = f"cp of the {file.name}"
    ways = {"convert": Way(target="converted.beton", options={"jpeg_index": False})}
    if file.name == "tar":
        ways["convert with tile indices"] = Way(target="converted.beton", options={})
        ways["convert to .ffr"] = Way(target="converted.ffr", options={}, is_one_to_one=False)  # of its files
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in (base, *ways)}
    for _ in range(ROUNDS):
        told[base].append(_copy(file))
        for what, way in ways.items():
            told[what].append(_convert(file, file.path.with_name(way.target), way.options))
            found = told[what][-1]["samples"]
            if way.is_one_to_one and found != samples:
                return [{"what": f"{file.name}: left out", "text": f"{found} samples of {samples}"}]
    seconds = {name: [one["seconds"] for one in rounds] for name, rounds in told.items()}
    rows = ratios(file.name, seconds, base, samples=samples, size_bytes=size)
    rows += [_cpu_row(f"{file.name}: {name}", rounds) for name, rounds in told.items()]
    peak = max(one["peak_bytes"] for name in ways for one in told[name])
    memory = {"what": f"{file.name}: memory of convert", "text": f"{peak / 2**20:.0f} MiB at most"}
    return [*rows, {**memory, "peak_bytes": peak, "file_bytes": size}]


def _cpu_row(what: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """CPU time of the round that took the least of it: the rest of the time is waiting for the disk, or for others."""
    best = min(rounds, key=lambda one: float(one["user_s"] + one["system_s"]))
    cpu = {name: best[name] for name in ("user_s", "system_s")}
    text = f"{cpu['user_s'] * 1e3:.0f} ms in the program, {cpu['system_s'] * 1e3:.0f} ms in the system"
    return {"what": f"{what}, CPU time", "text": text, **cpu}


def _copy(file: FormatFile) -> dict[str, Any]:
    copy = file.path.parent.with_name("copy")
    start_s, before = time.perf_counter(), os.times()
    subprocess.run(["cp", "-r", str(file.path.parent), str(copy)], check=True)
    subprocess.run(["sync", str(copy / file.path.name)], check=True)
    seconds, after = time.perf_counter() - start_s, os.times()
    subprocess.run(["rm", "-r", str(copy)], check=True)
    user_s, system_s = after.children_user - before.children_user, after.children_system - before.children_system
    return {"seconds": seconds, "user_s": user_s, "system_s": system_s}


def _convert(file: FormatFile, target: Path, options: dict[str, Any]) -> dict[str, Any]:
    told = json.dumps({**file.options, **options, "workers": 1})
    command = [sys.executable, "-c", CONVERT, str(file.path), str(target), told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{file.name}: {done.stderr[-2000:]}")
    target.unlink()
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
