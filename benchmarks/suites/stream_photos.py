"""Photographs from an S3 server on this machine, cropped at random to 224 pixels: headrace and others.

The server is `rclone serve s3`, with the proxy of the tests in front of it (rclone answers ranges in a way that obstore
refuses; the proxy puts that right, and adds latency where that is the question). Both stay on the first core.
Every contender may use all cores, and decodes on one: one thread of the Loader, or one process of a DataLoader; the
rest is for the network. The photographs are the same for all, several times over, and every epoch is in shuffled order
and begins with opening: the first epoch brings everything from the server. Contenders take turns. The peers crop with
Pillow as in `format_photos`, and are left out where they are not installed: webdataset (tars through curl), LitData and
MosaicML Streaming (chunks of 64 MB).

The large file has 100,000 samples of 100 kB, all zeros, so that it takes no space.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace as hr
from benchmarks.harness import ROOT, photographs, ratio, row
from benchmarks.suites.format_photos import BATCH, SIDE
from headrace import ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION = "How many photographs a second come from an object store, beside a local file and other packages?"
COPIES, ROUNDS, PEER_ROUNDS, FIRST_BATCHES = 16, 5, 3, 5
GET_BYTES, GETS_AT_ONCE = 8 << 20, 16
LATENCY_MS = 20
LARGE_SAMPLES, LARGE_BYTES = 100_000, 100_000
FIELDS = {"image": hr.Image(), "label": hr.Int()}
PEERS = {"webdataset": "webdataset", "litdata": "litdata", "mosaicml": "streaming"}
"""Names, and the modules that they are."""


def missing() -> str:
    """Why this cannot be measured here."""
    if importlib.util.find_spec("obstore") is None:
        return "obstore is not installed"
    beside = Path(sys.executable).parent / "rclone"
    return "" if beside.exists() or shutil.which("rclone") else "rclone is not installed"


def run() -> list[dict[str, Any]]:
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        place = Place(Path(name))
        place.write()
        rows = _epochs(place)
        rows += _with_latency(place)
        rows += _beside_peers(place, rows)
        return rows + _first_batches(place)


class Place:
    """Where the files are: a folder, with one bucket in it.

    Args:
        folder: empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bucket = folder / "buckets" / "bucket"
        self.bucket.mkdir(parents=True)
        self.path = self.bucket / "photos.beton"
        self.samples = 0

    def write(self) -> None:
        """The photographs, several times over, with their tile indices."""
        found = photographs() * COPIES
        self.samples = len(found)
        hr.write(self.path, ((path.read_bytes(), i % 10) for i, path in enumerate(found)), fields=FIELDS)

    @contextlib.contextmanager
    def empty(self) -> Iterator[str]:
        """A folder for a cache."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            yield name


@contextlib.contextmanager
def _server(place: Place, latency_ms: float = 0.0) -> Iterator[dict[str, Any]]:
    """The server, on the first core; gives how it is reached."""
    before = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "tests.remote", str(place.bucket.parent), "--latency-ms", str(latency_ms)]
    os.sched_setaffinity(0, before[:1])
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(0, before)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _storage(store: dict[str, Any]) -> dict[str, Any]:
    return {**store, "region": "us-east-1", "client_options": {"allow_http": True}}


def _epoch(dataset: Any) -> int:
    pipeline = [ops.RandomResizedCrop(SIDE), ops.ToLayout("NCHW")]
    loader = hr.Loader(dataset, BATCH, order="quasi_random", workers=1, drop_last=False, pipelines={"image": pipeline})
    return sum(len(batch.image) for batch in loader)


def _load(place: Place, store: dict[str, Any] | None, **options: Any) -> None:
    reached = {} if store is None else {"storage_options": _storage(store), **options}
    path = place.path if store is None else "s3://bucket/photos.beton"
    with hr.open(path, **reached) as dataset:
        assert _epoch(dataset) == place.samples


def _get_all(place: Place, store: dict[str, Any]) -> None:
    from obstore.store import S3Store

    size = place.path.stat().st_size
    remote = S3Store("bucket", **_storage(store))

    def get(start: int) -> int:
        return len(remote.get_range("photos.beton", start=start, end=min(size, start + GET_BYTES)))

    with ThreadPoolExecutor(GETS_AT_ONCE) as pool:
        assert sum(pool.map(get, range(0, size, GET_BYTES))) == size


def _take_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, work in contenders.items():
            start_s = time.perf_counter()
            work()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start_s)
    return seconds


def _share(what: str, seconds: dict[str, list[float]], one: str, other: str, meaning: str) -> dict[str, Any]:
    """The rate of one by that of the other, round by round."""
    pairs = sorted(b / a for a, b in zip(seconds[one], seconds[other], strict=True))
    quartiles = [pairs[len(pairs) // 4], pairs[-1 - len(pairs) // 4]]
    return ratio(what, statistics.median(pairs), meaning) | {"quartiles": quartiles}


LOCAL, FIRST = "local file", "store, first epoch"
FILLING, SECOND = f"{FIRST}, filling a cache", "store, second epoch, from the cache"
GETS = f"plain GETs of {GET_BYTES >> 20} MiB by obstore, {GETS_AT_ONCE} at a time"


def _epochs(place: Place) -> list[dict[str, Any]]:
    with _server(place) as store, place.empty() as cache:
        kept = {"cache_dir": cache, "cache_size": "10GB"}
        _load(place, store, **kept)

        def fill() -> None:
            with place.empty() as other:
                _load(place, store, cache_dir=other, cache_size="10GB")

        contenders: dict[str, Callable[[], object]] = {
            LOCAL: lambda: _load(place, None),
            FIRST: lambda: _load(place, store),
            FILLING: fill,
            SECOND: lambda: _load(place, store, **kept),
            GETS: lambda: _get_all(place, store),
        }
        seconds = _take_turns(contenders, ROUNDS)
    size = place.path.stat().st_size
    rows = [row(f"crops: {name}", values, samples=place.samples, size_bytes=size) for name, values in seconds.items()]
    for name in (FIRST, FILLING, SECOND):
        rows.append(_share(f"crops: {name}", seconds, name, LOCAL, f"the rate of the {LOCAL}"))
        rows.append(_share(f"crops: {name}", seconds, name, GETS, "the rate of plain GETs"))
    return rows


def _with_latency(place: Place) -> list[dict[str, Any]]:
    with _server(place) as near, _server(place, LATENCY_MS) as far:
        for store in (near, far):
            _get_all(place, store)
        slow = f"store, first epoch, {LATENCY_MS} ms of latency"
        contenders = {FIRST: lambda: _load(place, near), slow: lambda: _load(place, far)}
        seconds = _take_turns(contenders, ROUNDS)
    return [
        row(f"crops: {slow}", seconds[slow], samples=place.samples),
        _share(f"crops: {slow}", seconds, slow, FIRST, "the rate without latency, in turns"),
    ]


# Peers


def _beside_peers(place: Place, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left_out, there = [], []
    for peer, module in PEERS.items():
        if reason := _why_not(module) or _prepare(place, peer):
            left_out.append({"what": f"crops: {peer}: left out", "text": reason})
        else:
            there.append(peer)
    if not there:
        return left_out
    with _server(place) as store:
        seconds: dict[str, list[float]] = {name: [] for name in (FIRST, *there)}
        for _ in range(PEER_ROUNDS):
            start_s = time.perf_counter()
            _load(place, store)
            seconds[FIRST].append(time.perf_counter() - start_s)
            for peer in there:
                seconds[peer].append(_peer_epoch(place, peer, store))
    found = [row(f"crops: {peer}, first epoch", seconds[peer], samples=place.samples) for peer in there]
    shares = [_share(f"crops: {FIRST}", seconds, FIRST, peer, f"the rate of {peer}") for peer in there]
    return [*found, *shares, *left_out]


def _why_not(module: str) -> str:
    for name in ("torch", module):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    return ""


def _facts(place: Place, peer: str, **more: Any) -> dict[str, Any]:
    return {"peer": peer, "folder": str(place.bucket / peer), "bucket": "bucket", "prefix": peer, **more}


def _prepare(place: Place, peer: str) -> str:
    """Let a peer write the photographs; gives why it could not."""
    (place.bucket / peer).mkdir()
    facts = _facts(place, peer, photographs=[str(path) for path in photographs()], copies=COPIES)
    done = _run_peer("write", facts)
    return "" if done.returncode == 0 else f"it cannot write here: {_last_line(done.stderr)}"


def _peer_epoch(place: Place, peer: str, store: dict[str, Any]) -> float:
    with place.empty() as cache:
        done = _run_peer("read", _facts(place, peer, store=store, cache=cache))
    if done.returncode:
        raise RuntimeError(f"{peer} failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["photographs"] == place.samples
    return float(found["seconds"])


def _run_peer(work: str, facts: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.peers.stream_peers", work, json.dumps(facts)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]


# The first batch


def _first_batches(place: Place) -> list[dict[str, Any]]:
    large = place.bucket / "large.beton"
    zeros = bytes(LARGE_BYTES)
    fields = {"data": hr.Bytes(), "label": hr.Int()}
    hr.write(large, ((zeros, i) for i in range(LARGE_SAMPLES)), fields=fields)
    subprocess.run(["fallocate", "--dig-holes", str(large)], check=False)
    size = large.stat().st_size
    rows = []
    for latency_ms in (0, LATENCY_MS):
        with _server(place, latency_ms) as store:
            seconds = _take_turns({"": lambda store=store: _first_batch(store)}, FIRST_BATCHES)[""]
        what = f"first batch of a file of {size / 1e9:.0f} GB, {latency_ms} ms of latency"
        rows.append(row(what, seconds))
    return rows


def _first_batch(store: dict[str, Any]) -> None:
    with hr.open("s3://bucket/large.beton", storage_options=_storage(store)) as dataset:
        batches = iter(hr.Loader(dataset, BATCH, order="quasi_random", workers=1))
        assert len(next(batches).label) == BATCH
