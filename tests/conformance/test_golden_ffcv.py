"""The FFCV adapters against what FFCV itself gave: orders, decoders, transforms."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.conftest import GOLDEN

torch = pytest.importorskip("torch")

from headrace.compat.ffcv.fields.decoders import (  # noqa: E402
    CenterCropRGBImageDecoder,
    IntDecoder,
    SimpleRGBImageDecoder,
)
from headrace.compat.ffcv.loader import Loader, OrderOption  # noqa: E402
from headrace.compat.ffcv.reader import Reader  # noqa: E402
from headrace.compat.ffcv.transforms import (  # noqa: E402
    Convert,
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    NormalizeImage,
    Poison,
    RandomBrightness,
    RandomContrast,
    RandomHorizontalFlip,
    RandomSaturation,
    RandomTranslate,
    ReplaceLabel,
    Squeeze,
    ToTensor,
    ToTorchImage,
    View,
)

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = json.loads((GOLDEN / "orders.json").read_text())
DECODERS = np.load(GOLDEN / "decoders.npz")
TRANSFORMS = np.load(GOLDEN / "transforms.npz")
FACTS = json.loads((GOLDEN / "transforms.json").read_text())
INDEX_FIELD = {"multi_page_w3": "i", "subset": "i", "big_metadata": "i0"}


def orders_id(record: dict[str, Any]) -> str:
    return f"{record['file']}-{record['order']}-{record['batch_size']}-{record['seed']}-{record['indices'] is None}"


@pytest.mark.parametrize("record", ORDERS, ids=orders_id)
def test_orders_are_those_of_ffcv(record: dict[str, Any], golden_dir: Path) -> None:
    path = golden_dir / f"{record['file']}.beton"
    reader = Reader(path)
    indices = record["indices"]
    if isinstance(indices, str):
        step = int(indices.split("k=")[1])
        indices = [i for i in range(reader.num_samples) if i % step]
    loader = Loader(
        path,
        record["batch_size"],
        num_workers=1,
        order=OrderOption[record["order"]],
        seed=record["seed"],
        indices=indices,
        drop_last=False,
        pipelines={name: None for name in reader.field_names if name != INDEX_FIELD[record["file"]]},
    )
    epochs = [np.asarray(loader.traversal_order.sample_order(epoch)).astype("<i8") for epoch in range(3)]
    if "epochs" in record:
        assert [epoch.tolist() for epoch in epochs] == record["epochs"]
    else:
        assert [hashlib.sha256(epoch.tobytes()).hexdigest() for epoch in epochs] == record["epochs_sha256"]


@pytest.mark.parametrize("key", [key for key in DECODERS if not key.endswith("indices")])
def test_decoders_give_the_pixels_of_ffcv(key: str, golden_dir: Path) -> None:
    name, kind, *rest = key.split("/")
    path = golden_dir / f"{name}.beton"
    if kind == "center":
        height, width = (int(side) for side in rest[0].split("x"))
        pipelines = {"image": [CenterCropRGBImageDecoder((height, width), float(rest[1])), ToTensor()], "label": None}
        indices = DECODERS[f"{key}/indices"]
        batches = Loader(path, 4, num_workers=1, indices=indices, drop_last=False, pipelines=pipelines)
        found = [batch[0] for batch in batches]
    else:
        pipelines = {"image": [SimpleRGBImageDecoder(), ToTensor()]}
        found = [batch[1] for batch in Loader(path, 3, num_workers=1, drop_last=False, pipelines=pipelines)]
    assert np.array_equal(np.concatenate([pixels.numpy() for pixels in found]), DECODERS[key])


MEAN, STD = np.array(FACTS["mean"]), np.array(FACTS["std"])
POISONED = FACTS["poison_indices"]
CLASSES = FACTS["num_classes"]
IMAGE_CASES: dict[str, Any] = {
    "flip_p1": lambda: [RandomHorizontalFlip(1.0), ToTensor()],
    "flip_p0": lambda: [RandomHorizontalFlip(0.0), ToTensor()],
    "normalize_f32": lambda: [NormalizeImage(MEAN, STD, np.float32), ToTensor()],
    "normalize_f16": lambda: [NormalizeImage(MEAN, STD, np.float16), ToTensor()],
    "poison": lambda: [Poison(TRANSFORMS["poison/mask"], TRANSFORMS["poison/alpha"], POISONED), ToTensor()],
    "translate_pad0": lambda: [RandomTranslate(padding=0), ToTensor()],
    "brightness_mag0_p1": lambda: [RandomBrightness(0.0, 1.0), ToTensor()],
    "contrast_mag0_p1": lambda: [RandomContrast(0.0, 1.0), ToTensor()],
    "saturation_mag0_p1": lambda: [RandomSaturation(0.0, 1.0), ToTensor()],
    "mixup_same": lambda: [ImageMixup(0.4, True), ToTensor()],
    "mixup_each": lambda: [ImageMixup(0.4, False), ToTensor()],
    "to_torch_image": lambda: [ToTensor(), ToTorchImage()],
    "to_torch_image_nchw": lambda: [ToTensor(), ToTorchImage(channels_last=False)],
    "normalize_f16_to_torch_image": lambda: [NormalizeImage(MEAN, STD, np.float16), ToTensor(), ToTorchImage()],
}
LABEL_CASES: dict[str, Any] = {
    "default": lambda: None,
    "squeeze": lambda: [IntDecoder(), ToTensor(), Squeeze()],
    "squeeze1": lambda: [IntDecoder(), ToTensor(), Squeeze(1)],
    "convert_f32": lambda: [IntDecoder(), ToTensor(), Convert(torch.float32)],
    "view_u8": lambda: [IntDecoder(), ToTensor(), View(torch.uint8)],
    "replace": lambda: [IntDecoder(), ReplaceLabel(POISONED, 99), ToTensor()],
    "mixup_same": lambda: [IntDecoder(), LabelMixup(0.4, True), ToTensor()],
    "mixup_each": lambda: [IntDecoder(), LabelMixup(0.4, False), ToTensor()],
    "mixup_onehot": lambda: [IntDecoder(), LabelMixup(0.4, True), ToTensor(), MixupToOneHot(CLASSES)],
}


def batches_of(golden_dir: Path, pipelines: dict[str, Any], column: int) -> list[np.ndarray]:
    path = golden_dir / "img_jpg_const.beton"
    loader = Loader(path, FACTS["batch_size"], num_workers=1, drop_last=False, pipelines=pipelines)
    return [batch[column].numpy() for batch in loader]


def check_case(name: str, found: list[np.ndarray]) -> None:
    case = FACTS["cases"][name]
    assert [list(array.shape) for array in found] == case["batch_shapes"]
    assert found[0].dtype.str == case["dtype"]
    if name in TRANSFORMS:
        assert np.concatenate(found).tobytes() == TRANSFORMS[name].tobytes()
    else:
        for i, array in enumerate(found):
            assert np.array_equal(array, TRANSFORMS[f"{name}/batch{i}"])


def test_all_recorded_cases_are_tried() -> None:
    tried = {f"image/{name}" for name in IMAGE_CASES} | {f"label/{name}" for name in LABEL_CASES}
    assert tried == set(FACTS["cases"])


@pytest.mark.parametrize("name", IMAGE_CASES)
def test_picture_transforms_are_those_of_ffcv(name: str, golden_dir: Path) -> None:
    pipelines = {"image": [SimpleRGBImageDecoder(), *IMAGE_CASES[name]()]}
    check_case(f"image/{name}", batches_of(golden_dir, pipelines, 1))


@pytest.mark.parametrize("name", LABEL_CASES)
def test_label_transforms_are_those_of_ffcv(name: str, golden_dir: Path) -> None:
    ops = LABEL_CASES[name]()
    check_case(f"label/{name}", batches_of(golden_dir, {} if ops is None else {"label": ops}, 0))
