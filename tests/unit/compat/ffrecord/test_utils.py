from __future__ import annotations

import os
import signal
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from headrace.compat.ffrecord import FileReader
from headrace.compat.ffrecord.utils import dump
from headrace.errors import WorkerDiedError, WriteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Samples:
    """Bytes from a function of the index; cannot be pickled."""

    def __init__(self, length: int, make: Callable[[int], Any]) -> None:
        self.length = length
        self.make = make
        self.unpicklable = lambda: None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def contents(path: Path) -> list[bytes]:
    reader = FileReader(path)
    return [sample.tobytes() for sample in reader.read(range(reader.n))]


def test_one_file(tmp_path: Path, capfd: Any) -> None:
    samples = [bytes([i]) * i for i in range(50)]
    dump(samples, tmp_path / "x.ffr", 1)
    dump(samples, str(tmp_path / "y.ffr"), nfiles=1, verbose=True)
    assert contents(tmp_path / "x.ffr") == contents(tmp_path / "y.ffr") == samples
    assert "50/50" in capfd.readouterr().err
    dump([], tmp_path / "x.ffr", 1)
    assert FileReader(tmp_path / "x.ffr").n == 0


@pytest.mark.parametrize(("count", "nfiles", "sizes"), [(10, 4, [3, 3, 3, 1]), (40, 20, [2] * 20), (3, 3, [1, 1, 1])])
def test_parts(tmp_path: Path, count: int, nfiles: int, sizes: list[int]) -> None:
    folder = tmp_path / "new" / "train.ffr"
    dump(Samples(count, lambda i: b"%d" % i), folder, nfiles, verbose=True)
    names = sorted(os.listdir(folder))
    assert names == [f"PART_{i:05d}.ffr" for i in range(nfiles)]
    assert [FileReader(folder / name).n for name in names] == sizes
    assert contents(folder) == [b"%d" % i for i in range(count)]


def test_fewer_parts_than_asked_for(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="10 samples make 5 files instead of 7") as caught:
        dump([b"x"] * 10, tmp_path / "p", 7)
    assert caught[0].filename == __file__
    assert len(os.listdir(tmp_path / "p")) == 5


def test_what_was_there_is_told_or_replaced(tmp_path: Path) -> None:
    dump([b"old"] * 6, tmp_path, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dump([b"new"] * 9, tmp_path, 3)
    assert contents(tmp_path) == [b"new"] * 9
    with pytest.warns(UserWarning, match=r"has 1 other \.ffr files"):
        dump([b"x"] * 2, tmp_path, 2)


def test_wrong_numbers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 samples cannot be written into 3 files"):
        dump([], tmp_path / "x", 3)
    with pytest.raises(ZeroDivisionError):
        dump([b"x"], tmp_path / "x", 0)
    with pytest.raises(ValueError, match="cannot be written into -2 files"):
        dump([b"x"] * 5, tmp_path / "x", -2)
    with pytest.raises(AssertionError, match="must end with"):
        dump([b"x"], tmp_path / "x", 1)
    assert os.listdir(tmp_path) == []


def fail_at_7(index: int) -> bytes:
    return b"%d" % (index // (index != 7))


@pytest.mark.parametrize("before", [[], [b"old"] * 8])
def test_a_failure_is_raised_and_nothing_changes(tmp_path: Path, before: list[bytes]) -> None:
    if before:
        dump(before, tmp_path, 4)
    files = sorted(os.listdir(tmp_path))
    with pytest.raises(WriteError, match="sample 7 could not be fetched: ZeroDivisionError"):
        dump(Samples(20, fail_at_7), tmp_path, 4)
    with pytest.raises(TypeError, match="got str"):
        dump(["text"] * 20, tmp_path, 4)
    with pytest.raises(WorkerDiedError, match=r"Nothing was written\. Try fewer files: .* nfiles=1 needs none\.$"):
        dump(Samples(20, lambda i: os.kill(os.getpid(), signal.SIGKILL) if i == 9 else b"x"), tmp_path, 4)
    assert sorted(os.listdir(tmp_path)) == files
    assert not before or contents(tmp_path) == before


def test_a_failure_of_one_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        dump(Samples(20, fail_at_7), tmp_path / "x.ffr", 1)
    assert os.listdir(tmp_path) == []
