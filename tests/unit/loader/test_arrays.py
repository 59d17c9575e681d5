"""Array fields in the loader: they come in memory that is used again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (64, 33)


@pytest.fixture
def arrays(tmp_path: Path) -> tuple[np.ndarray, Path]:
    values = np.random.default_rng(0).normal(size=(200, *SHAPE)).astype(np.float32)
    path = tmp_path / "x.beton"
    fields = {"n": hr.Int(), "v": hr.NDArray("float32", SHAPE)}
    hr.write(path, [(i, value) for i, value in enumerate(values)], fields=fields, page_size=2 << 20)
    return values, path


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
@pytest.mark.parametrize("verify", [False, True])
def test_batches_have_the_arrays(arrays: tuple[np.ndarray, Path], order: str, verify: bool) -> None:
    values, path = arrays
    kept = list(hr.Loader(path, 32, order=order, verify=verify, drop_last=False, batches_ahead=1))
    for batch in kept:  # batches that are kept are not overwritten
        np.testing.assert_array_equal(batch.v, values[batch.n])
    assert sum(len(batch.n) for batch in kept) == len(values)


def test_memory_is_used_again(arrays: tuple[np.ndarray, Path]) -> None:
    loader = hr.Loader(arrays[1], 32, batches_ahead=1)
    places = {batch.v.ctypes.data for _ in range(5) for batch in loader}
    assert len(places) < 10  # of 30 batches


def test_pointers_outside_the_file_are_told(arrays: tuple[np.ndarray, Path]) -> None:
    path = arrays[1]
    with hr.open(path) as dataset:
        layout = dataset.layout
        at = layout.metadata_start + 70 * layout.record.itemsize + layout.record.fields["f1"][1]
        size = path.stat().st_size
    data = bytearray(path.read_bytes())
    for pointer in (0, size - 5, 2**64 - 3):
        data[at : at + 8] = pointer.to_bytes(8, "little")
        path.write_bytes(data)
        loader = hr.Loader(path, 100, verify=False)
        with pytest.raises(CorruptSampleError, match=r"sample 70, field 'v'.*not inside the data pages"):
            list(loader)
        skipping = hr.Loader(path, 100, verify=False, on_error="skip")
        assert 70 not in np.concatenate([batch.n for batch in skipping])


def test_damaged_bytes_are_told(arrays: tuple[np.ndarray, Path]) -> None:
    values, path = arrays
    with hr.open(path) as dataset:
        at = int(dataset.locate(np.array([70]), dataset.file.column("v")).pointers[0])
    data = bytearray(path.read_bytes())
    data[at + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSampleError, match=r"sample 70, field 'v'.*checksum 0x\w+ expected, found 0x"):
        list(hr.Loader(path, 100))
    skipping = hr.Loader(path, 100, on_error="skip")
    for batch in skipping:
        np.testing.assert_array_equal(batch.v, values[batch.n])
    assert [error.sample for error in skipping.errors] == [70]
