from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import picture
from tests.unit.formats.picture_folder import FILES, KEYS, LABELS

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_a_dataset(folder: Path) -> None:
    dataset = hr.open(folder)
    assert isinstance(dataset, hr.Dataset)
    assert list(dataset.keys or ()) == KEYS
    assert [s.label for s in dataset] == LABELS
    assert dataset.class_names == {"label": ["ant", "cat", "dog"]}
    np.testing.assert_array_equal(dataset[1].image, picture(2, 10, 12))
    assert [s.image.shape for s in dataset[[3, 0]]] == [(40, 25, 3), (5, 6, 3)]
    assert dataset.read_bytes([2], "image") == [FILES["cat/b.jpg"]]
    assert [s.label for s in pickle.loads(pickle.dumps(list(dataset)))] == LABELS
    plan = hr.Loader(dataset, 2, pipelines={"image": [hr.ops.Resize(8)]}).plan()
    assert plan.endswith("\nbytes: from the file of each picture")


def test_without_classes(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(FILES["cat/a.PNG"])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.png").write_bytes(FILES["cat/a.PNG"])
    dataset = hr.open(tmp_path)
    assert list(dataset.schema) == ["image"]
    assert dataset.class_names == {}
    assert len(dataset[0]) == 1


def test_wrong_fields(folder: Path) -> None:
    with pytest.raises(ValueError, match="only 'image' has"):
        hr.open(folder).read_bytes([0], "label")


def test_a_folder_without_pictures(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no pictures are below this folder"):
        hr.open(tmp_path)


def test_verify(folder: Path) -> None:
    assert hr.verify(folder, decode=True).ok
    (folder / "cat" / "b.jpg").write_bytes(FILES["cat/b.jpg"][:200])
    assert hr.verify(folder).ok, "without decoding only reading is checked"
    report = hr.verify(folder, decode=True)
    assert report.bad_samples == (2,)
    assert "cat/b.jpg" in report.problems[0].message
    with pytest.raises(CorruptSampleError, match=r"cat/b\.jpg: sample 2, field 'image'"):
        hr.open(folder)[2]


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "tree")
    os.makedirs(root + b"/caf\xe9")
    with open(root + b"/caf\xe9/\xff.png", "wb") as file:
        file.write(FILES["cat/a.PNG"])
    path = tmp_path / "x.beton"
    hr.pack(path, tmp_path / "tree")
    dataset = hr.open(path)
    assert [os.fsencode(key) for key in dataset.keys or ()] == [b"caf\xe9/\xff.png"]
    assert os.fsencode(dataset.class_names["label"][0]) == b"caf\xe9"
