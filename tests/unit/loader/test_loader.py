from __future__ import annotations

import gc
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import picture

import penstock as ps
from penstock import Loader, ops
from penstock.codecs import jpeg
from penstock.errors import CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 37
FIELDS = {
    "image": ps.Image(mode="proportion"),
    "label": ps.Int(),
    "array": ps.NDArray("<f4", (2, 3)),
    "text": ps.Text(),
}
CROP = [ops.RandomResizedCrop(16), ops.RandomHorizontalFlip()]


def rows() -> list[tuple[Any, ...]]:
    return [(picture(i, 30 + i % 5, 40 + i % 7), i, np.full((2, 3), i, "<f4"), "word " * (i % 3)) for i in range(COUNT)]


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("loader") / "x.beton"
    ps.write(target, rows(), fields=FIELDS, page_size=1 << 21)
    return target


def contents(loader: Loader) -> list[tuple[Any, ...]]:
    return [
        (batch.image.tobytes(), batch.image.dtype, batch.label.tolist(), batch.array.tobytes(), batch.text)
        for batch in loader
    ]


def test_a_batch_unpacks_in_field_order_and_knows_names(path: Path) -> None:
    loader = Loader(path, 5, pipelines={"image": [ops.Resize(16)]})
    assert len(loader) == 7
    batches = list(loader)
    assert len(batches) == 7
    image, label, array, text = batches[1]
    assert image.shape == (5, 16, 16, 3)
    assert label.tolist() == [5, 6, 7, 8, 9]
    assert label is batches[1].label
    assert batches[1]["array"][3].tolist() == [[8, 8, 8]] * 2
    assert text == ["word " * (i % 3) for i in range(5, 10)]
    assert array.dtype == np.float32


def test_kept_batches_are_never_overwritten(path: Path) -> None:
    pipelines = {"image": CROP}
    kept = [batch.image for batch in Loader(path, 4, pipelines=pipelines)]
    again = [batch.image.copy() for batch in Loader(path, 4, pipelines=pipelines)]
    for a, b in zip(kept, again, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
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


def test_epochs_differ_and_can_be_chosen(path: Path) -> None:
    loader = Loader(path, 8, order="random", pipelines={"image": None, "array": None, "text": None})
    first = [b.label.tolist() for b in loader]
    second = [b.label.tolist() for b in loader]
    assert first != second
    assert loader.epoch == 2
    loader.set_epoch(0)
    assert [b.label.tolist() for b in loader] == first


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random", lambda n, s, e: np.arange(n)[::-1]])
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


@settings(max_examples=25, deadline=None)
@given(
    taken=st.integers(0, 20),
    worlds=st.sampled_from([(1, 6), (2, 3), (3, 2), (6, 1)]),
    new_worlds=st.sampled_from([(1, 6), (2, 3), (3, 2), (6, 1)]),
    order=st.sampled_from(["sequential", "random", "quasi_random"]),
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
    ps.write(tmp_path / "y.beton", rows()[::-1], fields=FIELDS, page_size=1 << 21)
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


# -- pictures -----------------------------------------------------------------------------------------------------


def test_center_crop_equals_the_dataset_and_resize(path: Path) -> None:
    dataset = ps.open(path)
    loader = Loader(dataset, COUNT, pipelines={"image": [ops.CenterCrop(30)]})
    (batch,) = loader
    for i in range(0, COUNT, 5):  # these are 30 pixels high: the crop is a copy
        pixels = dataset[i].image
        left = (pixels.shape[1] - 30) // 2
        np.testing.assert_array_equal(batch.image[i], pixels[:30, left : left + 30])


def test_normalize_dtype_and_layout(path: Path) -> None:
    plain = next(iter(Loader(path, 8, pipelines={"image": CROP}))).image.astype(np.float64)
    mean, std = [10.0, 20.0, 30.0], [50.0, 60.0, 70.0]
    expected = (plain - mean) / std
    for dtype, tolerance in (("float32", 1e-5), ("float16", 2e-3)):
        pipeline = [*CROP, ops.Normalize(mean, std, dtype=dtype), ops.ToLayout("NCHW")]
        image = next(iter(Loader(path, 8, pipelines={"image": pipeline}))).image
        assert (image.dtype.name, image.shape) == (dtype, (8, 3, 16, 16))
        np.testing.assert_allclose(image.transpose(0, 2, 3, 1), expected, atol=tolerance, rtol=tolerance)
    image = next(iter(Loader(path, 8, pipelines={"image": [*CROP, ops.ToDtype("float32")]}))).image
    np.testing.assert_array_equal(image, plain)


def test_flips_mirror(path: Path) -> None:
    straight = next(iter(Loader(path, 8, pipelines={"image": [ops.Resize(16)]}))).image
    flipped = next(iter(Loader(path, 8, pipelines={"image": [ops.Resize(16), ops.RandomHorizontalFlip(1)]}))).image
    np.testing.assert_array_equal(flipped, straight[:, :, ::-1])


def test_paired_fields_share_their_draws(tmp_path: Path) -> None:
    pixels = [picture(i, 50, 60) for i in range(8)]
    both = [(p, p) for p in pixels]
    ps.write(tmp_path / "p.beton", both, fields={"image": ps.Image(mode="raw"), "mask": ps.Image(mode="raw")})
    shared = [ops.RandomResizedCrop(16, share="a"), ops.RandomHorizontalFlip(share="b")]
    (batch,) = Loader(tmp_path / "p.beton", 8, pipelines={"image": shared, "mask": shared})
    np.testing.assert_array_equal(batch.image, batch.mask)
    (batch,) = Loader(tmp_path / "p.beton", 8, pipelines={"image": CROP, "mask": CROP})
    assert (batch.image != batch.mask).any()


def test_a_folder_loads_as_well(tmp_path: Path) -> None:
    from PIL import Image as Pillow

    for i in range(6):
        (tmp_path / "in" / f"c{i % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / f"c{i % 2}" / f"{i}.jpg").write_bytes(jpeg.encode(picture(i, 20, 30)))
    Pillow.fromarray(picture(7, 25, 25)).save(tmp_path / "in" / "c1" / "7.png")
    batches = list(Loader(tmp_path / "in", 3, drop_last=False, pipelines={"image": [ops.Resize(8)]}))
    assert [b.image.shape for b in batches] == [(3, 8, 8, 3), (3, 8, 8, 3), (1, 8, 8, 3)]
    assert [i for b in batches for i in b.label.tolist()] == [0, 0, 0, 1, 1, 1, 1]


def test_the_plan_is_told_in_words(path: Path) -> None:
    pipelines = {"image": [*CROP, ops.Apply(np.ascontiguousarray)], "text": None}
    plan = Loader(path, 4, pipelines=pipelines).plan().splitlines()
    assert plan[0] == (
        "image: one native call for a batch: decode, RandomResizedCrop, resize (area), flip, uint8, NHWC; "
        "then Python: ascontiguousarray"
    )
    assert plan[-1] == "text: left out"


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"pipelines": {"colour": []}}, "pipelines names the field 'colour'; the fields are image, label"),
        ({"pipelines": {"label": [ops.Resize(3)]}}, "Resize works on pictures, and this field is int"),
        ({"pipelines": {"image": [ops.Resize(3), ops.Resize(4)]}}, "does not fit here"),
        ({"pipelines": {"image": [ops.Normalize([0] * 3, [1] * 3), ops.Resize(3)]}}, "before Normalize"),
        ({"pipelines": {"image": [ops.Apply(len), ops.Resize(3)]}}, "Resize comes after Apply"),
        ({"order": "shuffled"}, "order must be"),
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


def test_what_is_no_op(path: Path) -> None:
    with pytest.raises(TypeError, match=r"pipelines\['image'\]: .* is not an op"):
        Loader(path, 4, pipelines={"image": [len]})


def test_pictures_of_different_sizes_need_a_resizing_op(path: Path) -> None:
    with pytest.raises(ValueError, match=r"sample 0 is 40x30, sample 1 is 41x31.*add RandomResizedCrop"):
        list(Loader(path, 4))


def test_a_corrupt_sample_is_named_in_its_place(path: Path, tmp_path: Path) -> None:
    dataset = ps.open(path)
    victim = int(np.flatnonzero(dataset.image_facts("image")["mode"] == 0)[5])
    data = bytearray(path.read_bytes())
    at = int(dataset.image_facts("image")["data_ptr"][victim])
    data[at : at + 4] = bytes(4)
    broken = tmp_path / "broken.beton"
    broken.write_bytes(data)
    for options in ({}, {"checksums": False}):
        loader = Loader(ps.open(broken, **options), 1, pipelines={"image": CROP})
        seen: list[int] = []
        with pytest.raises(CorruptSampleError, match=f"sample {victim}, field 'image'"):
            seen.extend(int(batch.label[0]) for batch in loader)
        assert seen == list(range(victim))


def test_an_op_that_raises(path: Path) -> None:
    def explode(images: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("bang")

    loader = Loader(path, 4, pipelines={"image": [ops.Resize(8), ops.Apply(explode)]})
    with pytest.raises(ZeroDivisionError, match="bang") as caught:
        list(loader)
    assert "in the loader's op 'explode'" in caught.value.__notes__


# -- threads ------------------------------------------------------------------------------------------------------


def loader_threads() -> int:
    return sum(thread.name.startswith("penstock-loader") for thread in threading.enumerate())


def test_abandoned_iterators_leave_no_thread(path: Path) -> None:
    loader = Loader(path, 2, order="random", pipelines={"image": CROP})
    for _ in range(200):
        next(iter(loader))
    gc.collect()
    deadline_s = time.monotonic() + 5
    while loader_threads() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert loader_threads() == 0


def test_leaving_a_loop_early_begins_the_next_epoch(path: Path) -> None:
    loader = Loader(path, 4, order="random", pipelines={"image": None})
    for _ in loader:
        break
    assert loader_threads() == 0
    assert loader.state_dict()["samples_used"] == 4
    assert len(list(loader)) == len(loader)
    assert loader.epoch == 2
