"""Mapped, or read ahead into a cache: the same bytes."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture, write_all_fields
from tests.unit.loader.tools import CROP, blob, contents, headrace_threads, labels, values_of, write_pages

import headrace as hr
from headrace import Loader, ops
from headrace.loader import byte_sources

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = ["sequential", "random", "quasi_random"]
PAGE = 1 << 21
# Less than a page, two pages, fewer than a batch needs, about as many as a pool has open, and all.
BUDGETS = [1, 2 * PAGE, 3 * PAGE, 5 * PAGE, "1GB"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_cache_of_any_size_gives_the_same_bytes(pages: Path, order: Any, budget: Any) -> None:
    options: dict[str, Any] = {"order": order, "drop_last": False, "pool_pages": 2, "seed": 2}
    for batch_size, ahead in ((1, 1), (3, 2), (48, 3)):
        expected = Loader(pages, batch_size, cache="os", **options)
        found = Loader(pages, batch_size, cache=budget, batches_ahead=ahead, **options)
        for _ in range(2):
            assert contents(found) == contents(expected)


def backwards(n: int, seed: int, epoch: int) -> np.ndarray:
    return np.arange(n)[::-1]


@pytest.mark.parametrize("choice", [{"order": backwards}, {"indices": [40, 2, 2, 17]}, {"rank": 1, "world": 3}])
@pytest.mark.parametrize("budget", [1, 3 * PAGE])
def test_choices_of_samples_through_a_cache(pages: Path, choice: dict[str, Any], budget: Any) -> None:
    assert contents(Loader(pages, 2, cache=budget, **choice)) == contents(Loader(pages, 2, cache="os", **choice))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("collate", ["list", "pad"])
def test_every_field_through_a_cache(tmp_path: Path, order: Any, collate: Any) -> None:
    write_all_fields(tmp_path / "all.beton", 40)
    pipelines = {"raw": [ops.Resize(5)], "jpg": CROP}
    options: dict[str, Any] = {"order": order, "pipelines": pipelines, "collate": collate, "drop_last": False}
    expected = contents(Loader(tmp_path / "all.beton", 7, cache="os", **options))
    assert contents(Loader(tmp_path / "all.beton", 7, cache="4MB", **options)) == expected


def test_numbers_alone_need_no_pages(tmp_path: Path) -> None:
    hr.write(tmp_path / "n.beton", [(i, i / 2) for i in range(9)], fields={"label": hr.Int(), "x": hr.Float()})
    for order in ORDERS:
        loader = Loader(tmp_path / "n.beton", 3, order=order, cache="4MB")
        assert sorted(i for batch in labels(loader) for i in batch) == list(range(9))


def test_one_batch_by_its_number_through_a_cache(pages: Path) -> None:
    loader = Loader(pages, 5, order="quasi_random", cache=3 * PAGE)
    single = [values_of(loader[step]) for step in range(len(loader))]
    assert contents(loader) == single


def test_two_loops_at_a_time_do_not_disturb_each_other(pages: Path) -> None:
    loader = Loader(pages, 2, order="quasi_random", cache=3 * PAGE, pool_pages=2)
    first, second = iter(loader), iter(loader)
    for one, two in zip(first, second, strict=True):
        for batch in (one, two):
            assert batch.blob == [blob(i, 300_000 - 1000 * i) for i in batch.label.tolist()]


def test_a_walk_goes_on_where_a_state_was_taken(pages: Path) -> None:
    loader = Loader(pages, 3, order="quasi_random", cache=3 * PAGE, pool_pages=2)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    resumed = Loader(pages, 3, order="quasi_random", cache="1GB", pool_pages=2)
    resumed.load_state_dict(loader.state_dict())
    assert contents(resumed) == [values_of(batch) for batch in batches]


def test_a_loader_with_a_cache_pickles(pages: Path) -> None:
    loader = Loader(pages, 5, order="quasi_random", cache=3 * PAGE)
    expected = contents(loader)
    loader.set_epoch(0)
    assert contents(pickle.loads(pickle.dumps(loader))) == expected


def test_leaving_early_ends_the_readers_thread(pages: Path) -> None:
    loader = Loader(pages, 1, cache=3 * PAGE)
    for _ in loader:
        assert "headrace-pages" in headrace_threads()
        break
    assert headrace_threads() == []


def test_a_cache_needs_pages(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    (tmp_path / "in").mkdir()
    Pillow.fromarray(picture(0, 9, 9)).save(tmp_path / "in" / "a.png")
    with pytest.raises(ValueError, match=r"cache='4MB', but .*in has no pages to read ahead"):
        Loader(tmp_path / "in", 1, cache="4MB")
    assert len(list(Loader(tmp_path / "in", 1, cache="os"))) == 1
    assert len(list(Loader(tmp_path / "in", 1, cache=None))) == 1


def test_a_file_larger_than_memory_is_read_ahead(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(**options: Any) -> str:
        return Loader(pages, 4, **options).plan().splitlines()[-1]

    assert plan() == "bytes: from the mapped file"
    monkeypatch.setattr(byte_sources, "available_bytes", lambda: pages.stat().st_size)
    assert plan().startswith("bytes: read ahead into 48 MiB, by ")
    assert plan(pool_pages=2).startswith("bytes: read ahead into 20 MiB, by ")
    assert plan(cache="os") == "bytes: from the mapped file"
    assert plan(cache="12M").startswith("bytes: read ahead into 12 MiB, by ")


def test_a_file_that_is_replaced_before_the_first_loop_is_still_the_old_one(pages: Path, tmp_path: Path) -> None:
    path = shutil.copy(pages, tmp_path / "x.beton")
    for cache in ("os", 2 * PAGE):
        loader = Loader(path, 4, cache=cache, verify=False)
        write_pages(tmp_path / "other.beton", count=48, size=200_000).rename(path)
        assert contents(loader) == contents(Loader(pages, 4))
        shutil.copy(pages, tmp_path / "again.beton").rename(path)


def test_a_file_that_is_renamed_away_is_read_to_the_end(pages: Path, tmp_path: Path) -> None:
    moved = shutil.copy(pages, tmp_path / "moved.beton")
    expected = contents(Loader(pages, 4))
    for cache in ("os", 2 * PAGE):
        loader = Loader(moved, 4, cache=cache, batches_ahead=1)
        batches = iter(loader)
        found = [values_of(next(batches))]
        moved.rename(tmp_path / "other.beton")
        assert found + [values_of(batch) for batch in batches] == expected
        (tmp_path / "other.beton").rename(moved)
