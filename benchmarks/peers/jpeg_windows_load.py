"""Headrace's side of jpeg_windows, in a process of its own.

usage: HEADRACE_SIMD=avx2 python -m benchmarks.peers.jpeg_windows_load FILE.beton '{"size": 224, "op": "random"}'
Prints one JSON line: seconds of each epoch after a warm-up, by the clock and of the processor, how JPEGs were decoded,
and how far the pixels are from those of the accurate full decode.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

import numpy as np

import headrace as hr
from headrace import ops
from headrace.codecs import jpeg

COMPARED = 64  # pictures


def main() -> None:
    path = sys.argv[1]
    options: dict[str, Any] = {"size": 224, "op": "random", "jpeg": "window", "epochs": 2}
    options |= json.loads(sys.argv[2])
    loader = make_loader(path, options, drop_last=False, order="quasi_random")
    seconds, cpu_seconds = [], []
    for _ in range(options["epochs"] + 1):
        start_s, cpu_start_s = time.perf_counter(), time.process_time()
        images = 0
        for batch in loader:
            images += len(batch.image)
        seconds.append(time.perf_counter() - start_s)
        cpu_seconds.append(time.process_time() - cpu_start_s)
    mean, most = difference(path, options)
    result = {"seconds": seconds[1:], "cpu_seconds": cpu_seconds[1:], "images": images, "jpegs": loader.stats.jpegs}
    print(json.dumps(result | {"mean_difference": mean, "max_difference": most}))


def make_loader(path: str, options: dict[str, Any], **others: Any) -> hr.Loader:
    size = options["size"]
    crop: Any = ops.CenterCrop(size, ratio=224 / 256)
    if options["op"] == "random":
        crop = ops.RandomResizedCrop(size, reduced=options.get("reduced", False))
    pipeline = [crop, *([ops.RandomHorizontalFlip()] if options["op"] == "random" else []), ops.ToLayout("NCHW")]
    return hr.Loader(
        path, 64, workers=1, jpeg=options.get("jpeg", "window"), pipelines={"image": pipeline, "label": None}, **others
    )


def difference(path: str, options: dict[str, Any]) -> tuple[float, int]:
    """Mean and largest difference to the same crops of pictures that were decoded as a whole before."""
    with hr.open(path) as dataset, tempfile.TemporaryDirectory() as folder:
        count = min(COMPARED, len(dataset))
        pictures = [jpeg.decode(data) for data in dataset.read_bytes(range(count), "image")]
        whole = os.path.join(folder, "whole.beton")
        rows = [(picture, i) for i, picture in enumerate(pictures)]
        hr.write(whole, rows, fields={"image": hr.Image(mode="raw"), "label": hr.Int()}, workers=1)
        indices = range(count)
        found = make_loader(path, options, indices=indices, drop_last=False)[0].image
        expected = make_loader(whole, options, indices=indices, drop_last=False)[0].image
    off = np.abs(found.astype(np.int16) - expected.astype(np.int16))
    return float(off.mean()), int(off.max())


if __name__ == "__main__":
    main()
