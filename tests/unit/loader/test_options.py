from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import COUNT, LABELS_ONLY, labels

from headrace import Loader
from headrace.loader.options import find_rank

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


def launched(monkeypatch: pytest.MonkeyPatch, **variables: Any) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


# -- ranks --------------------------------------------------------------------------------------------------------


def test_rank_and_world_come_from_the_launcher(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for rank in range(3):
        launched(monkeypatch, RANK=rank, WORLD_SIZE=3, LOCAL_RANK=0)
        loader = Loader(path, 4, order="random", distributed=True, drop_last=False, pipelines=LABELS_ONLY)
        assert (loader.options.rank, loader.options.world) == (rank, 3)
        named = Loader(path, 4, order="random", rank=rank, world=3, drop_last=False, pipelines=LABELS_ONLY)
        found = labels(loader)
        assert found == labels(named)
        seen += [i for batch in found for i in batch]
    assert sorted(seen) == list(range(COUNT))


def test_rank_and_world_come_from_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, SLURM_PROCID=2, SLURM_NTASKS=5)
    assert find_rank(distributed=True, rank=None, world=None) == (2, 5)
    launched(monkeypatch, RANK=1, WORLD_SIZE=4)  # torchrun below Slurm knows better
    assert find_rank(distributed=True, rank=None, world=None) == (1, 4)


def test_what_is_named_counts_more_than_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, RANK=1, WORLD_SIZE=4)
    assert find_rank(distributed=True, rank=0, world=2) == (0, 2)


def test_the_launcher_counts_only_when_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, RANK=1, WORLD_SIZE=4)
    assert find_rank(distributed=False, rank=None, world=None) == (0, 1)
    assert len(Loader(path, 1)) == COUNT


@pytest.mark.parametrize(
    ("options", "variables", "message"),
    [
        ({"distributed": True}, {}, "neither torch.distributed is initialised nor are RANK and WORLD_SIZE set; start"),
        ({"distributed": True}, {"RANK": 1}, "neither torch.distributed"),
        ({"distributed": True}, {"RANK": 4, "WORLD_SIZE": 4}, "rank must be 0 to 3 in a world of 4, got 4"),
        ({"distributed": True}, {"RANK": "first", "WORLD_SIZE": 4}, "first"),
        ({"rank": 1}, {}, "rank and world belong together, got rank=1 and world=None"),
        ({"world": 2}, {}, "rank and world belong together, got rank=None and world=2"),
        ({"rank": -1, "world": 2}, {}, "rank must be 0 to 1 in a world of 2, got -1"),
        ({"rank": 0, "world": 0}, {}, "world must be at least 1, got 0"),
    ],
)
def test_wrong_ranks_are_told_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, variables: Any, message: str
) -> None:
    launched(monkeypatch, **variables)
    with pytest.raises(ValueError, match=message):
        Loader(path, 4, **options)


# -- what is no number --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["batch_size", "workers", "batches_ahead", "pool_pages", "seed"])
@pytest.mark.parametrize("value", [2.0, "2", True, [2]])
def test_numbers_must_be_whole(path: Path, name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a whole number, got {value!r}".replace("[", r"\[")):
        Loader(path, **({"batch_size": 4} | {name: value}))


def test_numbers_may_be_numpys(path: Path) -> None:
    plain = Loader(path, 4, seed=3, order="random", pipelines=LABELS_ONLY)
    numpys = Loader(path, np.int32(4), seed=np.uint8(3), order="random", workers=np.int64(2), pipelines=LABELS_ONLY)
    assert labels(numpys) == labels(plain)
    assert numpys.state_dict() == plain.state_dict()


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64 + 5, 10**30])
def test_any_whole_number_is_a_seed(path: Path, seed: int) -> None:
    found = labels(Loader(path, COUNT, seed=seed, order="random", pipelines=LABELS_ONLY))
    assert sorted(found[0]) == list(range(COUNT))
    assert found != labels(Loader(path, COUNT, order="random", pipelines=LABELS_ONLY))


@pytest.mark.parametrize("cache", [True, False, 2.5, ["8MB"]])
def test_a_cache_is_a_number_of_bytes(path: Path, cache: Any) -> None:
    with pytest.raises(TypeError, match="cache must be 'os' or a number of bytes"):
        Loader(path, 4, cache=cache)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": 0}, "cache must be 'os' or a number of bytes, got 0"),
        ({"cache": "much"}, "'much' is not a size"),
        ({"on_error": "ignore"}, "on_error must be 'raise', 'skip' or a function, got 'ignore'"),
        ({"collate": "stack"}, "collate must be one of list, pad, offsets, got 'stack'"),
        ({"collate": {"text": "stack"}}, "collate must be one of list, pad, offsets, got 'stack'"),
        ({"collate": {"caption": "pad"}}, "collate names caption; the outputs are image, label, array, text"),
        ({"collate": {"text": "pad"}, "pipelines": {"text": None}}, "collate names text; the outputs are image"),
        ({"order": 3}, "order must be one of"),
    ],
)
def test_wrong_choices_are_told_at_once(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loader(path, 4, **options)


@pytest.mark.parametrize("given", [np.zeros(37), np.zeros((37, 1), int), "backwards", None])
def test_an_order_must_give_whole_numbers(path: Path, given: Any) -> None:
    with pytest.raises(TypeError, match=r"the order function gave .*, expected n integers"):
        Loader(path, 4, order=lambda n, seed, epoch: given)
