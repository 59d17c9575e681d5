"""Tools for the tests of the loader: small datasets, damage, threads, and functions that travel to other processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.helpers import Surgeon, picture

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

COUNT = 37
FIELDS = {
    "image": hr.Image(mode="proportion"),
    "label": hr.Int(),
    "array": hr.NDArray("<f4", (2, 3)),
    "text": hr.Text(),
}
CROP = [ops.RandomResizedCrop(16), ops.RandomHorizontalFlip()]
LABELS_ONLY = {"image": None, "array": None, "text": None}


def rows() -> list[tuple[Any, ...]]:
    """Samples of FIELDS: pictures of different sizes, some stored as JPEG, some raw."""
    return [(picture(i, 30 + i % 5, 40 + i % 7), i, np.full((2, 3), i, "<f4"), "word " * (i % 3)) for i in range(COUNT)]


def write_rows(path: Path) -> Path:
    """A file of all rows."""
    hr.write(path, rows(), fields=FIELDS, page_size=1 << 21)
    return path


def blob(i: int, size: int) -> bytes:
    """Bytes that differ for each i."""
    return np.random.default_rng(i).bytes(size)


def write_pages(path: Path, *, count: int = 48, size: int = 300_000) -> Path:
    """A file of several pages: labels and blobs; the last ones are shorter."""
    samples = [(i, blob(i, size - 1000 * i)) for i in range(count)]
    hr.write(path, samples, fields={"label": hr.Int(), "blob": hr.Bytes()}, page_size=1 << 21)
    return path


def write_pictures(path: Path, pixels: Iterable[np.ndarray], *, mode: Any = "raw") -> Path:
    """A file of pictures and the labels 0, 1, 2 and so on."""
    samples = [(p, i) for i, p in enumerate(pixels)]
    hr.write(path, samples, fields={"image": hr.Image(mode=mode), "label": hr.Int()})
    return path


def damage(path: Path, target: Path, *, images: Iterable[int] = (), blobs: Iterable[int] = ()) -> Path:
    """A copy in which the first bytes of some values are others: JPEGs cannot be decoded, checksums do not match."""
    surgeon, dataset = Surgeon(path), hr.open(path)
    for i in images:
        surgeon.put(int(dataset.image_facts("image")["data_ptr"][i]), bytes(4))
    for i in blobs:
        first = dataset.read_bytes([i], "blob")[0][:16]
        surgeon.flip(surgeon.data.index(first))
    return surgeon.save(target)


def values_of(batch: Any) -> list[Any]:
    """Everything in a batch, or in a list or tuple, to be compared by ==."""
    return [_comparable(value) for value in batch]


def _comparable(value: Any) -> Any:
    if hasattr(value, "numpy"):  # a tensor
        return "tensor", _comparable(value.numpy())
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return (type(value).__name__, *values_of(value)) if isinstance(value, list | tuple) else value


def contents(loader: hr.Loader) -> list[list[Any]]:
    """Everything in the batches of an epoch, to be compared by ==."""
    return [values_of(batch) for batch in loader]


def labels(loader: hr.Loader) -> list[list[int]]:
    """The labels of an epoch, by batches."""
    return [batch.label.tolist() for batch in loader]


def headrace_threads() -> list[str]:
    """Names of the threads of the loader that live."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headrace-")]


def native_threads() -> int:
    """Threads of this process, Python's and others."""
    return len(os.listdir("/proc/self/task"))


def wait_until(is_true: Any, timeout_s: float = 5) -> bool:
    """Give threads some time to end."""
    deadline_s = time.monotonic() + timeout_s
    for attempt in range(1_000_000):
        if is_true() or time.monotonic() > deadline_s:
            break
        if attempt % 100 == 20:
            gc.collect()
        time.sleep(0.002)
    return bool(is_true())


def resident_bytes() -> int:
    """Memory that this process has in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_script(code: str, *arguments: Any, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own; a hang is a failure."""
    quiet = "ignore:This process:DeprecationWarning"  # Python 3.12 and later at every fork of a process with threads
    command = [sys.executable, "-X", "faulthandler", "-W", quiet, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
