"""Penstock's side of load_photos, the same work as ffcv_load.py.

usage: python -m benchmarks.peers.penstock_load FILE.beton FLIP EPOCHS
"""

from __future__ import annotations

import json
import sys
import time

import penstock as ps
from penstock import ops


def main() -> None:
    path, flip, epochs = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
    pipeline = [ops.RandomResizedCrop(224), *([ops.RandomHorizontalFlip()] if flip else [])]
    loader = ps.Loader(path, 64, order="quasi_random", workers=1, drop_last=False, pipelines={"image": pipeline})
    seconds = []
    for _ in range(epochs + 1):
        start_s = time.perf_counter()
        images = sum(len(batch.image) for batch in loader)
        seconds.append(time.perf_counter() - start_s)
    print(json.dumps({"seconds": seconds[1:], "images": images}))


if __name__ == "__main__":
    main()
