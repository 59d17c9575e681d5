"""Import time, and opening a file of ten million samples."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.harness import row
from headrace.bench.suites.scaling import write_empty_beton
from headrace.bench.turns import timed

QUESTION = "How long do `import headrace` and opening ten million samples take?"
SAMPLES = 10_000_000


def run() -> list[dict[str, Any]]:
    def start(code: str) -> Any:
        # Compiled modules are cached as on any user's machine, even where the caller switched that off.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    rows = [
        row("start Python", timed(start("pass"))),
        row("start Python and import numpy", timed(start("import numpy"))),
        row("start Python and import headrace", timed(start("import headrace"))),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.beton"
        write_empty_beton(path, SAMPLES)
        opened = row("open a file of ten million samples", timed(lambda: hr.open(path)))
        tracemalloc.start()
        dataset = hr.open(path)
        opened["peak_memory_bytes"] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(dataset) == SAMPLES
    return [*rows, opened]
