"""Ranks share an epoch: each byte of it is brought by one of them, the batches are those of one process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.range_server import RangeServer, serve_ranges

import headrace as hr
from headrace import Loader
from headrace.read import pages as pages_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE, SIZE, SAMPLES = 4 << 20, 58_000, 2350  # 72 samples on a page, and pages for eight strands
GLOBAL_BATCH = 48
STORAGE = {"client_options": {"allow_http": True}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RangeServer]:
    pytest.importorskip("obstore", reason="needs the package obstore")
    folder = tmp_path_factory.mktemp("ranks")
    rows = ((np.full(SIZE, i % 251, np.uint8), i) for i in range(SAMPLES))
    hr.write(folder / "x.beton", rows, fields={"data": hr.NDArray("uint8", (SIZE,)), "label": hr.Int()}, page_size=PAGE)
    with serve_ranges(folder) as server:
        yield server


@pytest.fixture(scope="module")
def path(server: RangeServer) -> Path:
    return server.folder / "x.beton"


def loader_of(dataset: Any, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    options = {"order": "quasi_random", "pool_pages": 16, "seed": 4, "drop_last": False, "workers": 1} | options
    return Loader(dataset, GLOBAL_BATCH // world, rank=rank, world=world, **options)


def labels_of(loader: Loader) -> list[list[int]]:
    """Of each batch, whose data must be right."""
    found = []
    for batch in loader:
        assert (batch.data == (batch.label % 251).astype(np.uint8)[:, None]).all()
        found.append(batch.label.tolist())
    return found


def joined(ranks: list[list[list[int]]]) -> list[list[int]]:
    return [sorted(label for batch in step for label in batch) for step in zip(*ranks, strict=True)]


@pytest.fixture(scope="module")
def expected(path: Path) -> list[list[int]]:
    return joined([labels_of(loader_of(path))])


def fetch(server: RangeServer, world: int, **options: Any) -> tuple[list[list[int]], list[int]]:
    """The steps of all ranks, one rank after the other, and the bytes that each has fetched."""
    found, fetched = [], []
    for rank in range(world):
        before = server.sent_bytes
        with hr.open(server.url_of("x.beton"), storage_options=STORAGE, **options) as there:
            found.append(labels_of(loader_of(there, rank, world)))
        fetched.append(server.sent_bytes - before)
    return joined(found), fetched


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_each_rank_fetches_pages_of_its_own(
    server: RangeServer, path: Path, expected: list[list[int]], world: int
) -> None:
    requests = server.requests
    found, fetched = fetch(server, world)
    assert found == expected
    assert sum(fetched) <= 1.1 * path.stat().st_size
    assert max(fetched) <= 1.2 * path.stat().st_size / world
    assert server.requests - requests < SAMPLES / PAGE * SIZE * 2.5 + 10 * world


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_with_a_cache_fetch_each_byte_once(
    server: RangeServer, path: Path, expected: list[list[int]], world: int, tmp_path: Path
) -> None:
    found, fetched = fetch(server, world, cache_dir=tmp_path / "cache", cache_size="1GB")
    assert found == expected
    assert sum(fetched) <= 1.05 * path.stat().st_size


def test_ranks_that_share_strands_fetch_their_samples(
    server: RangeServer, path: Path, expected: list[list[int]]
) -> None:
    found, fetched = fetch(server, 3)
    assert found == expected
    assert max(fetched) <= 0.6 * path.stat().st_size


@pytest.mark.parametrize("world", [1, 2, 4])
def test_each_rank_reads_pages_of_its_own_ahead(
    path: Path, expected: list[list[int]], world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[set[int]] = []
    read_ranges = pages_module.read_ranges

    def counted(name: str, reader: Any, pointers: Any, *rest: Any) -> None:
        assert not read[-1] & set(pointers.tolist())  # none twice
        read[-1].update(pointers.tolist())
        read_ranges(name, reader, pointers, *rest)

    monkeypatch.setattr(pages_module, "read_ranges", counted)
    found = []
    for rank in range(world):
        read.append(set())
        found.append(labels_of(loader_of(path, rank, world, cache=24 * PAGE)))
    assert joined(found) == expected
    pages = -(-path.stat().st_size // PAGE)
    assert sum(map(len, read)) <= pages + 4 * (world - 1)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (8, 3)])
def test_a_state_goes_on_with_other_ranks(
    server: RangeServer, path: Path, expected: list[list[int]], before: int, after: int
) -> None:
    first = loader_of(path, before - 1, before)
    batches = iter(first)
    for _ in range(20):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    batches.close()  # type: ignore[attr-defined]
    found = []
    for rank in range(after):
        loader = loader_of(path, rank, after)
        loader.load_state_dict(state)
        found.append(labels_of(loader))
    assert joined(found) == expected[20:]


def test_pages_that_nobody_named_are_those_of_the_state(path: Path) -> None:
    def unnamed(rank: int, world: int, **more: Any) -> hr.Loader:
        return hr.Loader(path, 24 // world, order="quasi_random", rank=rank, world=world, **more)

    first = unnamed(0, 4)
    state = first.state_dict()
    assert state["pool_pages"] == 64
    assert unnamed(0, 1).state_dict()["pool_pages"] == 16
    found = []
    for rank in range(2):
        loader = unnamed(rank, 2)
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        found.append(labels_of(loader))
    assert joined(found) == joined([labels_of(unnamed(rank, 4)) for rank in range(4)])
    with pytest.raises(ValueError, match="taken with pool_pages=64, and this loader has pool_pages=32"):
        unnamed(0, 2, pool_pages=32).load_state_dict(state)
    for nonsense in (0, -1, 2**70, True, "16", None):
        with pytest.raises(ValueError, match="pool_pages"):
            unnamed(0, 2).load_state_dict(state | {"pool_pages": nonsense})


def test_a_state_of_another_order_is_refused(path: Path) -> None:
    loader = loader_of(path)
    old = loader.state_dict() | {"version": 1, "epoch": 3}
    message = r"another headrace, whose order 'quasi_random' has other batches: it is of version 1, expected 2\. .*"
    with pytest.raises(ValueError, match=message + r"begin an epoch anew: set_epoch\(3\)"):
        loader.load_state_dict(old)
    with pytest.raises(ValueError, match="it is of version 3, expected 2"):
        loader.load_state_dict(loader.state_dict() | {"version": 3})
    random = loader_of(path, order="random")
    random.load_state_dict(random.state_dict() | {"version": 1, "epoch": 3})
    assert random.epoch == 3


def test_the_ranks_of_a_mixture_have_the_samples_of_one_process(server: RangeServer) -> None:
    small = server.folder / "small.beton"
    rows = [(np.full(SIZE, i % 251, np.uint8), i) for i in range(90)]
    hr.write(small, rows, fields={"data": hr.NDArray("uint8", (SIZE,)), "label": hr.Int()}, page_size=2 << 20)
    with hr.open(small) as here, hr.open(server.url_of("small.beton"), storage_options=STORAGE) as there:
        expected = joined([labels_of(loader_of(hr.mix([here, here], weights=[2, 1])))])
        mixed = hr.mix([there, there], weights=[2, 1])
        for world in (1, 2):
            assert joined([labels_of(loader_of(mixed, rank, world)) for rank in range(world)]) == expected
