"""Sizes by epoch: one loader whose pictures grow."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import LABELS_ONLY, values_of

from headrace import Loader, ops

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {0: 8, 1: (10, 12), 3: 16}
SIDES = [(8, 8), (10, 12), (10, 12), (16, 16), (16, 16)]


def grow(path: Path, sizes: Any = None, **options: Any) -> Loader:
    pipeline = [ops.RandomResizedCrop(SIZES if sizes is None else sizes), ops.RandomHorizontalFlip(), ops.Cutout(4)]
    options = {"order": "random", "seed": 3} | options
    return Loader(path, 8, pipelines=LABELS_ONLY | {"image": pipeline}, **options)


def test_each_epoch_has_its_size(path: Path) -> None:
    loader = grow(path)
    epochs = [list(loader) for _ in SIDES]
    assert [{batch.image.shape[1:3] for batch in epoch} for epoch in epochs] == [{side} for side in SIDES]
    for number, (epoch, side) in enumerate(zip(epochs, SIDES, strict=True)):
        fixed = grow(path, side)
        fixed.set_epoch(number)
        assert [values_of(batch) for batch in epoch] == [values_of(batch) for batch in fixed]


def test_the_epoch_alone_decides(path: Path) -> None:
    loader = grow(path)
    for epoch in (3, 0, 2):
        loader.set_epoch(epoch)
        assert loader[1].image.shape[1:3] == SIDES[epoch]
        assert next(iter(loader)).image.shape[1:3] == SIDES[epoch]
        copy = pickle.loads(pickle.dumps(loader))
        assert copy[1].image.shape[1:3] == SIDES[epoch]


def test_a_loader_resumes_with_its_size(path: Path) -> None:
    loader = grow(path)
    loader.set_epoch(1)
    batches = iter(loader)
    next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [values_of(batch) for batch in batches]
    again = grow(path, workers=1)
    again.load_state_dict(state)
    assert [values_of(batch) for batch in again] == rest
    assert next(iter(again)).image.shape[1:3] == SIDES[2]
    with pytest.raises(ValueError, match="pipelines"):
        grow(path, {0: 8, 2: 16}).load_state_dict(state)


def test_ranks_agree_on_the_size(path: Path) -> None:
    for epoch in (0, 1):
        ranks = [grow(path, rank=rank, world=2) for rank in range(2)]
        for rank in ranks:
            rank.set_epoch(epoch)
        assert {rank[0].image.shape for rank in ranks} == {(8, *SIDES[epoch], 3)}


def test_the_plan_says_it(path: Path) -> None:
    words = "resize (area) to 8x8 from epoch 0 on, 12x10 from epoch 1 on, 16x16 from epoch 3 on, flip"
    assert f"(decode, RandomResizedCrop, {words}, cutout" in grow(path).plan()


def test_what_follows_must_fit_every_size(path: Path) -> None:
    with pytest.raises(ValueError, match=r"pipelines\['image'\]: Cutout\(4\) does not fit .* \(from epoch 7 on\)"):
        grow(path, {0: 8, 7: 3})
    branches = [{"one": [ops.Resize({0: 8, 7: 3}), ops.Cutout(4)], "two": [ops.Resize(8)]}]
    with pytest.raises(ValueError, match=r"Cutout\(4\) does not fit .* \(from epoch 7 on\)"):
        Loader(path, 8, pipelines=LABELS_ONLY | {"image": branches})


def test_wrong_branches_are_told_as_without_sizes(path: Path) -> None:
    for wrong in (ops.Resize(8), "resize", 5):
        with pytest.raises(TypeError, match=r"pipelines\['two'\] must be a list of ops or None"):
            Loader(path, 8, pipelines=LABELS_ONLY | {"image": [{"one": [ops.Resize({0: 8, 1: 9})], "two": wrong}]})


def test_branches_have_sizes_of_their_own(path: Path) -> None:
    branches = [{"one": [ops.Resize({0: 8, 1: 9})], "two": [ops.CenterCrop({0: 5, 2: 6}), ops.ToLayout("NCHW")]}]
    loader = Loader(path, 8, pipelines=LABELS_ONLY | {"image": branches})
    shapes = [{(batch.one.shape[1:], batch.two.shape[1:]) for batch in loader} for _ in range(3)]
    assert shapes == [{((8, 8, 3), (3, 5, 5))}, {((9, 9, 3), (3, 5, 5))}, {((9, 9, 3), (3, 6, 6))}]


def test_a_picture_and_its_mask_grow_together(path: Path) -> None:
    crop = ops.RandomResizedCrop(SIZES, share="crop")
    loader = Loader(path, 8, pipelines=LABELS_ONLY | {"image": [{"picture": [crop], "mask": [crop]}]})
    for side in SIDES:
        for batch in loader:
            assert batch.mask.shape[1:3] == side
            assert np.array_equal(batch.picture, batch.mask)


def test_memory_of_a_size_that_is_over_is_given_back(path: Path) -> None:
    loader = grow(path, {0: 96, 1: 128}, batches_ahead=1)
    sizes = [8 * side * side * 3 for side in (96, 128)]
    for _ in loader:
        pass
    assert list(loader._slots._free.counts()) == sizes[:1]
    for _ in range(20):
        for _ in loader:
            pass
    assert list(loader._slots._free.counts()) == sizes[1:]
