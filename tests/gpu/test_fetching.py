"""Files that are pinned, so that the GPU fetches JPEGs by itself: the same batches, the same errors."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.gpu.conftest import FAKE
from tests.gpu.tools import assert_same, assert_same_batches, pair
from tests.helpers import Surgeon
from tests.unit.loader.jpegs import CROPS, UNSCALED, Files, TileIndex

import headrace as hr
from headrace import ops
from headrace._native import NativeError

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = [ops.RandomResizedCrop(40), ops.RandomHorizontalFlip(), ops.ToLayout("NCHW")]


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the tests are smaller than what is worth it; and they are pinned in several pieces."""
    monkeypatch.setattr("headrace.loader.pinning._LEAST_BYTES", 1)
    monkeypatch.setattr("headrace.loader.pinning._PIECE_BYTES", 1 << 16)


def native_of(loader: hr.Loader) -> Any:
    decoder = loader._gpu.decoder
    assert decoder is not None
    return decoder.native()


def wait_until_pinned(loader: hr.Loader, path: Path) -> None:
    loader[0]
    until_s = time.monotonic() + 60
    while native_of(loader).pinned_bytes < path.stat().st_size:
        assert time.monotonic() < until_s
        time.sleep(0.005)


@pytest.mark.parametrize("name", CROPS | UNSCALED)
def test_batches_are_those_of_the_cpu(large: Files, name: str) -> None:
    found, expected = pair(large.indexed, (CROPS | UNSCALED)[name], order="random")
    wait_until_pinned(found, large.indexed)
    before = found.stats.jpegs["gpu"]
    assert_same_batches(found, expected, epochs=2)
    assert found.stats.jpegs["gpu"] - before == expected.stats.jpegs["window"]


def test_while_the_file_is_being_pinned(large: Files) -> None:
    for _ in range(3):
        assert_same(large.indexed, PIPELINE, batch_size=3)


def test_without_checksums(large: Files) -> None:
    found, expected = pair(large.indexed, PIPELINE, verify=False)
    wait_until_pinned(found, large.indexed)
    assert_same_batches(found, expected)


@pytest.mark.parametrize("seed", range(3))
def test_damage_is_found_as_by_the_cpu(large: Files, tmp_path: Path, seed: int) -> None:
    """A byte that is wrong: the checksum is looked at by the GPU, the error is the CPU's."""
    path = tmp_path / "x.beton"
    dataset = hr.open(large.indexed)
    spans = dataset.image_spans(np.array([1, 4]), "image")
    surgeon = Surgeon(large.indexed)
    for offset, size in zip(spans.offsets.tolist(), spans.sizes.tolist(), strict=True):
        surgeon.flip(int(np.random.default_rng(seed).integers(offset, offset + size)))
    surgeon.save(path)
    found, expected = pair(path, PIPELINE, on_error="skip")
    wait_until_pinned(found, path)
    assert_same_batches(found, expected)
    assert [str(error) for error in found.errors] == [str(error) for error in expected.errors]
    assert len(found.errors) == 2


def test_indices_that_are_not_right(large: Files, tmp_path: Path) -> None:
    tiles = TileIndex(large.indexed, len(hr.open(large.indexed)))
    tiles.surgeon.flip(tiles.first + 40)
    path = tiles.save(tmp_path / "y.beton")
    found, expected = pair(path, PIPELINE, verify=False)
    with pytest.warns(RuntimeWarning, match="the index of the JPEG is not used"):
        list(found)
    wait_until_pinned(found, path)
    with pytest.warns(RuntimeWarning, match="the index of the JPEG is not used"):
        list(expected)
    assert_same_batches(found, expected)


def test_it_is_told(large: Files) -> None:
    found, _ = pair(large.indexed, PIPELINE)
    wait_until_pinned(found, large.indexed)
    assert "it fetches JPEGs from " in found.plan()
    assert "of pinned files" in found.plan()


def test_a_few_samples_of_a_file_do_not_pin_it(large: Files) -> None:
    found, expected = pair(large.indexed, PIPELINE, indices=[0, 1, 2, 3], batch_size=2)
    assert_same_batches(found, expected, epochs=2)
    assert native_of(found).pinned_bytes == 0
    assert "the CPU copies JPEGs to it" in found.plan()


def test_a_file_that_does_not_fit_is_not_pinned(large: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.loader.pinning.available_bytes", lambda: large.indexed.stat().st_size)
    found, expected = pair(large.indexed, PIPELINE)
    assert_same_batches(found, expected)
    assert native_of(found).pinned_bytes == 0


def test_where_the_driver_does_not_pin_all_is_copied(large: Files) -> None:
    found, expected = pair(large.indexed, PIPELINE)
    native = native_of(found)
    mapped = hr.open(large.indexed).image_spans(np.array([0]), "image").base
    native.pin(mapped)
    native.pin(mapped)  # as it is already
    with pytest.raises(NativeError, match="does not pin"):
        native.pin(mapped[4096:])
    assert native.pinned_bytes == len(mapped)
    assert_same_batches(found, expected)


def test_loaders_of_one_dataset_share_what_is_pinned(large: Files) -> None:
    dataset = hr.open(large.indexed)
    (first, expected), (second, _) = (pair(dataset, PIPELINE) for _ in range(2))
    wait_until_pinned(first, large.indexed)
    wait_until_pinned(second, large.indexed)
    del first
    gc.collect()
    assert native_of(second).pinned_bytes >= large.indexed.stat().st_size
    assert_same_batches(second, expected)
    assert "it fetches JPEGs from " in second.plan()


def test_a_loader_fetches_after_its_samples_were_shown(large: Files) -> None:
    found, _ = pair(large.indexed, PIPELINE)
    shown = found._remade(workers=1, batches_ahead=1)
    wait_until_pinned(shown, large.indexed)
    wait_until_pinned(found, large.indexed)


def test_loaders_of_one_dataset_come_and_go(large: Files) -> None:
    """Those that use few samples pin nothing, and must not fetch from what others have pinned for a while."""
    dataset = hr.open(large.indexed)
    found, expected = pair(dataset, PIPELINE)
    few, few_expected = pair(dataset, PIPELINE, indices=[0, 1, 2, 3], batch_size=2)
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            wait_until_pinned(pair(dataset, PIPELINE)[0], large.indexed)
            gc.collect()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        assert_same_batches(few, few_expected, epochs=40)
        assert_same_batches(found, expected, epochs=3)
    finally:
        is_over.set()
        other.join()


@pytest.mark.skipif(bool(FAKE), reason="pinned memory is torch's")
def test_pages_that_are_read_ahead_are_fetched(large: Files) -> None:
    for order in ("sequential", "quasi_random", "random"):
        found, expected = pair(large.indexed, PIPELINE, cache="64MB", order=order)
        assert_same_batches(found, expected, epochs=2)
