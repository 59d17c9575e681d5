from __future__ import annotations

import copy
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, TensorDataset

from headrace.compat.ffrecord import FileReader, FileWriter
from headrace.compat.ffrecord.torch import ConcatDataset, Dataset, Subset
from headrace.compat.ffrecord.torch import DataLoader as OurLoader
from headrace.compat.ffrecord.torch.dataloader import SkipableSampler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# torch advises against more workers than cores, of which a test machine may have two.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

COUNT = 50


class Stored(Dataset):
    """Reads 8-byte numbers; each sample is (number, how many were asked for together, process)."""

    def process(self, indices: Any, data: list[np.ndarray]) -> list[tuple[int, int, int]]:
        return [(int(array.view("<i8")[0]), len(indices), os.getpid()) for array in data]


class OwnStyle(Dataset):
    """Two readers and a ``__getitem__`` of its own."""

    def __init__(self, path: Path) -> None:
        self.numbers, self.again = FileReader(path), FileReader(path)

    def __len__(self) -> int:
        return self.numbers.n

    def __getitem__(self, indices: list[int]) -> list[tuple[int, int, int]]:
        assert type(indices) is list
        rows = zip(self.numbers.read(indices), self.again.read(indices), strict=True)
        return [(int(a.view("<i8")[0]), len(indices), int(b.view("<i8")[0])) for a, b in rows]


class Plain(torch.utils.data.Dataset):  # type: ignore[misc]
    """Not one of ours: is asked for one sample after the other."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> int:
        assert not isinstance(index, list)
        return 2 * index


class Counting(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with FileWriter(tmp_path / "x.ffr", COUNT) as writer:
        for i in range(COUNT):
            writer.write_one(np.int64(i))
    return tmp_path / "x.ffr"


def numbers(loader: Any) -> list[list[int]]:
    return [batch[0].tolist() for batch in loader]


def seeded() -> Any:
    return torch.Generator().manual_seed(5)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", [Stored, OwnStyle])
def test_the_batches_are_torchs(path: Path, kind: Any, num_workers: int) -> None:
    expected = DataLoader(TensorDataset(torch.arange(COUNT)), batch_size=8, shuffle=True, generator=seeded())
    loader = OurLoader(kind(path), batch_size=8, shuffle=True, num_workers=num_workers, generator=seeded())
    for _ in range(2):
        batches = list(loader)
        assert [batch[0].tolist() for batch in batches] == [batch[0].tolist() for batch in expected]
        assert [batch[1].tolist() for batch in batches] == [[8] * 8] * 6 + [[2] * 2], "one call for a batch"
    assert (loader.batch_size, loader.drop_last, len(loader)) == (8, False, 7)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("kind", [Stored, OwnStyle])
def test_start_methods(path: Path, kind: Any, method: str) -> None:
    dataset = kind(path)
    before = dataset[list(range(COUNT))]  # the reader is in use before workers start
    contexts: list[Any] = [method, multiprocessing.get_context(method)]
    for context in contexts if method == "fork" else contexts[:1]:
        loader = OurLoader(dataset, 8, num_workers=2, multiprocessing_context=context, drop_last=True)
        assert numbers(loader) == np.arange(48).reshape(6, 8).tolist()
        assert loader.multiprocessing_context.get_start_method() == method
    assert dataset[list(range(COUNT))] == before


def test_workers_are_forked_by_default(path: Path) -> None:
    dataset = Stored(path)
    dataset.unpicklable = lambda: None
    loader = OurLoader(dataset, 10, num_workers=2)
    assert loader.multiprocessing_context.get_start_method() == "fork"
    processes = {int(number) for batch in loader for number in batch[2]}
    assert len(processes) == 2
    assert os.getpid() not in processes


def test_options_without_workers(path: Path) -> None:
    assert OurLoader(Stored(path)).prefetch_factor is None
    assert OurLoader(Stored(path), num_workers=1).prefetch_factor == 2
    assert OurLoader(Stored(path), num_workers=1, prefetch_factor=5).prefetch_factor == 5
    with pytest.raises(ValueError, match="prefetch_factor"):
        OurLoader(Stored(path), prefetch_factor=5)
    with pytest.raises(ValueError, match="persistent_workers"):
        OurLoader(Stored(path), persistent_workers=True)
    with pytest.raises(ValueError, match="multiprocessing_context"):
        OurLoader(Stored(path), multiprocessing_context="spawn")
    with pytest.raises(TypeError, match="nonsense"):
        OurLoader(Stored(path), nonsense=1)


def test_positional_arguments(path: Path) -> None:
    def first_only(samples: list[Any]) -> list[int]:
        return [sample[0] for sample in samples]

    started: list[int] = []
    given = (8, False, None, None, 0, first_only, False, True, 0, started.append, seeded())
    loader = OurLoader(Stored(path), *given)
    assert list(loader) == np.arange(48).reshape(6, 8).tolist()
    assert (loader.worker_init_fn, loader.generator) == (given[9], given[10])
    assert list(OurLoader(Stored(path), 50, pin_memory_device="", collate_fn=first_only)) == [list(range(50))]


def test_samplers(path: Path) -> None:
    dataset = Stored(path)
    order = [3, 1, 4, 1, 5, 9, 2, 6]
    assert numbers(OurLoader(dataset, 3, sampler=order)) == [[3, 1, 4], [1, 5, 9], [2, 6]]
    batches = BatchSampler(SequentialSampler(dataset), 20, drop_last=False)
    loader = OurLoader(dataset, batch_sampler=batches)
    assert [len(batch) for batch in numbers(loader)] == [20, 20, 10]
    assert loader.batch_size is None
    assert loader.batch_sampler is batches, "the user's own"
    random = RandomSampler(dataset, generator=seeded())
    loader = OurLoader(dataset, 5, sampler=random)
    assert loader.sampler is random
    assert sorted([number for batch in numbers(loader) for number in batch]) == list(range(COUNT))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_without_batches(path: Path, num_workers: int) -> None:
    with pytest.raises(AssertionError, match="batch_size=None needs skippable=False"):
        OurLoader(Stored(path), batch_size=None)
    loader = OurLoader(Stored(path), batch_size=None, num_workers=num_workers, skippable=False)
    assert len(loader) == COUNT
    values = list(loader)
    assert [value[0][:2] for value in values] == [[i, 1] for i in range(COUNT)], "a list of one index"
    assert {len(value) for value in values} == {1}
    lists = OurLoader(Stored(path), None, sampler=[[1, 2], [3]], num_workers=num_workers, skippable=False)
    assert [[sample[0] for sample in value] for value in lists] == [[1, 2], [3]], "lists are handed over as they are"


@pytest.mark.parametrize("num_workers", [0, 2])
def test_other_datasets_are_asked_as_by_torch(num_workers: int) -> None:
    loader = OurLoader(Plain(), 20, num_workers=num_workers)
    assert [batch.tolist() for batch in loader] == [
        list(range(0, 40, 2)),
        list(range(40, 80, 2)),
        list(range(80, 100, 2)),
    ]
    loader.set_step(2)
    assert [batch.tolist() for batch in loader] == [list(range(80, 100, 2))]
    assert list(OurLoader(Plain(), None, num_workers=num_workers, skippable=False))[:2] == [0, 2]
    iterable = OurLoader(Counting(), 4)
    assert [batch.tolist() for batch in iterable] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(TypeError, match="iterable"):
        iterable.set_step(1)


def test_subsets_and_joined_datasets(path: Path) -> None:
    joined = ConcatDataset([Subset(Stored(path), range(0, 50, 5)), Subset(OwnStyle(path), range(5))])
    loader = OurLoader(joined, 4, num_workers=2, multiprocessing_context="fork")
    assert [number for batch in numbers(loader) for number in batch] == [*range(0, 50, 5), *range(5)]


# -- skipping ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("step", [0, 1, 6])
def test_what_follows_is_what_would_have_followed(path: Path, num_workers: int, shuffle: bool, step: int) -> None:
    options: dict[str, Any] = {"batch_size": 8, "shuffle": shuffle, "num_workers": num_workers}
    whole = OurLoader(Stored(path), **options, generator=seeded())
    epochs = [numbers(whole) for _ in range(2)]
    resumed = OurLoader(Stored(path), **options, generator=seeded())
    resumed.set_step(step)
    assert len(resumed) == 7 - step
    assert numbers(resumed) == epochs[0][step:]
    resumed.set_step(0)
    assert len(resumed) == 7
    assert numbers(resumed) == epochs[1], "the next epoch is whole, and the same"


def test_the_step_stays_and_workers_too(path: Path) -> None:
    loader = OurLoader(Stored(path), 10, num_workers=2, persistent_workers=True)
    loader.set_step(3)
    assert [numbers(loader) for _ in range(2)] == [[list(range(30, 40)), list(range(40, 50))]] * 2
    loader.set_step(4)
    assert numbers(loader) == [list(range(40, 50))]
    loader.set_step(0)
    assert len(numbers(loader)) == 5


def test_steps_that_are_refused(path: Path) -> None:
    loader = OurLoader(Stored(path), 10)
    for wrong in (-1, 5, 100, 1.5):
        with pytest.raises(AssertionError, match="step must be a whole number from 0 to 4"):
            loader.set_step(wrong)  # type: ignore[arg-type]
    assert len(loader) == 5
    loader.set_step(4)
    loader.set_step(4)  # of the whole epoch, not of what is left
    loader.set_step(2.0)  # type: ignore[arg-type]
    assert len(loader) == 3
    fixed = OurLoader(Stored(path), 10, skippable=False)
    assert len(numbers(fixed)) == 5
    with pytest.raises(AssertionError, match="skippable=False"):
        fixed.set_step(1)


def test_the_sampler_alone() -> None:
    sampler = SkipableSampler(BatchSampler(range(10), 3, drop_last=True), 1)
    assert list(sampler) == [[3, 4, 5], [6, 7, 8]]
    assert len(sampler) == 2
    sampler.set_step(2)
    assert list(copy.deepcopy(sampler)) == [[6, 7, 8]]


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 1])
def test_damage_is_told_by_workers(path: Path, num_workers: int) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    loader = OurLoader(Stored(path), 10, num_workers=num_workers)
    with pytest.raises(RuntimeError, match=r"x\.ffr: sample 49, .*checksum"):
        list(loader)
    assert len(numbers(OurLoader(Stored(path, check_data=False), 10, num_workers=num_workers))) == 5
