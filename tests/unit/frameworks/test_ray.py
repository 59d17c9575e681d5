"""Datasets as datasets of Ray Data, and loaders in workers of Ray Train. Run in processes of their own."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import MissingExtraError
from headrace.formats.ray_tasks import open_tasks
from headrace.frameworks.ray import ray_datasource
from headrace.loader.launcher import find_rank, own_cores
from headrace.testing.columns import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = [pytest.mark.ray, pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed")]
COUNT = 50


def has_packages(*names: str) -> bool:
    return HAS_RAY and all(importlib.util.find_spec(name) is not None for name in names)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    if not has_packages("pandas", "pyarrow"):
        pytest.skip("Ray Data needs pandas and pyarrow")
    with open_tasks(address=None, workers=2, needed_by="the tests") as tasks:
        import ray.data

        ray.data.DataContext.get_current().enable_progress_bars = False
        yield tasks.ray


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "x.beton"
    fields = {
        "image": hr.Image(mode="raw"),
        "n": hr.Int(),
        "f": hr.Float(),
        "text": hr.Text(),
        "data": hr.Bytes(),
        "json": hr.Json(),
        "array": hr.NDArray("<f4", (2, 3)),
    }
    samples = [
        (picture_of(i, 8 + i % 3, 9), i, i / 2, f"t{i}", bytes([i]) * i, {"i": [i]}, np.full((2, 3), i, np.float32))
        for i in range(COUNT)
    ]
    hr.write(path, samples, fields=fields)
    return path


class TestRayData:
    pytestmark = needs_ray

    def test_every_sample_comes_once_with_its_values(self, ray: Any, path: Path) -> None:
        rows = sorted(hr.to_ray(path, override_num_blocks=7).take_all(), key=lambda row: row["n"])
        assert [row["n"] for row in rows] == list(range(COUNT))
        for row, sample in zip(rows, hr.open(path), strict=True):
            assert np.array_equal(row["image"], sample.image)
            assert np.array_equal(row["array"], sample.array)
            assert (row["f"], row["text"], row["data"]) == (sample.f, sample.text, sample.data)
            assert json.loads(row["json"]) == sample.json

    def test_fields_and_blocks_are_chosen(self, ray: Any, path: Path) -> None:
        table = hr.to_ray(hr.open(path), fields=["n", "array"], override_num_blocks=3).materialize()
        assert table.num_blocks() == 3
        assert table.columns() == ["n", "array"]
        batch = table.take_batch(COUNT, batch_format="numpy")
        assert batch["array"].shape == (COUNT, 2, 3)
        assert batch["array"].dtype == np.float32

    def test_sets_travel(self, ray: Any, path: Path) -> None:
        chosen = hr.subset(hr.open(path), [3, 1, 41])
        assert sorted(row["n"] for row in hr.to_ray(chosen, fields=["n"]).take_all()) == [1, 3, 41]

    def test_few_samples_make_few_tasks(self, ray: Any, path: Path) -> None:
        source = ray_datasource(hr.subset(hr.open(path), [0, 1]))
        assert len(source.get_read_tasks(8)) == 2
        assert source.estimate_inmemory_data_size() > 2 * 8 * 9 * 3

    def test_fields_that_are_not_there(self, ray: Any, path: Path) -> None:
        with pytest.raises(KeyError, match=r"no field 'label' in .*; the fields are image, n, f, "):
            hr.to_ray(path, fields=["label"])
        with pytest.raises(ValueError, match="fields must be a list of names"):
            hr.to_ray(path, fields="n")

    def test_workers_of_ray_train_share_an_epoch(self, ray: Any, path: Path, tmp_path: Path) -> None:
        if not has_packages("pydantic", "requests"):
            pytest.skip("Ray Train needs pydantic and requests")
        from ray.train import RunConfig, ScalingConfig
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        source, out = str(path), str(tmp_path)

        def train() -> None:
            from ray.train import get_context

            import headrace

            loader = headrace.Loader(source, 5, order="random", distributed=True, pipelines={"image": None})
            numbers = [int(n) for batch in loader for n in batch.n]
            with open(f"{out}/seen-{get_context().get_world_rank()}", "w") as file:
                json.dump(numbers, file)

        trainer = DataParallelTrainer(
            train,
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=str(tmp_path / "runs"), name="x"),
        )
        trainer.fit()
        parts = [json.loads((tmp_path / f"seen-{rank}").read_text()) for rank in range(2)]
        assert [len(part) for part in parts] == [25, 25]
        assert sorted(parts[0] + parts[1]) == list(range(COUNT))


def as_worker(monkeypatch: pytest.MonkeyPatch, rank: int | None) -> None:
    def get_context() -> Any:
        if rank is None:
            raise RuntimeError("no worker")
        numbers = {"get_world_rank": rank, "get_world_size": 4, "get_local_world_size": 2}
        return SimpleNamespace(**{name: lambda number=number: number for name, number in numbers.items()})

    monkeypatch.setitem(sys.modules, "ray.train", SimpleNamespace(get_context=get_context))  # type: ignore[arg-type]


def test_ray_train_says_which_worker_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    as_worker(monkeypatch, 3)
    assert find_rank(distributed=True, rank=None, world=None) == (3, 4)
    assert find_rank(distributed=True, rank=0, world=2) == (0, 2)
    assert own_cores() >= 1


def test_a_process_that_is_no_worker_asks_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    as_worker(monkeypatch, None)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert find_rank(distributed=True, rank=None, world=None) == (1, 5)


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_message_says_how_to_get_it(path: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"to_ray\(\) needs the 'ray' package.*headrace\[ray\]"):
        hr.to_ray(path)
    with pytest.raises(MissingExtraError, match=r"headrace\[ray\]"):
        hr.convert(path, tmp_path / "t-%d.beton", shard_samples=10, engine="ray")
