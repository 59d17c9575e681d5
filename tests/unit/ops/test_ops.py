"""What all ops have in common: options that are checked, and forms that fit or not."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from headrace import ops
from headrace.ops import (
    Apply,
    CenterCrop,
    ColorJitter,
    Cutout,
    Form,
    GaussianBlur,
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    Normalize,
    OneHot,
    Poison,
    RandAugment,
    RandomBrightness,
    RandomContrast,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotate90,
    RandomSaturation,
    RandomTranslate,
    RandomVerticalFlip,
    ReplaceLabel,
    Resize,
    Squeeze,
    ToDtype,
    ToLayout,
    TrivialAugmentWide,
)

PICTURES = Form("uint8", (8, 9, 3))
UNKNOWN_SIZE = Form("uint8", (None, None, 3))
FLOATS = Form("float32", (8, 9, 3))
LABELS = Form("int64", ())
TEXTS = Form("list")

PICTURE_OPS = [
    RandomResizedCrop(4),
    RandomCrop(4),
    CenterCrop(4),
    Resize(4),
    RandomHorizontalFlip(),
    RandomTranslate(2),
    Cutout(2),
    RandomBrightness(0.1),
    RandomContrast(0.1),
    RandomSaturation(0.1),
    ColorJitter(0.1, 0.1, 0.1, 0.1),
    RandomGrayscale(),
    RandomVerticalFlip(),
    RandomRotate90(),
    GaussianBlur(3),
    RandomErasing(),
    RandAugment(),
    TrivialAugmentWide(),
    Poison(0, 0.5, [1]),
]
OTHER_OPS = [
    Normalize([1] * 3, [1] * 3),
    ToDtype("float32"),
    ToLayout("NCHW"),
    ImageMixup(1),
    LabelMixup(1),
    MixupToOneHot(3),
    ReplaceLabel([1], 2),
    Squeeze(),
    OneHot(3),
    Apply(abs),
]


def name_of(op: Any) -> str:
    return type(op).__name__


def test_every_op_is_tested_here() -> None:
    tested = {name_of(op) for op in PICTURE_OPS + OTHER_OPS}
    assert tested == set(ops.__all__) - {"ArrayOp", "Draws", "Form"}


# -- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomResizedCrop(0), r"size must be a number or \(height, width\), 1 to 65535, got 0"),
        (lambda: RandomResizedCrop((1, 2, 3)), "size must be"),
        (lambda: RandomResizedCrop(65_536), "size must be"),
        (lambda: RandomResizedCrop(8, scale=(0, 1)), r"scale must be two ascending positive numbers, got \(0, 1\)"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 0.2)), "scale must be"),
        (lambda: RandomResizedCrop(8, ratio=(2, 1)), "ratio must be"),
        (lambda: RandomResizedCrop(8, interpolation="cubic"), "interpolation must be one of area, .*, got 'cubic'"),
        (lambda: CenterCrop(0), "size must be"),
        (lambda: CenterCrop(8, ratio=0), "ratio must be above 0 and at most 1, got 0"),
        (lambda: CenterCrop(8, ratio=1.1), "ratio must be"),
        (lambda: CenterCrop(8, interpolation=None), "interpolation must be"),
        (lambda: Resize((8, 0)), "size must be"),
        (lambda: Resize(8, interpolation="linear"), "interpolation must be"),
        (lambda: RandomCrop((0, 8)), "size must be"),
        (lambda: RandomCrop(8, padding=-1), "padding must be 0 to 65535, got -1"),
        (lambda: RandomCrop(8, fill=256), "fill must be a number or three, 0 to 255, got 256"),
        (lambda: RandomCrop(8, fill=(1, 2)), "fill must be"),
        (lambda: RandomHorizontalFlip(1.5), "probability must be 0 to 1, got 1.5"),
        (lambda: RandomHorizontalFlip(float("nan")), "probability must be"),
        (lambda: RandomTranslate(-1), "padding must be"),
        (lambda: RandomTranslate(70_000), "padding must be"),
        (lambda: RandomTranslate(1, fill=-1), "fill must be"),
        (lambda: RandomTranslate(1, probability=2), "probability must be"),
        (lambda: Cutout(0), "size must be at least 1, got 0"),
        (lambda: Cutout(1, fill=(0, 0, 300)), "fill must be"),
        (lambda: Cutout(1, probability=-0.1), "probability must be"),
        (lambda: RandomBrightness(-0.1), "magnitude must not be negative, got -0.1"),
        (lambda: RandomContrast(float("inf")), "magnitude must"),
        (lambda: RandomSaturation(float("nan")), "magnitude must"),
        (lambda: RandomSaturation(0.1, probability=1.1), "probability must be"),
        (lambda: ColorJitter(brightness=-0.1), "brightness must be 0 or more, or two numbers, got -0.1"),
        (lambda: ColorJitter(contrast=float("inf")), "contrast must be 0 or more"),
        (lambda: ColorJitter(saturation=(1.2, 0.8)), r"saturation must be two ascending numbers, at least 0, got \("),
        (lambda: ColorJitter(saturation=(-1, 1)), "saturation must be two ascending numbers, at least 0"),
        (lambda: ColorJitter(hue=0.6), "hue must be 0 to 0.5, or two numbers, got 0.6"),
        (lambda: ColorJitter(hue=(-0.6, 0)), "hue must be two ascending numbers, at least -0.5 and at most 0.5"),
        (lambda: ColorJitter(hue=(0, 0.1, 0.2)), "hue must be two"),
        (lambda: ColorJitter(probability=2), "probability must be"),
        (lambda: RandomGrayscale(-1), "probability must be"),
        (lambda: RandomVerticalFlip(1.5), "probability must be"),
        (lambda: GaussianBlur(4), "kernel_size must be an odd number, 1 to 255, got 4"),
        (lambda: GaussianBlur(257), "kernel_size must be an odd number"),
        (lambda: GaussianBlur(-1), "kernel_size must be an odd number"),
        (lambda: GaussianBlur(3, sigma=0), "sigma must be above 0, got 0"),
        (lambda: GaussianBlur(3, sigma=(2, 1)), "sigma must be two ascending numbers"),
        (lambda: GaussianBlur(3, probability=2), "probability must be"),
        (lambda: RandomErasing(2), "probability must be"),
        (lambda: RandomErasing(scale=(0.1, 2)), "scale must be two ascending numbers, at least 0 and at most 1"),
        (lambda: RandomErasing(ratio=(0, 1)), "ratio must be above 0"),
        (lambda: RandomErasing(ratio=(2, 1)), "ratio must be two ascending numbers"),
        (lambda: RandomErasing(fill="random"), "fill must be a number, three, or 'noise', got 'random'"),
        (lambda: RandomErasing(fill=300), "fill must be"),
        (lambda: RandAugment(0), "operations must be at least 1, got 0"),
        (lambda: RandAugment(2, 31), "magnitude must be 0 to 30, for there are 31, got 31"),
        (lambda: RandAugment(2, -1), "magnitude must be 0 to 30"),
        (lambda: RandAugment(bins=1), "bins must be at least 2, got 1"),
        (lambda: RandAugment(fill=-1), "fill must be"),
        (lambda: TrivialAugmentWide(1), "bins must be at least 2, got 1"),
        (lambda: TrivialAugmentWide(fill=256), "fill must be"),
        (lambda: ImageMixup(0), "alpha must be above 0, got 0"),
        (lambda: LabelMixup(float("inf")), "alpha must be above 0"),
        (lambda: MixupToOneHot(0), "num_classes must be at least 1, got 0"),
        (lambda: OneHot(0), "num_classes must be at least 1"),
        (lambda: Normalize([1, 2], [1, 2]), "three numbers"),
        (lambda: Normalize([1, 2, 3], [1, 0, 1]), "std must be positive"),
        (lambda: Normalize([1, 2, 3], [1, 1, 1], dtype="int8"), "dtype must be float16 or float32, got int8"),
        (lambda: ToDtype("U4"), "dtype must be one of numbers, got str"),
        (lambda: ToDtype(object), "dtype must be one of numbers, got object"),
        (lambda: ToLayout("CHWN"), "layout must be 'NHWC', 'NCHW' or 'channels_last', got 'CHWN'"),
        (lambda: Poison(0, 0.5, [1], clamp=(9, 3)), "clamp must be two ascending numbers"),
        (lambda: Poison(0, 0.5, [1], clamp=(0, 256)), "clamp must be"),
    ],
)
def test_wrong_options(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_fill_is_one_number_or_three() -> None:
    assert Cutout(1, fill=7).fill == Cutout(1, fill=(7, 7, 7)).fill == Cutout(1, fill=np.uint8(7)).fill == (7, 7, 7)
    with pytest.raises(TypeError, match="integer"):
        Cutout(1, fill=0.5)


def test_apply_names_itself() -> None:
    assert Apply(len).name == "len"
    assert Apply(len, "count").name == "count"
    with pytest.raises(TypeError, match="takes a function"):
        Apply(3)


@pytest.mark.parametrize("op", PICTURE_OPS + OTHER_OPS, ids=name_of)
def test_ops_are_frozen_and_travel(op: Any) -> None:
    for field in dataclasses.fields(op):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(op, field.name, 1)
    assert repr(pickle.loads(pickle.dumps(op))) == repr(op)
    assert " at 0x" not in repr(op)  # a loader's state is made of it


# -- forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", PICTURE_OPS, ids=name_of)
@pytest.mark.parametrize("before", [FLOATS, Form("uint8", (3, 8, 9)), Form("uint8", (8, 9)), LABELS, TEXTS], ids=str)
def test_picture_ops_say_what_they_take_and_what_they_get(op: Any, before: Form) -> None:
    with pytest.raises(ValueError, match="works on pictures") as caught:
        op.form(before)
    message = str(caught.value)
    assert message.startswith(f"{name_of(op)} works on pictures, uint8 of shape (height, width, 3), and gets {before}")


@pytest.mark.parametrize(
    ("op", "before", "message"),
    [
        (Cutout(9), PICTURES, r"Cutout\(9\) does not fit into pictures of uint8 of shape \(8, 9, 3\)"),
        (RandomRotate90(), PICTURES, "RandomRotate90 needs square pictures, and gets pictures of 9x8: .* to a square"),
        (Poison(np.zeros((4, 4, 3)), 1, []), PICTURES, r"mask of shape \(4, 4, 3\) .* uint8 of shape \(8, 9, 3\)"),
        (Poison(np.zeros((2, 8, 9, 3)), 1, []), PICTURES, r"mask of shape \(2, 8, 9, 3\) .* shape \(8, 9, 3\)"),
        (
            Normalize([1] * 3, [1] * 3),
            LABELS,
            r"Normalize works on pictures of three channels, and gets int64 of shape",
        ),
        (Normalize([1] * 3, [1] * 3), Form("uint8", (8, 9, 4)), r"gets uint8 of shape \(8, 9, 4\)"),
        (ToLayout("NCHW"), Form("float32", (5,)), r"ToLayout works on .* and gets float32 of shape \(5,\)"),
        (ToDtype("float32"), TEXTS, "ToDtype works on arrays, and gets a list of values of any size"),
        (ToDtype("uint8"), FLOATS, r"ToDtype\('uint8'\) would cut off the fractions of float32 of shape \(8, 9, 3\)"),
        (ImageMixup(1), LABELS, r"ImageMixup takes arrays of uint8, .* and gets int64 of shape \(\)"),
        (LabelMixup(1), Form("int64", (2,)), r"LabelMixup takes one label .* gets int64 of shape \(2,\)"),
        (MixupToOneHot(3), LABELS, r"float32 of shape \(3,\), and gets int64 of shape \(\)"),
        (
            ReplaceLabel([1], 2),
            Form("float64", ()),
            r"ReplaceLabel takes whole numbers, and gets float64 of shape \(\)",
        ),
        (OneHot(3), TEXTS, "OneHot takes whole numbers, and gets a list of values"),
        (OneHot(3), Form("int64", (2,)), r"OneHot takes one label for each sample, and gets int64 of shape \(2,\)"),
        (Squeeze(), TEXTS, "Squeeze works on arrays, and gets a list"),
        (Squeeze(1), Form("int64", (1, 3)), r"Squeeze\(1,\) needs axes of length 1, .* the shape \(1, 3\)"),
        (Squeeze(2), Form("int64", (1, 3)), r"Squeeze\(2,\) needs axes of length 1"),
        (Squeeze(0), LABELS, r"Squeeze\(0,\) needs axes of length 1, and a value has the shape \(\)"),
    ],
)
def test_ops_that_do_not_fit_name_both_shapes(op: Any, before: Form, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        op.form(before)


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [
        (Resize((4, 5)), UNKNOWN_SIZE, Form("uint8", (4, 5, 3))),
        (RandomResizedCrop(4), PICTURES, Form("uint8", (4, 4, 3))),
        (RandomCrop((4, 5)), UNKNOWN_SIZE, Form("uint8", (4, 5, 3))),
        (CenterCrop((4, 5)), UNKNOWN_SIZE, Form("uint8", (4, 5, 3))),
        (RandomHorizontalFlip(), UNKNOWN_SIZE, UNKNOWN_SIZE),
        (RandomTranslate(2), PICTURES, PICTURES),
        (RandomRotate90(), UNKNOWN_SIZE, UNKNOWN_SIZE),
        (RandomRotate90(), Form("uint8", (8, 8, 3)), Form("uint8", (8, 8, 3))),
        (TrivialAugmentWide(), PICTURES, PICTURES),
        (Cutout(8), PICTURES, PICTURES),
        (Cutout(100), UNKNOWN_SIZE, UNKNOWN_SIZE),
        (RandomContrast(1), PICTURES, PICTURES),
        (Poison(np.zeros(3), 1, []), PICTURES, PICTURES),
        (Normalize([1] * 3, [1] * 3, "float16"), UNKNOWN_SIZE, Form("float16", (None, None, 3))),
        (Normalize([1] * 3, [1] * 3), Form("uint8", (3, 8, 9)), Form("float32", (3, 8, 9))),
        (ToDtype("int16"), PICTURES, Form("int16", (8, 9, 3))),
        (ToDtype("uint8"), Form("float64", ()), Form("uint8", ())),
        (ToLayout("NCHW"), PICTURES, Form("uint8", (3, 8, 9))),
        (ToLayout("channels_last"), PICTURES, Form("uint8", (3, 8, 9))),
        (ToLayout("NHWC"), Form("uint8", (3, 8, 9)), PICTURES),
        (ImageMixup(1), FLOATS, FLOATS),
        (LabelMixup(1), LABELS, Form("float32", (3,))),
        (MixupToOneHot(5), Form("float32", (3,)), Form("float32", (5,))),
        (OneHot(5, "int8"), LABELS, Form("int8", (5,))),
        (ReplaceLabel([], 1), LABELS, LABELS),
        (Squeeze(), Form("int64", (1, 3, 1)), Form("int64", (3,))),
        (Squeeze(-1), Form("int64", (1, 3, 1)), Form("int64", (1, 3))),
        (Apply(abs), TEXTS, Form()),
    ],
)
def test_ops_know_what_comes_out(op: Any, before: Form, after: Form) -> None:
    assert op.form(before) == after


@pytest.mark.parametrize("op", PICTURE_OPS + OTHER_OPS, ids=name_of)
def test_every_op_may_follow_a_function(op: Any) -> None:
    after = op.form(Apply(abs).form(PICTURES))
    for last in (Normalize([1] * 3, [1] * 3), ToDtype("float32")):
        ToLayout("NCHW").form(last.form(Form()))
    assert after.is_known == (op not in OTHER_OPS or isinstance(op, LabelMixup | MixupToOneHot | OneHot))
