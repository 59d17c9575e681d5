"""h5py and headrace read each other's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import ALL_FIELDS, all_fields_sample

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_h5py_reads_ours(tmp_path: Path, compression: str | None) -> None:
    path, samples = tmp_path / "x.h5", [all_fields_sample(i) for i in range(30)]
    hr.write(path, samples, fields=ALL_FIELDS, names=[str(i) for i in range(30)], compression=compression)
    with h5py.File(path, "r") as file:
        assert list(file["/"]) == [*ALL_FIELDS, "__key__"]
        assert file["label"][:].tolist() == [sample[0] for sample in samples]
        assert file["score"][:].tolist() == [sample[2] for sample in samples]
        assert [blob.tobytes() for blob in file["jpg"]] == [sample[3] for sample in samples]
        assert [blob.tobytes() for blob in file["blob"]] == [sample[4] for sample in samples]
        assert [text.decode() for text in file["text"]] == [sample[6] for sample in samples]
        assert np.array_equal(file["array"][:], np.stack([sample[7] for sample in samples]))
        assert file["__key__"].asstr()[3] == "3"


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "v112", "v114", "latest"])
def test_we_read_every_version_of_the_layout(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "x.h5"
    numbers = np.random.default_rng(1).integers(0, 99, (50, 3))
    texts = ["x" * i for i in range(50)]
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("fixed", data=numbers, chunks=(7, 3), compression="gzip")
        file.create_dataset("one", data=numbers, chunks=(50, 3))
        file.create_dataset("grows", data=numbers, chunks=(7, 2), maxshape=(None, 3), fletcher32=True)
        file.create_dataset("grows_both", data=numbers, chunks=(7, 2), maxshape=(None, None))
        file.create_dataset("text", data=texts)
        for i in range(20):
            file[f"many/{i}"] = numbers[:, 0] + i
    dataset = hr.open(path)
    assert len(dataset.schema) == 25
    order = np.random.default_rng(2).permutation(50)
    for name in ("fixed", "one", "grows", "grows_both"):
        assert np.array_equal(dataset.read_values(order, name), numbers[order])
    assert dataset.read_values(order, "text") == [texts[i] for i in order]
    assert dataset[5]["many/13"] == numbers[5, 0] + 13
