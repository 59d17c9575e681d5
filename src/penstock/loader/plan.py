"""Pipelines, checked and compiled: what one field goes through, as few calls as possible.

For pictures the longest run of ops that the native core can do at once (decode, crop, resize, flip, normalize, cast,
layout) becomes one call for a batch; what is left runs as ordinary Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock._native import crc32c
from penstock.errors import CorruptSampleError
from penstock.ops import (
    Apply,
    CenterCrop,
    Draws,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToDtype,
    ToLayout,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._native import ImageLoader
    from penstock.formats.base import BaseDataset
    from penstock.types import Field, ImageSpans, IndexArray

__all__ = ["FieldPlan", "Moment", "compile_pipeline"]

Crop = RandomResizedCrop | CenterCrop | Resize


@dataclass(frozen=True, slots=True)
class Moment:
    """What a batch depends on besides its samples."""

    seed: int
    epoch: int


class FieldPlan(Protocol):
    """Makes the values of one field of a batch."""

    def run(self, dataset: BaseDataset, indices: IndexArray, moment: Moment, native: ImageLoader) -> Any:
        """Read, decode and transform."""
        ...

    def describe(self) -> str:
        """Say in words what is done, and how."""
        ...


def compile_pipeline(name: str, field: Field, ops: Sequence[Any]) -> FieldPlan:
    """Check the ops of a field and plan them; the error says which op does not fit and why."""
    known = (RandomResizedCrop, CenterCrop, Resize, RandomHorizontalFlip, Normalize, ToDtype, ToLayout, Apply)
    for op in ops:
        if not isinstance(op, known):
            raise TypeError(
                f"pipelines[{name!r}]: {op!r} is not an op; take one from penstock.ops, or wrap a function in Apply"
            )
    fused = 0
    while fused < len(ops) and not isinstance(ops[fused], Apply):
        fused += 1
    for op in ops[fused:]:
        if not isinstance(op, Apply):
            raise ValueError(
                f"pipelines[{name!r}]: {type(op).__name__} comes after Apply; "
                "ops of penstock must come first, what follows a function must be functions"
            )
    functions = tuple(op for op in ops[fused:] if isinstance(op, Apply))
    if field.kind == "image":
        return _image_plan(name, ops[:fused], functions)
    if fused:
        raise ValueError(
            f"pipelines[{name!r}]: {type(ops[0]).__name__} works on pictures, and this field is {field.kind}; "
            "use Apply for other fields"
        )
    return ValuePlan(name, functions)


@dataclass(frozen=True, slots=True)
class ValuePlan:
    """A field that is not a picture: its values, then functions."""

    name: str
    functions: tuple[Apply, ...]

    def run(self, dataset: BaseDataset, indices: IndexArray, moment: Moment, native: ImageLoader) -> Any:
        """Read, decode and transform."""
        return _apply(self.functions, dataset.read_values(indices, self.name))

    def describe(self) -> str:
        """Say in words what is done, and how."""
        return "one read for a batch" + _describe_functions(self.functions)


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """A picture: one native call for a batch, then functions."""

    name: str
    crop: Crop | None
    crop_key: int
    flip: RandomHorizontalFlip | None
    flip_key: int
    normalize: Normalize | None
    dtype: str
    layout: str
    functions: tuple[Apply, ...]

    def run(self, dataset: BaseDataset, indices: IndexArray, moment: Moment, native: ImageLoader) -> Any:
        """Read, decode and transform."""
        spans = dataset.image_spans(indices, self.name)
        heights, widths = spans.heights.astype(np.int64), spans.widths.astype(np.int64)
        height, width = self._output_size(dataset, indices, heights, widths)
        chooser = self.crop or Resize((height, width))
        crops = chooser.crops(heights, widths, Draws(moment.seed, moment.epoch, self.crop_key, indices))
        flips = np.zeros(len(indices), np.uint8)
        if self.flip is not None:
            flips = self.flip.flips(Draws(moment.seed, moment.epoch, self.flip_key, indices))
        shape = (len(indices), 3, height, width) if self.layout == "NCHW" else (len(indices), height, width, 3)
        out = np.empty(shape, self.dtype)
        self._load(dataset, indices, spans, crops, flips, out, native)
        return _apply(self.functions, out)

    def _output_size(
        self, dataset: BaseDataset, indices: IndexArray, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64]
    ) -> tuple[int, int]:
        if self.crop is not None:
            size = self.crop.size
            return (size, size) if isinstance(size, int) else size
        if len(indices) and ((heights != heights[0]).any() or (widths != widths[0]).any()):
            other = int(np.flatnonzero((heights != heights[0]) | (widths != widths[0]))[0])
            raise ValueError(
                f"{dataset.path}: pictures of field {self.name!r} have different sizes (sample {indices[0]} is "
                f"{widths[0]}x{heights[0]}, sample {indices[other]} is {widths[other]}x{heights[other]}), so they do "
                f"not fit into one array; add RandomResizedCrop, CenterCrop or Resize to pipelines[{self.name!r}]"
            )
        return (int(heights[0]), int(widths[0])) if len(indices) else (1, 1)

    def _load(
        self,
        dataset: BaseDataset,
        indices: IndexArray,
        spans: ImageSpans,
        crops: npt.NDArray[np.int32],
        flips: npt.NDArray[np.uint8],
        out: npt.NDArray[Any],
        native: ImageLoader,
    ) -> None:
        scale, bias = self.normalize.scale_and_bias() if self.normalize is not None else (None, None)
        failures = native.load(
            spans.base,
            spans.offsets,
            spans.sizes,
            spans.modes,
            spans.widths,
            spans.heights,
            crops,
            flips,
            out,
            self.layout == "NCHW",
            "area" if self.crop is None else self.crop.interpolation,
            scale,
            bias,
        )
        if failures:
            position, _, detail = min(failures)
            raise CorruptSampleError(
                dataset.path,
                sample=int(indices[position]),
                field=self.name,
                problem=f"the picture cannot be decoded ({detail})",
                fix="Restore the file from a copy, or leave the sample out.",
            )

    def describe(self) -> str:
        """Say in words what is done, and how."""
        steps = ["decode"]
        if self.crop is not None:
            steps += [type(self.crop).__name__, f"resize ({self.crop.interpolation})"]
        steps += ["flip"] if self.flip is not None else []
        steps += ["normalize"] if self.normalize is not None else []
        steps += [self.dtype, self.layout]
        return f"one native call for a batch: {', '.join(steps)}" + _describe_functions(self.functions)


def _image_plan(name: str, ops: Sequence[Any], functions: tuple[Apply, ...]) -> ImagePlan:
    crop: Crop | None = None
    flip: RandomHorizontalFlip | None = None
    normalize: Normalize | None = None
    dtype, layout = "uint8", "NHWC"
    keys = {"crop": 0, "flip": 0}
    for position, op in enumerate(ops):
        if isinstance(op, RandomResizedCrop | CenterCrop | Resize):
            if crop is not None or normalize is not None or dtype != "uint8":
                raise ValueError(_out_of_order(name, op, "one crop or resize, before Normalize and ToDtype"))
            crop, keys["crop"] = op, _key(name, position, op)
        elif isinstance(op, RandomHorizontalFlip):
            if flip is not None:
                raise ValueError(_out_of_order(name, op, "one flip"))
            flip, keys["flip"] = op, _key(name, position, op)
        elif isinstance(op, Normalize):
            if normalize is not None or dtype != "uint8":
                raise ValueError(_out_of_order(name, op, "one Normalize, and no ToDtype before it"))
            normalize, dtype = op, op.dtype
        elif isinstance(op, ToDtype):
            if normalize is not None and op.dtype == "uint8":
                raise ValueError(_out_of_order(name, op, "floats after Normalize"))
            dtype = op.dtype
        elif isinstance(op, ToLayout):
            layout = op.layout
    return ImagePlan(name, crop, keys["crop"], flip, keys["flip"], normalize, dtype, layout, functions)


def _out_of_order(name: str, op: Any, expected: str) -> str:
    return f"pipelines[{name!r}]: {op!r} does not fit here; a pipeline has {expected}"


def _key(name: str, position: int, op: Any) -> int:
    """What names the random numbers of an op; ops that share a word share their numbers."""
    share = getattr(op, "share", None)
    return crc32c(f"share {share}".encode() if share is not None else f"{name} {position}".encode())


def _apply(functions: tuple[Apply, ...], value: Any) -> Any:
    for op in functions:
        try:
            value = op.function(value)
        except Exception as error:
            error.add_note(f"in the loader's op {op.name!r}")
            raise
    return value


def _describe_functions(functions: tuple[Apply, ...]) -> str:
    return "".join(f"; then Python: {op.name}" for op in functions)
