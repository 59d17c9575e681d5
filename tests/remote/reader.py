"""A process that reads a dataset of a store: ``python -m tests.remote.reader FACTS``, with facts as JSON.

Prints what is in each batch, a line for each. Tests kill it, or let it kill itself in the middle of storing a block.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.remote.datasets import digests

import headrace as hr

if TYPE_CHECKING:
    from tests.remote.datasets import Stored

ROOT = Path(__file__).parents[2]


def start(stored: Stored, cache: Path, **facts: Any) -> subprocess.Popen[str]:
    """Start it; it reads the object of a test."""
    told = {"url": stored.url, "store": stored.bucket.storage_options, "cache_dir": str(cache), **facts}
    command = [sys.executable, "-m", "tests.remote.reader", json.dumps(told)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _die_while_storing(after: int) -> None:
    from headrace.storage import block_cache

    write_block, stored = block_cache.write_block, []

    def write_half(blocks: int, slot: int, key: Any, data: memoryview) -> None:
        if len(stored) == after:
            write_block(blocks, slot, key, data[: data.nbytes // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        stored.append(slot)
        write_block(blocks, slot, key, data)

    block_cache.write_block = write_half


def main() -> None:
    facts = json.loads(sys.argv[1])
    if facts.get("die_after") is not None:
        _die_while_storing(facts["die_after"])
    dataset = hr.open(
        facts["url"], storage_options=facts["store"], cache_dir=facts["cache_dir"], cache_size=facts["cache_size"]
    )
    loader = hr.Loader(dataset, 16, order="quasi_random", seed=3, workers=1, drop_last=False)
    for batch in loader:
        print(*digests([batch]), flush=True)


if __name__ == "__main__":
    main()
