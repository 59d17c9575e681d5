from __future__ import annotations

import copy
import os
import pickle
import struct
import threading
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import ClosedError, CorruptSampleError, FormatError
from headrace.formats.ffr import FfrReader, FfrWriter

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = [bytes([i]) * (i * 997 % 5000) for i in range(50)] + [b"\x07" * 300_000, b"", b"end"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "x.ffr"
    with FfrWriter(target) as writer:
        writer.append_many(SAMPLES)
    return target


@pytest.fixture(params=[None, True, False])
def reader(request: pytest.FixtureRequest, path: Path) -> FfrReader:
    return FfrReader(path, cold=request.param)


def test_any_number_in_any_order(reader: FfrReader) -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 5, 5000):
        indices = rng.integers(0, len(SAMPLES), count)
        found = reader.read(indices)
        assert [sample.tobytes() for sample in found] == [SAMPLES[i] for i in indices]
    assert [s.tobytes() for s in reader.read(range(3, 5))] == SAMPLES[3:5]


def test_results_are_private(reader: FfrReader) -> None:
    first, second = reader.read([50, 50])
    assert first.flags.writeable
    assert first.flags.c_contiguous
    assert not np.shares_memory(first, second)
    first[:] = 0
    assert reader.read_one(50).tobytes() == second.tobytes() == SAMPLES[50]


def test_read_into(reader: FfrReader) -> None:
    out = np.zeros(400_000, np.uint8)
    ends = reader.read_into([2, 50, 51, 3], out)
    assert out[: ends[-1]].tobytes() == SAMPLES[2] + SAMPLES[50] + SAMPLES[3]
    assert np.diff(ends, prepend=0).tolist() == [len(SAMPLES[i]) for i in (2, 50, 51, 3)]
    assert reader.read_into([], out).tolist() == []
    for bad in (np.zeros(10, np.uint8), np.zeros(400_000, np.int8), np.zeros((2, 400_000), np.uint8)):
        with pytest.raises(ValueError, match="out must be a 1-D uint8 array of at least 300000 bytes"):
            reader.read_into([50], bad)


def test_views_are_on_the_file(reader: FfrReader) -> None:
    view = reader.views([50])[0]
    assert not view.flags.writeable
    assert np.shares_memory(view, reader.mapped())
    reader.close()
    assert view.tobytes() == SAMPLES[50]


def test_wrong_indices(reader: FfrReader) -> None:
    for bad, problem in (([53], "sample 53 is out of range"), ([0, 2**62], "out of range"), ([0, -1], "sample -1")):
        for call in (reader.read, reader.read_bytes, reader.views, reader.locate):
            with pytest.raises(IndexError, match=problem):
                call(bad)
    with pytest.raises(TypeError, match="must be integers"):
        reader.read([1.5])


def test_facts(path: Path) -> None:
    reader = FfrReader(path)
    assert reader.paths == (str(path),)
    assert reader.size_bytes == os.path.getsize(path)
    assert reader.sizes([1, 50]).tolist() == [997, 300_000]
    assert reader.checksums().tolist() == [zlib.crc32(sample) for sample in SAMPLES]
    assert np.diff(reader.offsets()).tolist() == [len(sample) for sample in SAMPLES]
    assert reader.is_checked
    assert not FfrReader(path, checksums=False).is_checked


def test_closed(path: Path) -> None:
    with FfrReader(path) as reader:
        reader.read([0])
    for call in (reader.read, reader.views, reader.read_bytes):
        with pytest.raises(ClosedError, match="closed; open it again"):
            call([0])
    assert len(reader) == len(SAMPLES)
    reader.close()


def test_copies_open_the_file_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    reader = FfrReader("x.ffr", checksums=False, cold=True)
    reader.close()
    monkeypatch.chdir("/")
    for other in (pickle.loads(pickle.dumps(reader)), copy.deepcopy(reader)):
        assert other.read_one(1).tobytes() == SAMPLES[1]
        assert not other.is_checked


def test_many_threads(reader: FfrReader) -> None:
    problems: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            indices = rng.integers(0, len(SAMPLES), 60)
            if [s.tobytes() for s in reader.read(indices)] != [SAMPLES[i] for i in indices]:
                problems.append(indices)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_several_files(tmp_path: Path) -> None:
    paths = []
    for number, samples in enumerate([SAMPLES[:20], [], SAMPLES[20:]]):
        paths.append(tmp_path / f"{number}.ffr")
        with FfrWriter(paths[-1]) as writer:
            writer.append_many(samples)
    for cold in (None, True, False):
        reader = FfrReader(paths, cold=cold)
        order = np.random.default_rng(1).permutation(len(SAMPLES))
        assert [s.tobytes() for s in reader.read(order)] == [SAMPLES[i] for i in order]
        assert reader.read_bytes(order) == [SAMPLES[i] for i in order]
        assert [len(reader.offsets(file)) for file in range(3)] == [21, 1, len(SAMPLES) - 19]
    data = bytearray(paths[2].read_bytes())
    data[-1] ^= 1
    paths[2].write_bytes(data)
    for cold in (None, True, False):
        with pytest.raises(CorruptSampleError, match=r"2\.ffr: sample 52, .* \(sample 32 of this file\)"):
            FfrReader(paths, cold=cold).read([0, 52])
    with pytest.raises(ValueError, match="paths is empty"):
        FfrReader([])
    with pytest.raises(FileNotFoundError):
        FfrReader([paths[0], tmp_path / "nothing.ffr"])


def test_another_file_takes_its_place(path: Path, tmp_path: Path) -> None:
    reader = FfrReader(path, cold=True)
    with FfrWriter(path) as writer:
        writer.append(b"another")
    with pytest.raises(FormatError, match="another file has taken its place"):
        reader.read([0])
    assert reader.views([1])[0].tobytes() == SAMPLES[1]


def test_a_gap_behind_the_header_is_legal(tmp_path: Path) -> None:
    tables = struct.pack("<qIq", 1, zlib.crc32(b"abc"), 4096)
    data = struct.pack("<I", zlib.crc32(tables)) + tables
    (tmp_path / "x.ffr").write_bytes(data.ljust(4096, b"\0") + b"abc")
    dataset = hr.open(tmp_path / "x.ffr")
    assert dataset[0].data == b"abc"
    assert dataset.verify().ok


def test_offsets_that_cannot_be_right_but_have_a_checksum(tmp_path: Path) -> None:
    for offsets in ([36, 35, 39], [30, 36, 38], [48, 51, 2**62], [48, -1, 51]):
        tables = struct.pack("<q3I3q", 3, 0, 0, 0, *offsets)
        for checksum in (zlib.crc32(tables), 0):
            path = tmp_path / "x.ffr"
            path.write_bytes(struct.pack("<I", checksum) + tables + b"abcdef")
            is_checked = sorted(offsets) == offsets and offsets[0] >= 48
            if not is_checked:
                with pytest.raises(FormatError, match=r"sample \d begins at byte"):
                    hr.open(path)
            dataset = hr.open(path, checksums=is_checked)
            for cold in (True, False):
                with pytest.raises(CorruptSampleError, match="should lie from byte"):
                    FfrReader(path, cold=cold, checksums=is_checked).read(range(3))
            assert len(dataset.verify().problems) >= 1


def test_stray_bytes_without_samples(tmp_path: Path) -> None:
    with FfrWriter(tmp_path / "x.ffr"):
        pass
    assert (tmp_path / "x.ffr").read_bytes() == bytes.fromhex("69df2265") + bytes(8)
    with open(tmp_path / "x.ffr", "ab") as file:
        file.write(b"stray")
    report = hr.verify(tmp_path / "x.ffr")
    assert "no samples, and 5 bytes behind its header" in report.problems[0].message
