"""The facts that a figure means nothing without: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headrace._native import simd_level

__all__ = ["environment"]

_PACKAGES = ("numpy", "pillow", "pyarrow", "h5py", "lmdb", "msgpack", "zstandard")
_PEERS = (
    *("torch", "torchvision", "webdataset", "mosaicml-streaming", "litdata", "grain", "array_record", "spdl"),
    *("nvidia-dali-cuda120", "nvidia-dali-cuda130", "simplejpeg"),
)


def environment() -> dict[str, Any]:
    """Machine and versions, as they go into every result."""
    return {
        "commit": _commit(),
        "headrace": version("headrace"),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "simd": simd_level(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
        "packages": _versions(_PACKAGES),
        "peers": _versions(_PEERS),
    }


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    """Of the source tree that this package is run from; empty for one that was installed."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:  # no git
        return ""
    return done.stdout.strip()


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
