"""Random batches of small samples from a warm file, on one core."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.harness import row
from headrace.bench.turns import one_core, timed

QUESTION = "How many 1 kB samples a second can be read at random from a warm file?"
SAMPLES, SIZE, BATCH = 500_000, 1000, 256


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, one_core():
        path = Path(folder) / "x.beton"
        blob = np.random.default_rng(0).bytes(SIZE + SAMPLES)
        hr.write(path, (blob[i : i + SIZE] for i in range(SAMPLES)), fields={"data": hr.Bytes()}, workers=1)
        order = np.random.default_rng(1).integers(0, SAMPLES, 200 * BATCH).reshape(-1, BATCH)
        checked, unchecked = hr.open(path), hr.open(path, checksums=False)
        first = int(checked.table[0, 1])
        offsets = checked.table[:, 1].copy()
        memory = np.memmap(path, np.uint8, "r")
        fd = os.open(path, os.O_RDONLY)
        assert unchecked.read_bytes([3], "data")[0] == memory[offsets[3] : offsets[3] + SIZE].tobytes()
        assert first == int(offsets[0])

        def batches(dataset: Any) -> Any:
            def work() -> None:
                for batch in order:  # a batch is used and let go, as in training
                    dataset.read_bytes(batch, "data")

            return work

        def peers(read: Any) -> Any:
            def work() -> None:
                for batch in order:
                    [read(offset) for offset in offsets[batch].tolist()]

            return work

        count = order.size
        rows = [
            row("read_bytes, every checksum checked", timed(batches(checked)), samples=count),
            row("read_bytes, checksums=False", timed(batches(unchecked)), samples=count),
            row("numpy memmap slice to bytes", timed(peers(lambda o: memory[o : o + SIZE].tobytes())), samples=count),
            row("os.pread", timed(peers(lambda o: os.pread(fd, SIZE, o))), samples=count),
            row("dataset[i], one sample at a time", timed(lambda: [checked[int(i)] for i in order[0]]), samples=BATCH),
        ]
        os.close(fd)
    rows[0]["what"] = "1 kB samples at random, one core: " + rows[0]["what"]
    rows[2]["what"] = "1 kB samples at random, one core: " + rows[2]["what"]
    return rows
