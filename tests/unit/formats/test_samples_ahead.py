from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.patchy_file import PatchyStore

import headrace as hr
from headrace.errors import CorruptSampleError
from headrace.formats.beton import FORMAT as BETON
from headrace.formats.samples_ahead import samples_ahead
from headrace.formats.tar import FORMAT as TAR

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 300


@pytest.fixture(params=["x.beton", "x.tar"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PatchyStore:
    rng = np.random.default_rng(1)
    rows = [(rng.bytes(5000), i) for i in range(COUNT)]
    fields: dict[str, Any] = {"bin": hr.Bytes(), "cls": hr.Int()}
    hr.write(tmp_path / request.param, rows, fields=fields)
    return PatchyStore(tmp_path).install(monkeypatch)


def open_there(store: PatchyStore) -> Any:
    (name,) = (path.name for path in store.folder.iterdir() if path.suffix != ".annex")
    return (BETON if name == "x.beton" else TAR).open(store.url(name))


def test_few_requests_all_announced(store: PatchyStore) -> None:
    dataset = open_there(store)
    store.reset()
    assert [sample.cls for sample in dataset] == list(range(COUNT))
    assert store.regions < 20
    assert store.unannounced == 0
    assert store.open_announcements == 0


def test_whoever_stops_leaves_nothing_open(store: PatchyStore) -> None:
    samples = samples_ahead(open_there(store))
    assert next(samples).cls == 0
    assert store.open_announcements > 0
    samples.close()  # type: ignore[attr-defined]
    assert store.open_announcements == 0


def test_large_samples_come_few_at_a_time(store: PatchyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.samples_ahead._ENOUGH_BYTES", 10_000)
    dataset = open_there(store)
    store.reset()
    assert len(list(dataset)) == COUNT
    assert store.largest_region < 200_000


def test_samples_before_a_bad_one_come_first(store: PatchyStore) -> None:
    (path,) = (path for path in store.folder.iterdir() if path.suffix != ".annex")
    data, value = bytearray(path.read_bytes()), open_there(store).read_bytes([40], "bin")[0]
    data[data.index(value) + 2500] ^= 1
    path.write_bytes(data)
    seen: list[int] = []
    with pytest.raises(CorruptSampleError, match="sample 40"):
        seen.extend(sample.cls for sample in open_there(store))
    assert seen == list(range(40))
    assert store.open_announcements == 0
