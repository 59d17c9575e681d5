"""The calls that FFRecord's own tests make, as tests for pytest under the launcher; the name keeps other runs away."""

import os
import pickle
import random
import tempfile
from pathlib import Path

import ffrecord
import numpy as np
import pytest
import torch
from ffrecord import FileReader, FileWriter, PackedFolder, checkFsAlign, pack_folder
from ffrecord.torch import ConcatDataset, DataLoader, Dataset, ReaderRegistry, Subset
from ffrecord.utils import dump

print(ffrecord.__version__)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


def content(index):
    return bytearray(x * x % 256 for x in range(index + 5))


def write_files(count, names):
    """The samples go on from file to file."""
    number = 0
    for name in names:
        writer = FileWriter(name, count)
        for _ in range(count):
            writer.write_one(content(number))
            number += 1
        writer.close()


@pytest.fixture
def names():
    """Of files that are there already, and empty."""
    made = [tempfile.mkstemp(suffix=".ffr") for _ in range(10)]
    yield [name for _, name in made]
    for handle, name in made:
        os.close(handle)
        Path(name).unlink()


@pytest.mark.parametrize("files", [1, 10])
def test_one_by_one_and_in_batches(names, files):
    write_files(50, names[:files])
    reader = FileReader(names[:files], check_data=True)
    assert reader.n == 50 * files
    indices = list(range(reader.n))
    random.shuffle(indices)
    for index in indices:
        assert reader.read_one(index).tobytes() == content(index)
    for start in range(0, reader.n, 10):
        batch = indices[start : start + 10]
        assert [array.tobytes() for array in reader.read(batch)] == [content(index) for index in batch]
    reader.close()


def test_a_folder_with_a_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("files/", exist_ok=True)
    write_files(20, [f"files/{number:05d}.ffr" for number in range(5)])
    reader = FileReader("files/", check_data=True)
    assert reader.read(list(range(100)))[99].tobytes() == content(99)
    reader.close()


def test_paths_and_blocks(names):
    with FileWriter(Path(names[0]), 10) as writer:
        for _ in range(10):
            writer.write_one(b"12345")
    with FileReader(Path(names[0])) as reader:
        assert len(reader.read(list(range(10)))) == 10


def test_readers_are_pickled(names):
    write_files(2, names[:1])
    first = FileReader(names[0], True)
    second = pickle.loads(pickle.dumps(first))
    for left, right in zip(first.read([0, 1]), second.read([0, 1]), strict=True):
        np.testing.assert_array_equal(left, right)
    first.close()
    second.close()


def test_the_file_system_is_asked():
    with tempfile.NamedTemporaryFile() as file:
        handle = os.open(file.name, os.O_RDONLY)
        assert checkFsAlign(handle) == False  # noqa: E712
        os.close(handle)


def test_a_folder_is_packed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for i in range(20):
        Path(f"folder/{i:03d}").write_bytes(bytes(i % 256 for i in range(1000 + i)))
    pack_folder(Path("folder"), Path("packed.ffr"), verbose=True)
    folder = PackedFolder(Path("packed.ffr"))
    assert folder.num_files() == 20
    assert folder.is_file("000")
    assert not folder.is_dir("000")
    assert not folder.is_file("100")
    assert set(folder.list()) == {f"{i:03d}" for i in range(20)}
    for name in folder.list():
        np.testing.assert_array_equal(folder.read_one(name), np.fromfile(f"folder/{name}", np.uint8))


@pytest.mark.parametrize(("count", "nfiles"), [(200, 1), (200, 8), (200, 64), (10, 16)])
@pytest.mark.filterwarnings("ignore:.* samples make .* files:UserWarning")
def test_a_list_is_dumped(tmp_path, count, nfiles):
    values = [2 * i for i in range(count)]
    target = str(tmp_path / "dumped.ffr")
    dump(list(map(pickle.dumps, values)), target, nfiles=nfiles)
    assert nfiles == 1 or len(list(Path(target).glob("*.ffr"))) <= nfiles
    reader = FileReader(target, True)
    assert reader.n == count
    assert [pickle.loads(array) for array in reader.read(list(range(count)))] == values


class Plain(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return (index * 2, index * 3)


class Unpickled(Dataset):
    def process(self, indexes, data):
        return [pickle.loads(bytes_) for bytes_ in data]


class Bare(Dataset):
    def process(self, indexes, data):
        return data


def write_plain(name, plain):
    writer = FileWriter(name, len(plain))
    for i in range(len(plain)):
        writer.write_one(bytearray(pickle.dumps(plain[i])))
    writer.close()


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("num_workers", [0, 8])
def test_batches_are_those_of_torch(names, num_workers):
    plain = Plain(100)
    write_plain(names[0], plain)
    expected = torch.utils.data.DataLoader(plain, batch_size=8, shuffle=False)
    loader = DataLoader(Unpickled(names[0]), batch_size=8, shuffle=False, num_workers=num_workers)
    assert len(loader) == len(expected)
    assert all(same(ours, theirs) for ours, theirs in zip(loader, expected, strict=True))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("num_workers", [0, 4])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_steps_are_skipped(names, shuffle, num_workers, batch_size):
    plain = Plain(40 * batch_size)
    write_plain(names[0], plain)
    options = {"batch_size": batch_size, "shuffle": shuffle, "num_workers": num_workers}
    theirs = iter(torch.utils.data.DataLoader(plain, **options, generator=torch.Generator().manual_seed(12345)))
    loader = DataLoader(Unpickled(names[0]), **options, generator=torch.Generator().manual_seed(12345))
    loader.set_step(5)
    assert len(loader) == 35
    for _ in range(5):
        next(theirs)
    assert all(same(ours, others) for ours, others in zip(loader, theirs, strict=True))
    loader.set_step(0)
    assert len(loader) == 40


def test_datasets_are_joined(names):
    for name, factor in zip(names, (1, 2), strict=False):
        with FileWriter(name, 100) as writer:
            for i in range(100):
                writer.write_one(bytearray([i * factor % 256]))
    first, second = Bare(names[0], True), Bare(names[1], True)
    joined = ConcatDataset([first, second])
    assert len(joined) == len(first) + len(second)
    data = joined[list(range(len(joined)))]
    for i in range(len(joined)):
        alone = first[[i]] if i < len(first) else second[[i - len(first)]]
        assert data[i] == alone  # an array, and a list of one


def test_a_part_of_a_dataset(names):
    with FileWriter(names[0], 100) as writer:
        for i in range(100):
            writer.write_one(bytearray([i]))
    whole = Bare(names[0], True)
    indices = np.random.choice(100, 50)
    part = Subset(whole, indices)
    assert len(part) == 50
    for i in range(50):
        assert part[[i]] == whole[[indices[i]]]


class Registry(ReaderRegistry):
    def __init__(self, *names):
        self.first, self.second = map(FileReader, names)


class Registered(Dataset):
    def __init__(self, *names):
        self.first, self.second = map(FileReader, names)
        self.another = Registry(*names)


def test_readers_are_registered(names):
    write_files(5, names[:2])
    readers = Registered(*names[:2]).ffreaders()
    print(readers)
    assert len(readers) == 4


class Toys(Dataset):
    """No files at all."""

    def __init__(self):
        self.data = [(np.random.rand(16), np.random.rand(1)) for _ in range(50)]

    def __getitem__(self, indices):
        return [tuple(map(torch.Tensor, self.data[index])) for index in indices]

    def __len__(self):
        return len(self.data)


def test_a_dataset_without_files():
    loader = DataLoader(Toys(), batch_size=1, num_workers=2, skippable=False)
    assert [tuple(x.shape) for x in next(iter(loader))] == [(1, 16), (1, 1)]
    assert len(list(loader)) == 50
