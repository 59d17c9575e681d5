from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from headrace.compat.ffrecord import FileReader, FileWriter
from headrace.compat.ffrecord.torch import ConcatDataset, Dataset, ReaderRegistry, Subset

if TYPE_CHECKING:
    from pathlib import Path


class Words(Dataset):
    """The first style: ``process``. Notes what it is asked for."""

    def __init__(self, fnames: Any, check_data: bool = True) -> None:
        super().__init__(fnames, check_data)
        self.asked: list[Any] = []

    def process(self, indices: Any, data: list[np.ndarray]) -> list[str]:
        self.asked.append(indices)
        return [array.tobytes().decode() for array in data]


class Numbers(Dataset):
    """The second style: a ``__getitem__`` of its own, and no call of the constructor."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, indices: list[int]) -> list[int]:
        assert isinstance(indices, list)
        return [10 * index for index in indices]


def write(path: Path, words: list[str]) -> Path:
    with FileWriter(path, len(words)) as writer:
        for word in words:
            writer.write_one(word.encode())
    return path


@pytest.fixture
def first(tmp_path: Path) -> Words:
    return Words(write(tmp_path / "a.ffr", [f"a{i}" for i in range(5)]))


@pytest.fixture
def second(tmp_path: Path) -> Words:
    return Words(write(tmp_path / "b.ffr", [f"b{i}" for i in range(3)]))


def test_with_process(first: Words, tmp_path: Path) -> None:
    assert len(first) == 5
    assert first.fnames == tmp_path / "a.ffr"
    assert isinstance(first.reader, FileReader)
    assert first[[3, 0, 3]] == ["a3", "a0", "a3"]
    assert first[(1,)] == ["a1"]
    assert first.asked == [[3, 0, 3], (1,)]
    assert isinstance(first, torch.utils.data.Dataset)
    for wrong in (1, np.array([1]), slice(2), range(2), torch.tensor([1])):
        with pytest.raises(TypeError, match="indices must be a list of integers, got"):
            first[wrong]
    for error in (IndexError, RuntimeError):
        with pytest.raises(error, match="sample 5 "):
            first[[5]]
    with pytest.raises(NotImplementedError, match=r"process\(self, indices, data\)"):
        Dataset(tmp_path / "a.ffr")[[0]]
    assert pickle.loads(pickle.dumps(first))[[4]] == ["a4"]


def test_with_its_own_getitem() -> None:
    dataset = Numbers(4)
    assert dataset[[2, 1]] == [20, 10]
    assert dataset.ffreaders() == []
    assert len(pickle.loads(pickle.dumps(dataset))) == 4


def test_subset(first: Words) -> None:
    for indices in ([4, 1, 4], np.array([4, 1, 4]), (4, 1, 4)):
        subset = Subset(first, indices)
        assert len(subset) == 3
        assert subset[[0, 2, 1]] == ["a4", "a4", "a1"]
        assert subset[[-1]] == ["a4"]
    assert Subset(subset, [1])[[0]] == ["a1"]
    assert subset.ffreaders() == [first.reader]
    with pytest.raises(IndexError):
        subset[[3]]


def test_concat(first: Words, second: Words) -> None:
    both = ConcatDataset([first, second])
    assert isinstance(first + second, ConcatDataset)
    assert len(both) == len(first + second) == 8
    assert both.datasets == [first, second]
    assert both.cumulative_sizes == [5, 8]
    assert both[[6, 0, 7, 4, -1, -8]] == ["b1", "a0", "b2", "a4", "b2", "a0"]
    assert (len(first.asked), len(second.asked)) == (1, 1), "each dataset is asked once"
    assert both[[3, 6, 3, 6, 6]] == ["a3", "b1", "a3", "b1", "b1"], "an index may come twice"
    assert both[[]] == []
    assert (both + Numbers(2))[[9, 0]] == [10, "a0"]
    assert both.ffreaders() == [first.reader, second.reader]
    with pytest.raises(IndexError, match="sample 8 does not exist; the datasets have 8 samples"):
        both[[0, 8]]
    with pytest.raises(ValueError, match="sample -9 does not exist"):
        both[[-9]]
    with pytest.raises(AssertionError, match="at least one"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match=r"datasets\[1\] must be a Dataset of ffrecord.torch, got list"):
        ConcatDataset([first, [1, 2]])  # type: ignore[list-item]


class Registry(ReaderRegistry):
    def __init__(self, *names: Any) -> None:
        self.one, self.two = (FileReader(name) for name in names)


def test_registry(first: Words, second: Words, tmp_path: Path) -> None:
    class Everything(Dataset):
        def __init__(self) -> None:
            self.reader = FileReader(first.fnames)
            self.other = Registry(first.fnames, second.fnames)
            self.words = second
            self.nothing = [1, 2]

    dataset = Everything()
    expected = [dataset.reader, dataset.other.one, dataset.other.two, second.reader]
    assert dataset.ffreaders() == expected
    assert list(dataset._readers) == ["reader"]
    assert list(dataset._resitries) == ["other", "words"]
    dataset.other.back = dataset  # type: ignore[attr-defined]
    assert dataset.ffreaders() == expected, "a circle ends"


def test_registry_forgets(first: Words, second: Words) -> None:
    registry = Registry(first.fnames, second.fnames)
    one, two = registry.one, registry.two
    del registry.one
    assert not hasattr(registry, "one")
    assert registry.ffreaders() == [two]
    registry.two = "something else"  # type: ignore[assignment]
    assert registry.ffreaders() == []
    registry.two = one
    assert registry.ffreaders() == [one]
    with pytest.raises(AttributeError):
        del registry.one
    del first.reader
    assert first.ffreaders() == []
