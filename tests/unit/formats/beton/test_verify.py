"""Checking a .beton: how much of it lies in memory at a time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import headrace as hr
from headrace.formats.beton.reader import BetonDataset
from headrace.formats.beton.verify import sample_chunks

if TYPE_CHECKING:
    from pathlib import Path


def test_chunks_are_bounded_in_bytes(tmp_path: Path) -> None:
    path, sizes = tmp_path / "x.beton", [3 << 20, 3 << 20, 5, 5, 9 << 20, *[1] * 300]
    hr.write(path, [(bytes(size),) for size in sizes], fields={"data": hr.Bytes()})
    with BetonDataset(path) as dataset:
        chunks = [chunk.tolist() for chunk in sample_chunks(dataset.file)]
    assert list(chain.from_iterable(chunks)) == list(range(len(sizes)))
    assert [len(chunk) for chunk in chunks] == [1, 3, 1, 256, 44]
