"""How many bytes the same 200 small photographs take in each format: made-up ones, so that all machines have the same.

They go in as JPEG with their labels, where the format holds both. *With its annex* counts what lies beside the dataset:
places, names, checksums and tile indices, as `headrace index` makes them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import headrace as hr
from benchmarks.format_files import left_out
from headrace.bench.format_files import make_files, size_on_disk
from headrace.bench.pictures import photo
from headrace.codecs import jpeg

QUESTION = "How large are the same 200 small photographs in each format?"
COUNT = 200
FIELDS = ({"image": hr.Image(), "label": hr.Int()}, {"image": hr.Image()})


def run() -> list[dict[str, Any]]:
    samples = [(jpeg.encode(photo(number), quality=90), number % 10) for number in range(COUNT)]
    jpegs = sum(len(data) for data, _ in samples)
    with tempfile.TemporaryDirectory() as folder:
        files, reasons = make_files(Path(folder), samples, FIELDS, decode="image")
        sizes = {file.name: size_on_disk(file.path) for file in files}
    rows = [{"what": "the JPEG files themselves", "size_bytes": jpegs, "text": f"{jpegs / 1e6:.2f} MB"}]
    for name, size in sizes.items():
        text = f"{size / 1e6:.2f} MB, {size / jpegs:.3f} of the JPEG files"
        rows.append({"what": f"{name}, with its annex", "size_bytes": size, "share": size / jpegs, "text": text})
    return [*rows, *left_out(reasons)]
