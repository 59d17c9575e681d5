"""One conversion, for the suite ``convert``; by itself in an interpreter of its own, which Ray needs.

usage: python -m headrace.bench.peers.convert_program '{"source": ..., "target": ..., "options": {...}}'
Prints one line of JSON: seconds without those of the imports, of the processor too, and the most memory that the
process ever had, mapped files included. With ``cluster``, it runs in a cluster of Ray that is there already.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from headrace.formats.open import open_dataset
from headrace.formats.verify import verify
from headrace.transfer.convert import convert

__all__ = ["convert_once", "main"]


def main() -> None:
    """Convert, and tell."""
    told = json.loads(sys.argv[1])
    if small := told.pop("cluster"):
        from headrace.formats.ray_tasks import open_tasks

        with open_tasks(address=None, workers=told["options"]["workers"], needed_by="the benchmark"):
            verify(small, engine="ray")  # the processes are there, and have imported the package
            answer = convert_once(**told)
    else:
        answer = convert_once(**told)
    print(json.dumps(answer))


def convert_once(source: str, target: str, options: dict[str, Any]) -> dict[str, Any]:
    """Convert, and tell what it took."""
    start_s, before = time.perf_counter(), os.times()
    convert(source, target, **options)
    seconds, after = time.perf_counter() - start_s, os.times()
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return {
        "seconds": seconds,
        "cpu_s": after.user + after.system - before.user - before.system,
        "peak_bytes": int(peak[1]) * 1024 if peak else 0,
        "samples": len(open_dataset(target)) if "%" not in target else 0,
    }


if __name__ == "__main__":
    main()
