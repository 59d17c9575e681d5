"""Looking at a loader without touching it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import CROP, damage, values_of

import headrace as hr
from headrace import ops
from headrace.loader.inspector import Inspector, value_at
from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from pathlib import Path

PIPELINES = {"image": CROP}


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_batches_are_those_that_come(path: Path, order: Any) -> None:
    loader = hr.Loader(path, 5, order=order, seed=3, pipelines=PIPELINES, drop_last=False)
    inspector = Inspector(loader)
    for epoch in range(2):
        expected = [inspector.batch(epoch, step) for step in range(len(loader))]
        for step, batch in enumerate(loader):
            assert values_of(expected[step].values) == values_of(batch)
            assert expected[step].samples.tolist() == batch.label.tolist()
            assert expected[step].size == len(batch.label)


def test_the_loader_stays_as_it_is(path: Path) -> None:
    loader, other = (hr.Loader(path, 5, order="random", pipelines=PIPELINES) for _ in range(2))
    inspector = Inspector(loader)
    seen = []
    for batch in loader:
        before = loader.state_dict(), loader.stats.copy()
        epoch, step = inspector.position()
        if step:
            inspector.batch(epoch, step)
            inspector.look(0, seed=9)
        assert loader.state_dict() == before[0]
        assert loader.stats.batches == before[1].batches
        seen.append(values_of(batch))
    assert seen == [values_of(batch) for batch in other]
    assert inspector.position() == (1, 0)


def test_while_the_loader_is_in_a_loop_in_another_thread(path: Path) -> None:
    loader, other = (hr.Loader(path, 4, order="random", pipelines=PIPELINES) for _ in range(2))
    inspector, seen = Inspector(loader), list[Any]()

    def loop() -> None:
        for _ in range(5):
            seen.extend(values_of(batch) for batch in loader)

    thread = threading.Thread(target=loop)
    thread.start()
    while thread.is_alive():
        epoch, step = inspector.position()
        inspector.batch(epoch, min(step, len(loader) - 1), most=2)
    thread.join()
    assert seen == [values_of(batch) for _ in range(5) for batch in other]


def test_only_the_first_samples_of_a_batch_are_made_where_that_changes_nothing(path: Path) -> None:
    loader = hr.Loader(path, 16, order="random", pipelines=PIPELINES)
    part, whole = Inspector(loader).batch(0, 1, most=3), Inspector(loader).batch(0, 1)
    assert (part.size, len(part.samples), len(whole.samples)) == (16, 3, 16)
    assert np.array_equal(part.values.image, whole.values.image[:3])


def test_ops_that_look_at_a_batch_get_a_whole_one(path: Path) -> None:
    mixed = {"image": [*CROP, ops.ImageMixup(0.4)]}
    loader = hr.Loader(path, 8, pipelines=mixed)
    seen = Inspector(loader).batch(0, 0, most=2)
    assert len(seen.samples) == 8
    assert np.array_equal(seen.values.image, loader[0].image)


def test_a_look_is_what_the_loader_makes_of_the_sample(path: Path) -> None:
    for seed in (0, 7):
        loader = hr.Loader(path, 1, seed=seed, pipelines=PIPELINES)
        inspector = Inspector(hr.Loader(path, 6, pipelines=PIPELINES))
        for sample in (0, 11):
            look = inspector.look(sample, seed=seed)
            assert np.array_equal(look.values["image"], loader[sample].image[0])
            assert look.values["label"] == sample


def test_windows_are_what_the_crop_has_taken(path: Path) -> None:
    """A crop without scaling shows the pixels of its window."""
    pipelines = {"image": [ops.RandomCrop(12), ops.RandomHorizontalFlip()]}
    inspector, dataset = Inspector(hr.Loader(path, 1, pipelines=pipelines)), hr.open(path)
    flipped = set()
    for seed in range(12):
        look = inspector.look(5, seed=seed)
        (window,) = look.windows
        part = dataset[5].image[window.top : window.top + 12, window.left : window.left + 12]
        assert (window.output, window.field, window.width, window.height) == ("image", "image", 12, 12)
        assert np.array_equal(look.values["image"], part[:, ::-1] if window.is_flipped else part)
        flipped.add(window.is_flipped)
    assert flipped == {True, False}


def test_windows_of_branches_and_of_whole_pictures(path: Path) -> None:
    branches = {"image": [{"small": [ops.CenterCrop(8)], "whole": [ops.Resize(16)]}]}
    look = Inspector(hr.Loader(path, 1, pipelines=branches)).look(0, seed=0)
    small, whole = sorted(look.windows)
    assert (small.output, whole.output) == ("small", "whole")
    assert (whole.left, whole.top, whole.width, whole.height) == (0, 0, 40, 30)
    assert (small.left, small.top, small.width, small.height) == (5, 0, 30, 30)
    assert Inspector(hr.Loader(path, 1)).look(0, seed=0).windows[0].width == 40


def test_damaged_samples(path: Path, tmp_path: Path) -> None:
    bad = damage(path, tmp_path / "bad.beton", images=[3])
    told = list[Any]()
    skipping = hr.Loader(bad, 6, pipelines=PIPELINES, on_error=told.append)
    seen = Inspector(skipping).batch(0, 0)
    assert 3 not in seen.samples.tolist()
    assert not told
    assert not skipping.errors
    assert values_of(seen.values) == values_of(skipping[0])
    with pytest.raises(hr.errors.CorruptSampleError):
        Inspector(skipping).look(3, seed=0)
    with pytest.raises(hr.errors.CorruptSampleError):
        Inspector(hr.Loader(bad, 6, pipelines=PIPELINES)).batch(0, 0)


def test_what_is_too_large_is_refused(path: Path) -> None:
    loader = hr.Loader(path, 30, pipelines={"image": [ops.Resize(8000), ops.ToDtype("float32")]})
    with pytest.raises(ValueError, match="a batch takes"):
        Inspector(loader).batch(0, 0)
    with pytest.raises(IndexError, match="batch 9 is out of range"):
        Inspector(loader).batch(0, 9)


def test_normalization_is_known(path: Path) -> None:
    normalize = ops.Normalize((1, 2, 3), (4, 5, 6), "float32")
    loader = hr.Loader(path, 1, pipelines={"image": [ops.Resize(8), normalize]})
    assert Inspector(loader).normalizes() == {"image": normalize}
    assert Inspector(hr.Loader(path, 1)).normalizes() == {}


def test_values_of_ragged_outputs() -> None:
    assert value_at(Ragged(np.arange(5), np.array([0, 2, 5])), 1).tolist() == [2, 3, 4]
    assert value_at(Padded(np.ones((2, 4)), np.array([3, 1])), 0).tolist() == [1, 1, 1]
    assert value_at(Padded(np.ones((1, 4, 4)), np.array([[2, 3]])), 0).shape == (2, 3)
    assert value_at(["a", "b"], 1) == "b"


@pytest.mark.parametrize("collate", ["list", "pad", "offsets"])
def test_texts_however_they_are_collated(path: Path, collate: Any) -> None:
    loader = hr.Loader(path, 4, collate=collate, pipelines={"image": None})
    seen = Inspector(loader).batch(0, 0)
    value = value_at(seen.values.text, 2)
    assert (value if isinstance(value, str) else bytes(value).decode()) == "word word "


def test_tensors_become_arrays_and_modules_get_whole_batches(path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Twice(torch.nn.Module):  # type: ignore[misc]
        def forward(self, values: Any) -> Any:
            return 2 * values.to(torch.bfloat16)

    loader = hr.Loader(path, 4, device="cpu", pipelines={"image": [*CROP, Twice()]})
    seen = Inspector(loader).batch(0, 0, most=2)
    assert isinstance(seen.values.image, np.ndarray)
    assert len(seen.samples) == 4
    assert np.array_equal(seen.values.image, loader[0].image.float().numpy())
    assert Inspector(loader).look(3, seed=0).values["image"].shape == (16, 16, 3)
