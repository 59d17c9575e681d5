"""Headrace's side of the loading benchmarks, the same work as ffcv_load.py, in a process of its own.

usage: python -m benchmarks.peers.headrace_load FILE.beton '{"flip": true, "epochs": 2, "workers": 1, "dtype": "uint8"}'
Prints one JSON line: seconds of each epoch after a warm-up, images of an epoch, seconds from ``started`` (the clock
when the process was started) to the first batch, and how much memory of its own the process had at most (the mapped
file does not count) above what it had with the package imported.
"""

from __future__ import annotations

import json
import sys
import time

import headrace as hr
from headrace import ops
from headrace.bench.disk import own_bytes


def main() -> None:
    options = {"flip": True, "epochs": 2, "workers": 1, "dtype": "uint8", "started": time.time(), "memory": False}
    options |= json.loads(sys.argv[2])
    before = own_bytes()
    loader = make_loader(sys.argv[1], options)
    seconds = []
    first_s, peak = 0.0, 0
    for _ in range(options["epochs"] + 1):
        start_s = time.perf_counter()
        images = 0
        for batch in loader:
            first_s = first_s or time.time() - options["started"]
            images += len(batch.image)
            peak = max(peak, own_bytes()) if options["memory"] else peak
        seconds.append(time.perf_counter() - start_s)
    result = {"seconds": seconds[1:], "images": images, "first_batch_s": first_s, "memory_bytes": peak - before}
    print(json.dumps(result))


def make_loader(path: str, options: dict[str, object]) -> hr.Loader:
    pipeline: list[object] = [ops.RandomResizedCrop(224)]
    pipeline += [ops.RandomHorizontalFlip()] if options["flip"] else []
    if options["dtype"] != "uint8":
        pipeline.append(ops.Normalize([123.7, 116.3, 103.5], [58.4, 57.1, 57.4], dtype=options["dtype"]))
    pipeline.append(ops.ToLayout("NCHW"))
    return hr.Loader(
        path,
        64,
        order="quasi_random",
        workers=options["workers"],
        drop_last=False,
        pipelines={"image": pipeline},
    )


if __name__ == "__main__":
    main()
