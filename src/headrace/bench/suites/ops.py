"""What each op costs for a picture of 224 x 224 on one core, beside Pillow's way or numpy's.

Ours is one native call for a batch of raw pictures, with the random numbers and the copy into the batch; "copy" is that
call without an op. The peers get pictures that are loaded (images of Pillow, arrays of numpy), and what they give is
not put into a batch. With torchvision installed, its ops on images of Pillow are a third way.
"""

from __future__ import annotations

import importlib
import io
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import PIL.Image
from PIL import ImageEnhance, ImageFilter, ImageOps

from headrace import ops
from headrace._native import ImageLoader, LoadOptions
from headrace.bench.charts import bars_of
from headrace.bench.peers.peer import OURS, is_there
from headrace.bench.pictures import photograph_bytes
from headrace.bench.rows import Missing, compared_rows, median_row
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, take_turns
from headrace.ops import Draws
from headrace.ops.base import native_steps
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_Case: TypeAlias = "tuple[str, Any, str, Callable[[PIL.Image.Image], Any]]"
"""Name, our op, whose way the other is, and that way."""
_SIDE = 224
_DIFFERENCE = "difference from Pillow and numpy"
_BY_CHANCE = (
    *("colour jitter", "erasing", "erasing with noise"),
    *("RandAugment(2, 9)", "TrivialAugmentWide"),
)
"""Ops that draw what they do: no two give the same, and most of their parts are here by themselves."""
_PEERS = ("Pillow", "numpy", "Pillow and numpy", "Pillow (approximate)", "torchvision")


@dataclass(frozen=True)
class _Fixed:
    """A native step with the same values for all pictures."""

    kind: str
    values: tuple[float, ...]

    def step(self, size: tuple[int, int], draws: Draws) -> Any:
        return np.tile(np.array(self.values, np.float32), (len(draws.samples), 1))


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = settings.count(quick=8, full=32), settings.repeats(quick=3, full=15)
    images = [_picture(data) for data in photograph_bytes(settings.images, count)]
    if not is_there("torchvision"):
        yield Missing("torchvision", "not installed: torchvision")
    with one_core():
        native = _Native(np.stack([np.asarray(image) for image in images]))
        cases = _contenders()
        for name in dict.fromkeys(case[0] for case in cases):
            tell(name)
            chosen = [case for case in cases if case[0] == name]
            contenders: dict[str, Callable[[Any], object]] = {OURS: partial(_ours, native, chosen[0][1])}
            contenders |= {who: partial(_theirs, peer, images) for _, _, who, peer in chosen}
            # The time of the processor: it is the same whatever else runs.
            seconds = take_turns(contenders, lambda turn: [turn], rounds, clock=time.process_time)
            each = {who: [one / count for one in taken] for who, taken in seconds.items()}
            yield from compared_rows(name, each, _PEERS, unit="s")
            if name not in _BY_CHANCE:
                yield _difference(native, chosen[0], images)


def _difference(native: _Native, case: _Case, images: list[PIL.Image.Image]) -> Row:
    """How far our pixels are from the other way's, picture by picture."""
    name, op, _, peer = case
    found = native.load(op).astype(np.int16)
    levels = [float(np.abs(one - np.asarray(peer(image))).mean()) for one, image in zip(found, images, strict=True)]
    return median_row(_DIFFERENCE, name, levels, unit="levels of 255", better="lower")


def _picture(data: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(data)).convert("RGB").resize((_SIDE, _SIDE))


def _ours(native: _Native, op: Any, turn: int) -> None:
    native.load(op)


def _theirs(peer: Callable[[PIL.Image.Image], Any], images: list[PIL.Image.Image], turn: int) -> None:
    for image in images:
        peer(image)


class _Native:
    """The pictures as a batch in memory, through the native call of the loader."""

    def __init__(self, pictures: Any) -> None:
        self._count, size = len(pictures), _SIDE * _SIDE * 3
        sides = np.full(self._count, _SIDE, np.uint32)
        offsets = np.arange(self._count, dtype=np.uint64) * np.uint64(size)
        sizes, modes = np.full(self._count, size, np.uint64), np.ones(self._count, np.uint8)
        self._spans = ImageSpans(pictures.reshape(-1), offsets, sizes, modes, sides, sides)
        self._crops = np.tile(np.array([0, 0, _SIDE, _SIDE], np.int32), (self._count, 1))
        self._flips = np.zeros(self._count, np.uint8)
        self._out = np.empty_like(pictures)
        self._loader, self._options = ImageLoader(1), LoadOptions()
        self._epoch = 0

    def load(self, op: Any) -> Any:
        """The batch; the next call writes over it."""
        self._epoch += 1
        draws = Draws(0, self._epoch, 0, np.arange(self._count))
        steps = [] if op is None else native_steps(op, (_SIDE, _SIDE), draws)
        self._loader.load(self._spans, self._crops, self._flips, self._out, self._options, steps)
        return self._out


def _contenders() -> list[_Case]:
    fill = (0.0, 0.0, 0.0)
    cos, sin = math.cos(math.radians(20)), math.sin(math.radians(20))
    middle = _SIDE / 2
    turned = (cos, -sin, middle * (1 - cos + sin), sin, cos, middle * (1 - sin - cos))
    shear, shift = (1.0, 0.2, 0.0, 0.0, 1.0, 0.0), (1.0, 0.0, -30.0, 0.0, 1.0, 0.0)
    found: list[_Case] = [
        ("copy", None, "Pillow", lambda image: image.copy()),
        ("vertical flip", ops.RandomVerticalFlip(1), "Pillow", ImageOps.flip),
        ("turn by 90", _Fixed("turn", (1,)), "Pillow", lambda image: image.transpose(PIL.Image.Transpose.ROTATE_90)),
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
    return found + _torchvision() if is_there("torchvision") else found


def _torchvision() -> list[_Case]:
    module = importlib.import_module("torchvision.transforms")
    jitter, blur = module.ColorJitter(0.4, 0.4, 0.4, 0.1), module.GaussianBlur(9, 1.5)
    return [
        ("colour jitter", ops.ColorJitter(0.4, 0.4, 0.4, 0.1), "torchvision", jitter),
        ("blur, 9 taps", ops.GaussianBlur(9, 1.5), "torchvision", blur),
        ("RandAugment(2, 9)", ops.RandAugment(2, 9), "torchvision", module.RandAugment(2, 9)),
        ("TrivialAugmentWide", ops.TrivialAugmentWide(), "torchvision", module.TrivialAugmentWide()),
    ]


def _enhanced(image: PIL.Image.Image, kind: str) -> PIL.Image.Image:
    changed: PIL.Image.Image = getattr(ImageEnhance, kind)(image).enhance(1.3)
    return changed


def _turned_hue(image: PIL.Image.Image) -> PIL.Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    turned = PIL.Image.fromarray(np.asarray(hue) + np.uint8(25))
    return PIL.Image.merge("HSV", (turned, saturation, value)).convert("RGB")


def _jittered(image: PIL.Image.Image) -> PIL.Image.Image:
    for kind in ("Brightness", "Contrast", "Color"):
        image = _enhanced(image, kind)
    return _turned_hue(image)


def _blurred(image: PIL.Image.Image) -> PIL.Image.Image:
    return image.filter(ImageFilter.GaussianBlur(1.5))


def _moved(image: PIL.Image.Image, matrix: tuple[float, ...]) -> PIL.Image.Image:
    return image.transform(image.size, PIL.Image.Transform.AFFINE, matrix)


_RNG = np.random.default_rng(0)


def _erased(image: PIL.Image.Image, *, is_noise: bool) -> Any:
    pixels = np.array(image)
    h, w = _RNG.integers(30, 120, 2)
    y, x = _RNG.integers(0, _SIDE - h), _RNG.integers(0, _SIDE - w)
    pixels[y : y + h, x : x + w] = _RNG.integers(0, 256, (h, w, 3), np.uint8) if is_noise else 0
    return pixels


def _augmented(image: PIL.Image.Image, count: int) -> PIL.Image.Image:
    for which in _RNG.integers(0, 14, count):
        image = _AUGMENTS[which](image)
    return image


_AUGMENTS: list[Callable[[PIL.Image.Image], PIL.Image.Image]] = [
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


def _charts(rows: Sequence[Row]) -> list[Chart]:
    times = [row for row in rows if row.section != _DIFFERENCE and row.name != "torchvision"]
    named = [row.renamed(row.section, "others" if row.name != OURS else OURS) for row in times]
    return [
        *bars_of(named, "Time for a picture of 224 x 224", [OURS, "others"]),
        *bars_of(rows, "Difference of our pixels from those of Pillow and numpy", [_DIFFERENCE]),
    ]


SUITE = Suite(
    name="ops",
    question="What does each op cost for a picture of 224 x 224, beside Pillow and torchvision?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 0,
    rooms=("ops",),
    notes=(
        "Time of the processor for one picture, on one core. Ours is a native call for a batch of raw pictures, with "
        "the random numbers and the copy into the batch; copy is that call without an op. The others get pictures that "
        "are loaded, and what they give is not put into a batch.",
        "Pillow's blur is an approximation by boxes, whose time does not depend on the number of taps.",
        "Difference: the mean of the absolute differences of a picture's values, 0 to 255. Less than a level is "
        "rounding: Pillow cuts decimals off in places, and keeps hues in 256 steps. Ops that draw what they do are not "
        "compared: no two give the same.",
    ),
)
