"""Many processes, forked and spawned; files that are cut short while they are open."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError, HeadraceError
from headrace.formats.ffr import FfrReader, FfrWriter

COUNT, SIZE = 300, 30_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "x.ffr"
    with FfrWriter(target, COUNT) as writer:
        writer.append_many(bytes([i % 251]) * SIZE for i in range(COUNT))
    return target


def read_some(reader: FfrReader, seed: int) -> bool:
    indices = np.random.default_rng(seed).integers(0, COUNT, 40)
    return [sample.tobytes() for sample in reader.read(indices)] == [bytes([i % 251]) * SIZE for i in indices]


def read_with_many(path: str, seed: int) -> bool:
    readers = [FfrReader(path, cold=[None, True, False][i % 3]) for i in range(4)]
    return all(read_some(reader, seed + i) for i, reader in enumerate(readers * 3))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_reader_travels(path: Path, method: str) -> None:
    for cold in (None, True):
        reader = FfrReader(path, cold=cold)
        assert read_some(reader, 0)  # the parent's queue is in use before
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            assert all(pool.map(read_some, [reader] * 6, range(6)))
        assert read_some(reader, 1)


def test_readers_in_forked_children(path: Path) -> None:
    script = f"""
import os, sys
sys.path.insert(0, {os.getcwd()!r})
from tests.integration.test_ffr_processes import FfrReader, read_some
readers = [FfrReader(sys.argv[1], cold=cold) for cold in (None, True, False)]
assert all(read_some(reader, 0) for reader in readers)
children = []
for seed in range(6):
    if (child := os.fork()) == 0:
        os._exit(7 if all(read_some(reader, seed) for reader in readers) else 1)
    children.append(child)
    assert all(read_some(reader, seed) for reader in readers)
assert [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children] == [7] * 6
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_64_readers_in_16_processes(path: Path) -> None:
    with ProcessPoolExecutor(16, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert all(pool.map(read_with_many, [str(path)] * 16, range(0, 1600, 100)))


@pytest.mark.parametrize("cold", [None, True, False])
def test_cut_short_while_open(path: Path, cold: bool | None) -> None:
    script = f"""
import os, sys
import numpy as np
import headrace as hr
from headrace.errors import FormatError
from headrace.formats.ffr import FfrReader
path = sys.argv[1]
dataset, reader = hr.open(path, cold={cold}), FfrReader(path, cold={cold})
reader.read([0]), dataset[0]
os.truncate(path, os.path.getsize(path) // 2)
indices = np.arange(250, 260)
for read in (
    lambda: dataset[250], lambda: dataset.read_bytes(indices, "data"), lambda: dataset.read_ragged(indices, "data"),
    lambda: reader.read(indices), lambda: reader.read_into(indices, np.zeros(10**6, np.uint8)), dataset.verify,
):
    try:
        read()
    except FormatError as error:
        assert "became shorter while it was in use" in str(error), error
        assert path in str(error)
    else:
        raise SystemExit("no error")
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_part_is_missing(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "meta.pkl").write_bytes(b"ignored")
    for number in (0, 1, 3):
        os.link(path, folder / f"PART_{number:05d}.ffr")
    with pytest.raises(HeadraceError, match=r"PART_00002\.ffr is missing, beside 3 other parts"):
        hr.open(folder)
    assert len(hr.open(sorted(folder.glob("*.ffr")))) == 3 * COUNT
    os.link(path, folder / "PART_00002.ffr")
    (folder / "sub.ffr").mkdir()
    assert len(hr.open(folder)) == 4 * COUNT
    for file in folder.glob("*.ffr"):
        if file.is_file():
            file.unlink()
    with pytest.raises(HeadraceError):
        hr.open(folder, format="ffr")


def test_parts_that_disagree(path: Path, tmp_path: Path) -> None:
    """Generations may be mixed and parts may be empty; a damaged part is named."""
    golden = Path(__file__).parents[1] / "golden" / "ffr"
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, part in enumerate((path, golden / "old" / "old_count.ffr", golden / "plain" / "empty_file.ffr")):
        (folder / f"PART_{number:05d}.ffr").write_bytes(part.read_bytes())
    dataset = hr.open(folder)
    assert len(dataset) == COUNT + 12
    assert dataset.verify().ok
    for name in ("zero_bytes", "n_huge", "flip_header_checksum"):
        (folder / "PART_00003.ffr").write_bytes((golden / "corrupted" / f"{name}.ffr").read_bytes())
        with pytest.raises(FormatError, match=r"PART_00003\.ffr") as caught:
            hr.open(folder)
        assert caught.value.path == str(folder / "PART_00003.ffr")
    (folder / "PART_00003.ffr").write_bytes((golden / "corrupted" / "flip_sample.ffr").read_bytes())
    dataset = hr.open(folder)
    assert dataset.verify().bad_samples == (COUNT + 13,)
    with pytest.raises(CorruptSampleError, match=r"PART_00003\.ffr: sample 313, .* \(sample 1 of this file\)"):
        dataset[313]
