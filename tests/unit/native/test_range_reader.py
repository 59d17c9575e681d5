from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace._native import NativeError, RangeReader, crc32c_spans

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 2_000_003


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "data"
    target.write_bytes(np.random.default_rng(0).bytes(SIZE))
    return target


@pytest.fixture(params=["io_uring", "threads", "direct"])
def reader(request: pytest.FixtureRequest, path: Path) -> RangeReader:
    if request.param == "direct":
        return RangeReader(str(path), direct=True)
    try:
        return RangeReader(str(path), engine=request.param)
    except NativeError as error:
        pytest.skip(str(error))


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def packed(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


def test_reads_what_is_there(reader: RangeReader, path: Path) -> None:
    data = np.fromfile(path, np.uint8)
    rng = np.random.default_rng(1)
    for n in (0, 1, 20, 3000):
        offsets = rng.integers(0, SIZE - 20_000, n).astype(np.uint64)
        sizes = rng.integers(0, 20_000, n).astype(np.uint64)
        places = packed(sizes)
        out = np.zeros(int(sizes.sum()), np.uint8)
        sums = crc32c_spans(data, offsets, sizes)
        assert reader.read(offsets, sizes, out, places, sums) == []
        assert (crc32c_spans(out, places, sizes) == sums).all()


def test_failures_say_which_and_why(reader: RangeReader, path: Path) -> None:
    data = path.read_bytes()
    sizes = u64(100, 100, 100, 5)
    sums = np.array([zlib.crc32(data[:100]), 0, 1, zlib.crc32(data[-5:])], np.uint32)
    out = np.zeros(400, np.uint8)
    found = reader.read(u64(0, SIZE - 99, 7, SIZE - 5), sizes, out, packed(sizes), sums, "crc32")
    assert found == [
        (1, "truncated", f"the file ended at byte {SIZE}"),
        (2, "wrong_checksum", f"checksum 0x00000001 expected, found {zlib.crc32(data[7:107]):#010x}"),
    ]
    assert out[:100].tobytes() == data[:100]
    assert out[300:305].tobytes() == data[-5:]


def test_facts(path: Path) -> None:
    reader = RangeReader(str(path))
    assert reader.engine in ("io_uring", "threads")
    assert not reader.is_direct
    assert reader.size == SIZE
    os.truncate(path, 10)
    assert reader.size == 10
    assert RangeReader(str(path), engine="threads").engine == "threads"


def test_a_name_of_any_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with open(name, "wb") as file:
        file.write(b"abc")
    assert RangeReader(name).size == 3
    with pytest.raises(ValueError, match="null"):
        RangeReader(f"{tmp_path}/\0")


def test_wrong_arguments(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        RangeReader(f"{path}-nothing")
    with pytest.raises(IsADirectoryError):
        RangeReader(str(path.parent))
    with pytest.raises(NativeError, match="unknown engine 'x'"):
        RangeReader(str(path), engine="x")  # type: ignore[arg-type]
    with pytest.raises(NativeError, match="queue_depth must be 1 to 4096"):
        RangeReader(str(path), queue_depth=0)
    reader = RangeReader(str(path))
    one, out = u64(1), np.full(4, 7, np.uint8)
    with pytest.raises(NativeError, match="leaves the output of 4 bytes"):
        reader.read(u64(0, 0), u64(1, 4), out, u64(0, 1))
    with pytest.raises(NativeError, match="beyond what a file can have"):
        reader.read(u64(2**63), one, out, u64(0))
    with pytest.raises(NativeError, match="1 offsets, but 2 sizes"):
        reader.read(one, u64(1, 1), out, one)
    with pytest.raises(NativeError, match="checksums has 0 entries for 1 ranges"):
        reader.read(one, one, out, u64(0), np.empty(0, np.uint32))
    with pytest.raises(NativeError, match="unknown checksum_kind 'md5'"):
        reader.read(one, one, out, u64(0), None, "md5")
    frozen = np.zeros(4, np.uint8)
    frozen.flags.writeable = False
    for bad in (frozen, np.zeros(8, np.uint8)[::2], np.zeros(4, np.int8)):
        with pytest.raises(TypeError):
            reader.read(one, one, bad, u64(0))  # type: ignore[arg-type]
    assert out.tolist() == [7] * 4


def test_many_threads(reader: RangeReader, path: Path) -> None:
    data = np.fromfile(path, np.uint8)
    failures = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(10):
            offsets = rng.integers(0, SIZE - 30_000, 60).astype(np.uint64)
            sizes = np.full(60, 30_000, np.uint64)
            out = np.zeros(60 * 30_000, np.uint8)
            failures.extend(reader.read(offsets, sizes, out, packed(sizes), crc32c_spans(data, offsets, sizes)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


SETUP = """
import os, signal, sys, threading, time
import numpy as np
from headrace._native import RangeReader
reader = RangeReader(sys.argv[1], engine=sys.argv[2])
data = np.fromfile(sys.argv[1], np.uint8)
n = 1000
offsets = np.random.default_rng(0).integers(0, len(data) - 9000, n).astype(np.uint64)
sizes = np.full(n, 9000, np.uint64)
places = np.arange(n, dtype=np.uint64) * np.uint64(9000)

def read():
    out = np.zeros(n * 9000, np.uint8)
    assert reader.read(offsets, sizes, out, places) == []
    assert all((out[i * 9000 : i * 9000 + 9000] == data[o : o + 9000]).all() for i, o in enumerate(offsets.tolist()))
"""


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_children_and_parent_read_at_once(path: Path, engine: str) -> None:
    script = """
read()
children = []
for _ in range(6):
    if (child := os.fork()) == 0:
        for _ in range(3):
            read()
        os._exit(5)
    children.append(child)
    read()
assert [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children] == [5] * 6
read()
"""
    quiet = "ignore:This process:DeprecationWarning"  # Python 3.12 and later at every fork of a process with threads
    command = [sys.executable, "-W", quiet, "-c", SETUP + script, str(path), engine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_ctrl_c(path: Path, engine: str) -> None:
    # A million ranges take a while; the interrupt comes in the middle.
    script = f"""
many = np.random.default_rng(0).integers(0, len(data) - 9000, 1_000_000).astype(np.uint64)
sizes_, places_, out = np.full(len(many), 9000, np.uint64), np.zeros(len(many), np.uint64), np.zeros(9000, np.uint8)
threading.Timer(1.0, os.kill, (os.getpid(), {int(signal.SIGINT)})).start()
start = time.monotonic()
try:
    for _ in range(100):
        reader.read(many, sizes_, out, places_)
except KeyboardInterrupt:
    assert time.monotonic() - start < 8, time.monotonic() - start
    read()
    raise SystemExit(9)
"""
    command = [sys.executable, "-c", SETUP + script, str(path), engine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (9, "")


def test_each_range_to_its_own_buffer(reader: RangeReader, path: Path) -> None:
    data = path.read_bytes()
    offsets, sizes = u64(5, 0, 70_000, 9), u64(10_000, 0, 900_000, 3)
    outs = [np.zeros(n, np.uint8) for n in (10_000, 0, 900_000)] + [bytearray(3)]
    sums = np.array([zlib.crc32(data[o : o + n]) for o, n in zip(offsets.tolist(), sizes.tolist(), strict=True)])
    assert reader.read_into(offsets, sizes, outs, sums.astype(np.uint32), "crc32") == []
    assert [bytes(out) for out in outs] == [
        data[o : o + n] for o, n in zip(offsets.tolist(), sizes.tolist(), strict=True)
    ]
    sums[2] ^= 1
    assert [f[:2] for f in reader.read_into(offsets, sizes, outs, sums.astype(np.uint32), "crc32")] == [
        (2, "wrong_checksum")
    ]


def test_outputs_are_checked(path: Path) -> None:
    reader = RangeReader(str(path))
    with pytest.raises(NativeError, match="output 1 has 4 bytes, 5 are wanted"):
        reader.read_into(u64(0, 0), u64(5, 5), [bytearray(5), bytearray(4)])
    with pytest.raises(NativeError, match="1 outputs for 2 sizes"):
        reader.read_into(u64(0, 0), u64(5, 5), [bytearray(5)])
    frozen = np.zeros(5, np.uint8)
    frozen.flags.writeable = False
    for bad in (bytes(5), frozen, np.zeros(10, np.uint8)[::2], 5, None):
        with pytest.raises(TypeError):
            reader.read_into(u64(0), u64(5), [bad])


def test_several_files(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"0123456789")
    reader = RangeReader([str(path), str(other)])
    assert reader.files == 2
    out = np.zeros(8, np.uint8)
    files = np.array([1, 0], np.uint32)
    assert reader.read(u64(2, 2), u64(4, 4), out, u64(0, 4), files=files) == []
    assert out.tobytes() == b"2345" + path.read_bytes()[2:6]
    assert reader.read_into(u64(2, 2), u64(4, 4), [out[:4], out[4:]], files=files[::-1].copy()) == []
    assert out.tobytes() == path.read_bytes()[2:6] + b"2345"
    with pytest.raises(NativeError, match="range 1 is of file 2, there are 2"):
        reader.read(u64(2, 2), u64(4, 4), out, u64(0, 4), files=np.array([0, 2], np.uint32))
    with pytest.raises(NativeError, match="files has 1 entries for 2 ranges"):
        reader.read(u64(2, 2), u64(4, 4), out, u64(0, 4), files=files[:1])
    with pytest.raises(FileNotFoundError, match="nothing"):
        RangeReader([str(path), str(tmp_path / "nothing")])


def test_counts_what_is_cached(path: Path) -> None:
    reader = RangeReader(str(path))
    try:
        count = reader.count_cached(u64(0, 1000, SIZE - 1))
    except NativeError as error:
        pytest.skip(str(error))
    assert count == 3  # written a moment ago
