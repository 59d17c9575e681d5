"""Spans of a mapped file: fetched many at a time where it is not in memory, and the memory that batches take."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace import _native
from headrace.storage import map_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    with open(path, "wb") as out:
        out.write(np.random.default_rng(0).bytes(3_000_001))
        out.flush()
        os.fsync(out.fileno())
    return path


def forget(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 200])
@pytest.mark.parametrize("is_cold", [False, True])
def test_spans_are_the_same_whether_they_are_in_memory_or_not(file: Path, count: int, is_cold: bool) -> None:
    content = file.read_bytes()
    rng = np.random.default_rng(count)
    offsets = rng.integers(0, len(content), count).astype(np.uint64)
    sizes = np.minimum(rng.integers(0, 20_000, count).astype(np.uint64), np.uint64(len(content)) - offsets)
    sizes[::3] = 0  # nothing lies on no page
    if is_cold:
        forget(file)
    mapped = map_file(str(file))
    expected = [content[o : o + s] for o, s in zip(offsets.tolist(), sizes.tolist(), strict=True)]
    assert _native.gather(mapped, offsets, sizes) == expected
    if is_cold:
        del mapped
        forget(file)
        mapped = map_file(str(file))
    out = np.zeros(int(sizes.sum()), np.uint8)
    places = np.zeros(count, np.uint64)
    np.cumsum(sizes[:-1], out=places[1:])
    _native.gather_into(mapped, offsets, sizes, out, places)
    assert out.tobytes() == b"".join(expected)


_BATCHES = """
import resource
import numpy as np
from headrace import _native

base = np.zeros(10_000, np.uint8)
offsets, sizes = np.zeros(256, np.uint64), np.full(256, 10_000, np.uint64)
for turn in range(40):
    if turn == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    values = None
    values = _native.gather(base, offsets, sizes)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's malloc that gives memory back")
def test_a_batch_takes_the_memory_of_the_one_before_it() -> None:
    done = subprocess.run([sys.executable, "-c", _BATCHES], capture_output=True, text=True, check=True)
    pages_of_a_batch = 256 * 10_000 // 4096
    assert int(done.stdout) < pages_of_a_batch  # of 30 batches
