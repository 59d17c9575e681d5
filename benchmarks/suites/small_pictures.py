"""Small values, beside FFCV: pictures of 32 x 32 raw pixels, arrays of as many bytes, plain numbers; batches of 512.

Here the work around a value counts, not the value: 3 kB are copied in a fifth of a microsecond. Each side runs in a
process of its own on the same core, in turn.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.harness import FFCV_PYTHON, ROOT, ratio, row, run_peer
from headrace.bench.turns import one_core

QUESTION = "How many small raw pictures, arrays and numbers a second does a core load, beside FFCV?"
SAMPLES, FEW = 50_000, 1024  # of CIFAR-10, and of an epoch of two batches
ROUNDS, EPOCHS, SHORT_EPOCHS = 2, 6, 30
CASES = (  # what, file, kind, order
    ("pictures in order", "picture", "plain", "sequential"),
    ("pictures at random", "picture", "plain", "random"),
    ("pictures at random, flip, translate, cutout", "picture", "moved", "random"),
    ("arrays in order", "array", "array", "sequential"),
    ("arrays at random", "array", "array", "random"),
    ("numbers in order", "number", "number", "sequential"),
    ("numbers at random", "number", "number", "random"),
)
_PROGRAM = ROOT / "benchmarks" / "peers" / "small_ffcv.py"


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, one_core():
        files = write_all(Path(folder))
        for what, file, kind, order in CASES:
            rows += compare(what, [str(files[file]), kind, order, str(EPOCHS)])
        rows += compare("an epoch of two batches", [str(files["few"]), "moved", "random", str(SHORT_EPOCHS)])
        for what, file, kind, order in CASES[:2]:
            side = Side(f"headrace, {what}, every checksum compared")
            for _ in range(ROUNDS):
                side.add(ours([str(files[file]), kind, order, str(EPOCHS)], verify=True))
            rows.append(side.row(SAMPLES))
    return rows


@dataclass
class Side:
    """What one of them took."""

    what: str
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def add(self, output: str) -> None:
        """Take what a process printed."""
        told = json.loads(output.splitlines()[-1])
        self.seconds += told["seconds"]
        self.cpu_seconds += told["cpu_seconds"]

    def row(self, samples: int) -> dict[str, Any]:
        """Also by CPU time: on one core that is what it takes when nothing else runs there."""
        cpu_s = statistics.median(self.cpu_seconds)
        line = row(self.what, self.seconds, samples=samples) | {
            "cpu_median_s": cpu_s,
            "cpu_min_s": min(self.cpu_seconds),
        }
        return line | {"text": f"{line['text']}, {samples / cpu_s:,.0f} by CPU time, {cpu_s * 1e3:.2f} ms an epoch"}


def write_all(folder: Path) -> dict[str, Path]:
    pixels = np.random.default_rng(0).integers(0, 256, (SAMPLES, 32, 32, 3), dtype=np.uint8)
    pictures: dict[str, Any] = {"image": hr.Image(mode="raw"), "label": hr.Int()}
    arrays: dict[str, Any] = {"array": hr.NDArray("uint8", (3072,)), "label": hr.Int()}
    numbers: dict[str, Any] = {"label": hr.Int(), "weight": hr.Float()}
    files = {name: folder / f"{name}.beton" for name in ("picture", "array", "number", "few")}
    hr.write(files["picture"], [(p, i % 10) for i, p in enumerate(pixels)], fields=pictures)
    hr.write(files["array"], [(p.reshape(-1), i % 10) for i, p in enumerate(pixels)], fields=arrays)
    hr.write(files["number"], [(i % 10, i / 7) for i in range(SAMPLES)], fields=numbers)
    hr.write(files["few"], [(p, i % 10) for i, p in enumerate(pixels[:FEW])], fields=pictures)
    return files


def compare(what: str, arguments: list[str]) -> list[dict[str, Any]]:
    """All sides in turn."""
    samples = len(hr.open(arguments[0]))
    headrace, drop_in, ffcv = (Side(f"{name}, {what}") for name in ("headrace", "the drop-in", "FFCV"))
    for _ in range(ROUNDS):
        headrace.add(ours(arguments))
        if importlib.util.find_spec("torch") is not None:
            drop_in.add(through_launcher(arguments))
        if FFCV_PYTHON:
            ffcv.add(run_peer("small_ffcv.py", *arguments))
    rows = [side.row(samples) for side in (headrace, drop_in, ffcv) if side.seconds]
    for side in (headrace, drop_in):
        if ffcv.seconds and side.seconds:
            times = statistics.median(ffcv.cpu_seconds) / statistics.median(side.cpu_seconds)
            rows.append(ratio(f"{side.what}, one core", times, "the speed of FFCV, by CPU time"))
    return rows


def ours(arguments: list[str], *, verify: bool = False) -> str:
    return output_of(["-m", "benchmarks.peers.small_headrace", *arguments, str(int(verify))])


def through_launcher(arguments: list[str]) -> str:
    """The program written for FFCV, as it is."""
    return output_of(["-W", "ignore", "-m", "headrace.compat", "run", str(_PROGRAM), *arguments])


def output_of(arguments: list[str]) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
