"""Mixtures: proportions in every beginning, order by seed and epoch alone, resuming."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import image_file, picture

import headrace as hr
from headrace import ops
from headrace.formats.sets.proportions import Proportions, whole_shares

if TYPE_CHECKING:
    from pathlib import Path

    from headrace import Dataset

LENGTHS = (40, 7, 90)
WEIGHTS = (0.5, 0.2, 0.3)
BLOBS = {"data": hr.Bytes(), "part": hr.Int()}
WEIGHT = st.one_of(st.integers(0, 1000), st.floats(0, 1e6, allow_subnormal=False), st.floats(0, 1))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    """Numbers: those of part p begin at 1000 p."""
    folder = tmp_path_factory.mktemp("numbers")
    for p, length in enumerate(LENGTHS):
        values = range(1000 * p, 1000 * p + length)
        hr.write(folder / f"{p}.beton", values, fields={"n": hr.Int()}, names=[f"{p}/{v}" for v in values])
    return [hr.open(folder / f"{p}.beton") for p in range(len(LENGTHS))]


@given(st.lists(WEIGHT, min_size=1, max_size=9).filter(any))
def test_proportions_hold_in_every_beginning(weights: list[float]) -> None:
    length = 700
    things, before = Proportions(weights, length).locate(np.arange(length))
    counts = np.cumsum(things[:, None] == np.arange(len(weights)), axis=0)
    shares = np.array(whole_shares(weights), np.float64)
    shares /= shares.sum()
    assert (np.abs(counts - np.arange(1, length + 1)[:, None] * shares) < 1 + 1e-9).all()
    assert np.abs(shares - np.array(weights) / np.sum(weights)).max() < 1e-9
    assert (before == counts[np.arange(length), things] - 1).all()
    assert Proportions(weights, length).totals == counts[-1].tolist()
    for thing, total in enumerate(Proportions(weights, length).totals):
        places = Proportions(weights, length).places_of(thing, np.arange(total)[::-1])
        assert np.array_equal(places[::-1], np.flatnonzero(things == thing))


def test_a_long_row_repeats_what_is_kept() -> None:
    row = Proportions([7, 2, 1], 1000)
    things, before = row.locate(np.arange(1000))
    assert np.array_equal(things[:10], things[990:])
    assert (before[-10:] - before[:10]).tolist() == [99 * [7, 2, 1][thing] for thing in things[:10]]
    assert row.totals == [700, 200, 100]
    assert np.array_equal(row.places_of(1, np.arange(200)), np.flatnonzero(things == 1))


def numbers_of(mixture: Any) -> list[int]:
    return [int(n) for n in mixture.read_values(np.arange(len(mixture)), "n")]


def test_every_sample_comes_equally_often(parts: list[Dataset]) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3)
    assert len(mixed) == sum(LENGTHS)
    epochs = [numbers_of(mixed.for_epoch(epoch)) for epoch in range(20)]
    for p, length in enumerate(LENGTHS):
        counts = Counter(n for epoch in epochs for n in epoch if n // 1000 == p)
        assert len(counts) == length
        assert max(counts.values()) - min(counts.values()) <= 1
    assert epochs[0] != epochs[1]


def test_the_order_is_a_function_of_seed_and_epoch(parts: list[Dataset]) -> None:
    one, other = hr.mix(parts, WEIGHTS, 3), hr.mix(parts, WEIGHTS, 3)
    assert numbers_of(one.for_epoch(5)) == numbers_of(other.for_epoch(2).for_epoch(5))
    assert one.for_epoch(0) is one
    assert one.fingerprint == other.fingerprint == one.for_epoch(9).fingerprint
    assert numbers_of(one) != numbers_of(hr.mix(parts, WEIGHTS, 4))
    copy = pickle.loads(pickle.dumps(one.for_epoch(5)))
    assert numbers_of(copy) == numbers_of(one.for_epoch(5))
    prints = {
        hr.mix(parts, w, s, length=k).fingerprint
        for w, s, k in [(WEIGHTS, 3, 10), (WEIGHTS, 4, 10), ((1, 1, 1), 3, 10), (WEIGHTS, 3, 11)]
    }
    assert len(prints) == 4


def test_a_loader_goes_through_other_samples_in_every_epoch(parts: list[Dataset]) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3)
    loader = hr.Loader(mixed, 10, order="sequential")
    for epoch in range(3):
        expected = numbers_of(mixed.for_epoch(epoch))
        batches = [batch.n.tolist() for batch in loader]
        assert batches == [expected[i : i + 10] for i in range(0, 130, 10)]
    loader.set_epoch(1)
    assert loader[2].n.tolist() == numbers_of(mixed.for_epoch(1))[20:30]


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_ranks_share_the_samples_of_an_epoch(parts: list[Dataset], order: str) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3, length=120)
    loaders = [hr.Loader(mixed, 10, order=order, rank=rank, world=3, seed=1) for rank in range(3)]
    for epoch in range(2):
        seen = sorted(n for loader in loaders for batch in loader for n in batch.n.tolist())
        assert seen == sorted(numbers_of(mixed.for_epoch(epoch)))


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_resuming_in_an_epoch_with_another_number_of_ranks(parts: list[Dataset], order: str) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3, length=120)
    first = [hr.Loader(mixed, 5, order=order, rank=rank, world=4, seed=1) for rank in range(4)]
    for loader in first:
        loader.set_epoch(2)
    whole = [sorted(n for loader in first for n in loader[step].n.tolist()) for step in range(6)]
    running = first[0]
    for step, _ in enumerate(running):
        if step == 2:
            break
    state = json.loads(json.dumps(running.state_dict()))
    assert len(json.dumps(state)) < 1000
    again = [hr.Loader(hr.mix(parts, WEIGHTS, 3, length=120), 10, order=order, rank=r, world=2, seed=1) for r in (0, 1)]
    for loader in again:
        loader.load_state_dict(state)
    left = [sorted(a.n.tolist() + b.n.tolist()) for a, b in zip(*again, strict=True)]
    assert left == whole[3:]
    with pytest.raises(ValueError, match="dataset="):
        hr.Loader(hr.mix(parts, WEIGHTS, 4, length=120), 20, order=order, seed=1).load_state_dict(state)


ORDERS = st.sampled_from(["sequential", "random", "quasi_random"])


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(WEIGHT, min_size=3, max_size=3).filter(any),
    length=st.integers(0, 300),
    order=ORDERS,
    world=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 9),
)
def test_proportions_hold_in_every_beginning_of_every_order(
    parts: list[Dataset], weights: list[float], length: int, order: Any, world: int, seed: int, epoch: int
) -> None:
    mixed = hr.mix(parts, weights, seed, length=length)
    options: dict[str, Any] = {"order": order, "seed": seed, "drop_last": False}
    whole = hr.Loader(mixed, 4 * world, **options)
    ranks = [hr.Loader(mixed, 4, rank=rank, world=world, **options) for rank in range(world)]
    for loader in (whole, *ranks):
        loader.set_epoch(epoch)
    steps = [batch.n.tolist() for batch in whole]
    numbers = [n for step in steps for n in step]
    assert sorted(numbers) == sorted(numbers_of(mixed.for_epoch(epoch)))
    shares = np.array(whole_shares(weights), np.float64)
    shares /= shares.sum()
    counts = np.cumsum(np.array(numbers, np.int64)[:, None] // 1000 == np.arange(3), axis=0)
    assert (np.abs(counts - np.arange(1, length + 1)[:, None] * shares) < 1 + 1e-9).all()
    for step, batches in zip(steps, zip(*ranks, strict=True), strict=True):
        assert sorted(step) == sorted(n for batch in batches for n in batch.n.tolist())
        for batch in batches:  # less than two from its share, on every rank
            own = (batch.n[:, None] // 1000 == np.arange(3)).sum(0)
            assert (np.abs(own - len(batch.n) * shares) < 2 + 1e-9).all()


def test_no_rank_has_less_of_a_source_than_the_others(parts: list[Dataset]) -> None:
    """Of "abab" every second place is of the same part."""
    mixed = hr.mix([parts[0], parts[2]], [1, 1], length=4000)
    for order in ("sequential", "random"):
        for rank in range(2):
            loader = hr.Loader(mixed, 1, order=order, rank=rank, world=2)
            own = sum(int(batch.n[0]) < 1000 for batch in loader)
            assert 850 < own < 1150


def test_each_part_is_shuffled_by_the_order(parts: list[Dataset]) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3)
    for order in ("random", "quasi_random"):
        first, second = (numbers_in(hr.Loader(mixed, 10, order=order, seed=seed, drop_last=False)) for seed in (1, 2))
        plain = numbers_of(mixed)
        for p in (0, 2):
            rows = [[n for n in row if n // 1000 == p] for row in (plain, first, second)]
            assert rows[0] != rows[1] != rows[2] != rows[0]
            assert sorted(rows[0]) == sorted(rows[1]) == sorted(rows[2])


def test_quasi_random_reads_the_pages_of_each_part_together(
    parts: list[Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(parts[0]), "page_numbers", lambda self: np.arange(len(self)) // 10)
    mixed = hr.mix([parts[0], parts[2]], [4, 9])  # all of both, once
    numbers = numbers_in(hr.Loader(mixed, 10, order="quasi_random", pool_pages=3))
    for p, pool in ((0, 1), (2, 2)):  # their shares of the pool
        pages = np.array([n % 1000 // 10 for n in numbers if n // 1000 == p])
        for position in range(len(pages)):
            is_open = set(pages[: position + 1].tolist()) & set(pages[position:].tolist())
            assert len(is_open) <= pool + 1
    twice = hr.mix([parts[0]], [1], length=80)
    pages = twice.page_numbers()
    assert pages is not None
    assert np.bincount(pages).tolist() == [10] * 8  # not 4 pages with every sample twice


def numbers_in(loader: hr.Loader) -> list[int]:
    return [n for batch in loader for n in batch.n.tolist()]


def test_mixtures_of_mixtures_are_one(parts: list[Dataset]) -> None:
    inner = hr.mix(parts[:2], [0.5, 0.5], seed=9)
    nested = hr.mix([inner, parts[2]], [0.6, 0.4], 3, length=200)
    assert numbers_of(nested) == numbers_of(hr.mix(parts, [3, 3, 4], 3, length=200))
    assert numbers_of(pickle.loads(pickle.dumps(nested))) == numbers_of(nested)
    assert len(hr.mix([inner, parts[2]], [0.6, 0.4])) == 47 + 90


@pytest.mark.parametrize("order", ["sequential", "random"])
def test_fields_beside_a_mixture_keep_its_pattern(parts: list[Dataset], order: str) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3)
    joined = hr.zip_fields({"n": mixed, "m": mixed})
    expected = numbers_in(hr.Loader(mixed, 10, order=order))
    assert numbers_in(hr.Loader(joined, 10, order=order)) == expected
    assert hr.zip_fields([parts[0]]).interleaving is None


def test_a_choice_of_a_mixture_is_shuffled_as_a_whole(parts: list[Dataset]) -> None:
    mixed = hr.mix([parts[0], parts[2]], [1, 1], 3)
    in_rows = np.argsort(np.array(numbers_of(mixed)) // 1000, kind="stable")  # one part after the other
    for loader in (
        hr.Loader(hr.subset(mixed, in_rows), 10, order="random"),
        hr.Loader(mixed, 10, order="random", indices=in_rows),
    ):
        assert len({n // 1000 for n in loader[0].n.tolist()}) == 2


def test_pictures_of_other_formats_in_a_mixture(tmp_path: Path) -> None:
    files = [image_file(picture(i, 90, 120), "JPEG") for i in range(8)]
    hr.write(tmp_path / "a.beton", files[:5], fields={"image": hr.Image()})
    hr.write(tmp_path / "b.ffr", files[5:], fields={"image": hr.Image()})
    mixed = hr.mix([hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.ffr", decode="image")], [2, 1], length=12)
    loader = hr.Loader(mixed, 6, pipelines={"image": [ops.RandomResizedCrop(32)]}, order="sequential")
    assert [batch.image.shape for batch in loader] == [(6, 32, 32, 3)] * 2
    assert loader.stats.jpegs["window"] > 0
    assert {data in files[:5] for data in mixed.read_bytes(range(3), "image")} == {True, False}
    pages = mixed.page_numbers()
    assert pages is not None
    sources = mixed.interleaving.locate(np.arange(12))[0]
    of_ffr = pages[sources == 1].tolist()  # it has no pages, so it is one, and another one when it begins anew
    assert of_ffr == [of_ffr[0]] * 3 + [of_ffr[0] + 1]
    assert of_ffr[0] > pages[sources == 0].max()
    without = hr.mix([hr.open(tmp_path / "b.ffr", decode="image")] * 2, [2, 1])
    assert without.page_numbers() is None


def test_names_and_places(parts: list[Dataset]) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3)
    assert mixed.keys is not None
    place = mixed.keys.index("1/1003")
    assert mixed[place].n == 1003
    assert mixed["1/1003"].n == 1003
    assert mixed.origin_of(place) == (parts[1].path, 3)
    report = mixed.verify()
    assert (report.ok, report.samples_checked) == (True, sum(LENGTHS))


def test_mixtures_in_other_sets_change_with_the_epoch_too(parts: list[Dataset]) -> None:
    mixed = hr.mix(parts, WEIGHTS, 3)
    for outer in (
        hr.concat([mixed, parts[0]]),
        hr.subset(mixed, range(20)),
        hr.zip_fields([mixed]),
        hr.mix([mixed], [1]),
    ):
        other = outer.for_epoch(1)
        assert other is not outer
        assert other.fingerprint == outer.fingerprint
        assert numbers_of(other) != numbers_of(outer)
    with pytest.raises(ValueError, match="other samples in every epoch; filter its parts"):
        hr.Loader(mixed, 4).filter("n", lambda n: n > 5)


def test_damaged_samples_are_skipped_in_every_epoch(tmp_path: Path) -> None:
    files = [image_file(picture(i, 40, 40), "JPEG") for i in range(6)]
    hr.write(tmp_path / "a.beton", files, fields={"image": hr.Image()})
    hr.write(tmp_path / "b.beton", files[:3], fields={"image": hr.Image()})
    data = bytearray((tmp_path / "a.beton").read_bytes())
    data[data.find(files[4][-200:-100])] ^= 1
    (tmp_path / "a.beton").write_bytes(data)
    mixed = hr.mix([hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.beton")], [2, 1], length=9)
    loader = hr.Loader(mixed, 3, on_error="skip", order="sequential", pipelines={"image": [ops.Resize((8, 8))]})
    for epoch in range(3):
        assert len(list(loader)) == 3
        error = loader.errors[epoch]
        assert mixed.for_epoch(epoch).origin_of(error.sample) == (str(tmp_path / "a.beton"), 4)


@pytest.mark.parametrize("order", ["sequential", "random"])
def test_what_comes_for_a_damaged_sample_is_of_the_same_part(tmp_path: Path, order: str) -> None:
    blobs = [bytes([100 + i]) * 100 for i in range(20)]
    hr.write(tmp_path / "a.beton", [(blob, 0) for blob in blobs], fields=BLOBS)
    hr.write(tmp_path / "b.beton", [(blob, 1) for blob in blobs], fields=BLOBS)
    data = bytearray((tmp_path / "a.beton").read_bytes())
    for blob in blobs[:15]:
        data[data.find(blob)] ^= 1
    (tmp_path / "a.beton").write_bytes(data)
    mixed = hr.mix([hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.beton")], [1, 1])
    loader = hr.Loader(mixed, 4, on_error="skip", order=order)
    assert [int(batch.part.sum()) for batch in loader] == [2] * 10
    assert loader.stats.samples_skipped == 15


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], "one number for each dataset: 3, got 2"),
        ([1, -1, 1], "from 0 on, got -1"),
        ([1, float("nan"), 1], "from 0 on, got nan"),
        ([0, 0, 0], "all weights are 0"),
    ],
)
def test_weights_that_make_no_sense(parts: list[Dataset], weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hr.mix(parts, weights)


def test_lengths_and_empty_parts(parts: list[Dataset], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="length must be a whole number"):
        hr.mix(parts, WEIGHTS, length=-1)
    hr.write(tmp_path / "e.ffr", [], fields={"data": hr.Bytes()})
    hr.write(tmp_path / "f.ffr", [b"x"], fields={"data": hr.Bytes()})
    empty, full = hr.open(tmp_path / "e.ffr"), hr.open(tmp_path / "f.ffr")
    with pytest.raises(ValueError, match=r"e\.ffr has no samples, and its weight is 1"):
        hr.mix([empty, full], [1, 1])
    mixed = hr.mix([empty, full], [0, 1], length=5)
    assert mixed.read_bytes(range(5), "data") == [b"x"] * 5
    assert len(hr.mix(parts, WEIGHTS, length=0)) == 0
