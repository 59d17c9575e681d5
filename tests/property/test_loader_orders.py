"""Every index exactly once, ranks partition, the same bytes for any workers, resuming anywhere."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import picture
from tests.unit.loader.tools import contents, values_of

import headrace as hr
from headrace import Loader, ops

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 40
FIELDS = {"image": hr.Image(mode="proportion"), "label": hr.Int(), "blob": hr.Bytes()}


def by_halves(n: int, seed: int, epoch: int) -> np.ndarray:
    """An order of a user's own."""
    return np.roll(np.r_[np.arange(0, n, 2), np.arange(1, n, 2)], seed + epoch)


ORDERS = st.sampled_from(["sequential", "random", "quasi_random", by_halves])
SEEDS = st.integers(0, 2**32)
EPOCHS = st.integers(0, 1000)
SPLITS = {n: [(world, n // world) for world in range(1, 6) if n % world == 0] for n in (4, 6, 10, 12)}
PIPELINES: list[dict[str, Any]] = [
    {"image": [ops.RandomResizedCrop(8), ops.RandomHorizontalFlip()]},
    {"image": [ops.RandomCrop(20, padding=3), ops.RandomBrightness(0.5), ops.Normalize([9] * 3, [5] * 3, "float16")]},
    {"image": [ops.Resize(9), ops.Apply(lambda p: 255 - p, "invert"), ops.Cutout(4), ops.ToLayout("NCHW")]},
    {
        "image": [ops.Resize(9), {"a": [ops.RandomSaturation(1)], "b": [ops.RandomTranslate(2)]}],
        "label": [ops.OneHot(COUNT)],
    },
]


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten pages, which two ranks can have by themselves; pictures of different sizes, stored in both ways."""
    target = tmp_path_factory.mktemp("property") / "x.beton"
    samples = [(picture(i, 20 + i % 5, 22 + i % 3), i, np.random.default_rng(i).bytes(450_000)) for i in range(COUNT)]
    hr.write(target, samples, fields=FIELDS, page_size=1 << 21)
    return target


def make(
    path: Path, batch_size: int, *, n: int = COUNT, epoch: int = 0, pipelines: Any = None, **options: Any
) -> Loader:
    chosen = {"image": None, "blob": None} if pipelines is None else {"blob": None} | pipelines
    loader = Loader(path, batch_size, indices=None if n == COUNT else range(n), pipelines=chosen, **options)
    loader.set_epoch(epoch)
    return loader


def ranks_of(path: Path, batch_size: int, world: int, **options: Any) -> list[Loader]:
    return [make(path, batch_size, rank=rank, world=world, **options) for rank in range(world)]


def indices_of(loader: Loader) -> list[list[int]]:
    return [batch.label.tolist() for batch in loader]


def joined(batches: tuple[Any, ...]) -> list[Any]:
    """What the ranks have in one step, as one batch: rank r has every world-th sample from the r-th on."""
    world, parts = len(batches), []
    for arrays in zip(*batches, strict=True):
        whole = np.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), arrays[0].dtype)
        for rank, array in enumerate(arrays):
            whole[rank::world] = array
        parts.append(whole)
    return values_of(parts)


@settings(max_examples=60, deadline=None)
@given(
    order=ORDERS,
    n=st.integers(0, COUNT),
    batch_size=st.integers(1, 12),
    world=st.integers(1, 5),
    pool_pages=st.integers(1, 8),
    seed=SEEDS,
    epoch=EPOCHS,
)
def test_every_index_exactly_once(path: Path, order: Any, n: int, batch_size: int, world: int, **options: Any) -> None:
    loaders = ranks_of(path, batch_size, world, order=order, n=n, drop_last=False, **options)
    found = [indices_of(loader) for loader in loaders]
    assert {len(batches) for batches in found} == {len(loaders[0])} == {-(-n // (batch_size * world))}
    assert sorted(i for batches in found for batch in batches for i in batch) == list(range(n))
    for step in zip(*found, strict=True):
        sizes = [len(batch) for batch in step]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)
    full = [batch for batches in found for batch in batches[:-1]]
    assert all(len(batch) == batch_size for batch in full)


@pytest.mark.filterwarnings("ignore:.* is larger than the dataset")
@settings(max_examples=40, deadline=None)
@given(
    order=ORDERS,
    n=st.integers(0, COUNT),
    batch_size=st.integers(1, 12),
    world=st.integers(1, 5),
    seed=SEEDS,
    epoch=EPOCHS,
)
def test_full_batches_only(path: Path, order: Any, n: int, batch_size: int, world: int, **options: Any) -> None:
    loaders = ranks_of(path, batch_size, world, order=order, n=n, drop_last=True, **options)
    found = [indices_of(loader) for loader in loaders]
    assert [len(batches) for batches in found] == [n // (batch_size * world)] * world
    assert all(len(batch) == batch_size for batches in found for batch in batches)
    counts = Counter(i for batches in found for batch in batches for i in batch)
    assert set(counts) <= set(range(n))
    assert set(counts.values()) <= {1}
    assert n - len(counts) < batch_size * world


@settings(max_examples=40, deadline=None)
@given(
    order=ORDERS,
    split=st.sampled_from([(total, world) for total in SPLITS for world in SPLITS[total]]),
    pipelines=st.sampled_from(PIPELINES),
    seed=SEEDS,
)
def test_ranks_together_are_one_process(path: Path, order: Any, split: Any, pipelines: Any, seed: int) -> None:
    total, (world, batch_size) = split
    options: dict[str, Any] = {
        "order": order,
        "pipelines": pipelines,
        "seed": seed,
        "drop_last": False,
        "pool_pages": 4,
    }
    together = [joined(batches) for batches in zip(*ranks_of(path, batch_size, world, **options), strict=True)]
    assert together == contents(make(path, total, **options))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), order=ORDERS, pipelines=st.sampled_from(PIPELINES), seed=SEEDS, drop_last=st.booleans())
def test_a_run_that_is_resumed_equals_one_that_was_not(
    path: Path, data: st.DataObject, order: Any, pipelines: Any, seed: int, drop_last: bool
) -> None:
    total = data.draw(st.sampled_from(list(SPLITS)))
    options: dict[str, Any] = {"order": order, "pipelines": pipelines, "seed": seed, "drop_last": drop_last}
    options["pool_pages"] = 4
    epoch = data.draw(st.integers(0, 3))
    expected = contents(make(path, total, epoch=epoch, **options))
    taken = data.draw(st.integers(0, len(expected)))
    if taken == len(expected):  # then the next epoch is what is left
        expected += contents(make(path, total, epoch=epoch + 1, **options))
    world, batch_size = data.draw(st.sampled_from(SPLITS[total]))
    group = ranks_of(path, batch_size, world, epoch=epoch, **options)
    iterators = [iter(loader) for loader in group]
    found = [joined(tuple(next(batches) for batches in iterators)) for _ in range(taken)]
    state = json.loads(json.dumps(group[-1].state_dict()))
    assert all(loader.state_dict() == state for loader in group)
    world, batch_size = data.draw(st.sampled_from(SPLITS[total]))
    speed = {"workers": data.draw(st.sampled_from([1, 2, 7])), "batches_ahead": data.draw(st.integers(1, 6))}
    resumed = ranks_of(path, batch_size, world, **speed, **options)
    for loader in resumed:
        loader.load_state_dict(state)
    assert found + [joined(batches) for batches in zip(*resumed, strict=True)] == expected


@settings(max_examples=25, deadline=None)
@given(
    order=ORDERS,
    batch_size=st.integers(1, 15),
    ahead=st.integers(1, 9),
    pipelines=st.sampled_from(PIPELINES),
    cache=st.sampled_from(["os", 1, 3 << 21, "1GB"]),
    seed=SEEDS,
)
def test_the_same_bytes_for_any_workers_and_any_memory(
    path: Path, order: Any, batch_size: int, ahead: int, pipelines: Any, cache: Any, seed: int
) -> None:
    options: dict[str, Any] = {"order": order, "seed": seed, "drop_last": False, "pipelines": pipelines | {"blob": []}}
    expected = contents(make(path, batch_size, workers=1, batches_ahead=1, cache="os", **options))
    for workers in (2, 7):
        loader = make(path, batch_size, workers=workers, batches_ahead=ahead, cache=cache, **options)
        assert contents(loader) == expected
