"""Blocks on the local disk."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from tests.faults.disks import mounted, why_no_mounts

from headrace.errors import FormatError
from headrace.storage import block_cache as block_cache_module
from headrace.storage.block_cache import BlockCache, BlockKey, block_cache, known_cache
from headrace.storage.cache_table import BLOCKS_NAME, PAGE_BYTES, SLOT_BYTES, TABLE_NAME
from headrace.storage.cached_block import MAX_BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20
URL = "s3://bucket/train.beton"
NEEDS_MOUNTS = pytest.mark.skipif(why_no_mounts() is not None, reason=str(why_no_mounts()))


def content(number: int, size_bytes: int = 100_000) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, size_bytes, np.uint8)


def key_of(number: int, url: str = URL, version: str = "v1") -> BlockKey:
    return BlockKey(url, version, number)


def has(cache: BlockCache, number: int, size_bytes: int = 100_000) -> bool:
    """A block is there, and right."""
    out = np.empty(size_bytes, np.uint8)
    if not cache.read(key_of(number), out):
        return False
    assert (out == content(number, size_bytes)).all()
    return True


def is_there(cache: BlockCache, number: int) -> bool:
    """The same without counting as a use."""
    assert cache._table is not None
    return bool(cache._table.find(key_of(number).id))


def disk_bytes(folder: Path) -> int:
    return sum(os.lstat(one).st_blocks * 512 for one in (folder, *folder.iterdir()))


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    for cache in list(block_cache_module._CACHES.values()):
        cache.close()


@pytest.fixture
def cache(tmp_path: Path) -> BlockCache:
    return block_cache(tmp_path / "cache", 64 * MIB)


# What comes back


@pytest.mark.parametrize("size_bytes", [0, 1, 4095, 4096, 4097, MAX_BLOCK_BYTES])
def test_round_trip(cache: BlockCache, size_bytes: int) -> None:
    for number in range(3):
        assert not has(cache, number, size_bytes)
        assert cache.store(key_of(number), content(number, size_bytes))
    for number in range(3):
        assert has(cache, number, size_bytes)


def test_every_part_of_the_key_counts(cache: BlockCache) -> None:
    assert cache.store(key_of(1), content(1))
    out = np.empty(100_000, np.uint8)
    for other in (key_of(2), key_of(1, version="v2"), key_of(1, url="s3://bucket/train.beton2")):
        assert not cache.read(other, out)
    assert has(cache, 1)


def test_bytes_and_twice(cache: BlockCache) -> None:
    assert cache.store(key_of(1), content(1).tobytes())
    assert cache.store(key_of(1), content(1))
    assert has(cache, 1)
    assert cache.facts["blocks"] == 1


def test_one_object_for_each_folder(tmp_path: Path) -> None:
    cache = block_cache(tmp_path / "cache", MIB)
    (tmp_path / "link").symlink_to("cache")
    assert block_cache(tmp_path / "link", MIB) is cache
    assert block_cache(tmp_path / "other", MIB) is not cache


def test_another_process_reads_it(cache: BlockCache) -> None:
    assert cache.store(key_of(1), content(1))
    code = (
        "import sys, numpy as np; from headrace.storage.block_cache import *\n"
        f"out = np.empty(100_000, np.uint8)\n"
        f"assert block_cache(sys.argv[1], {64 * MIB}).read(BlockKey({URL!r}, 'v1', 1), out)\n"
        "assert (out == np.random.default_rng(1).integers(0, 256, 100_000, np.uint8)).all()"
    )
    subprocess.run([sys.executable, "-c", code, cache.folder], check=True, timeout=60)


def test_a_forked_child_uses_it_while_threads_of_its_parent_do(cache: BlockCache) -> None:
    assert cache._table is not None
    with cache._table.locked():
        child = os.fork()
        if child == 0:
            code = 1
            try:  # the parent lets go of the lock soon
                code = 0 if cache.store(key_of(7), content(7)) and has(cache, 7) else 2
            finally:
                os._exit(code)
        time.sleep(0.2)
        assert not is_there(cache, 7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert has(cache, 7)


def test_many_threads(cache: BlockCache) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 20):
            assert cache.store(key_of(number % 30), content(number % 30))
            assert has(cache, number % 30)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 40, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.facts["blocks"] == 30


# Damage


def damage(cache: BlockCache, offset: int) -> None:
    with open(os.path.join(cache.folder, BLOCKS_NAME), "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


REGIONS = [0, 3, 4, 7, 8, 11, 12, 19, 20, 40, 51, 52, 53, 54, 60, 2000, 4095, 4096, 4097, 50_000, 4096 + 99_999]


@pytest.mark.parametrize("offset", REGIONS)
def test_damage_is_noticed_and_removed(cache: BlockCache, offset: int) -> None:
    assert cache.store(key_of(1), content(1))
    damage(cache, offset)
    assert not has(cache, 1)
    assert cache.facts["blocks"] == 0
    assert cache.store(key_of(1), content(1))
    assert has(cache, 1)


def test_a_block_that_is_cut_short_is_removed(cache: BlockCache) -> None:
    assert cache.store(key_of(1), content(1))
    os.truncate(os.path.join(cache.folder, BLOCKS_NAME), PAGE_BYTES + 500)
    assert not has(cache, 1)
    assert cache.facts["blocks"] == 0


def test_a_block_of_another_length_is_removed(cache: BlockCache) -> None:
    assert cache.store(key_of(1), content(1))
    assert not cache.read(key_of(1), np.empty(99_999, np.uint8))
    assert not has(cache, 1)


def test_a_foreign_block_is_removed(cache: BlockCache) -> None:
    for number in (1, 2):
        assert cache.store(key_of(number), content(number))
    with open(os.path.join(cache.folder, BLOCKS_NAME), "r+b") as file:
        file.seek(SLOT_BYTES)
        second = file.read(PAGE_BYTES + 100_000)
        file.seek(0)
        file.write(second)
    assert not has(cache, 1)
    assert has(cache, 2)


@pytest.mark.parametrize("page", [b"", b"hrcache1" + b"x" * 5000, bytes(PAGE_BYTES)], ids=["none", "wrong", "zeros"])
def test_a_damaged_table_is_made_anew(tmp_path: Path, page: bytes) -> None:
    (tmp_path / TABLE_NAME).write_bytes(page)
    cache = block_cache(tmp_path, 8 * MIB)
    assert cache.store(key_of(1), content(1))
    assert has(cache, 1)


def test_a_table_that_forgets_blocks_does_not_make_the_cache_larger(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 4 * MIB)
    for number in range(30):
        cache.store(key_of(number), content(number))
    with open(tmp_path / TABLE_NAME, "r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(bytes(8 * 30))
        file.seek(2 << 30)
        file.write(bytes(4 * 30))
    for number in range(100, 150):
        cache.store(key_of(number), content(number), math.inf)
        assert disk_bytes(tmp_path) <= 4 * MIB
    assert has(cache, 149)


# Size


@pytest.mark.parametrize("size_bytes", [5_000, 100_000, MAX_BLOCK_BYTES])
def test_the_cache_is_never_larger_than_its_size(tmp_path: Path, size_bytes: int) -> None:
    cache = block_cache(tmp_path, 20 * MIB)
    count = min(2 * 20 * MIB // size_bytes, 1500)
    for number in range(count):
        assert cache.store(key_of(number), content(number, size_bytes), math.inf)
        assert disk_bytes(tmp_path) <= 20 * MIB
    kept = [number for number in range(count) if has(cache, number, size_bytes)]
    assert kept == list(range(count - len(kept), count))
    least = 0.8 * 20 * MIB / max(size_bytes, 16_384) if size_bytes < MAX_BLOCK_BYTES else 4
    assert len(kept) >= min(least, 1000)


def test_small_and_large_blocks_take_turns(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 10 * MIB)
    for number in range(300):
        size_bytes = MAX_BLOCK_BYTES if number % 50 == 49 else 9_000 * (number % 5)
        assert cache.store(key_of(number), content(number, size_bytes), math.inf)
        assert disk_bytes(tmp_path) <= 10 * MIB


def test_a_block_that_can_never_fit_is_not_stored(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, MIB)
    assert cache.store(key_of(1), content(1))
    assert not cache.store(key_of(2), content(2, MAX_BLOCK_BYTES))
    assert has(cache, 1)
    with pytest.raises(ValueError, match="a block has at most 4194304 bytes, got 4194305"):
        cache.store(key_of(3), bytes(MAX_BLOCK_BYTES + 1))


def test_the_last_size_counts(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 20 * MIB)
    for number in range(100):
        cache.store(key_of(number), content(number))
    block_cache(tmp_path, 5 * MIB)
    assert disk_bytes(tmp_path) <= 5 * MIB
    assert 30 <= cache.facts["blocks"] <= 50
    block_cache(tmp_path, 30 * MIB)
    for number in range(200):
        cache.store(key_of(number), content(number))
    assert cache.facts["blocks"] == 200
    with pytest.raises(ValueError, match="cache_size must be at least 1048576 bytes"):
        block_cache(tmp_path, 1000)


def test_a_large_cache_opens_at_once(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 1 << 40)
    assert cache._table is not None
    slots = 250_000
    cache._table.set_used(slots)
    for name, values in {
        "ids": np.arange(2, 2 * slots + 2, 2, "<u8"),
        "when": np.full(slots, time.time(), "<f8"),
        "pages": np.full(slots, 1030, "<u4"),
    }.items():
        os.pwrite(cache._table.fd, values.tobytes(), {"ids": PAGE_BYTES, "when": 1 << 30, "pages": 2 << 30}[name])
    begun = time.monotonic()
    fresh = BlockCache(str(tmp_path), 1 << 40)
    fresh.resize(1 << 40)
    assert fresh.store(key_of(1), content(1))
    assert has(fresh, 1)
    assert time.monotonic() - begun < 0.5
    assert fresh.facts["blocks"] == slots + 1


# What goes first


def test_what_is_needed_last_goes_first(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 4 * MIB)
    now = time.time()
    stored = [cache.store(key_of(number), content(number), now + 100 + number) for number in range(50)]
    assert 30 < sum(stored) < 45
    assert stored == sorted(stored, reverse=True)
    assert not cache.store(key_of(99), content(99), now + 1000)
    assert cache.store(key_of(98), content(98), now + 50)
    assert [number for number in range(50) if is_there(cache, number)] == list(range(sum(stored) - 1))
    cache.note_uses({key_of(0): now + 500})
    assert cache.store(key_of(97), content(97), now + 60)
    assert [is_there(cache, number) for number in (0, 1, 97, 98)] == [False, True, True, True]
    out = np.empty(100_000, np.uint8)
    assert cache.read(key_of(1), out, now + 600)
    assert cache.store(key_of(96), content(96), now + 60)
    assert not is_there(cache, 1)


def test_without_a_word_what_was_not_used_for_long_goes_first(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 4 * MIB)
    for number in range(30):
        assert cache.store(key_of(number), content(number), math.inf)
    assert cache.read(key_of(0), np.empty(100_000, np.uint8), math.inf)
    for number in range(30, 45):
        assert cache.store(key_of(number), content(number), math.inf)
    assert is_there(cache, 0)
    assert not is_there(cache, 1)
    assert is_there(cache, 44)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_cache_that_holds_half_of_the_blocks_spares_half_of_the_fetches(tmp_path: Path, is_shuffled: bool) -> None:
    cache = block_cache(tmp_path, 4 * MIB)
    out, hits = np.empty(100_000, np.uint8), []
    for epoch in range(4):
        order = np.random.default_rng(epoch).permutation(72) if is_shuffled else np.arange(72)
        hits.append(0)
        for number in order.tolist():
            if cache.read(key_of(number), out):
                hits[-1] += 1
            else:
                cache.store(key_of(number), content(number))
    assert hits[0] == 0
    assert min(hits[1:]) >= 30  # 36 fit


def test_the_usual_size(tmp_path: Path) -> None:
    cache = block_cache(tmp_path)
    assert MIB <= cache.facts["size_bytes"] <= 64 << 30
    block_cache(tmp_path, 5 * MIB)
    assert block_cache(tmp_path).facts["size_bytes"] == 5 * MIB
    cache.close()
    assert block_cache(tmp_path).facts["size_bytes"] == 5 * MIB


def test_uses_that_did_not_come_count_less_and_less(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 4 * MIB)
    now = time.time()
    assert cache.store(key_of(0), content(0), now - 1000)  # of a job that has ended
    for number in range(1, 45):
        cache.store(key_of(number), content(number), now + 500)
    assert not is_there(cache, 0)


# Disks and folders


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path, "-t", "tmpfs", "-o", "size=2M,mode=700", "tmpfs"):
        yield tmp_path
        for cache in list(block_cache_module._CACHES.values()):
            cache.close()


@NEEDS_MOUNTS
def test_a_full_disk_is_one_warning_and_reading_goes_on(small_disk: Path) -> None:
    cache = block_cache(small_disk / "cache", 64 * MIB)
    with pytest.warns(RuntimeWarning, match="blocks cannot be stored in this cache .*Make room on its disk") as told:
        stored = [number for number in range(40) if cache.store(key_of(number), content(number))]
    assert len(told) == 1
    assert 10 < len(stored) < 20
    assert all(has(cache, number) for number in stored)
    cache._resting_until = 0.0
    assert not cache.store(key_of(50), content(50))  # no second warning, which would be an error here
    assert cache.clear() == len(stored)
    cache._resting_until = 0.0
    assert cache.store(key_of(50), content(50))
    assert has(cache, 50)


@NEEDS_MOUNTS
def test_a_read_only_folder_is_read(small_disk: Path) -> None:
    folder = small_disk / "cache"
    cache = block_cache(folder, 64 * MIB)
    assert cache.store(key_of(1), content(1))
    cache.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    code = (
        "import sys, warnings, numpy as np; from headrace.storage.block_cache import *\n"
        "warnings.simplefilter('always')\n"
        f"cache, out = block_cache(sys.argv[1], {64 * MIB}), np.empty(100_000, np.uint8)\n"
        f"assert cache.read(BlockKey({URL!r}, 'v1', 1), out)\n"
        "assert (out == np.random.default_rng(1).integers(0, 256, 100_000, np.uint8)).all()\n"
        f"assert not any(cache.store(BlockKey({URL!r}, 'v1', n), out) for n in (2, 3))\n"
        "missing = block_cache(sys.argv[1] + '2', 64 << 20)\n"
        f"assert not missing.read(BlockKey({URL!r}, 'v1', 1), out) and not missing.store(BlockKey('a', 'b', 1), out)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("blocks cannot be stored in this cache")) == (0, 2), done.stderr


def test_a_folder_that_was_removed_is_made_again(cache: BlockCache) -> None:
    assert cache.store(key_of(1), content(1))
    for name in os.listdir(cache.folder):
        os.unlink(os.path.join(cache.folder, name))
    os.rmdir(cache.folder)
    assert cache.store(key_of(2), content(2))
    assert not has(cache, 1)
    assert has(cache, 2)
    assert sorted(os.listdir(cache.folder)) == sorted([TABLE_NAME, BLOCKS_NAME])
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit() and _is_fd(fd)]
    assert not [path for path in opened if path.startswith(cache.folder) and path.endswith("(deleted)")]


def _is_fd(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_the_folder_is_private(cache: BlockCache) -> None:
    assert os.stat(cache.folder).st_mode & 0o777 == 0o700


def test_folders_that_are_no_cache_are_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"not empty and holds no cache, but 'precious'\. Name a new"):
        block_cache(tmp_path, MIB)
    assert os.listdir(tmp_path) == ["precious"]
    with pytest.raises(FormatError, match="holds no cache"):
        known_cache(tmp_path)
    with pytest.raises(FileNotFoundError):
        known_cache(tmp_path / "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(FormatError, match="belongs to another user"):
        block_cache(tmp_path, MIB)


@pytest.mark.parametrize("name", [TABLE_NAME, BLOCKS_NAME])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_links_pipes_and_folders_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (tmp_path / "outside").write_bytes(b"precious")
    (folder / TABLE_NAME).write_bytes(b"")
    (folder / name).unlink(missing_ok=True)
    if kind == "link":
        (folder / name).symlink_to(tmp_path / "outside")
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    with pytest.raises(FormatError, match=r"a regular file is needed|a symbolic link"):
        block_cache(folder, MIB)
    assert (tmp_path / "outside").read_bytes() == b"precious"


def test_a_foreign_file_under_our_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / TABLE_NAME).write_bytes(b"somebody's notes" * 1000)
    with pytest.raises(FormatError, match="this is no table of a cache"):
        block_cache(tmp_path, MIB)
    assert (tmp_path / TABLE_NAME).read_bytes() == b"somebody's notes" * 1000


def test_a_process_that_was_stopped_holds_up_nobody(cache: BlockCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.storage.cache_table._PATIENCE_S", 0.2)
    assert cache.store(key_of(1), content(1))
    assert cache._table is not None
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with cache._table.locked():
            os.write(write, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(read, 1)
    assert has(cache, 1)
    assert not cache.store(key_of(2), content(2))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)
    assert cache.store(key_of(2), content(2))


# Looking at it, and clearing


def test_what_people_see_has_no_secrets(cache: BlockCache) -> None:
    url = "https://me:secret@host/train.tar?X-Amz-Signature=abc#x"
    assert cache.store(key_of(1, url=url), content(1))
    assert [block.url for block in cache.blocks()] == ["https://host/train.tar"]
    with open(os.path.join(cache.folder, BLOCKS_NAME), "rb") as file:
        assert b"secret" not in (page := file.read(PAGE_BYTES))
        assert b"abc" not in page


def test_clear(tmp_path: Path) -> None:
    cache = block_cache(tmp_path, 64 * MIB)
    for number in range(10):
        assert cache.store(key_of(number, url=f"s3://bucket/{number % 2}"), content(number))
    before = disk_bytes(tmp_path)
    assert known_cache(tmp_path).clear("s3://bucket/1") == 5
    assert disk_bytes(tmp_path) < before - 5 * 100_000
    assert {block.url for block in cache.blocks()} == {"s3://bucket/0"}
    assert BlockCache(str(tmp_path), None).clear() == 5
    assert cache.facts["blocks"] == 0
    assert disk_bytes(tmp_path) < 100_000
    assert cache.store(key_of(1), content(1))
    assert has(cache, 1)


def test_looking_changes_nothing(tmp_path: Path) -> None:
    assert block_cache(tmp_path, 64 * MIB).store(key_of(1), content(1))
    before = [(os.stat(one).st_mtime_ns, os.stat(one).st_blocks) for one in tmp_path.iterdir()]
    looker = BlockCache(str(tmp_path), None)
    assert looker.facts["size_bytes"] == 64 * MIB
    assert [block.size_bytes for block in looker.blocks()] == [100_000]
    assert [(os.stat(one).st_mtime_ns, os.stat(one).st_blocks) for one in tmp_path.iterdir()] == before


# Several processes

HAMMER = f"""
import os, sys, time, numpy as np
from headrace.storage.block_cache import BlockKey, block_cache
folder, seed, end = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
def content(n):
    return np.resize(np.arange(n % 7, 251, dtype=np.uint8), 1 + n * 37_813 % {MAX_BLOCK_BYTES})
draw = np.random.default_rng(seed)
cache, hits = block_cache(folder, {24 * MIB}), 0
print("started", flush=True)
while time.monotonic() < end:
    n = int(draw.integers(60))
    key, wanted = BlockKey({URL!r}, "v1", n), content(n)
    out = np.empty_like(wanted)
    if cache.read(key, out, time.time() + n):
        assert (out == wanted).all(), n
        hits += 1
    else:
        cache.store(key, wanted, time.time() + n if n % 3 else float("inf"))
print("hits", hits, flush=True)
"""


def hammer(folder: Path, seed: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", HAMMER, str(folder), str(seed), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Watcher(threading.Thread):
    """Adds up what a folder takes on the disk, all the time."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.largest, self.looks, self.is_done = folder, 0, 0, False

    def run(self) -> None:
        while not self.is_done:
            with warnings.catch_warnings():
                if self.folder.is_dir():
                    self.largest = max(self.largest, disk_bytes(self.folder))
                    self.looks += 1
            time.sleep(0.0005)


def test_processes_that_start_cold_share_a_cache_and_keep_its_size(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    watcher = Watcher(folder)
    watcher.start()
    try:
        workers = [hammer(folder, seed, 3) for seed in range(4)]
        outputs = [worker.communicate(timeout=100)[0] for worker in workers]
    finally:
        watcher.is_done = True
        watcher.join()
    assert [worker.returncode for worker in workers] == [0] * 4
    assert all(int(text.split()[-1]) > 0 for text in outputs)
    assert watcher.looks > 100
    assert 12 * MIB < watcher.largest <= 24 * MIB


@pytest.mark.slow
def test_processes_that_are_killed_leave_the_cache_in_order(tmp_path: Path) -> None:
    folder, draw = tmp_path / "cache", np.random.default_rng(0)
    watcher = Watcher(folder)
    watcher.start()
    try:
        survivor = hammer(folder, 1000, 60)
        for seed in range(50):
            victim = hammer(folder, seed, 60)
            assert victim.stdout is not None
            victim.stdout.readline()
            time.sleep(float(draw.uniform(0, 0.3)))
            victim.kill()
            victim.communicate(timeout=60)
        assert survivor.poll() is None, "a process that was not killed has failed"
        survivor.kill()
        survivor.communicate(timeout=60)
        last = hammer(folder, 99, 2)
        text = last.communicate(timeout=60)[0]
    finally:
        watcher.is_done = True
        watcher.join()
    assert last.returncode == 0
    assert int(text.split()[-1]) > 0
    assert watcher.largest <= 24 * MIB
    cache = block_cache(folder, 24 * MIB)
    assert cache.store(key_of(1000), content(1000, MAX_BLOCK_BYTES), math.inf)  # nothing stays reserved for the dead
    assert has(cache, 1000, MAX_BLOCK_BYTES)
    assert cache.clear() >= 2
    assert disk_bytes(folder) < MIB
