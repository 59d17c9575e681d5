from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import Surgeon, picture
from tests.unit.viewer.test_pairing import Named

import headrace as hr
from headrace.viewer import dataset_pair
from headrace.viewer.dataset_pair import DatasetPair
from headrace.viewer.pairing import pair_samples

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.types import Dataset

FIELDS = {"image": hr.Image(mode="raw"), "label": hr.Int()}
COUNT = 30


def samples(changes: dict[int, int] | None = None) -> list[tuple[Any, int]]:
    """Pictures and labels; some pictures with a pixel that differs by so much."""
    made = []
    for i in range(COUNT):
        pixels = picture(i, 12, 16)
        pixels[2, 3, 0] ^= (changes or {}).get(i, 0)
        made.append((pixels, i % 3))
    return made


@pytest.fixture
def old(tmp_path: Path) -> Dataset:
    path = tmp_path / "old.beton"
    hr.write(path, samples(), fields=FIELDS, names=[f"n{i:02}" for i in range(COUNT)])
    return hr.open(path)


@pytest.fixture
def new(tmp_path: Path) -> Dataset:
    """The other way round, without sample 4 and with a new one; 7 has another pixel, 9 another label."""
    path, order = tmp_path / "new.beton", [i for i in reversed(range(COUNT)) if i != 4]
    rows = samples({7: 8})
    rows[9] = (rows[9][0], 77)
    chosen = [rows[i] for i in order] + [rows[0]]
    hr.write(path, chosen, fields=FIELDS, names=[f"n{i:02}" for i in order] + ["new"])
    return hr.open(path)


def searched(pair: DatasetPair) -> dict[str, Any]:
    pair.begin()
    assert pair.search()
    pair.join(20)
    facts = pair.facts()
    json.dumps(facts)
    assert facts["search"]["state"] == "done"
    return facts


def test_all_rows(old: Dataset, new: Dataset) -> None:
    pair = DatasetPair(old, new)
    page = pair.rows("all", 0, 10)
    assert (page["total"], len(page["rows"])) == (COUNT + 1, 10)
    states = {row["first"]: row["state"] for row in page["rows"]}
    assert states == {i: "only_first" if i == 4 else "differs" if i in (7, 9) else "same" for i in range(10)}
    assert page["rows"][0]["second"] == COUNT - 2
    assert page["rows"][0]["second_name"] == "n00"
    facts = pair.facts()
    assert (facts["by"], facts["pairs"], facts["only_first"], facts["only_second"]) == ("name", COUNT - 1, 1, 1)
    assert [row["second_name"] for row in pair.rows("only_second", 0, 10)["rows"]] == ["new"]
    assert [row["first_name"] for row in pair.rows("only_first", 0, 10)["rows"]] == ["n04"]
    assert pair.rows("all", 10**9, 10)["rows"] == []
    assert len(pair.rows("all", 0, 10**9)["rows"]) <= dataset_pair.MOST_ROWS


@pytest.mark.parametrize("chunk", [1, 8 << 20])
def test_what_differs_is_found_in_the_background(
    old: Dataset, new: Dataset, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(dataset_pair, "_CHUNK_BYTES", chunk)
    pair = DatasetPair(old, new)
    assert pair.rows("differing", 0, 10)["total"] == 0
    facts = searched(pair)
    assert (facts["search"]["found"], facts["search"]["by_field"]) == (2, {"image": 1, "label": 1})
    assert (facts["search"]["done"], facts["search"]["total"]) == (COUNT, COUNT)
    page = pair.rows("differing", 0, 10)
    assert [row["first"] for row in page["rows"]] == [7, 9]
    assert [[field["title"] for field in row["fields"]] for row in page["rows"]] == [["image"], ["label"]]
    assert searched(pair)["search"]["found"] == 2, "a second search begins anew"


def test_one_row_in_full(old: Dataset, new: Dataset) -> None:
    pair = DatasetPair(old, new)
    image, label = pair.row(7)["fields"]
    assert (image["state"], image["pixels"]["max_difference"], image["pixels"]["differing"]) == ("differs", 8, 1)
    assert label["state"] == "same"
    assert pair.row(4)["state"] == "only_first"
    assert "fields" not in pair.row(4)
    with pytest.raises(IndexError, match="row 31 does not exist, there are 31"):
        pair.row(31)
    with pytest.raises(IndexError, match="row -1 does not exist"):
        pair.samples_of(-1)


def test_a_page_does_not_wait_for_large_pictures(old: Dataset, new: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_pair, "_PATIENCE_S", -1.0)
    page = DatasetPair(old, new).rows("all", 3, 3)
    assert [row["state"] for row in page["rows"]] == ["pending", "only_first", "pending"]


def test_neighbours(old: Dataset, new: Dataset) -> None:
    pair = DatasetPair(old, new)
    assert pair.neighbours(0, "all") == {"place": 0, "previous": None, "next": 1}
    assert pair.neighbours(COUNT, "all") == {"place": COUNT, "previous": COUNT - 1, "next": None}
    searched(pair)
    assert pair.neighbours(7, "differing") == {"place": 0, "previous": None, "next": 9}
    assert pair.neighbours(8, "differing") == {"place": 1, "previous": 7, "next": 9}
    assert pair.neighbours(20, "differing") == {"place": 2, "previous": 9, "next": None}
    assert pair.neighbours(COUNT, "only_second") == {"place": 0, "previous": None, "next": None}
    assert pair.neighbours(3, "only_second")["next"] == COUNT


def test_a_damaged_sample_counts_as_differing(tmp_path: Path, old: Dataset) -> None:
    surgeon = Surgeon(tmp_path / "old.beton")
    table = surgeon.table
    bad = surgeon.flip(int(table[table[:, 0] == 5][0][1]) + 9).save()
    with hr.open(bad) as dataset:
        pair = DatasetPair(old, dataset)
        assert searched(pair)["search"]["found"] == 1
        (row,) = pair.rows("differing", 0, 5)["rows"]
        assert (row["first"], [field["state"] for field in row["fields"]]) == (5, ["damaged"])
        assert row["state"] == pair.row(5)["state"] == pair.row(5)["fields"][0]["state"] == "damaged"
        assert row["fields"][0]["note"].startswith("B: checksum 0x")


def test_fields_that_only_one_has_do_not_make_every_sample_differ(tmp_path: Path, old: Dataset) -> None:
    path = tmp_path / "fewer.beton"
    hr.write(path, [(label,) for _, label in samples()], fields={"label": hr.Int()})
    with hr.open(path) as fewer:
        pair = DatasetPair(old, fewer)
        assert searched(pair)["search"]["found"] == 0
        assert pair.facts()["by"] == "number"
        assert [field["state"] for field in pair.row(0)["fields"]] == ["only_first", "same"]


def test_stopping_a_search(old: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = DatasetPair(old, old)
    pair.begin()
    monkeypatch.setattr(pair, "_differing", lambda pairing, rows: pair.stop() and (rows[:0], {}, 0))
    pair.search()
    pair.join(20)
    assert pair.facts()["search"]["state"] == "stopped"
    assert not pair.stop()


def test_an_empty_dataset(old: Dataset) -> None:
    empty = hr.subset(old, [])
    for a, b in ((old, empty), (empty, old), (empty, empty)):
        pair = DatasetPair(a, b)
        assert searched(pair)["search"]["found"] == 0
        assert pair.rows("all", 0, 5)["total"] == max(len(a), len(b))


def test_names_that_cannot_be_paired(tmp_path: Path, old: Dataset) -> None:
    path = tmp_path / "nameless.beton"
    hr.write(path, samples(), fields=FIELDS)
    with hr.open(path) as nameless:
        pair = DatasetPair(old, nameless, by="name")
        pair.begin()
        assert "have no names; compare by number" in pair.facts()["pairing"]["error"]
        with pytest.raises(ValueError, match="have no names"):
            pair.rows("all", 0, 5)
        assert not pair.search()


def test_a_million_names_take_little_memory_for_each() -> None:
    """Numbers, not texts, are kept: 16 bytes for a sample, whatever its name."""
    names = [f"a/long/path/that/is/the/same/for/all/{i}" for i in range(200_000)]
    pairing = pair_samples(Named(names), Named(names[::-1]))  # type: ignore[arg-type]
    assert pairing.partners is not None
    assert pairing.partners.nbytes + (0 if pairing.others is None else pairing.others.nbytes) <= 16 * len(names)
    assert np.array_equal(pairing.partners, np.arange(len(names))[::-1])
