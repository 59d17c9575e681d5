"""Objects of a server, kept on the local disk: what crosses the network."""

from __future__ import annotations

import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("obstore")

from headrace.storage import block_memory
from headrace.storage.block_cache import _CACHES, BlockCache, known_cache
from headrace.storage.block_memory import BLOCK_BYTES
from headrace.storage.object_store import locate
from headrace.storage.remote_file import RemoteFile
from headrace.storage.remote_path import RemotePath, StorageOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCKS = 12
DATA = np.random.default_rng(0).integers(0, 256, BLOCKS * BLOCK_BYTES - 1000, np.uint8).tobytes()


class Handler(BaseHTTPRequestHandler):
    """Gives ranges of one object, and counts."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_HEAD(self) -> None:
        self._answer(200, b"", len(DATA), {})

    def do_GET(self) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert found is not None
        start, end = int(found[1]), min(int(found[2]) + 1, len(DATA))
        part = DATA[start:end]
        self.server.sent_bytes += len(part)
        self._answer(206, part, len(part), {"Content-Range": f"bytes {start}-{end - 1}/{len(DATA)}"})

    def _answer(self, status: int, body: bytes, size: int, more: dict[str, str]) -> None:
        self.send_response(status)
        usual = {"Content-Length": str(size), "ETag": '"v1"', "Last-Modified": "Tue, 01 Oct 2024 00:00:00 GMT"}
        for name, value in {**usual, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody wants to see it."""


@pytest.fixture
def server() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.sent_bytes = 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    for cache in list(_CACHES.values()):
        cache.close()


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks go from memory as soon as nobody uses them."""
    monkeypatch.setattr(block_memory, "_shared", block_memory.BlockMemory(0))


def epoch(file: RemoteFile, server: Any, order: list[int]) -> float:
    """Use all blocks once; gives how many came over the network, in blocks."""
    before = server.sent_bytes
    for number in order:
        start = number * BLOCK_BYTES
        size = min(BLOCK_BYTES, len(DATA) - start)
        base, starts = file.region(np.array([start], np.uint64), np.array([size], np.uint64))
        assert base[int(starts[0]) : int(starts[0]) + size].tobytes() == DATA[start : start + size]
        del base
    return (server.sent_bytes - before) / BLOCK_BYTES


def opened(server: Any, folder: Path, size_bytes: int | None) -> RemoteFile:
    storage = StorageOptions(cache_dir=str(folder), cache_size=size_bytes)
    return RemoteFile(RemotePath(f"http://127.0.0.1:{server.server_port}/data/train.beton", storage))


def orders(epochs: int) -> list[list[int]]:
    """Shuffled, with no block after the one before it, for which more would be read ahead."""
    shuffled = (np.random.default_rng(seed).permutation(BLOCKS) for seed in count())
    return list(islice((order.tolist() for order in shuffled if not (np.diff(order) == 1).any()), epochs))


def test_the_second_epoch_brings_nothing_when_all_fits(server: Any, tmp_path: Path) -> None:
    file = opened(server, tmp_path / "cache", 100 << 20)
    first, second, third = orders(3)
    assert 11.9 < epoch(file, server, first) < 12.1
    assert epoch(file, server, second) == 0
    assert file.stats.bytes_from_cache == len(DATA)
    file.close()
    again = opened(server, tmp_path / "cache", None)
    assert epoch(again, server, third) == 0
    again.close()


def test_half_comes_again_when_half_fits(server: Any, tmp_path: Path) -> None:
    file = opened(server, tmp_path / "cache", 6 * BLOCK_BYTES + (1 << 20))
    fetched = [epoch(file, server, order) for order in orders(4)]
    assert fetched[0] > 11.9
    assert all(5.5 < blocks < 7.5 for blocks in fetched[1:]), fetched
    file.close()


def test_a_damaged_block_is_fetched_again(server: Any, tmp_path: Path) -> None:
    file = opened(server, tmp_path / "cache", 100 << 20)
    first, second, third = orders(3)
    epoch(file, server, first)
    with open(tmp_path / "cache" / "headrace-blocks", "r+b") as blocks:
        blocks.seek(1_000_000)
        blocks.write(b"damage")
    assert 0.9 < epoch(file, server, second) <= 1
    assert epoch(file, server, third) == 0
    file.close()


def test_a_block_that_is_being_stored_is_not_fetched_again(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BlockCache.store

    def store_slowly(*args: Any) -> bool:
        time.sleep(0.2)
        return store(*args)

    monkeypatch.setattr(BlockCache, "store", store_slowly)
    file = opened(server, tmp_path / "cache", 100 << 20)
    assert epoch(file, server, [1, 3, 1, 3]) == 2
    file.close()


def test_who_names_no_size_leaves_it_as_it_is(server: Any, tmp_path: Path) -> None:
    opened(server, tmp_path / "cache", 8 << 20).close()
    opened(server, tmp_path / "cache", None).close()
    for cache in list(_CACHES.values()):
        cache.close()  # another process that opens it
    opened(server, tmp_path / "cache", None).close()
    assert known_cache(tmp_path / "cache").facts["size_bytes"] == 8 << 20


def test_queries_are_other_objects_and_signatures_are_not(server: Any, tmp_path: Path) -> None:
    storage = StorageOptions(cache_dir=str(tmp_path / "cache"), cache_size=100 << 20)
    url = f"http://127.0.0.1:{server.server_port}/data/train.beton"
    came = []
    for query in ("?id=1&X-Amz-Signature=a", "?id=1&X-Amz-Signature=b", "?id=2", ""):
        file = RemoteFile(RemotePath(url + query, storage))
        came.append(round(epoch(file, server, orders(1)[0])))
        file.close()
    assert came == [BLOCKS, 0, BLOCKS, BLOCKS]


def test_endpoints_and_accounts_tell_stores_of_one_name_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    def place(url: str, **options: str) -> str:
        return locate(RemotePath(url, StorageOptions(store=options)))[0].place

    assert place("s3://bucket/x", region="eu-west-1") == ""
    assert place("s3://bucket/x", endpoint="http://127.0.0.1:1") == "http://127.0.0.1:1"
    assert "one" in place("az://box/x", account_name="one", skip_signature="true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
    assert place("s3://other/x") == "http://127.0.0.1:2"
