"""The facts that a figure means nothing without: machine, versions, commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headrace._native import simd_level

__all__ = ["BARECAT_PYTHON", "FFCV_PYTHON", "environment", "interpreter_of", "why_no_interpreter"]

FFCV_PYTHON, BARECAT_PYTHON = "HEADRACE_FFCV_PYTHON", "HEADRACE_BARECAT_PYTHON"
"""Name the interpreters of environments with FFCV and with Barecat, which do not go into one with anything else."""

_PATIENCE_S = 30
_PACKAGES = ("numpy", "pillow", "pyarrow", "h5py", "lmdb", "msgpack", "zstandard")
_PEERS = (
    *("torch", "torchvision", "webdataset", "mosaicml-streaming", "litdata", "grain", "array_record", "spdl"),
    *(
        "nvidia-dali-cuda120",
        "nvidia-dali-cuda130",
        "simplejpeg",
        "opencv-python-headless",
        "obstore",
        "ray",
        "tfrecord",
    ),
    *("google-crc32c", "numba"),
)
_ELSEWHERE = {FFCV_PYTHON: ("ffcv", "torch", "numba", "numpy"), BARECAT_PYTHON: ("barecat", "lmdb")}


def environment() -> dict[str, Any]:
    """Machine and versions, as they go into every result."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "headrace": version("headrace"),
        "python": platform.python_version(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "simd": simd_level(),
        **({"gpu": gpu} if (gpu := _gpu()) else {}),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
        "packages": _versions(_PACKAGES),
        "peers": _versions(_PEERS) | _versions_elsewhere(),
    }


def interpreter_of(variable: str) -> str:
    """The interpreter that a variable names; empty if it names none."""
    return os.environ.get(variable, "")


def why_no_interpreter(variable: str, package: str) -> str:
    """Why a package that needs an environment of its own is left out; empty where it is there."""
    if interpreter_of(variable):
        return ""
    return f"no environment with {package} is named; set {variable} to its interpreter"


def _versions_elsewhere() -> dict[str, str]:
    """Of the packages that have interpreters of their own."""
    found: dict[str, str] = {}
    for variable, names in _ELSEWHERE.items():
        if python := interpreter_of(variable):
            code = (
                f"import json; from importlib.metadata import version; print(json.dumps(list(map(version, {names}))))"
            )
            try:
                said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout
            except OSError:  # the suite says what is wrong with it
                continue
            versions = json.loads(said) if said else []
            first = names[0]
            found |= {
                name if name == first else f"{first}: {name}": version
                for name, version in zip(names, versions, strict=False)
            }
    return found


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


def _gpu() -> str:
    """The first GPU of NVIDIA, as its driver calls it; empty where there is none."""
    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
