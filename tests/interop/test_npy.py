"""Both ways with numpy itself."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = [
    "b1",
    "u1",
    "i1",
    "<u2",
    ">i2",
    "<i4",
    ">u4",
    "<i8",
    "<f2",
    ">f4",
    "<f8",
    "<c8",
    ">c16",
    "<M8[s]",
    "<U3",
    "S5",
]


def array_of(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(1).integers(0, 100, shape)
    return numbers.astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_saves(save: Any, order: str, tmp_path: Path) -> None:
    arrays = {f"{dtype}": array_of(dtype, (5, 2, 3)) for dtype in DTYPES}
    arrays |= {f"{dtype} alone": array_of(dtype, (5,)) for dtype in DTYPES}
    save(tmp_path / "x.npz", **{name: np.asarray(array, order=order) for name, array in arrays.items()})
    with hr.open(tmp_path / "x.npz") as dataset:
        assert list(dataset.schema) == list(arrays)
        for i, sample in enumerate(dataset):
            for name, array in arrays.items():
                expected = array[i]
                found = sample[name]
                if isinstance(found, np.ndarray):
                    assert found.dtype.isnative
                    assert np.array_equal(found.reshape(np.shape(expected)), expected), name
                else:
                    assert found == expected.item(), name
        assert dataset.verify(decode=True).ok


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_numpy_reads(dtype: str, tmp_path: Path) -> None:
    array = array_of(dtype, (7, 3, 2))
    for name in ("x.npy", "x.npz"):
        hr.write(tmp_path / name, array, fields={"a": hr.NDArray(dtype, (3, 2))})
    found = [np.load(tmp_path / "x.npy"), np.load(tmp_path / "x.npz")["a"], np.load(tmp_path / "x.npy", mmap_mode="r")]
    for one in found:
        assert (one.dtype, one.shape) == (array.dtype, array.shape)
        assert np.array_equal(one, array)


@pytest.mark.parametrize("compressed", [False, True])
def test_numpy_reads_values_of_any_length(compressed: bool, tmp_path: Path) -> None:
    files = [image_file(picture(i, 8, 9 + i), "JPEG") for i in range(5)]
    fields = {"image": hr.Image(), "label": hr.Int()}
    hr.write(tmp_path / "x.npz", list(zip(files, range(5), strict=True)), fields=fields, compressed=compressed)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        values, offsets = arrays["image.values"], arrays["image.offsets"]
        assert [values[a:b].tobytes() for a, b in pairwise(offsets)] == files
        assert arrays["label"].tolist() == list(range(5))
