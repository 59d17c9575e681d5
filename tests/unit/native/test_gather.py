"""Spans of a mapped file that is not in memory: fetched many at a time, and the same bytes."""

from __future__ import annotations

import os
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
