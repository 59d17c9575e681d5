"""A run of picture ops as one native call for a batch.

A run is: crop or resize, flip, steps on pixels (colours, moves, blur, erasing), normalize, dtype, layout; each part may
be missing, and what does not come in this order begins a new run. It takes stored pictures (to decode) or a batch of
uint8 pictures in memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace._native import LoadOptions, NativeError
from headrace.errors import CorruptSampleError, DeviceError
from headrace.loader.gpu import NoRoomError
from headrace.loader.job import BadSamples, JpegNote
from headrace.ops import (
    CenterCrop,
    ColorJitter,
    Cutout,
    GaussianBlur,
    Normalize,
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
    Resize,
    ToDtype,
    ToLayout,
    TrivialAugmentWide,
)
from headrace.ops.base import Draws, checked_fill, native_steps
from headrace.ops.sizes import SizeSchedule, size_at
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from headrace._native import LoadFailure, LoadReport
    from headrace.loader.job import Job
    from headrace.ops.crops import Crops

__all__ = ["FusedRun", "KeyedOp"]

_CROPS = (RandomResizedCrop, RandomCrop, CenterCrop, Resize)
_COLOURS = (RandomBrightness, RandomContrast, RandomSaturation, ColorJitter, RandomGrayscale, GaussianBlur)
_MOVES = (RandomHorizontalFlip, RandomVerticalFlip, RandomRotate90, RandomTranslate, Cutout, RandomErasing)
_STEPS = (*_COLOURS, *_MOVES, RandAugment, TrivialAugmentWide)
_LAST = (Normalize, ToDtype, ToLayout)
_NATIVE_DTYPES = ("uint8", "float16", "float32")
_RAW = 1
_CHANNELS_LAST = (0, 3, 1, 2)
_ANY_SIZE = (1 << 10, 1 << 10)
_TILE_PIXELS = 64  # by which a window grows, on each axis, to hold whole tiles
_HEADER_BYTES = 2048  # of a picture, as the GPU gets it


@dataclass(frozen=True, slots=True)
class KeyedOp:
    """An op of a pipeline and the key of its random numbers."""

    op: Any
    key: int


@dataclass(frozen=True, slots=True)
class FusedRun:
    """What one native call does to a batch of pictures of one field.

    Where it is done is no part of what it does: a state of the loader fits both.
    """

    name: str
    crop: KeyedOp | None = None
    flip: KeyedOp | None = None
    is_flip_first: bool = False  # the flip stands before the crop
    steps: tuple[KeyedOp, ...] = ()
    normalize: Normalize | None = None
    dtype: str = "uint8"
    layout: str = "NHWC"
    is_on_gpu: bool = field(default=False, repr=False, compare=False)
    _options: dict[tuple[str, bool], LoadOptions] = field(default_factory=dict, init=False, repr=False, compare=False)

    def extended(self, keyed: KeyedOp) -> FusedRun | None:
        """The run with one op more, or None when the op does not fit into it any more."""
        op = keyed.op
        is_last = self.normalize is not None or self.dtype != "uint8" or self.layout != "NHWC"
        if isinstance(op, _CROPS):
            is_open = self.crop is None and not self.steps and not is_last
            return replace(self, crop=keyed, is_flip_first=self.flip is not None) if is_open else None
        if isinstance(op, _STEPS):
            if is_last:
                return None
            if isinstance(op, RandomHorizontalFlip) and self.flip is None and not self.steps:
                return replace(self, flip=keyed)
            return replace(self, steps=(*self.steps, keyed))
        return self._extended_last(op) if isinstance(op, _LAST) else None

    def _extended_last(self, op: Any) -> FusedRun | None:
        if isinstance(op, Normalize):
            return replace(self, normalize=op, dtype=op.dtype) if self.normalize is None else None
        if isinstance(op, ToDtype):
            return replace(self, dtype=op.dtype) if op.dtype in _NATIVE_DTYPES else None
        return replace(self, layout=op.layout)

    def run(self, pictures: Any, job: Job) -> Any:
        """Load a batch of stored pictures (ImageSpans), or one that is in memory: an array, here or on the GPU."""
        spans = pictures if isinstance(pictures, ImageSpans) else self._spans_of(pictures)
        heights, widths = spans.heights.astype(np.int64), spans.widths.astype(np.int64)
        if self.crop is None and spans is not pictures:
            size = tuple(pictures.shape[1:3])  # also when there are none
        else:
            size = self._output_size(job, heights, widths)
        crops, flips = self.choose_windows(job, heights, widths)
        steps = [step for keyed in self.steps for step in native_steps(keyed.op, size, job.draws(keyed.key))]
        shape = (len(heights), 3, *size) if self.layout == "NCHW" else (len(heights), *size, 3)
        gpu = job.gpu if self.is_on_gpu else None
        native = None if gpu is None else gpu.native()
        if gpu is None or native is None:
            out = job.slots.take(shape, self.dtype)
            options = self.native_options(job.jpeg, is_fast=job.is_fast)
            start_s = time.perf_counter()
            report = job.native.load(spans, crops, flips, out, options, steps)
            job.clock.add_native(report.times, start_s)
            self._note(job, report)
            return out.transpose(_CHANNELS_LAST) if self.layout == "channels_last" else out
        gpu.pins.notice(spans.base, native)
        gpu.note_output(self, size[0] * size[1] * 3 * np.dtype(self.dtype).itemsize)
        start_s = time.perf_counter()
        try:
            out = gpu.output.empty(shape, self.dtype, native)
            report = native.load(spans, crops, flips, out, self.native_options("window", is_fast=False), steps)
        except (NativeError, NoRoomError) as error:
            problem = error.detail if isinstance(error, NativeError) else str(error)
            problem = f"cuda:{gpu.device}, field {self.name!r}: {problem}"
            if isinstance(error, NativeError) and error.code != "out_of_memory":
                raise DeviceError(problem) from error
            raise gpu.no_room(native, problem, self._work_bytes(spans, crops, size)) from error
        job.clock.add("gpu", start_s)
        self._note(job, report)
        return gpu.output.transposed(out, _CHANNELS_LAST) if self.layout == "channels_last" else out

    def _work_bytes(self, spans: ImageSpans, crops: Crops | None, size: tuple[int, int]) -> int:
        """What the GPU takes to decode a picture, about, and rather too much; see docs/explanation/gpu-windows.md."""
        whole = np.stack([spans.heights, spans.widths]).astype(np.int64)
        if not whole.size:
            return 0
        window = whole if crops is None else np.minimum(whole, crops[:, 2:].T.astype(np.int64) + _TILE_PIXELS)
        pixels = window.prod(axis=0)
        codes = np.where(spans.modes == _RAW, 3 * pixels, spans.sizes.astype(np.int64))
        axes = 24 * max(size) + 48 * window.max(axis=0)  # sums of weights, of the widest filter
        steps = 6 * size[0] * size[1] if self.steps else 0
        work = 2 * (codes + pixels // 8 + _HEADER_BYTES) + 3 * pixels + axes + steps
        return int(work.mean() * 9 / 8)  # memory grows by an eighth more than it must

    def choose_windows(
        self, job: Job, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64]
    ) -> tuple[Crops | None, npt.NDArray[np.uint8] | None]:
        """Which part of each picture is taken, and which parts are mirrored; None: whole pictures, and none."""
        crops: Crops | None = None
        if self.crop is not None:
            crops = self.crop.op.crops(heights, widths, job.draws(self.crop.key))
        if self.flip is None:
            return crops, None
        flips = self.flip.op.flips(job.draws(self.flip.key))
        if self.is_flip_first and crops is not None:  # the part was chosen in the mirrored picture
            mirrored = widths - crops[:, 1] - crops[:, 3]
            crops[:, 1] = np.where(flips, mirrored, crops[:, 1])
        return crops, flips

    def _spans_of(self, pictures: Any) -> ImageSpans:
        array = np.ascontiguousarray(pictures)
        if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != 3:
            raise ValueError(
                f"pipelines[{self.name!r}]: {self.ops_text()} works on a batch of pictures, uint8 of shape "
                f"(batch, height, width, 3), and gets {array.dtype} of shape {array.shape}"
            )
        count, height, width, _ = array.shape
        size = height * width * 3
        offsets = np.arange(count, dtype=np.uint64) * np.uint64(size)
        sides = (np.full(count, width, np.uint32), np.full(count, height, np.uint32))
        sizes = np.full(count, size, np.uint64)
        return ImageSpans(array.reshape(-1), offsets, sizes, np.full(count, _RAW, np.uint8), *sides)

    def _output_size(self, job: Job, heights: npt.NDArray[np.int64], widths: npt.NDArray[np.int64]) -> tuple[int, int]:
        if self.crop is not None:
            return size_at(self.crop.op.size, job.epoch)
        if not len(heights):
            return 1, 1
        other = np.flatnonzero((heights != heights[0]) | (widths != widths[0]))
        if len(other):
            i = int(other[0])
            raise ValueError(
                f"{job.dataset.path}: pictures of field {self.name!r} have different sizes (sample {job.indices[0]} is "
                f"{widths[0]}x{heights[0]}, sample {job.indices[i]} is {widths[i]}x{heights[i]}), so they do "
                f"not fit into one array; add RandomResizedCrop, CenterCrop or Resize to pipelines[{self.name!r}]"
            )
        return int(heights[0]), int(widths[0])

    def _note(self, job: Job, report: LoadReport) -> None:
        job.jpeg_counts.add(report.counts)
        job.jpeg_notes.extend(
            JpegNote(int(job.indices[note.position]), self.name, note.kind, note.detail) for note in report.notes
        )
        if report.failures:
            raise BadSamples([self._error(job, failure) for failure in report.failures])

    def native_options(self, jpeg: str, *, is_fast: bool) -> LoadOptions:
        """The same object for every batch: a loader does not change how it decodes."""
        key = (jpeg, is_fast)
        if key not in self._options:
            crop = None if self.crop is None else self.crop.op
            scale, bias = self.normalize.scale_and_bias() if self.normalize is not None else (None, None)
            self._options[key] = LoadOptions(
                channels_first=self.layout == "NCHW",
                interpolation="area" if crop is None else crop.interpolation,
                scale=scale,
                bias=bias,
                fill=checked_fill(crop.fill) if isinstance(crop, RandomCrop) and crop.padding else None,
                reduced=self.is_reduced,
                jpeg=jpeg,
                fast=is_fast,
            )
        return self._options[key]

    def _error(self, job: Job, failure: LoadFailure) -> CorruptSampleError:
        is_checksum = failure.code == "wrong_checksum"
        sample = int(job.indices[failure.position])
        problem = failure.detail if is_checksum else f"the picture cannot be decoded ({failure.detail})"
        origin = job.dataset.origin_of(sample)
        if origin != (job.dataset.path, sample):
            problem += f" (this is sample {origin[1]} of {origin[0]})"
        return CorruptSampleError(
            job.dataset.path,
            sample=sample,
            field=self.name,
            problem=problem,
            fix="Restore the file from a copy, or leave the sample out.",
        )

    @property
    def is_reduced(self) -> bool:
        """JPEGs are decoded at a part of their size where that is enough."""
        return self.crop is not None and getattr(self.crop.op, "reduced", False)

    def step_names(self) -> list[str]:
        """The kinds of the steps on pixels, as the native call has them."""
        size = _ANY_SIZE if self.crop is None else size_at(self.crop.op.size, 0)
        nothing = Draws(0, 0, 0, np.empty(0, np.int64))
        return [name for keyed in self.steps for name, _ in native_steps(keyed.op, size, nothing)]

    def ops_text(self) -> str:
        """The ops in words."""
        steps = []
        if self.crop is not None:
            steps.append(type(self.crop.op).__name__)
            steps += [] if isinstance(self.crop.op, RandomCrop) else [f"resize ({self.crop.op.interpolation})"]
            steps[-1] += f" to {self.crop.op.size}" if isinstance(self.crop.op.size, SizeSchedule) else ""
        if self.flip is not None:
            steps.insert(0 if self.is_flip_first else len(steps), "flip")
        steps += [keyed.op.kind for keyed in self.steps]
        steps += ["normalize"] if self.normalize is not None else []
        return ", ".join([*steps, self.dtype, self.layout])
