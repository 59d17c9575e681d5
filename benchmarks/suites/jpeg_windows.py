"""Crops of JPEGs, the whole loader: only what a crop needs, beside full decoding, FFCV and simplejpeg + OpenCV.

One worker on one core, batches of 64, uint8 NCHW. All variants take turns within a round, each in a process of its
own, and a ratio is the median over the rounds. Beside every speed stands how far its pixels are from those of the
accurate full decode, and how busy the core was with it: the processor's time by the clock's. Below 0.97 somebody else
was on the core, and the speed and its ratios say little; take those of the processor's time then, or measure again.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.harness import FFCV_PYTHON, ROOT, photographs, ratio, row, run_peer
from headrace._native import simd_level
from headrace.bench.turns import one_core

QUESTION = "How fast is a crop of a JPEG when only the crop is decoded?"
ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "5"))
EPOCHS = int(os.environ.get("HEADRACE_BENCH_EPOCHS", "2"))
COPIES = int(os.environ.get("HEADRACE_BENCH_COPIES", "8"))
SIZE, SIZES = 224, (128, 160, 192, 288)
PEERS = ("FFCV", "simplejpeg + OpenCV")
LEAST_BUSY = 0.97
LEVELS = ["avx512", "avx2"] if simd_level() == "avx512" else [simd_level()]
FILES = {
    "jpg q90, longer side 500": {"max_side": 500, "is_encoded": True},
    "originals passed through": {"max_side": None, "is_encoded": False},
}


@dataclass(frozen=True)
class Variant:
    """One way to load the same pictures."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    peer: str = ""
    level: str = ""  # of instructions
    has_index: bool = True


def variants(size: int, op: str) -> list[Variant]:
    """What is compared; peers only where they can do the same."""
    same = {"size": size, "op": op}
    found = []
    for level in LEVELS:
        found.append(Variant(f"window, index, {level}", same, level=level))
        if op == "random":
            found.append(Variant(f"window, index, reduced=True, {level}", same | {"reduced": True}, level=level))
        found.append(Variant(f"window, no index, {level}", same, level=level, has_index=False))
        found.append(Variant(f"slices to libjpeg-turbo, {level}", same | {"jpeg": "slice"}, level=level))
        found.append(Variant(f"libjpeg-turbo, {level}", same | {"jpeg": "libjpeg"}, level=level))
    found.append(Variant("slices to libjpeg-turbo, sse42", same, level="sse42"))
    if FFCV_PYTHON:
        found.append(Variant("FFCV", same, peer="ffcv"))
        found.append(Variant("simplejpeg + OpenCV", same, peer="simplejpeg"))
    return found


def run() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, how in FILES.items():
            indexed, plain = Path(folder) / "indexed.beton", Path(folder) / "plain.beton"
            rows.append(write(name, indexed, plain, **how))
            with one_core():
                rows += compare(f"{name}, random crop {SIZE}", indexed, plain, SIZE, "random")
                rows += compare(f"{name}, validation", indexed, plain, SIZE, "center")
                for size in SIZES:
                    rows += compare(f"{name}, random crop {size}", indexed, plain, size, "random", brief=True)
    return rows


def write(name: str, indexed: Path, plain: Path, *, max_side: int | None, is_encoded: bool) -> dict[str, Any]:
    """The photographs several times, with indices and without; gives what the indices take."""
    sources: list[Any] = [str(path) for path in photographs()]
    image = hr.Image(mode="jpg", max_side=max_side, quality=90)
    if is_encoded:  # all of them, not only those that are too large
        raw = hr.Image(mode="raw")
        encoded = [raw.encode(source, 0) for source in sources]
        sources = [raw.decode(e.facts, memoryview(e.payload or b"")) for e in encoded]
    samples = [(source, i) for _ in range(COPIES) for i, source in enumerate(sources)]
    for path, has_index in ((indexed, True), (plain, False)):
        hr.write(path, samples, fields={"image": image, "label": hr.Int()}, jpeg_index=has_index)
    extra = indexed.stat().st_size - plain.stat().st_size
    with hr.open(plain) as dataset:
        payload = int(dataset.table[:, 2].sum())
    text = f"{extra / payload:.2%} of the JPEGs' {payload / len(samples) / 1e3:.0f} kB"
    return {"what": f"size of the indices, {name}", "index_bytes": extra, "jpeg_bytes": payload, "text": text}


def compare(what: str, indexed: Path, plain: Path, size: int, op: str, *, brief: bool = False) -> list[dict[str, Any]]:
    """All variants in turn; ratios within each round, then their median."""
    chosen = variants(size, op)
    if brief:
        kept = [f"window, index, {LEVELS[0]}", f"window, index, reduced=True, {LEVELS[0]}", "FFCV"]
        chosen = [v for v in chosen if v.name in kept]
    rounds: dict[str, list[list[float]]] = {v.name: [] for v in chosen}
    cpu: dict[str, list[float]] = {v.name: [] for v in chosen}
    pixels: dict[str, str] = {}
    for _ in range(ROUNDS):
        for variant in chosen:
            result = measure(variant, indexed if variant.has_index else plain)
            rounds[variant.name].append(result["seconds"])
            cpu[variant.name] += result["cpu_seconds"]
            pixels[variant.name] = difference(result)
    rows = []
    for variant in chosen:
        line = row(
            f"{variant.name}, {what}",
            [s for seconds in rounds[variant.name] for s in seconds],
            samples=len(hr.open(indexed)),
            unit="images",
        )
        line |= {"pixels": pixels[variant.name], "busy": busy(rounds[variant.name], cpu[variant.name])}
        line["text"] += f"; pixels: {pixels[variant.name]}; busy {line['busy']:.2f}"
        rows.append(line)
    return rows + ratios(what, rounds, cpu)


def busy(rounds: list[list[float]], cpu_seconds: list[float]) -> float:
    """The smallest share of the core that any epoch had."""
    seconds = [s for each in rounds for s in each]
    return min(cpu_s / clock_s for cpu_s, clock_s in zip(cpu_seconds, seconds, strict=True))


def ratios(what: str, rounds: dict[str, list[list[float]]], cpu: dict[str, list[float]]) -> list[dict[str, Any]]:
    """How many times as fast as each peer, and as libjpeg-turbo in the same loader."""
    bases = [base for base in (*PEERS, f"libjpeg-turbo, {LEVELS[0]}") if base in rounds]
    ours = [name for name in rounds if name not in PEERS]
    return [one_ratio(what, name, base, rounds, cpu) for base in bases for name in ours if name != base]


def one_ratio(
    what: str, name: str, base: str, rounds: dict[str, list[list[float]]], cpu: dict[str, list[float]]
) -> dict[str, Any]:
    """By the clock, round by round, and by the processor's time; ``is_quiet``: the core had nothing else to do."""
    median = statistics.median
    times = [median(theirs) / median(ours) for ours, theirs in zip(rounds[name], rounds[base], strict=True)]
    line = ratio(f"{name}, {what}", median(times), f"the speed of {base}")
    line |= {"ratio_min": min(times), "ratio_max": max(times), "cpu_ratio": median(cpu[base]) / median(cpu[name])}
    line["text"] += f" ({min(times):.2f} to {max(times):.2f}); {line['cpu_ratio']:.2f}x by the processor's time"
    line["is_quiet"] = min(busy(rounds[n], cpu[n]) for n in (name, base)) >= LEAST_BUSY
    return line


def measure(variant: Variant, path: Path) -> dict[str, Any]:
    """One process: seconds of each epoch after a warm-up, and the difference of its pixels."""
    told = json.dumps({"epochs": EPOCHS} | variant.options)
    if variant.peer:
        lines = run_peer("jpeg_windows_peer.py", variant.peer, str(path), told).splitlines()
    else:
        command = [sys.executable, "-m", "benchmarks.peers.jpeg_windows_load", str(path), told]
        environment = os.environ | {"HEADRACE_SIMD": variant.level}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
        lines = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def difference(result: dict[str, Any]) -> str:
    """Against the same crop of the accurate full decode, resized by the same filter."""
    mean, most = result["mean_difference"], result["max_difference"]
    return "exact" if most == 0 else f"{mean:.2f} off on average, {most} at most"
