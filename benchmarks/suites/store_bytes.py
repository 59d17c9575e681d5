"""Storing JPEG files byte for byte, beside copying the files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.harness import photographs, ratio, row
from headrace.bench.turns import one_core, timed

QUESTION = "What does packing JPEG files as they are cost, beside copying them?"


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as temporary, one_core():
        folder = Path(temporary)
        (folder / "in").mkdir()
        files = []
        for copy in range(10):
            for path in photographs():
                files.append(folder / "in" / f"{copy}-{path.name}")
                shutil.copyfile(path, files[-1])
        size_bytes = sum(path.stat().st_size for path in files)

        def copy_files() -> None:
            shutil.rmtree(folder / "out", ignore_errors=True)
            (folder / "out").mkdir()
            for path in files:
                shutil.copyfile(path, folder / "out" / path.name)
            os.sync()

        def pack() -> None:
            hr.pack(folder / "x.beton", folder / "in", workers=1, force=True)
            os.sync()

        packed = row("pack, byte for byte, with checksums", timed(pack, 3), samples=len(files), size_bytes=size_bytes)
        copied = row("copy every file", timed(copy_files, 3), samples=len(files), size_bytes=size_bytes)
    times = ratio("packing JPEG files as they are", packed["median_s"] / copied["median_s"], "the time of copying them")
    return [packed, copied, times]
