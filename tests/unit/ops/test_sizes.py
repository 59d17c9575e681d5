from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from headrace.ops import CenterCrop, Draws, Form, RandomCrop, RandomResizedCrop, Resize
from headrace.ops.sizes import SizeSchedule, op_at, size_at, sizes_of

CROPS = (RandomResizedCrop, RandomCrop, CenterCrop, Resize)
PICTURES = Form("uint8", (None, None, 3))


@pytest.mark.parametrize("crop", CROPS)
def test_a_size_holds_from_its_epoch_on(crop: Any) -> None:
    op = crop({20: 224, 0: 128, 10: (160, 192)})  # in any order
    sizes = [size_at(op.size, epoch) for epoch in (0, 9, 10, 19, 20, 1000)]
    assert sizes == [(128, 128)] * 2 + [(160, 192)] * 2 + [(224, 224)] * 2
    assert size_at(op.size, -3) == (128, 128)
    assert op.form(PICTURES) == PICTURES
    assert crop({0: (96, 128), 4: (96, 160)}).form(PICTURES) == Form("uint8", (96, None, 3))
    assert op_at(op, 12) == crop((160, 192))
    assert op_at(crop(64), 12) == crop(64)


@pytest.mark.parametrize("crop", CROPS)
def test_a_schedule_is_a_value(crop: Any) -> None:
    sizes = {0: 128, 10: 192}
    op = crop(sizes)
    sizes[10] = 1
    assert op == crop({np.int64(10): np.int32(192), 0: (128, 128)}) == crop(op.size) == pickle.loads(pickle.dumps(op))
    assert hash(op) == hash(crop({0: 128, 10: 192}))
    assert op != crop({0: 128, 11: 192})
    assert repr(op) == repr(pickle.loads(pickle.dumps(op)))
    assert crop({0: 128}).size.at(5) == (128, 128)


def test_a_random_crop_takes_as_many_pixels_as_the_epoch_says() -> None:
    op = RandomCrop({0: 4, 2: (5, 6)})
    sides, samples = np.full(3, 10), np.arange(3)
    for epoch, size in ((1, [4, 4]), (2, [5, 6])):
        assert op.crops(sides, sides, Draws(0, epoch, 1, samples))[:, 2:].tolist() == [size] * 3
    with pytest.raises(ValueError, match="RandomCrop of 6x5 is larger than sample 0"):
        op.crops(sides - 5, sides - 5, Draws(0, 2, 1, samples))


@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize(
    ("sizes", "error", "words"),
    [
        ({}, ValueError, "must begin with epoch 0, such as {0: 128, 10: 224}, got {}"),
        ({1: 128}, ValueError, "must begin with epoch 0"),
        ({0: 128, -1: 64}, ValueError, "an epoch is a whole number from 0 on, got -1"),
        ({0: 128, 1.5: 64}, TypeError, "an epoch is a whole number from 0 on, got 1.5"),
        ({0: 128, "9": 64}, TypeError, "an epoch is a whole number from 0 on, got '9'"),
        ({0: 128, True: 64}, TypeError, "an epoch is a whole number from 0 on, got True"),
        ({0: 128, 9: 0}, ValueError, "size must be a number or (height, width), 1 to 65535, got 0"),
        ({0: 128, 9: (1, 2, 3)}, ValueError, "size must be a number"),
        ({0: 128, 9: "large"}, TypeError, "integer"),
        ({0: 128, 9: {0: 1}}, ValueError, "size must be a number"),
        ({0: 128, 9: None}, TypeError, "integer"),
    ],
)
def test_wrong_schedules_are_errors_at_once(crop: Any, sizes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        crop(sizes)
    assert words in str(caught.value)


def test_a_schedule_in_words() -> None:
    assert str(SizeSchedule((0, 5), ((8, 16), (9, 9)))) == "16x8 from epoch 0 on, 9x9 from epoch 5 on"
    assert sizes_of(7) == (7, 7)
