"""Some samples of a dataset, in any order."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.formats.sets.conftest import Pictures

    from headrace import Dataset


@pytest.fixture
def letters(tmp_path: Path) -> Dataset:
    names = [chr(97 + i) for i in range(26)]
    rows = [(i, bytes([i]) * (i + 1)) for i in range(26)]
    hr.write(tmp_path / "x.beton", rows, fields={"n": hr.Int(), "b": hr.Bytes()}, names=names)
    return hr.open(tmp_path / "x.beton")


def test_numbers_masks_and_names(letters: Dataset) -> None:
    assert [s.n for s in hr.subset(letters, [3, -1, 3, 0])] == [3, 25, 3, 0]
    assert [s.n for s in hr.subset(letters, np.arange(26) % 10 == 0)] == [0, 10, 20]
    assert [s.n for s in hr.subset(letters, ["c", "a"])] == [2, 0]
    many = [chr(97 + i) for i in range(25, -1, -1)]
    chosen = hr.subset(letters, names=many)
    assert [s.n for s in chosen] == list(range(25, -1, -1))
    assert list(chosen.keys or ()) == many
    assert chosen["z"].n == 25
    assert (chosen.keys or []).index("b") == 24
    assert len(hr.subset(letters, [])) == 0


def test_wrong_choices(letters: Dataset, pictures: Pictures) -> None:
    with pytest.raises(IndexError, match="sample 26 is out of range"):
        hr.subset(letters, [26])
    for names in (["a", "?"], ["?"] + [chr(97 + i) for i in range(26)]):
        with pytest.raises(KeyError, match="no sample is called '\\?'"):
            hr.subset(letters, names=names)
    with pytest.raises(TypeError, match="indices or names, one of them"):
        hr.subset(letters)
    with pytest.raises(TypeError, match="must be a list of names"):
        hr.subset(letters, names="abc")
    with pytest.raises(ValueError, match="have no names"):
        hr.subset(pictures.whole, names=["a"])


def test_pictures_are_not_copied(pictures: Pictures) -> None:
    some = hr.subset(pictures.whole, [5, 2])
    spans = some.image_spans(np.array([0, 1]), "image")
    assert np.shares_memory(spans.base, pictures.whole.image_spans(np.array([0]), "image").base)
    assert some.read_bytes([1], "image") == [pictures.files[2]]
    assert pickle.loads(pickle.dumps(some)).read_bytes([0], "image") == [pictures.files[5]]
    assert some.fingerprint != hr.subset(pictures.whole, [2, 5]).fingerprint
    assert (some.page_numbers() is None) == (pictures.whole.page_numbers() is None)


def test_what_is_wrong_with_other_samples_is_not_told(letters: Dataset) -> None:
    with open(letters.path, "r+b") as file:
        data = file.read()
        for value in (7, 20):
            file.seek(data.find(bytes([value]) * (value + 1)))
            file.write(b"\xff")
    fresh = hr.open(letters.path)
    some = hr.subset(fresh, [1, 20, 2, 20])
    (problem,) = some.verify().problems
    assert problem.sample == 1
    assert "sample 20" in problem.message
    with pytest.raises(CorruptSampleError, match="this is sample 20 of") as caught:
        some.read_bytes([0, 3], "b")
    assert caught.value.sample == 3
