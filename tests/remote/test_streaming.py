"""Datasets in a store are the datasets: the same batches, by few requests, and nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.remote.datasets import NAMES, crops, digests, store_arrays, store_pictures

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remote.conftest import Bucket
    from tests.remote.fault_proxy import FaultProxy
    from tests.remote.rclone_server import RcloneServer

OPENING = 6
"""Requests until a dataset of one file is open: its size, its tables, and whether it has an annex beside it."""


def _epoch(dataset: Any, order: str = "sequential", **options: Any) -> list[str]:
    return digests(hr.Loader(dataset, 16, order=order, seed=3, workers=2, drop_last=False, **options))


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
@pytest.mark.parametrize("format", NAMES)
def test_the_same_batches_of_arrays(format: str, order: str, bucket: Bucket, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, format, samples=120)
    with stored.open_local() as here, stored.open() as there:
        assert there.is_local is False
        assert _epoch(there, order) == _epoch(here, order)


@pytest.mark.parametrize("format", [name for name in NAMES if name != "npy"])
def test_the_same_pictures(format: str, bucket: Bucket, tmp_path: Path) -> None:
    stored = store_pictures(bucket, tmp_path, format, samples=60)
    with stored.open_local() as here, stored.open() as there:
        pipelines = crops(here)
        assert _epoch(there, "quasi_random", pipelines=pipelines) == _epoch(here, "quasi_random", pipelines=pipelines)
        for index in (0, 59, -30):
            _assert_same(there[index], here[index])


@pytest.mark.parametrize("format", NAMES)
def test_opening_takes_few_requests(format: str, bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, format)
    proxy.clear()
    with stored.open() as dataset:
        assert len(dataset) == 300
        asked = proxy.exchanges()
    assert len(asked) <= OPENING + 2, [(one.method, one.path, one.range, one.status) for one in asked]
    stored_bytes = sum(path.stat().st_size for path in bucket.folder.iterdir())
    assert sum(one.sent_bytes for one in asked) <= stored_bytes + (512 << 10)


@pytest.mark.parametrize("order", ["sequential", "quasi_random"])
def test_each_byte_comes_once_in_whole_pages(order: str, bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=800, page_size=2 << 20)
    with stored.open_local() as here:
        expected = _epoch(here, order)
    proxy.clear()
    with stored.open() as there:
        assert _epoch(there, order) == expected
    assert proxy.sent_bytes(stored.local.name) <= stored.size_bytes * 1.05 + (1 << 20)
    bodies = [one for one in proxy.exchanges(stored.local.name, ("GET",)) if one.status == 206]
    assert len(bodies) <= OPENING + -(-stored.size_bytes // (2 << 20))


def test_a_random_order_asks_for_batches_and_not_for_samples(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=800)
    proxy.clear()
    with stored.open() as there:
        assert len(_epoch(there, "random")) == 50
    assert len(proxy.exchanges(stored.local.name)) < 400
    assert proxy.sent_bytes(stored.local.name) <= stored.size_bytes * 1.5


def test_ranks_of_a_machine_share_the_bytes(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=800, page_size=2 << 20)
    proxy.clear()
    labels: list[int] = []
    for rank in range(2):
        with stored.open(cache_dir=tmp_path / "cache", cache_size="1GB") as there:
            loader = hr.Loader(there, 16, order="quasi_random", drop_last=False, workers=1, rank=rank, world=2)
            labels += [int(n) for batch in loader for n in batch.label]
    assert sorted(set(labels)) == list(range(800))
    assert proxy.sent_bytes(stored.local.name) <= stored.size_bytes * 1.05 + (1 << 20)


def test_a_second_epoch_comes_from_the_cache(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=500, page_size=2 << 20)
    cache = tmp_path / "cache"
    epochs = []
    for _ in range(2):
        proxy.clear()
        with stored.open(cache_dir=cache, cache_size="1GB") as there:
            epochs.append(_epoch(there, "quasi_random"))
        sent = proxy.sent_bytes(stored.local.name)
    assert epochs[0] == epochs[1]
    assert sent < 1 << 20
    with stored.open_local() as here:
        assert epochs[0] == _epoch(here, "quasi_random")


def test_a_cache_that_is_too_small_for_all_is_never_over_its_size(bucket: Bucket, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=800, page_size=2 << 20)
    cache, limit = tmp_path / "cache", 12 << 20
    with stored.open(cache_dir=cache, cache_size=limit) as there, stored.open_local() as here:
        loader = hr.Loader(there, 16, order="quasi_random", seed=3, workers=2, drop_last=False)
        found = []
        for batch in loader:
            found += digests([batch])
            assert _disk_bytes(cache) <= limit
        assert found == _epoch(here, "quasi_random")


@pytest.mark.parametrize("first", ["here", "there"])
def test_a_state_goes_on_at_the_other_place(first: str, bucket: Bucket, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=200)
    with stored.open_local() as here, stored.open() as there:
        whole = _epoch(here, "quasi_random")
        begins, goes_on = (here, there) if first == "here" else (there, here)
        loader = hr.Loader(begins, 16, order="quasi_random", seed=3, workers=2, drop_last=False)
        batches = iter(loader)
        head = digests(next(batches) for _ in range(5))
        state = loader.state_dict()
        del batches
        assert len(json.dumps(state)) < 1000
        other = hr.Loader(goes_on, 16, order="quasi_random", seed=3, workers=1, drop_last=False)
        other.load_state_dict(state)
        assert head + digests(other) == whole


def test_patterns_and_lists_are_one_dataset(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    rows = [(np.full(5000, i, np.int32), i) for i in range(90)]
    fields = {"data": hr.NDArray("int32", (5000,)), "label": hr.Int()}
    for part in range(3):
        name = f"train-{part}.beton"
        hr.write(tmp_path / name, rows[part * 30 : part * 30 + 30], fields=fields)
        (bucket.folder / name).write_bytes((tmp_path / name).read_bytes())
    options = {"storage_options": bucket.storage_options}
    with hr.open(str(tmp_path / "train-*.beton")) as here:
        expected = _epoch(here, "quasi_random")
    names = [bucket.url(f"train-{part}.beton") for part in range(3)]
    for path in (bucket.url("train-*.beton"), bucket.url("train-{0..2}.beton"), names):
        proxy.clear()
        with hr.open(path, **options) as there:
            assert len(there) == 90
            assert _epoch(there, "quasi_random") == expected
        assert len(proxy.exchanges()) <= 3 * OPENING + 8


def test_a_plain_web_server_without_etags(bucket: Bucket, web: RcloneServer, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=120)
    url = f"{web.url}/{bucket.name}/{stored.local.name}"
    options = {"client_options": {"allow_http": True}}
    with stored.open_local() as here, hr.open(url, storage_options=options) as there:
        assert _epoch(there, "random") == _epoch(here, "random")


def test_the_command_reads_urls(bucket: Bucket, tmp_path: Path) -> None:
    stored = store_arrays(bucket, tmp_path, samples=40)
    environment = {**os.environ, **bucket.environment}
    for verb in ("info", "verify"):
        command = [sys.executable, "-m", "headrace", verb, stored.url]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "40" in done.stdout + done.stderr


def _disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _assert_same(found: Any, expected: Any) -> None:
    assert tuple(found.keys()) == tuple(expected.keys())
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))
