"""Pipelines that most trainings with pictures use, with their parameters, to look at what they do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace import ops

__all__ = ["RECIPES", "Parameter", "Recipe", "code_of"]

Values: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a recipe that a page lets one choose."""

    name: str
    title: str
    default: float
    least: float
    most: float
    step: float

    def parse(self, text: str | None) -> float:
        """The value that a request gives, or the default; ValueError when it is out of range."""
        if text is None or text == "":
            return self.default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not self.least <= value <= self.most:
            raise ValueError(f"{self.title} must be from {self.least:g} to {self.most:g}, got {text[:40]!r}")
        return value


@dataclass(frozen=True, slots=True)
class Recipe:
    """A pipeline: what it is for, what can be chosen, and how its ops are made."""

    name: str
    title: str
    about: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Values], list[Any]]

    def parse(self, params: Mapping[str, str]) -> dict[str, float]:
        """The parameters that a request gives."""
        return {one.name: one.parse(params.get(one.name)) for one in self.parameters}


_SIZE = Parameter("size", "Size", 224, 8, 1024, 1)
_FLIP = Parameter("flip", "Flip, probability", 0.5, 0, 1, 0.05)


def _scale(default: float) -> Parameter:
    return Parameter("scale", "Smallest share of the area", default, 0.01, 1, 0.01)


def _crop(values: Values) -> list[Any]:
    crop = ops.RandomResizedCrop(int(values["size"]), scale=(values["scale"], 1.0))
    return [crop, ops.RandomHorizontalFlip(values["flip"])]


def _contrastive(values: Values) -> list[Any]:
    size, strength = int(values["size"]), values["strength"]
    kernel = min(31, size // 10 // 2 * 2 + 1)
    jitter = ops.ColorJitter(0.8 * strength, 0.8 * strength, 0.8 * strength, min(0.5, 0.2 * strength), probability=0.8)
    blur = ops.GaussianBlur(kernel, probability=values["blur"])
    return [*_crop(values), jitter, ops.RandomGrayscale(values["grey"]), blur]


def _small(values: Values) -> list[Any]:
    crop = ops.RandomCrop(int(values["size"]), padding=int(values["padding"]))
    cut = [ops.Cutout(int(values["cutout"]))] if values["cutout"] else []
    return [crop, ops.RandomHorizontalFlip(values["flip"]), *cut]


def _rand_augment(values: Values) -> list[Any]:
    augment = ops.RandAugment(int(values["operations"]), int(values["magnitude"]))
    return [*_crop(values), augment, ops.RandomErasing(values["erasing"])]


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "crop",
            "Random crop and flip",
            "What most classifiers are trained with: a random part, scaled to one size, and mirrored half of the time.",
            (_SIZE, _scale(0.08), _FLIP),
            _crop,
        ),
        Recipe(
            "rand_augment",
            "RandAugment and erasing",
            "Random crop and flip, then some random changes of colours and shape, and a rectangle erased.",
            (
                _SIZE,
                _scale(0.08),
                _FLIP,
                Parameter("operations", "Operations", 2, 1, 6, 1),
                Parameter("magnitude", "Magnitude", 9, 0, 30, 1),
                Parameter("erasing", "Erasing, probability", 0.25, 0, 1, 0.05),
            ),
            _rand_augment,
        ),
        Recipe(
            "trivial_augment",
            "TrivialAugment",
            "Random crop and flip, then one random change of random strength.",
            (_SIZE, _scale(0.08), _FLIP),
            lambda values: [*_crop(values), ops.TrivialAugmentWide()],
        ),
        Recipe(
            "contrastive",
            "Contrastive learning",
            "As in SimCLR: crop and flip, strong changes of colour, sometimes grey, sometimes blurred.",
            (
                _SIZE,
                _scale(0.2),
                _FLIP,
                Parameter("strength", "Strength of colours", 0.5, 0, 1, 0.05),
                Parameter("grey", "Grey, probability", 0.2, 0, 1, 0.05),
                Parameter("blur", "Blur, probability", 0.5, 0, 1, 0.05),
            ),
            _contrastive,
        ),
        Recipe(
            "small",
            "Small pictures",
            "As for CIFAR: a crop with padding that is not scaled, flip, and a square cut out.",
            (
                Parameter("size", "Size", 32, 4, 1024, 1),
                Parameter("padding", "Padding", 4, 0, 256, 1),
                _FLIP,
                Parameter("cutout", "Cutout, side", 8, 0, 512, 1),
            ),
            _small,
        ),
        Recipe(
            "evaluation",
            "Evaluation",
            "The middle of the picture, the same under every seed.",
            (_SIZE, Parameter("ratio", "Side by the shorter side", 0.875, 0.05, 1, 0.005)),
            lambda values: [ops.CenterCrop(int(values["size"]), ratio=values["ratio"])],
        ),
    )
}
"""By name, in the order in which a page offers them."""


def code_of(op: Any) -> str:
    """An op as one writes it, without what is the default.

    Example:
        >>> code_of(ops.RandomResizedCrop(224, scale=(0.5, 1.0)))
        'ops.RandomResizedCrop(224, scale=(0.5, 1.0))'
    """
    if not dataclasses.is_dataclass(op):
        return repr(op)
    parts = []
    for number, field in enumerate(dataclasses.fields(op)):
        value = getattr(op, field.name)
        if isinstance(value, tuple) and len(value) == 2 and value[0] == value[1] and field.name == "size":
            value = value[0]
        if field.default is dataclasses.MISSING and number == 0:
            parts.append(repr(value))
        elif value != field.default:
            parts.append(f"{field.name}={value!r}")
    return f"ops.{type(op).__name__}({', '.join(parts)})"
