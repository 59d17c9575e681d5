"""An archive of 100 000 files of 4 to 20 kB beside the real Barecat, warm, each pair of measurements together."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import BARECAT_PYTHON, ratio, row
from benchmarks.suites.read_ranges import drop_caches
from headrace.bench.turns import timed
from headrace.formats.barecat import Archive
from headrace.formats.barecat.pack import pack_files

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "How fast are archives of many small files, beside Barecat?"
FILES = int(os.environ.get("HEADRACE_BARECAT_FILES", "100000"))
READS, COLD_READS, BATCH, ROUNDS = 30_000, 5120, 256, 3
PEER = Path(__file__).parents[1] / "peers" / "barecat_peer.py"


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.barecat")
        size_bytes = _make_files(f"{path}.d")
        rows = _compare("create from the disk", "create", path, lambda: _create(path), FILES, "files")
        with Archive(path) as archive:
            names = sorted(archive)
        random.Random(1).shuffle(names)
        names = names[: min(READS, len(names))]
        # Before the archive is opened for longer: what is mapped stays in memory.
        rows += _compare_cold(path, names[:COLD_READS])
        plain, ready = Archive(path), Archive(path, preload=True)
        count = len(names)
        rows += _compare("read one by one, from SQLite", "read", path, lambda: _read(plain, names), count, "files")
        rows += _compare("read one by one, preload", "read", path, lambda: _read(ready, names), count, "files")
        rows += _compare("read_many of 256, from SQLite", "read", path, lambda: _batches(plain, names), count, "files")
        rows += _compare("read_many of 256, preload", "read", path, lambda: _batches(ready, names), count, "files")
        rows += _compare(
            "read_many of 256, preload", "lmdb", path, lambda: _batches(ready, names), count, "files", peer="LMDB"
        )
        rows += _compare("list all files", "files", path, lambda: list(plain.files()), FILES, "files")
        rows += _compare("walk", "walk", path, lambda: list(plain.walk()), FILES, "files")
        rows += _compare("verify", "verify", path, plain.verify, 0, "", size_bytes)
        rows += _compare("open and close", "open", path, lambda: Archive(path).close(), 0, "")
        one = statistics.median(timed(lambda: _batches(ready, names), ROUNDS))
        two = statistics.median(timed(lambda: _in_threads(ready, names), ROUNDS))
        rows.append(ratio("read_many of 256, preload, two threads", 2 * one / two, "of one thread"))
    return rows


def _make_files(folder: str) -> int:
    chance = random.Random(0)
    blob = chance.randbytes(1 << 20)
    total = 0
    for i in range(FILES):
        directory = os.path.join(folder, f"{i % 1000:04}")
        if i < 1000:
            os.makedirs(directory)
        size = chance.randrange(4000, 20_000)
        start = chance.randrange(len(blob) - size)
        Path(directory, f"{i:07}.bin").write_bytes(blob[start : start + size])
        total += size
    return total


def _create(path: str) -> None:
    before = os.getcwd()
    os.chdir(f"{path}.d")
    try:
        with Archive(path, "w") as archive:
            pack_files(archive, ["."])
    finally:
        os.chdir(before)


def _read(archive: Archive, names: list[str]) -> None:
    for name in names:
        archive[name]


def _batches(archive: Archive, names: list[str]) -> None:
    for start in range(0, len(names), BATCH):
        archive.read_many(names[start : start + BATCH])


def _in_threads(archive: Archive, names: list[str]) -> None:
    threads = [threading.Thread(target=_batches, args=(archive, names)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _compare(
    what: str,
    peer_verb: str,
    path: str,
    work: Callable[[], Any],
    count: int,
    unit: str,
    size_bytes: int = 0,
    peer: str = "barecat 0.3.1",
) -> list[dict[str, Any]]:
    """Ours and the peer's in turn, so that a busy machine is busy for both."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        ours += timed(work, 1)
        theirs += _peer(peer_verb, path)
    rows = [row(what, ours, samples=count, size_bytes=size_bytes, unit=unit)]
    if theirs:
        rows.append(row(f"{what}: {peer}", theirs, samples=count, size_bytes=size_bytes, unit=unit))
        speed = statistics.median(theirs) / statistics.median(ours)
        rows.append(ratio(what, speed, f"as fast as {peer}"))
    return rows


def _compare_cold(path: str, names: list[str]) -> list[dict[str, Any]]:
    """Files that are not in the page cache."""
    what = "read_many of 256, cold"
    if not drop_caches():
        return [{"what": what, "text": "not measured: the page cache cannot be dropped here"}]
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        drop_caches()
        with Archive(path) as archive:
            start_s = time.perf_counter()
            _batches(archive, names)
            ours.append(time.perf_counter() - start_s)
        theirs += _peer("read_cold", path)
    rows = [row(what, ours, samples=len(names), unit="files")]
    if theirs:
        rows.append(row(f"{what}: barecat 0.3.1", theirs, samples=len(names), unit="files"))
        speed = statistics.median(theirs) / statistics.median(ours)
        rows.append(ratio(what, speed, "as fast as barecat 0.3.1, one by one"))
    return rows


def _peer(verb: str, path: str) -> list[float]:
    if not BARECAT_PYTHON:
        return []
    target = path
    if verb == "create":  # beside ours, which is still needed
        target = f"{path}.peer"
        if not os.path.lexists(f"{target}.d"):
            os.symlink(f"{path}.d", f"{target}.d")
    done = subprocess.run([BARECAT_PYTHON, PEER, verb, target, "1"], capture_output=True, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds
