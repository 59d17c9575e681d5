"""What brought FFRecord's processes to a stop: forks, many readers, unfinished writers, damaged samples, threads."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace.compat.ffrecord import FileReader, FileWriter
from headrace.compat.ffrecord.utils import dump

if TYPE_CHECKING:
    from pathlib import Path

COUNT, SIZE = 200, 20_000


def sample(index: int) -> bytes:
    return bytes([index % 251]) * SIZE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with FileWriter(tmp_path / "x.ffr", COUNT) as writer:
        for i in range(COUNT):
            writer.write_one(sample(i))
    return tmp_path / "x.ffr"


def reads_well(reader: FileReader, seed: int) -> bool:
    indices = np.random.default_rng(seed).integers(0, COUNT, 32).tolist()
    return [array.tobytes() for array in reader.read(indices)] == [sample(i) for i in indices]


def many_readers(path: str, seed: int) -> bool:
    readers = [FileReader(path) for _ in range(25)]
    return all(reads_well(reader, seed) for reader in readers)


def run(code: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_a_forked_child_reads_batches_with_its_parents_reader(path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {os.getcwd()!r})
from tests.integration.test_ffrecord_limits import FileReader, reads_well
reader = FileReader(sys.argv[1])
assert reads_well(reader, 0)
children = []
for seed in range(4):
    if (child := os.fork()) == 0:
        os._exit(7 if reads_well(reader, seed) and reader.read_one(3)[0] == 3 else 1)
    children.append(child)
assert reads_well(reader, 1)
assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [7] * 4
"""
    result = run(code, path)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_hundred_readers_in_four_processes(path: Path, method: str) -> None:
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context(method)) as pool:
        assert all(pool.map(many_readers, [str(path)] * 4, range(4)))


def test_parts_cost_no_open_files(tmp_path: Path) -> None:
    dump([sample(i) for i in range(COUNT)], tmp_path, COUNT)
    code = """
import os, resource, sys
from headrace.compat.ffrecord import FileReader
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
reader = FileReader(sys.argv[1])
print(reader.n, len(reader.fnames), len(os.listdir("/proc/self/fd")) < 20)
print([int(array[0]) for array in reader.read([199, 0, 77])])
"""
    result = run(code, tmp_path)
    assert (result.returncode, result.stdout) == (0, "200 200 True\n[199, 0, 77]\n"), result.stderr


def test_unfinished_writers_do_not_end_the_process(tmp_path: Path) -> None:
    code = """
import sys
from headrace.compat.ffrecord import FileWriter, pack_folder
writer = FileWriter(sys.argv[1] + "/x.ffr", 3)
writer.write_one(b"one")
del writer
try:
    with FileWriter(sys.argv[1] + "/x.ffr", 3) as writer:
        raise KeyError("mine")
except KeyError:
    print("its own error")
left = FileWriter(sys.argv[1] + "/x.ffr", 3)  # until the interpreter ends
print("end")
"""
    result = run(code, tmp_path)
    assert (result.returncode, result.stdout) == (0, "its own error\nend\n"), result.stderr
    assert os.listdir(tmp_path) == []


def test_memory_of_damaged_batches_is_given_back(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    reader = FileReader(path)

    def fail(times: int) -> int:
        for _ in range(times):
            with pytest.raises(RuntimeError, match="sample 199"):
                reader.read(range(COUNT))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = fail(20)
    # 100 batches of 4 MB: FFRecord loses them all
    assert fail(100) - before < 40_000


def test_other_threads_run_while_one_reads(tmp_path: Path) -> None:
    with FileWriter(tmp_path / "large.ffr", 4) as writer:
        for i in range(4):
            writer.write_one(np.full(60 << 20, i, np.uint8))
    reader = FileReader(tmp_path / "large.ffr")

    def longest_wait() -> float:
        """Of a thread that does nothing but ticking, as a share of the time that the read takes."""
        ticks = [time.perf_counter()]
        done = threading.Event()

        def tick() -> None:
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        start_s = time.perf_counter()
        reader.read([0, 1, 2, 3])
        end_s = time.perf_counter()
        done.set()
        thread.join()
        inside = [start_s, *(t for t in ticks if start_s < t < end_s), end_s]
        return float(np.diff(inside).max()) / (end_s - start_s)

    # A read that holds the interpreter's lock leaves no tick inside it, however often one tries.
    assert min(longest_wait() for _ in range(5)) < 0.5


def test_cut_short_while_open(path: Path) -> None:
    code = """
import os, sys
from headrace.compat.ffrecord import FileReader
reader = FileReader(sys.argv[1])
reader.read([0, 1, 2])
os.truncate(sys.argv[1], os.path.getsize(sys.argv[1]) // 2)
for read in (lambda: reader.read([197, 198, 199]), lambda: reader.read_one(199)):
    try:
        read()
    except RuntimeError as error:
        print(error)
"""
    result = run(code, path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(f"{path}: the file became shorter while it was in use") == 2
