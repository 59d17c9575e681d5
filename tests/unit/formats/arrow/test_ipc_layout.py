"""Where record batches are: as pyarrow has them, and nothing but ValueError for damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace.formats.arrow.ipc_layout import read_layout
from headrace.storage import LocalFile

pyarrow = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, sizes: list[int]) -> None:
    schema = pyarrow.schema([("n", pyarrow.int64()), ("t", pyarrow.string())])
    with pyarrow.ipc.new_file(path, schema) as writer:
        for size in sizes:
            writer.write_batch(pyarrow.record_batch([np.arange(size), ["text"] * size], schema=schema))


@pytest.mark.parametrize("sizes", [[], [0], [3], [5, 0, 1000, 1]])
def test_batches_are_found(tmp_path: Path, sizes: list[int]) -> None:
    write(tmp_path / "x.arrow", sizes)
    layout = read_layout(LocalFile(tmp_path / "x.arrow"))
    assert layout.counts.tolist() == sizes
    assert (layout.offsets + layout.sizes <= (tmp_path / "x.arrow").stat().st_size).all()


def test_damage_is_a_value_error(tmp_path: Path) -> None:
    write(tmp_path / "x.arrow", [5, 7])
    whole = bytearray((tmp_path / "x.arrow").read_bytes())
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(1000):
        data = bytearray(whole)
        for place in rng.integers(len(data) - 400, len(data), 3).tolist():
            data[place] = int(rng.integers(256))
        file = LocalFile("x.arrow", mapped=np.frombuffer(bytes(data), np.uint8))
        try:
            read_layout(file)
        except ValueError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("size", [0, 5, 9, 10, 100])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, size: int) -> None:
    write(tmp_path / "x.arrow", [5])
    data = np.frombuffer((tmp_path / "x.arrow").read_bytes()[:size], np.uint8)
    with pytest.raises(ValueError, match=r"footer|bytes"):
        read_layout(LocalFile("x.arrow", mapped=data))
