"""Fields of several datasets side by side."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace as hr
from headrace import ops
from headrace.errors import CorruptSampleError, FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.formats.sets.conftest import Pictures

    from headrace import Dataset


@pytest.fixture
def labels(tmp_path: Path) -> Dataset:
    path = tmp_path / "labels.beton"
    rows = [(i % 3, bytes([i]) * 9) for i in range(24)]
    classes = {"label": ["a", "b", "c"]}
    names = [f"s{i}" for i in range(24)]
    hr.write(path, rows, fields={"label": hr.Int(), "b": hr.Bytes()}, class_names=classes, names=names)
    return hr.open(path)


def test_by_position(pictures: Pictures, labels: Dataset, tmp_path: Path) -> None:
    both = hr.zip_fields([hr.concat(pictures.parts), labels])
    assert list(both.schema) == ["image", "label", "b"]
    assert both.class_names == {"label": ["a", "b", "c"]}
    assert both[10].label == 1
    assert isinstance(both[10].label, int)
    assert np.array_equal(both[10].image, pictures.whole[10].image)
    assert [len(s) for s in both[[3, 1]]] == [3, 3]
    assert both.keys is None
    assert [*both.rows(np.array([4]))[0]] == ["image", "label", "b"]
    loader = hr.Loader(both, 8, pipelines={"image": [ops.RandomResizedCrop(16)]}, order="random", collate="pad")
    alone = hr.Loader(pictures.whole, 8, pipelines={"image": [ops.RandomResizedCrop(16)]}, order="random")
    for mine, other in zip(loader, alone, strict=True):
        assert np.array_equal(mine.image, other.image)
        assert mine.b.values.shape == (8, 9)
    hr.write(tmp_path / "joined.beton", both)
    joined = hr.open(tmp_path / "joined.beton")
    assert joined.read_bytes([7], "image") == [pictures.files[7]]
    assert joined[7].label == 1
    assert pickle.loads(pickle.dumps(both)).fingerprint == both.fingerprint
    assert both.with_checksums(False).has_checksums is False
    assert both.verify().ok


def test_by_name(labels: Dataset, tmp_path: Path) -> None:
    order = [5, 3, 23, 0]
    hr.write(tmp_path / "o.beton", order, fields={"n": hr.Int()}, names=[f"s{i}" for i in order])
    few = hr.open(tmp_path / "o.beton")
    both = hr.zip_fields([few, labels], by="name")
    assert [(s.n, s.label) for s in both] == [(i, i % 3) for i in order]
    assert list(both.keys or ()) == [f"s{i}" for i in order]
    assert both["s23"].n == 23
    assert both.read_bytes([1], "b") == [bytes([3]) * 9]
    assert both.sources()[2] == (23, 2, bytes([23]) * 9)
    assert both.read_ragged(np.array([0, 2]), "b").values.tolist() == [5] * 9 + [23] * 9
    with pytest.raises(FormatError, match=r"o\.beton: no sample is called 's1', as one of .* and 19 more names"):
        hr.zip_fields([labels, few], by="name")


def test_names_of_fields(labels: Dataset) -> None:
    with pytest.raises(ValueError, match="two fields would be called 'label'"):
        hr.zip_fields([labels, labels])
    assert list(hr.zip_fields({"x": labels, "y": labels}).schema) == ["x_label", "x_b", "y_label", "y_b"]
    numbers = hr.zip_fields([hr.zip_fields({"n": hr.subset(labels, range(24))}, rename={"n_b": "data"})])
    assert list(numbers.schema) == ["n_label", "data"]
    with pytest.raises(ValueError, match="rename names 'q', and no field has that name"):
        hr.zip_fields([labels], rename={"q": "r"})
    with pytest.raises(ValueError, match="no field can be called that"):
        hr.zip_fields([labels], rename={"label": "a/../b"})
    with pytest.raises(KeyError, match="no field 'q'"):
        hr.zip_fields([labels]).read_bytes([0], "q")


def test_what_does_not_fit(labels: Dataset, pictures: Pictures) -> None:
    with pytest.raises(ValueError, match=r"has 3 samples and .* 24; side by side they must be equally long"):
        hr.zip_fields([labels, hr.subset(pictures.whole, [0, 1, 2])])
    with pytest.raises(FormatError, match="the samples have no names"):
        hr.zip_fields([pictures.whole, labels], by="name")
    with pytest.raises(ValueError, match="by must be"):
        hr.zip_fields([labels], by="number")  # type: ignore[arg-type]


def test_a_damaged_value_has_its_number_and_field_here(labels: Dataset, tmp_path: Path) -> None:
    with open(labels.path, "r+b") as file:
        file.seek(file.read().find(bytes([9]) * 9))
        file.write(b"\0")
    order = [11, 9]
    hr.write(tmp_path / "o.beton", order, fields={"n": hr.Int()}, names=[f"s{i}" for i in order])
    both = hr.zip_fields([hr.open(tmp_path / "o.beton"), hr.open(labels.path)], by="name", rename={"b": "data"})
    with pytest.raises(CorruptSampleError, match=r"sample 1, field 'data', .*\(this is sample 9 of") as caught:
        both.read_values(np.array([0, 1]), "data")
    assert (caught.value.sample, caught.value.field) == (1, "data")
    assert [problem.sample for problem in both.verify().problems] == [1]
