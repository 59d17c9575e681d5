"""Converting photographs from each format to `.beton` as they are, beside `cp` of the same file, and its memory.

Each conversion runs in a process of its own with one worker on one core, which says its seconds (without those of its
imports) and the most memory it had (without the mapped files). `cp` copies the source and what lies beside it, and both
put the copy on the disk (`cp` is followed by `sync FILE`). Pass-through is without tile indices; to make them, a JPEG
is read once from end to end, which no copy does: that is shown for tar alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.format_files import FormatFile, left_out, make_files, ratios, size_on_disk
from benchmarks.harness import ROOT, one_core, photographs
from headrace.formats.open import all_formats

QUESTION = "How fast is each format converted to .beton, JPEGs as they are, beside cp, and with how much memory?"
COPIES, ROUNDS = 8, 3
FIELDS = ({"image": hr.Image(), "label": hr.Int()}, {"image": hr.Image()})
CONVERT = """
import json, sys, threading, time
import headrace as hr
from headrace.formats.open import all_formats
all_formats(), hr.convert  # what is imported late is imported now
source, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
def own_bytes():
    with open("/proc/self/status") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("RssAnon:", "RssShmem:")))
peak, is_done = own_bytes(), threading.Event()
def watch():
    global peak
    while not is_done.wait(0.01):
        peak = max(peak, own_bytes())
threading.Thread(target=watch, daemon=True).start()
start_s = time.perf_counter()
hr.convert(source, target, **options)
seconds = time.perf_counter() - start_s
is_done.set()
print(json.dumps({"seconds": seconds, "own_bytes": peak, "samples": len(hr.open(target))}))
"""


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
    target = file.path.with_name("converted.beton")
    size = size_on_disk(file.path)
    base = f"cp of the {file.name}"
    ways: dict[str, dict[str, Any]] = {"convert": {"jpeg_index": False}}
    if file.name == "tar":
        ways["convert with tile indices"] = {}
    seconds: dict[str, list[float]] = {name: [] for name in (base, *ways)}
    peak = 0
    for _ in range(ROUNDS):
        seconds[base].append(_copy(file))
        for what, options in ways.items():
            told = _convert(file, target, options)
            if told["samples"] != samples:
                return [{"what": f"{file.name}: left out", "text": f"{told['samples']} samples of {samples}"}]
            seconds[what].append(told["seconds"])
            peak = max(peak, told["own_bytes"])
            target.unlink()
    rows = ratios(file.name, seconds, base, samples=samples, size_bytes=size)
    memory = {"what": f"{file.name}: memory of convert", "text": f"{peak / 2**20:.0f} MiB at most"}
    return [*rows, {**memory, "own_bytes": peak, "file_bytes": size}]


def _copy(file: FormatFile) -> float:
    copy = file.path.parent.with_name("copy")
    start_s = time.perf_counter()
    subprocess.run(["cp", "-r", str(file.path.parent), str(copy)], check=True)
    subprocess.run(["sync", str(copy / file.path.name)], check=True)
    seconds = time.perf_counter() - start_s
    subprocess.run(["rm", "-r", str(copy)], check=True)
    return seconds


def _convert(file: FormatFile, target: Path, options: dict[str, Any]) -> dict[str, Any]:
    told = json.dumps({**file.options, **options, "workers": 1})
    command = [sys.executable, "-c", CONVERT, str(file.path), str(target), told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{file.name}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
