"""The process of a contender: ``python -m headrace.bench.peers.serve MODULE:CLASS FACTS``.

Each line of standard input is answered with a line of JSON: ``write`` makes the files, ``epoch`` runs one and gives its
seconds, ``check`` decodes whole photographs into an .npy file.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from functools import cached_property
from typing import Any

import numpy as np

from headrace.bench.peers.contender import Contender, Place

__all__ = ["main"]


class _Server:
    def __init__(self, name: str, place: Place) -> None:
        self._name, self._place = name, place

    @cached_property
    def _contender(self) -> Contender:
        module, _, name = self._name.partition(":")
        found: Contender = getattr(importlib.import_module(module), name)(self._place)
        return found

    def write(self) -> dict[str, Any]:
        self._contender.write()
        return {}

    def epoch(self) -> dict[str, Any]:
        getattr(self._contender, "settle", lambda: None)()
        start_s, images = time.perf_counter(), 0
        for batch in self._contender.epoch():
            if batch.shape[1:] != (3, self._place.side, self._place.side):
                raise ValueError(f"a batch has the shape {tuple(batch.shape)}")
            images += len(batch)
        seconds = time.perf_counter() - start_s
        stages: dict[str, float] = getattr(self._contender, "stages", dict)()
        return {
            "seconds": seconds,
            "images": images,
            "dtype": str(batch.dtype).removeprefix("torch."),
            "stages": stages,
        }

    def check(self, count: int, out: str) -> dict[str, Any]:
        pictures = [self._contender.whole(path.read_bytes()) for path in self._place.files()[:count]]
        np.save(out, np.stack([np.asarray(one) for one in pictures]))
        return {}


def main() -> None:
    """Answer until there are no more questions."""
    server = _Server(sys.argv[1], Place(**json.loads(sys.argv[2])))
    for line in sys.stdin:
        told = json.loads(line)
        print("\n" + json.dumps(getattr(server, told.pop("do"))(**told)), flush=True)


if __name__ == "__main__":
    main()
