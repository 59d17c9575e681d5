"""What a cache on the local disk keeps that is too small for all: what the next epoch needs first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.range_server import RangeServer, serve_ranges

pytest.importorskip("obstore")

import headrace as hr
from headrace.storage import block_memory
from headrace.storage.block_cache import _CACHES, known_cache
from headrace.storage.block_memory import BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MIB = 1 << 20
DATA_BYTES = 96 * MIB
EPOCHS = 5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    with serve_ranges(tmp_path) as server:
        yield server
    for cache in list(_CACHES.values()):
        cache.close()


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks go from memory as soon as nobody uses them."""
    monkeypatch.setattr(block_memory, "_shared", block_memory.BlockMemory(0))


def write(path: Path, page_bytes: int, data_bytes: int = DATA_BYTES) -> None:
    size = 2 * MIB // 5 - 1000
    rows = [(np.full(size, i % 251, np.uint8), i) for i in range(data_bytes // size)]
    fields = {"data": hr.NDArray("uint8", (size,)), "label": hr.Int()}
    hr.write(path, rows, fields=fields, page_size=page_bytes)


def fetched(server: RangeServer, folder: Path, size_bytes: int, **options: Any) -> tuple[list[float], int]:
    """Blocks that each epoch has fetched, and for how many of them the cache has room."""
    counts = []
    with hr.open(server.url_of("x.beton"), cache_dir=folder, cache_size=size_bytes) as dataset:
        opened = known_cache(folder).facts["blocks"]  # with the tables of the file
        loader = hr.Loader(dataset, 8, seed=1, workers=1, drop_last=False, **options)
        for _ in range(EPOCHS):
            before = server.sent_bytes
            for batch in loader:
                assert (batch.data[:, -1] == batch.label.ravel() % 251).all()
            counts.append((server.sent_bytes - before) / BLOCK_BYTES)
        return counts, known_cache(folder).facts["blocks"] - opened


def blocks_in_order(path: Path, **options: Any) -> list[list[int]]:
    """The blocks that each epoch asks for, in the order of their first use."""
    with hr.open(path) as dataset:
        loader = hr.Loader(dataset, 8, seed=1, drop_last=False, **options)
        pages, size = dataset.page_numbers(), dataset.page_size
        last = -(-os.path.getsize(path) // BLOCK_BYTES)
        found = []
        for epoch in range(EPOCHS + 1):
            order = loader._order(epoch).slice(0, len(dataset))
            steps = [pages[order[k : k + 8]] for k in range(0, len(order), 8)]
            sequence = list(dict.fromkeys(int(page) for step in steps for page in np.unique(step)))
            blocks = [b for p in sequence for b in range(p * size // BLOCK_BYTES, -(-(p + 1) * size // BLOCK_BYTES))]
            found.append([block for block in blocks if block < last])
        return found


def fewest(epochs: Sequence[Sequence[Any]], holds: int) -> list[int]:
    """Blocks that must be fetched in each epoch when what is needed last always goes, or is not stored (Belady)."""
    flat = [(epoch, block) for epoch, blocks in enumerate(epochs) for block in blocks]
    following: dict[Any, int] = {}
    next_use = [0] * len(flat)
    for place in range(len(flat) - 1, -1, -1):
        next_use[place] = following.get(flat[place][1], len(flat) + place)
        following[flat[place][1]] = place
    cache: dict[Any, int] = {}
    misses = [0] * len(epochs)
    for place, (epoch, block) in enumerate(flat):
        misses[epoch] += block not in cache
        cache[block] = next_use[place]
        if len(cache) > holds:
            del cache[max(cache, key=lambda one: cache[one])]
    return misses


def test_the_fewest() -> None:
    assert fewest([[1, 2, 3, 4]] * 3, 2) == [4, 2, 2]
    assert fewest([[1, 2, 3, 4], [4, 3, 2, 1]], 2) == [4, 2]
    assert fewest([[1, 2, 3], [3, 1, 2]], 3) == [3, 0]


@pytest.mark.parametrize("page_mib", [2, 4, 8])  # two pages in a block; one; two blocks in a page
@pytest.mark.parametrize("order", ["sequential", "quasi_random"])
def test_as_few_blocks_as_possible_are_fetched(order: str, page_mib: int, server: RangeServer, tmp_path: Path) -> None:
    write(tmp_path / "x.beton", page_mib * MIB)
    options = {"order": order, "pool_pages": 3, "cache": "8MiB"}  # so much ahead
    counts, holds = fetched(server, tmp_path / "cache", DATA_BYTES // 2, **options)
    least = fewest(blocks_in_order(tmp_path / "x.beton", **options), holds)
    assert 9 <= holds <= 12
    assert sum(counts[1:]) <= 1.1 * sum(least[1:EPOCHS]), (counts, least)


class TestBlocksOfManySteps:
    """A block holds samples of many steps: in random order, and in a mixture, which has other samples in each epoch."""

    @pytest.fixture(autouse=True)
    def files(self, tmp_path: Path) -> None:
        write(tmp_path / "x.beton", 2 * MIB)
        write(tmp_path / "y.beton", 2 * MIB, DATA_BYTES // 3)

    def _opened(self, is_mixed: bool, url: Any, **options: Any) -> Any:
        datasets = [hr.open(url(name), **options) for name in ("x.beton", "y.beton")[: 1 + is_mixed]]
        return hr.mix(datasets, weights=[3, 1]) if is_mixed else datasets[0]

    def _blocks(self, dataset: Any, options: dict[str, Any]) -> list[list[tuple[str, int]]]:
        """The blocks that each epoch asks for, step after step."""
        loader, found = hr.Loader(dataset, 2, seed=1, drop_last=False, **options), []
        tables = {part.path: part.table for part in getattr(dataset, "parts", [dataset])}
        for epoch in range(EPOCHS + 1):
            samples = dataset.for_epoch(epoch)
            order = loader._make_order(epoch, samples).slice(0, len(samples)).tolist()
            blocks = []
            for path, number in map(samples.origin_of, order):
                start, size = tables[path][number, 1:].tolist()
                blocks.append({(path, b) for b in range(start // BLOCK_BYTES, -(-(start + size) // BLOCK_BYTES))})
            found.append([block for k in range(0, len(blocks), 2) for block in sorted(set().union(*blocks[k : k + 2]))])
        return found

    @pytest.mark.parametrize(("is_mixed", "order"), [(False, "random"), (True, "random"), (True, "quasi_random")])
    def test_as_few_as_possible_are_fetched(
        self, is_mixed: bool, order: str, server: RangeServer, tmp_path: Path
    ) -> None:
        options, folder, counts = {"order": order, "pool_pages": 3}, tmp_path / "cache", []
        with self._opened(is_mixed, server.url_of, cache_dir=folder, cache_size=DATA_BYTES // 2) as dataset:
            loader = hr.Loader(dataset, 2, seed=1, workers=1, drop_last=False, cache="4MiB", **options)
            for _ in range(EPOCHS):
                before = server.sent_bytes
                for batch in loader:
                    assert (batch.data[:, -1] == batch.label.ravel() % 251).all()
                counts.append((server.sent_bytes - before) / BLOCK_BYTES)
            holds = known_cache(folder).facts["blocks"]
        with self._opened(is_mixed, lambda name: tmp_path / name) as dataset:
            least = fewest(self._blocks(dataset, options), holds)
        assert 9 <= holds <= 12
        assert sum(counts) <= 1.1 * sum(least[:EPOCHS]), (counts, least)


def test_where_the_order_does_not_tell_the_cache_learns(server: RangeServer, tmp_path: Path) -> None:
    write(tmp_path / "x.beton", 4 * MIB)
    order = lambda n, seed, epoch: np.roll(np.arange(n), epoch)  # noqa: E731
    counts, _ = fetched(server, tmp_path / "cache", 2 * DATA_BYTES, order=order)
    assert counts[0] > 20
    assert sum(counts[1:]) == 0
