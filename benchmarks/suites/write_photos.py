"""Writing photographs as JPEG with a longer side of at most 500 pixels, beside FFCV's writer."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.harness import FFCV_PYTHON, photographs, ratio, row, run_peer

QUESTION = "How fast are photographs written beside FFCV, with the same number of workers on the same cores?"
ROUNDS, MAX_SIDE = 3, 500


class PillowPhotographs:
    """What an FFCV user's dataset does: decode with Pillow, hand over an array."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        from PIL import Image

        with Image.open(self.files[i]) as picture:
            return np.asarray(picture.convert("RGB")), i


def run() -> list[dict[str, Any]]:
    files = photographs()
    by_path = [(str(path), i) for i, path in enumerate(files)]
    cases: dict[str, Any] = {
        "writing photographs given as paths (JPEG files that fit are kept)": (by_path, MAX_SIDE),
        "writing photographs given as Pillow arrays (all encoded anew)": (PillowPhotographs(files), MAX_SIDE),
    }
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    ffcv: list[float] = []
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS + 1):  # peers take turns; the first round warms up
            for name, (source, max_side) in cases.items():
                seconds[name].append(write_once(Path(folder) / "x.beton", source, max_side, workers))
            if FFCV_PYTHON:
                out = run_peer("ffcv_write.py", str(files[0].parent), f"{folder}/y.beton", str(MAX_SIDE), str(workers))
                ffcv.append(json.loads(out.splitlines()[-1])["seconds"])
    rows = [row(name, times[1:], samples=len(files), unit="images") for name, times in seconds.items()]
    if ffcv:
        rows.append(row("FFCV's DatasetWriter, Pillow arrays", ffcv[1:], samples=len(files), unit="images"))
        for r in rows[:2]:
            times = r["samples_per_s"] / rows[2]["samples_per_s"]
            rows.append(ratio(r["what"], times, "the speed of FFCV's writer"))
    return rows


def write_once(path: Path, source: Any, max_side: int, workers: int) -> float:
    fields = {"image": hr.Image(mode="jpg", max_side=max_side), "label": hr.Int()}
    start_s = time.perf_counter()
    hr.write(path, source, fields=fields, workers=workers, force=True)
    return time.perf_counter() - start_s
