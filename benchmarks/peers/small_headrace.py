"""Headrace's side of small_pictures, the same work as small_ffcv.py, in a process of its own.

usage: python -m benchmarks.peers.small_headrace FILE.beton KIND ORDER EPOCHS VERIFY
VERIFY is 1 to compare every checksum, 0 to compare none, as FFCV does.
Prints one JSON line: seconds and CPU seconds of each epoch after a warm-up, and samples of an epoch.
"""

from __future__ import annotations

import json
import sys
import time

import headrace as hr
from headrace import ops


def main() -> None:
    path, kind, order, epochs, verify = sys.argv[1:]
    moves = [ops.RandomHorizontalFlip(), ops.RandomTranslate(2), ops.Cutout(8)] if kind == "moved" else []
    loader = hr.Loader(
        path,
        512,
        order="random" if order == "random" else "sequential",
        workers=1,
        drop_last=False,
        verify=verify == "1",
        pipelines={"image": moves} if moves else {},
    )
    seconds, cpu_seconds = [], []
    for _ in range(int(epochs) + 1):
        samples = 0
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        for batch in loader:
            samples += len(batch[0])
        seconds.append(time.perf_counter() - start_s)
        cpu_seconds.append(time.process_time() - start_cpu_s)
    print(json.dumps({"seconds": seconds[1:], "cpu_seconds": cpu_seconds[1:], "samples": samples}))


if __name__ == "__main__":
    main()
