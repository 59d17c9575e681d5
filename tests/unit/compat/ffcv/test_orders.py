from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import BytesField, IntField  # noqa: E402
from headrace.compat.ffcv.loader import OrderOption  # noqa: E402
from headrace.compat.ffcv.traversal_order import QuasiRandom, Random, Sequential  # noqa: E402
from headrace.compat.ffcv.traversal_order.base import TraversalOrder  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 50
BLOB = 300_000  # a few samples to a page


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fields = {"n": IntField(), "blob": BytesField()}
    file = tmp_path_factory.mktemp("orders") / "x.beton"
    return write(file, fields, COUNT, lambda i: (i, np.full(BLOB, i, np.uint8)))


def epochs(path: Path, order: OrderOption, count: int = 3, **options: Any) -> list[list[int]]:
    loader = Loader(path, 4, 1, order=order, drop_last=False, pipelines={"blob": None}, **options)
    return [[int(n) for (batch,) in loader for n in batch] for _ in range(count)]


def as_rank(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world))


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("indices", [None, list(range(0, COUNT, 3))])
def test_quasi_random_is_shared_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, world: int, indices: list[int] | None
) -> None:
    whole = epochs(path, OrderOption.QUASI_RANDOM, seed=5, indices=indices)
    ranks = []
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        ranks.append(epochs(path, OrderOption.QUASI_RANDOM, seed=5, indices=indices, distributed=True))
    wanted = set(range(COUNT) if indices is None else indices)
    for k in range(3):
        parts = [epoch[k] for epoch in ranks]
        assert len({len(part) for part in parts}) == 1
        together = [n for several in zip(*parts, strict=True) for n in several]
        assert together[: len(wanted)] == whole[k]
        assert together[len(wanted) :] == whole[k][: len(together) - len(wanted)]
        assert set(together) == wanted


def test_ranks_without_a_seed_agree(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = []
    for rank in range(2):
        as_rank(monkeypatch, rank, 2)
        parts += epochs(path, OrderOption.QUASI_RANDOM, count=1, distributed=True)
    assert sorted(parts[0] + parts[1]) == list(range(COUNT))
    assert "no ordering seed was specified with distributed=True" in capsys.readouterr().out


PROGRAM = """
import json, sys
from headrace.compat import install
install("ffcv")
from ffcv.loader import Loader, OrderOption
loader = Loader(sys.argv[1], 4, order=OrderOption.QUASI_RANDOM, distributed=True, seed=9, pipelines={"blob": None})
print(json.dumps([[int(n) for (batch,) in loader for n in batch] for _ in range(2)]))
"""


@pytest.mark.slow
def test_processes_share_out_without_a_process_group(path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)],
            env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ranks = [json.loads(process.communicate(timeout=100)[0]) for process in processes]
    for epoch in range(2):
        assert not set(ranks[0][epoch]) & set(ranks[1][epoch])
        assert len(ranks[0][epoch]) == len(ranks[1][epoch]) == 24


def test_quasi_random_keeps_few_pages_open(path: Path) -> None:
    loader = Loader(path, 1, 1, order=OrderOption.QUASI_RANDOM, seed=1, pipelines={"blob": None})
    page_of = {sample: min(pages) for sample, pages in loader.memory_manager.sample_to_pages.items()}
    order = [int(n) for (batch,) in loader for n in batch]
    assert sorted(order) == list(range(COUNT))
    assert order != list(range(COUNT))
    last = {page: max(k for k, n in enumerate(order) if page_of[n] == page) for page in set(page_of.values())}
    first = {page: min(k for k, n in enumerate(order) if page_of[n] == page) for page in set(page_of.values())}
    for k in range(COUNT):
        assert sum(first[page] <= k <= last[page] for page in last) <= 2  # twice the batch size


def test_quasi_random_needs_pages(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"n": IntField()}, 5, lambda i: (i,))
    with pytest.raises(ValueError, match="won't benefit from QuasiRandom"):
        Loader(path, 2, order=OrderOption.QUASI_RANDOM)


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 2])
def test_random_is_numpys_permutation(path: Path, seed: int) -> None:
    found = epochs(path, OrderOption.RANDOM, seed=seed)
    assert found == [np.random.default_rng(seed + k).permutation(COUNT).tolist() for k in range(3)]


def test_classes_of_orders(path: Path) -> None:
    kinds = {OrderOption.RANDOM: Random, OrderOption.SEQUENTIAL: Sequential, OrderOption.QUASI_RANDOM: QuasiRandom}
    for option, kind in kinds.items():
        order = Loader(path, 4, order=option, pipelines={"blob": None}).traversal_order
        assert type(order) is kind
        assert isinstance(order, TraversalOrder)
        assert (order.distributed, order.sampler) == (False, None)
        assert order.loader.indices is order.indices


def test_an_order_given_as_its_class(path: Path) -> None:
    assert epochs(path, Random, seed=3) == epochs(path, OrderOption.RANDOM, seed=3)


def test_an_order_may_be_a_list(path: Path) -> None:
    class Chosen(TraversalOrder):
        def __init__(self, loader: Loader, chosen: list[int]) -> None:
            super().__init__(loader)
            self.chosen = chosen

        def sample_order(self, epoch: int) -> list[int]:
            return self.chosen[epoch:]

    found = epochs(path, Chosen, order_kwargs={"chosen": [9, 8, 7, 7, 6]})
    assert found == [[9, 8, 7, 7, 6], [8, 7, 7, 6], [7, 7, 6]]
    with pytest.raises(TypeError, match="abstract"):
        TraversalOrder(None)
