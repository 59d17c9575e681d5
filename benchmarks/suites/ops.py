"""What each op costs for a picture of 224 x 224 on one core, beside Pillow's way or numpy's.

Ours is one native call for a batch of raw pictures, with the random numbers and the copy into the batch; "copy" is that
call without an op. The peers get pictures that are loaded (images of Pillow, arrays of numpy), and what they give is
not put into a batch. Both take turns, and what counts is the time of the processor, of all threads. With torchvision
installed, its ops on images of Pillow are a third way.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from benchmarks.harness import photographs, row
from headrace import ops
from headrace._native import ImageLoader, LoadOptions
from headrace.bench.turns import one_core
from headrace.ops import Draws
from headrace.ops.base import native_steps
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "What does each op cost for a picture of 224 x 224, on one core?"
SIDE, COUNT, ROUNDS = 224, 32, 15


@dataclass(frozen=True)
class _Fixed:
    """A native step with the same values for all pictures."""

    kind: str
    values: tuple[float, ...]

    def step(self, size: tuple[int, int], draws: Draws) -> Any:
        return np.tile(np.array(self.values, np.float32), (len(draws.samples), 1))


def run() -> list[dict[str, Any]]:
    files = photographs()[:COUNT]
    images = [Image.open(path).convert("RGB").resize((SIDE, SIDE)) for path in files]
    images = (images * COUNT)[:COUNT]
    with one_core():
        native = _Native(np.stack([np.asarray(image) for image in images]))
        rows = []
        for name, op, peer_name, peer in _contenders():
            rows += _compare(name, partial(native.load, op), peer_name, peer, images)
        return rows


class _Native:
    """The pictures as a batch in memory, through the native call of the loader."""

    def __init__(self, pictures: Any) -> None:
        size = SIDE * SIDE * 3
        sides = np.full(COUNT, SIDE, np.uint32)
        offsets = np.arange(COUNT, dtype=np.uint64) * np.uint64(size)
        sizes, modes = np.full(COUNT, size, np.uint64), np.ones(COUNT, np.uint8)
        self._spans = ImageSpans(pictures.reshape(-1), offsets, sizes, modes, sides, sides)
        self._crops = np.tile(np.array([0, 0, SIDE, SIDE], np.int32), (COUNT, 1))
        self._flips = np.zeros(COUNT, np.uint8)
        self._out = np.empty_like(pictures)
        self._loader, self._options = ImageLoader(1), LoadOptions()
        self._epoch = 0

    def load(self, op: Any) -> None:
        self._epoch += 1
        draws = Draws(0, self._epoch, 0, np.arange(COUNT))
        steps = [] if op is None else native_steps(op, (SIDE, SIDE), draws)
        self._loader.load(self._spans, self._crops, self._flips, self._out, self._options, steps)


def _seconds(work: Callable[[], Any]) -> float:
    start_s = time.process_time()
    work()
    return time.process_time() - start_s


def _compare(
    name: str,
    ours: Callable[[], Any],
    peer_name: str,
    peer: Callable[[Image.Image], Any],
    images: list[Image.Image],
) -> list[dict[str, Any]]:
    def peers() -> None:
        for image in images:
            peer(image)

    contenders = {"headrace": ours, peer_name: peers}
    seconds: dict[str, list[float]] = {who: [] for who in contenders}
    for _ in range(ROUNDS):
        for who, work in contenders.items():
            seconds[who].append(_seconds(work))
    rows = [row(f"{name}: {who}", taken, samples=COUNT, unit="pictures") for who, taken in seconds.items()]
    for line, taken in zip(rows, seconds.values(), strict=True):
        line["us_per_picture"] = statistics.median(taken) / COUNT * 1e6
        line["text"] = f"{line['us_per_picture']:8.1f} us"
    return rows


def _contenders() -> list[tuple[str, Any, str, Callable[[Image.Image], Any]]]:
    fill = (0.0, 0.0, 0.0)
    cos, sin = math.cos(math.radians(20)), math.sin(math.radians(20))
    middle = SIDE / 2
    turned = (cos, -sin, middle * (1 - cos + sin), sin, cos, middle * (1 - sin - cos))
    shear, shift = (1.0, 0.2, 0.0, 0.0, 1.0, 0.0), (1.0, 0.0, -30.0, 0.0, 1.0, 0.0)
    found: list[tuple[str, Any, str, Callable[[Image.Image], Any]]] = [
        ("copy", None, "Pillow", lambda image: image.copy()),
        ("vertical flip", ops.RandomVerticalFlip(1), "Pillow", ImageOps.flip),
        ("turn by 90", _Fixed("turn", (1,)), "Pillow", lambda image: image.transpose(Image.Transpose.ROTATE_90)),
        ("brightness", _Fixed("brightness", (1.3,)), "Pillow", lambda image: _enhanced(image, "Brightness")),
        ("contrast", _Fixed("contrast", (1.3,)), "Pillow", lambda image: _enhanced(image, "Contrast")),
        ("saturation", _Fixed("saturation", (1.3,)), "Pillow", lambda image: _enhanced(image, "Color")),
        ("sharpness", _Fixed("sharpness", (1.3,)), "Pillow", lambda image: _enhanced(image, "Sharpness")),
        ("hue", _Fixed("hue", (0.1,)), "Pillow and numpy", _turned_hue),
        ("colour jitter", ops.ColorJitter(0.4, 0.4, 0.4, 0.1), "Pillow and numpy", _jittered),
        ("grayscale", ops.RandomGrayscale(1), "Pillow", lambda image: image.convert("L").convert("RGB")),
        ("blur, 9 taps", ops.GaussianBlur(9, 1.5), "Pillow (approximate)", _blurred),
        ("blur, 23 taps", ops.GaussianBlur(23, 1.5), "Pillow (approximate)", _blurred),
        ("shear", _Fixed("affine", (*shear, *fill)), "Pillow", partial(_moved, matrix=shear)),
        ("translate", _Fixed("affine", (*shift, *fill)), "Pillow", partial(_moved, matrix=shift)),
        ("rotate by 20 degrees", _Fixed("affine", (*turned, *fill)), "Pillow", lambda image: image.rotate(20)),
        ("posterize", _Fixed("posterize", (4,)), "Pillow", lambda image: ImageOps.posterize(image, 4)),
        ("solarize", _Fixed("solarize", (128,)), "Pillow", lambda image: ImageOps.solarize(image, 128)),
        ("autocontrast", _Fixed("autocontrast", (1,)), "Pillow", ImageOps.autocontrast),
        ("equalize", _Fixed("equalize", (1,)), "Pillow", ImageOps.equalize),
        ("erasing", ops.RandomErasing(1), "numpy", partial(_erased, is_noise=False)),
        ("erasing with noise", ops.RandomErasing(1, fill="noise"), "numpy", partial(_erased, is_noise=True)),
        ("RandAugment(2, 9)", ops.RandAugment(2, 9), "Pillow", partial(_augmented, count=2)),
        ("TrivialAugmentWide", ops.TrivialAugmentWide(), "Pillow", partial(_augmented, count=1)),
    ]
    return found + _torchvision() if importlib.util.find_spec("torchvision") else found


def _torchvision() -> list[tuple[str, Any, str, Callable[[Image.Image], Any]]]:
    module = importlib.import_module("torchvision.transforms")
    jitter, blur = module.ColorJitter(0.4, 0.4, 0.4, 0.1), module.GaussianBlur(9, 1.5)
    return [
        ("colour jitter", ops.ColorJitter(0.4, 0.4, 0.4, 0.1), "torchvision", jitter),
        ("blur, 9 taps", ops.GaussianBlur(9, 1.5), "torchvision", blur),
        ("RandAugment(2, 9)", ops.RandAugment(2, 9), "torchvision", module.RandAugment(2, 9)),
        ("TrivialAugmentWide", ops.TrivialAugmentWide(), "torchvision", module.TrivialAugmentWide()),
    ]


def _enhanced(image: Image.Image, kind: str) -> Image.Image:
    changed: Image.Image = getattr(ImageEnhance, kind)(image).enhance(1.3)
    return changed


def _turned_hue(image: Image.Image) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    turned = Image.fromarray(np.asarray(hue) + np.uint8(25))
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")


def _jittered(image: Image.Image) -> Image.Image:
    for kind in ("Brightness", "Contrast", "Color"):
        image = _enhanced(image, kind)
    return _turned_hue(image)


def _blurred(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(1.5))


def _moved(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


_RNG = np.random.default_rng(0)


def _erased(image: Image.Image, *, is_noise: bool) -> Any:
    pixels = np.array(image)
    h, w = _RNG.integers(30, 120, 2)
    y, x = _RNG.integers(0, SIDE - h), _RNG.integers(0, SIDE - w)
    pixels[y : y + h, x : x + w] = _RNG.integers(0, 256, (h, w, 3), np.uint8) if is_noise else 0
    return pixels


def _augmented(image: Image.Image, count: int) -> Image.Image:
    for which in _RNG.integers(0, 14, count):
        image = _AUGMENTS[which](image)
    return image


_AUGMENTS: list[Callable[[Image.Image], Image.Image]] = [
    lambda image: image,
    partial(_moved, matrix=(1, 0.2, 0, 0, 1, 0)),
    partial(_moved, matrix=(1, 0, 0, 0.2, 1, 0)),
    partial(_moved, matrix=(1, 0, -30, 0, 1, 0)),
    partial(_moved, matrix=(1, 0, 0, 0, 1, -30)),
    lambda image: image.rotate(20),
    *(partial(_enhanced, kind=kind) for kind in ("Brightness", "Color", "Contrast", "Sharpness")),
    partial(ImageOps.posterize, bits=5),
    partial(ImageOps.solarize, threshold=178),
    ImageOps.autocontrast,
    ImageOps.equalize,
]
