"""CRC32C and CRC-32 on one core, beside zlib's CRC-32 and google-crc32c."""

from __future__ import annotations

import importlib.util
import zlib
from typing import Any

import numpy as np

from benchmarks.harness import row
from headrace._native import crc32, crc32c
from headrace.bench.turns import one_core, timed

QUESTION = "How fast are checksums on one core?"


def run() -> list[dict[str, Any]]:
    candidates = {"CRC32C": crc32c, "CRC-32": crc32, "zlib's crc32": zlib.crc32}
    if importlib.util.find_spec("google_crc32c"):
        import google_crc32c

        candidates["google-crc32c"] = google_crc32c.value
    rows = []
    with one_core():
        for size, count in ((1 << 10, 20_000), (1 << 20, 200)):
            data = np.random.default_rng(0).bytes(size)
            for name, function in candidates.items():

                def work(function: Any = function, data: bytes = data, count: int = count) -> None:
                    for _ in range(count):
                        function(data)

                rows.append(row(f"{name}, {size >> 10} KiB pieces", timed(work), size_bytes=size * count))
    return rows
