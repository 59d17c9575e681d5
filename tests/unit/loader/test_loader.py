from __future__ import annotations

import json
import pickle
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import picture, write_all_fields
from tests.unit.loader.tools import (
    COUNT,
    CROP,
    FIELDS,
    LABELS_ONLY,
    contents,
    headrace_threads,
    labels,
    rows,
    values_of,
    write_pictures,
)

import headrace as hr
from headrace import Loader, ops
from headrace.codecs import jpeg
from headrace.errors import ClosedError, CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = ["sequential", "random", "quasi_random"]


# -- batches ------------------------------------------------------------------------------------------------------


def test_a_batch_unpacks_in_field_order_and_knows_names(path: Path) -> None:
    loader = Loader(path, 5, pipelines={"image": [ops.Resize(16)]})
    assert len(loader) == 7
    batches = list(loader)
    assert len(batches) == 7
    image, label, array, text = batches[1]
    assert image.shape == (5, 16, 16, 3)
    assert label.tolist() == [5, 6, 7, 8, 9]
    assert label is batches[1].label
    assert batches[1].keys() == ("image", "label", "array", "text")
    assert batches[1]["array"][3].tolist() == [[8, 8, 8]] * 2
    assert text == ["word " * (i % 3) for i in range(5, 10)]
    assert array.dtype == np.float32


def test_every_field_comes_out_as_the_dataset_has_it(tmp_path: Path) -> None:
    samples = write_all_fields(tmp_path / "all.beton")
    dataset = hr.open(tmp_path / "all.beton")
    pipelines = {"raw": [ops.CenterCrop(4)], "jpg": [ops.CenterCrop(9)]}
    (batch,) = Loader(dataset, len(samples), pipelines=pipelines)
    assert batch.label.dtype == np.int64
    assert batch.score.dtype == np.float64
    assert batch.tensor.dtype == np.int64
    for i, sample in enumerate(dataset):
        assert (batch.label[i], batch.score[i]) == (sample.label, sample.score)
        assert (batch.blob[i], batch.doc[i], batch.text[i]) == (sample.blob, sample.doc, sample.text)
        np.testing.assert_array_equal(batch.array[i], sample.array)
        np.testing.assert_array_equal(batch.tensor[i], sample.tensor)


@pytest.mark.filterwarnings("ignore:.* is larger than the dataset")
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("batch_size", [1, 5, 36, 37, 38])
@pytest.mark.parametrize("world", [1, 3])
def test_the_length_is_exact(path: Path, drop_last: bool, batch_size: int, world: int) -> None:
    step = batch_size * world
    expected = COUNT // step if drop_last else -(-COUNT // step)
    for rank in range(world):
        loader = Loader(path, batch_size, drop_last=drop_last, rank=rank, world=world, pipelines=LABELS_ONLY)
        assert len(loader) == len(list(loader)) == expected


def test_fields_can_be_left_out(path: Path, tmp_path: Path) -> None:
    batch = next(iter(Loader(path, 4, pipelines={"image": None, "array": None})))
    assert batch.keys() == ("label", "text")
    with pytest.raises(AttributeError, match="no field 'image'; the fields are label, text"):
        _ = batch.image
    nothing = Loader(path, 4, pipelines=dict.fromkeys(FIELDS))
    assert [tuple(batch) for batch in nothing] == [()] * 9


def test_pipelines_are_not_changed_and_can_be_used_again(path: Path) -> None:
    pipelines: dict[str, Any] = {"image": [*CROP, {"a": [], "b": [ops.ToDtype("float32")]}], "text": None}
    before = repr(pipelines)
    first = contents(Loader(path, 6, pipelines=pipelines))
    assert repr(pipelines) == before
    assert contents(Loader(path, 6, pipelines=pipelines)) == first


def test_one_list_of_ops_may_serve_two_fields(tmp_path: Path) -> None:
    both = [(p, p) for p in (picture(i, 30, 40) for i in range(4))]
    hr.write(tmp_path / "p.beton", both, fields={"a": hr.Image(mode="raw"), "b": hr.Image(mode="raw")})
    pipeline = [ops.Resize(8)]
    (batch,) = Loader(tmp_path / "p.beton", 4, pipelines={"a": pipeline, "b": pipeline})
    assert batch.a.shape == batch.b.shape == (4, 8, 8, 3)


def test_a_loader_without_samples(path: Path) -> None:
    for order in ORDERS:
        loader = Loader(path, 4, order=order, indices=[], drop_last=False)
        assert len(loader) == 0
        assert list(loader) == []


def test_a_rank_without_samples_in_the_last_step_gets_an_empty_batch(path: Path) -> None:
    ranks = [
        list(Loader(path, 6, rank=rank, world=3, drop_last=False, collate="pad", pipelines={"image": CROP}))
        for rank in range(3)
    ]
    assert [len(batches) for batches in ranks] == [3, 3, 3]
    last = [batches[-1] for batches in ranks]
    assert [batch.label.tolist() for batch in last] == [[36], [], []]
    assert last[1].image.shape == (0, 16, 16, 3)
    assert last[1].array.shape == (0, 2, 3)
    assert last[1].text.values.shape[0] == len(last[1].text.lengths) == 0


def test_stats_count_what_was_delivered(path: Path) -> None:
    loader = Loader(path, 8, drop_last=False, pipelines={"image": CROP})
    list(loader)
    assert (loader.stats.batches, loader.stats.samples, loader.stats.samples_skipped) == (5, COUNT, 0)
    assert loader.stats.begin_s > 0
    assert loader.stats.wait_s > 0


# -- the same batches, always ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_bytes_for_any_number_of_workers(path: Path, order: Any) -> None:
    expected = contents(Loader(path, 6, order=order, seed=3, workers=1, pipelines={"image": CROP}))
    for workers, ahead in ((2, 1), (7, 5)):
        loader = Loader(path, 6, order=order, seed=3, workers=workers, batches_ahead=ahead, pipelines={"image": CROP})
        assert contents(loader) == expected
    other = contents(Loader(path, 6, order=order, seed=4, pipelines={"image": CROP}))
    assert [row[0] for row in other] != [row[0] for row in expected]


def test_augmentation_depends_on_the_sample_not_on_the_batch(path: Path) -> None:
    one = {int(b.label[0]): b.image[0].tobytes() for b in Loader(path, 1, order="random", pipelines={"image": CROP})}
    many = Loader(path, 7, drop_last=False, pipelines={"image": CROP})
    found = {int(i): im.tobytes() for b in many for i, im in zip(b.label, b.image, strict=True)}
    assert found == one


@pytest.mark.parametrize("order", ORDERS)
def test_one_batch_by_its_number_equals_iteration(path: Path, order: Any) -> None:
    loader = Loader(path, 5, order=order, drop_last=False, pipelines={"image": CROP}, collate="pad")
    loader.set_epoch(2)
    single = [values_of(loader[step]) for step in range(len(loader))]
    assert values_of(loader[-1]) == single[-1]
    assert loader.state_dict()["samples_used"] == 0
    assert contents(loader) == single
    for outside in (len(loader), -len(loader) - 1):
        with pytest.raises(IndexError, match=f"batch {outside} is out of range, an epoch has 8"):
            loader[outside]


def test_a_batch_may_be_asked_for_by_its_number_during_a_loop(path: Path) -> None:
    loader = Loader(path, 5, order="random", pipelines={"image": CROP})
    expected = contents(loader)
    loader.set_epoch(0)
    for step, batch in enumerate(loader):
        assert values_of(loader[step]) == values_of(batch) == expected[step]


def test_epochs_differ_and_can_be_chosen(path: Path) -> None:
    loader = Loader(path, 8, order="random", pipelines=LABELS_ONLY)
    first = labels(loader)
    second = labels(loader)
    assert first != second
    assert loader.epoch == 2
    loader.set_epoch(0)
    assert labels(loader) == first
    loader.set_epoch(7)
    seventh = labels(loader)
    assert seventh not in (first, second)
    fresh = Loader(path, 8, order="random", pipelines=LABELS_ONLY)
    fresh.set_epoch(7)
    assert labels(fresh) == seventh


def test_augmentation_changes_with_the_epoch_and_the_seed(path: Path) -> None:
    loader = Loader(path, COUNT, pipelines={"image": CROP})
    first, second = next(iter(loader)).image, next(iter(loader)).image
    other = next(iter(Loader(path, COUNT, seed=1, pipelines={"image": CROP}))).image
    for changed in (second, other):
        assert (changed != first).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("order", [*ORDERS, lambda n, s, e: np.arange(n)[::-1]])
@pytest.mark.parametrize("indices", [None, [3, 1, 4, 15, 9, 26, 5]])
def test_every_sample_exactly_once_over_all_ranks(path: Path, order: Any, indices: Any) -> None:
    seen = []
    for rank in range(3):
        loader = Loader(
            path, 2, order=order, rank=rank, world=3, drop_last=False, indices=indices, pipelines={"image": None}
        )
        batches = list(loader)
        assert len(batches) == len(loader)
        seen += [i for b in batches for i in b.label.tolist()]
    assert sorted(seen) == sorted(range(COUNT) if indices is None else indices)


def test_an_order_of_ones_own_is_called_with_length_seed_and_epoch(path: Path) -> None:
    calls = []

    def backwards(n: int, seed: int, epoch: int) -> np.ndarray:
        calls.append((n, seed, epoch))
        return np.roll(np.arange(n)[::-1], epoch)

    loader = Loader(path, 5, order=backwards, seed=9, indices=range(10, 20), pipelines=LABELS_ONLY)
    assert labels(loader) == [[19, 18, 17, 16, 15], [14, 13, 12, 11, 10]]
    assert labels(loader)[0] == [10, 19, 18, 17, 16]
    assert set(calls) == {(10, 9, 0), (10, 9, 1)}


def test_the_choice_of_samples_may_be_a_mask_or_count_from_the_end(path: Path) -> None:
    assert labels(Loader(path, 2, indices=[-1, 0, -1, 3], pipelines=LABELS_ONLY)) == [[36, 0], [36, 3]]
    mask = np.arange(COUNT) % 10 == 0
    assert labels(Loader(path, 4, indices=mask, pipelines=LABELS_ONLY)) == [[0, 10, 20, 30]]


# -- filter -------------------------------------------------------------------------------------------------------


def test_filter_keeps_what_fulfils_a_condition(path: Path) -> None:
    even = Loader(path, 4, drop_last=False, pipelines=LABELS_ONLY).filter("label", lambda label: label % 2 == 0)
    assert [i for batch in labels(even) for i in batch] == list(range(0, COUNT, 2))
    assert even.samples == 19
    assert len(even) == 5
    long = even.filter("text", lambda text: len(text) > 5)  # of a field that is not loaded
    assert [i for batch in labels(long) for i in batch] == [2, 8, 14, 20, 26, 32]


def test_filter_goes_with_a_choice_of_samples(path: Path) -> None:
    some = Loader(path, 1, indices=[3, 5, 7, 9, 11], pipelines=LABELS_ONLY)
    assert labels(some.filter("label", lambda label: True)) == [[3], [5], [7], [9], [11]]  # FFCV gives 0 to 4
    assert labels(some.filter("label", lambda label: label > 6)) == [[7], [9], [11]]


def test_filter_keeps_the_options(path: Path) -> None:
    pipelines = {"image": CROP, "text": None}
    loader = Loader(path, 5, order="random", seed=4, world=2, rank=1, pipelines=pipelines)
    few = loader.filter("label", lambda label: label < 30)
    expected = Loader(path, 5, order="random", seed=4, world=2, rank=1, pipelines=pipelines, indices=range(30))
    assert contents(few) == contents(expected)
    assert len(loader) == 3  # as it was


def test_filter_by_pictures(path: Path) -> None:
    tall = Loader(path, 1, pipelines=LABELS_ONLY).filter("image", lambda image: image.shape[0] == 34)
    assert [i for (i,) in labels(tall)] == list(range(4, COUNT, 5))


def test_a_filter_that_nothing_passes(path: Path) -> None:
    assert list(Loader(path, 1, order="quasi_random").filter("label", lambda label: False)) == []
    with pytest.raises(ValueError, match="filter names the field 'size'; the fields are image, label, array, text"):
        Loader(path, 1).filter("size", bool)


# -- state --------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    taken=st.integers(0, 20),
    worlds=st.sampled_from([(1, 6), (2, 3), (3, 2), (6, 1)]),
    new_worlds=st.sampled_from([(1, 6), (2, 3), (3, 2), (6, 1)]),
    order=st.sampled_from(ORDERS),
)
def test_a_saved_state_goes_on_with_what_was_left(
    path: Path, taken: int, worlds: tuple[int, int], new_worlds: tuple[int, int], order: Any
) -> None:
    def loaders(world: int, batch_size: int) -> list[Loader]:
        options = {"order": order, "seed": 5, "world": world, "pipelines": {"image": None}}
        return [Loader(path, batch_size, rank=rank, **options) for rank in range(world)]

    def steps(group: list[Loader], count: int) -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < count:
            for batches in zip(*group, strict=True):
                found.append(sorted(i for b in batches for i in b.label.tolist()))
                if len(found) == count:
                    break
        return found

    uninterrupted = steps(loaders(1, 6), 21)
    group = loaders(*worlds)
    before = steps(group, taken) if taken else []
    states = [loader.state_dict() for loader in group]
    assert all(state == states[0] for state in states)
    resumed = loaders(*new_worlds)
    for loader in resumed:
        loader.load_state_dict(json.loads(json.dumps(states[0])))
    assert before + steps(resumed, 21 - taken) == uninterrupted


def test_a_foreign_state_is_refused(path: Path, tmp_path: Path) -> None:
    state = Loader(path, 4, seed=1).state_dict()
    with pytest.raises(ValueError, match="seed=1, and this loader has seed=2"):
        Loader(path, 4, seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match="global_batch=4, and this loader has global_batch=8"):
        Loader(path, 8, seed=1).load_state_dict(state)
    hr.write(tmp_path / "y.beton", rows()[::-1], fields=FIELDS, page_size=1 << 21)
    with pytest.raises(ValueError, match="taken with dataset="):
        Loader(tmp_path / "y.beton", 4, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="taken with pipelines="):
        Loader(path, 4, seed=1, pipelines={"image": [ops.RandomResizedCrop(16, scale=(0.5, 1))]}).load_state_dict(state)
    some = Loader(path, 4, seed=1, indices=range(8)).state_dict()
    with pytest.raises(ValueError, match="taken with indices="):
        Loader(path, 4, seed=1, indices=range(8, 16)).load_state_dict(some)
    functions = [{"image": [ops.Resize(8), ops.Apply(lambda images: images, "same")]} for _ in range(2)]
    Loader(path, 4, pipelines=functions[0]).load_state_dict(Loader(path, 4, pipelines=functions[1]).state_dict())
    with pytest.raises(ValueError, match="not the state of a loader"):
        Loader(path, 4).load_state_dict({"epoch": 1})
    with pytest.raises(ValueError, match="not a whole number of steps"):
        Loader(path, 4, seed=1).load_state_dict(state | {"samples_used": 3})


def test_a_state_is_small_and_json_can_hold_it(path: Path) -> None:
    options: dict[str, Any] = {"order": "random", "indices": np.arange(30), "pipelines": {"image": CROP}}
    loader = Loader(path, np.int64(4), seed=np.int64(3), **options)
    next(iter(loader))
    assert len(json.dumps(loader.state_dict())) < 400


def test_a_state_of_the_last_batch_goes_on_with_the_next_epoch(path: Path) -> None:
    loader = Loader(path, 9, order="random", pipelines=LABELS_ONLY)
    for _ in loader:
        state = loader.state_dict()
    resumed = Loader(path, 9, order="random", pipelines=LABELS_ONLY)
    resumed.load_state_dict(state)
    assert resumed.epoch == loader.epoch == 1
    assert labels(resumed) == labels(loader)


def test_a_loader_pickles_where_it_stands(path: Path) -> None:
    loader = Loader(path, 5, order="random", seed=8, indices=range(5, 30), pipelines={"image": CROP}, collate="pad")
    loader.set_epoch(3)
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == loader.state_dict()
    assert len(copy) == len(loader)
    assert contents(copy) == [values_of(batch) for batch in batches]
    assert copy.epoch == loader.epoch == 4


# -- pictures -----------------------------------------------------------------------------------------------------


def test_center_crop_equals_the_dataset_and_resize(path: Path) -> None:
    dataset = hr.open(path)
    loader = Loader(dataset, COUNT, pipelines={"image": [ops.CenterCrop(30)]})
    (batch,) = loader
    for i in range(0, COUNT, 5):  # these are 30 pixels high: the crop is a copy
        pixels = dataset[i].image
        left = (pixels.shape[1] - 30) // 2
        np.testing.assert_array_equal(batch.image[i], pixels[:30, left : left + 30])


def test_pictures_of_one_size_need_no_op(tmp_path: Path) -> None:
    pixels = np.stack([picture(i, 9, 11) for i in range(6)])
    (batch,) = Loader(write_pictures(tmp_path / "p.beton", pixels), 6)
    np.testing.assert_array_equal(batch.image, pixels)


def test_a_folder_loads_as_well(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    for i in range(6):
        (tmp_path / "in" / f"c{i % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / f"c{i % 2}" / f"{i}.jpg").write_bytes(jpeg.encode(picture(i, 20, 30)))
    Pillow.fromarray(picture(7, 25, 25)).save(tmp_path / "in" / "c1" / "7.png")
    batches = list(Loader(tmp_path / "in", 3, drop_last=False, pipelines={"image": [ops.Resize(8)]}))
    assert [b.image.shape for b in batches] == [(3, 8, 8, 3), (3, 8, 8, 3), (1, 8, 8, 3)]
    assert [i for b in batches for i in b.label.tolist()] == [0, 0, 0, 1, 1, 1, 1]
    shuffled = Loader(tmp_path / "in", 3, order="quasi_random", drop_last=False, pipelines={"image": [ops.Resize(8)]})
    assert sorted(i for b in shuffled for i in b.label.tolist()) == [0, 0, 0, 1, 1, 1, 1]


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": -3}, "batch_size must be at least 1, got -3"),
        ({"pipelines": {"colour": []}}, "pipelines names the field 'colour'; the fields are image, label"),
        (
            {"pipelines": {"label": [ops.Resize(3)]}},
            r"pipelines\['label'\]: Resize works on pictures, uint8 .* \(height, width, 3\), and gets int64 of shape",
        ),
        (
            {"pipelines": {"image": [ops.Resize(3), ops.Normalize([0] * 3, [1] * 3), ops.Resize(4)]}},
            r"pipelines\['image'\]: Resize .* gets float32 of shape \(3, 3, 3\); put it before Normalize",
        ),
        ({"pipelines": {"image": [ops.Resize(8), ops.Cutout(9)]}}, r"Cutout\(9\) does not fit into .* \(8, 8, 3\)"),
        (
            {"pipelines": {"text": [ops.ToDtype("int8")]}},
            r"pipelines\['text'\]: ToDtype works on arrays, and gets a list",
        ),
        ({"pipelines": {"array": [ops.Squeeze(0)]}}, r"Squeeze\(0,\) needs axes of length 1.*shape \(2, 3\)"),
        ({"order": "shuffled"}, "order must be one of sequential, random, quasi_random or a function, got 'shuffled'"),
        ({"order": lambda n, s, e: np.arange(3)}, "gave 3 indices, expected 37"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"batches_ahead": 0}, "batches_ahead must be at least 1"),
        ({"rank": 2, "world": 2}, "rank must be 0 to 1"),
        ({"order": "quasi_random", "pool_pages": 0}, "pool_pages must be at least 1"),
    ],
)
def test_wrong_options_are_told_at_once(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loader(path, **({"batch_size": 4} | options))


@pytest.mark.parametrize("indices", [[0, 37], [-38], np.ones(36, bool)])
def test_samples_that_do_not_exist_are_told_at_once(path: Path, indices: Any) -> None:
    with pytest.raises(IndexError, match="37"):
        Loader(path, 4, indices=indices)
    with pytest.raises(IndexError, match="sample 37 is out of range, the dataset has 37 samples"):
        Loader(path, 4, order=lambda n, s, e: np.arange(n) + 1)


def test_what_is_no_op(path: Path) -> None:
    with pytest.raises(TypeError, match=r"pipelines\['image'\]: .* is not an op"):
        Loader(path, 4, pipelines={"image": [len]})
    with pytest.raises(TypeError, match=r"pipelines\['image'\] must be a list of ops or None, got Resize"):
        Loader(path, 4, pipelines={"image": ops.Resize(8)})


def test_a_dataset_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.beton does not exist"):
        Loader(tmp_path / "none.beton", 4)


def test_pictures_of_different_sizes_need_a_resizing_op(path: Path) -> None:
    with pytest.raises(ValueError, match=r"sample 0 is 40x30, sample 1 is 41x31.*add RandomResizedCrop"):
        list(Loader(path, 4))


def test_a_corrupt_sample_is_named_in_its_place(path: Path, tmp_path: Path) -> None:
    dataset = hr.open(path)
    victim = int(np.flatnonzero(dataset.image_facts("image")["mode"] == 0)[5])
    data = bytearray(path.read_bytes())
    at = int(dataset.image_facts("image")["data_ptr"][victim])
    data[at : at + 4] = bytes(4)
    broken = tmp_path / "broken.beton"
    broken.write_bytes(data)
    for options, problem in (({}, "checksum 0x.* expected, found 0x"), ({"checksums": False}, "cannot be decoded")):
        loader = Loader(hr.open(broken, **options), 1, pipelines={"image": CROP})
        seen: list[int] = []
        with pytest.raises(CorruptSampleError, match=f"sample {victim}, field 'image'.*{problem}") as caught:
            seen.extend(int(batch.label[0]) for batch in loader)
        assert seen == list(range(victim))
        assert (caught.value.sample, caught.value.field, caught.value.path) == (victim, "image", str(broken))


def test_an_op_that_raises_is_named_with_its_samples(path: Path) -> None:
    def explode(images: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("bang")

    for options, samples in (({}, "[0, 1, 2, 3, ...]"), ({"indices": [7, 5, 9, 1, 2]}, "[7, 5, 9, 1, ...]")):
        loader = Loader(path, 5, pipelines={"image": [ops.Resize(8), ops.Apply(explode)]}, **options)
        with pytest.raises(ZeroDivisionError, match="bang") as caught:
            list(loader)
        assert caught.value.__notes__ == [f"in the loader's op explode, for the samples {samples}"]


def test_an_op_that_raises_does_so_in_its_place_and_the_loader_lives_on(path: Path) -> None:
    def sometimes(label: np.ndarray) -> np.ndarray:
        if 10 in label:
            raise ZeroDivisionError("bang")
        return label

    loader = Loader(path, 4, batches_ahead=5, pipelines=LABELS_ONLY | {"label": [ops.Apply(sometimes)]})
    for epoch in range(2):
        seen = []
        with pytest.raises(ZeroDivisionError):
            seen.extend(batch.label.tolist() for batch in loader)
        assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert loader.epoch == epoch
        assert headrace_threads() == []
    assert loader[4].label.tolist() == [16, 17, 18, 19]


def test_a_dataset_that_is_closed_in_the_middle(path: Path) -> None:
    dataset = hr.open(path)
    batches = iter(Loader(dataset, 1, batches_ahead=1, pipelines={"image": CROP}))
    next(batches)
    time.sleep(0.2)  # until the batches ahead are made
    dataset.close()
    with pytest.raises(ClosedError, match="the dataset is closed"):
        list(batches)


# -- loops --------------------------------------------------------------------------------------------------------


def test_leaving_a_loop_early_begins_the_next_epoch(path: Path) -> None:
    loader = Loader(path, 4, order="random", pipelines={"image": None})
    for _ in loader:
        break
    assert headrace_threads() == []
    assert loader.state_dict()["samples_used"] == 4
    assert len(list(loader)) == len(loader)
    assert loader.epoch == 2


def test_the_loader_says_what_it_is(path: Path) -> None:
    assert repr(Loader(path, 4)).endswith(
        "37 samples (image: image, label: int, array: ndarray, text: text)>: 9 batches of 4>"
    )
