"""What of a loader's work a GPU does, and why it does not do the rest.

Contract. The choice is made once, when the loader is made, and needs no GPU: what the pipelines ask for, whether this
build has kernels, whether batches go to a GPU, whether the file has anything for it. The driver is opened by the first
batch of a process, for a process that has opened it cannot fork any more; where the process uses it already, as one
with a model on the GPU does, it is opened at once, so that a device which does not do is told when the loader is made.
Any thread may ask for ``native``; it is made once. It ends with the loader.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from headrace._native import GpuImageLoader, NativeError, gpu_can, gpu_driver_is_open, gpu_kernels
from headrace.arrays import distinct
from headrace.errors import DeviceError, HeadraceError
from headrace.formats.open import find_format
from headrace.loader.groups import group_size
from headrace.loader.pinning import FilePins
from headrace.progress import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace._native import ImageLoader
    from headrace.loader.fused import FusedRun
    from headrace.loader.options import LoaderOptions
    from headrace.loader.plan import FieldPlan
    from headrace.types import Dataset, ImageSpans, IndexArray, Output

__all__ = ["GpuChoice", "GpuDecoder", "NoRoomError", "choose_gpu"]

_UNDER_WAY = 4  # batches that are decoded at the same time, each with memory of its own
_SAMPLES_SEEN = 16  # of a file, to know what it is made of
_RAW = 1
_NO_KERNELS = (
    "this build of headrace has no kernels for GPUs; install a wheel (pip install headrace), or build it where nvcc is"
)


class NoRoomError(DeviceError):
    """A framework has no memory of the GPU for a batch; where it is told, it is said how many pictures would fit."""


@runtime_checkable
class KnowsRoom(Protocol):
    """An output that can tell how much memory there is for batches."""

    def room_bytes(self, native: GpuImageLoader) -> int:
        """Memory of the GPU that batches can have: what is free, what the framework keeps unused, what they have."""
        ...


class GpuDecoder:
    """The GPU that makes the pictures of a loader.

    Args:
        output: makes the arrays, on the device ``output.gpu``.
        cpu: its threads prepare batches, and decode what the GPU cannot.
        is_wanted: the user insists: a device that does not do is an error, not a reason to let the CPU do it.
        share_used: how much of the dataset's samples the loader uses, from 0 to 1.
    """

    def __init__(
        self,
        output: Output,
        cpu: ImageLoader,
        *,
        batch_size: int,
        batches_ahead: int,
        is_wanted: bool,
        share_used: float = 1.0,
    ) -> None:
        assert output.gpu is not None
        self._batch_size = batch_size
        self._batches_ahead = batches_ahead
        self._picture_bytes: dict[int, int] = {}  # of the batches that each run makes
        self.output = output
        self.device = output.gpu
        self.problem = ""  # why the device does not do
        self._cpu = cpu
        self._is_wanted = is_wanted
        self._native: GpuImageLoader | None = None
        self._pid: int | None = None  # of the process that has opened it
        self._lock = threading.Lock()
        self.pins = FilePins(share_used=share_used)
        if gpu_driver_is_open():
            self.native()

    def native(self) -> GpuImageLoader | None:
        """What decodes; None where the device does not do, and the CPU takes its place."""
        if self._pid not in (None, os.getpid()):  # before the lock, which may be held for ever in a forked process
            raise DeviceError(
                f"cuda:{self.device}: this process was forked from one that uses the GPU, and a GPU does not survive "
                "that. Fork before the first batch, or start processes by spawn (multiprocessing's mp_context)."
            )
        with self._lock:
            if self._pid is None:
                self._open()
        return self._native

    def note_output(self, run: FusedRun, picture_bytes: int) -> None:
        """A run makes batches that take so much for each picture."""
        self._picture_bytes[id(run)] = picture_bytes  # it lives as long as the loader

    def no_room(self, native: GpuImageLoader, problem: str, work_bytes: int) -> DeviceError:
        """The error for a batch that does not fit; decoding a picture takes about ``work_bytes``."""
        each = sum(self._picture_bytes.values()) * (self._batches_ahead + _UNDER_WAY) + work_bytes * _UNDER_WAY
        fitting = self.output.room_bytes(native) // max(1, each) if isinstance(self.output, KnowsRoom) else 0
        if fitting and group_size(fitting, self._batches_ahead) > 1:
            fitting -= 1  # batches of that size would be made together, which takes more
        if 0 < fitting < self._batch_size:
            fix = f"A batch of about {format_count(fitting, 'picture')} would fit"
        else:
            fix = "Give back memory of the GPU, use batches_ahead=1, or decode on the CPU by jpeg='window'"
        return DeviceError(f"{problem}. {fix}.")

    def describe_fetching(self) -> str:
        """Say in words how JPEGs get there."""
        pinned = 0 if self._native is None or self._pid != os.getpid() else self._native.pinned_bytes
        if not pinned:
            return "the CPU copies JPEGs to it"
        return f"it fetches JPEGs from {format_bytes(pinned)} of pinned files, and the CPU copies the others"

    def _open(self) -> None:
        kernels = gpu_kernels()
        assert kernels is not None  # seen to by choose_gpu
        try:
            self._native = GpuImageLoader(self.device, kernels, self._cpu)
        except NativeError as error:
            if error.code != "unsupported":
                raise DeviceError(f"cuda:{self.device}: {error.detail}") from error
            self.problem = f"cuda:{self.device} does not do: {error.detail}"
            if self._is_wanted:
                raise ValueError(_insisted(self.problem)) from error
        self._pid = os.getpid()


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The plans with the runs marked that a GPU does; ``reasons`` say of the other outputs why not."""

    plans: tuple[FieldPlan, ...]
    decoder: GpuDecoder | None
    reasons: Mapping[str, str]
    is_asked: bool  # batches go to a GPU, or the user wants it

    @property
    def outputs(self) -> list[str]:
        """Those that the GPU makes."""
        if self.decoder is None or self.decoder.problem:
            return []
        pictures = [name for plan in self.plans if plan.kind == "image" for name in plan.outputs()]
        return [name for name in pictures if name not in self.reasons]

    def describe(self) -> list[str]:
        """Say in words what the GPU does and what it does not; nothing where no GPU is in play."""
        if not self.is_asked:
            return []
        lines = []
        if self.outputs and self.decoder is not None:
            lines.append(
                f"GPU: cuda:{self.decoder.device} makes {', '.join(self.outputs)}; what it does not decode (no index, "
                f"progressive, damage) the CPU does, into the same batch; {self.decoder.describe_fetching()}"
            )
        elif self.decoder is not None:
            lines.append(f"GPU: makes no pictures, for {self.decoder.problem}")
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.reasons.items():
            by_reason.setdefault(reason, []).append(name)
        return lines + [f"GPU: does not make {', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def choose_gpu(
    options: LoaderOptions,
    dataset: Dataset,
    indices: IndexArray | None,
    plans: tuple[FieldPlan, ...],
    output: Output | None,
    cpu: ImageLoader,
) -> GpuChoice:
    """Find out what a GPU can do of the plans; ValueError when the user insists and it cannot do all pictures."""
    is_wanted = options.jpeg == "gpu"
    pictures = [name for plan in plans if plan.kind == "image" for name in plan.outputs()]
    is_asked = is_wanted or (output is not None and output.gpu is not None and bool(pictures))
    if is_wanted and not pictures:
        raise ValueError(_insisted("there are no pictures: no field of images is in the pipelines"))
    problem = _problem(options, output)
    if problem:
        reasons = dict.fromkeys(pictures, problem)
        placed = plans
    else:
        placed, reasons = _place(plans, dataset, indices)
    if is_wanted and reasons:
        name, reason = next(iter(reasons.items()))
        raise ValueError(_insisted(f"{name!r} cannot be made there: {reason}"))
    if len(reasons) == len(pictures):
        return GpuChoice(plans, None, reasons, is_asked)
    assert output is not None
    share_used = 1.0 if indices is None else len(indices) / max(1, len(dataset))
    decoder = GpuDecoder(
        output,
        cpu,
        batch_size=options.batch_size,
        batches_ahead=options.ahead,
        is_wanted=is_wanted,
        share_used=share_used,
    )
    return GpuChoice(placed, decoder, reasons, is_asked)


def _insisted(problem: str) -> str:
    return f"jpeg='gpu', but {problem}. With jpeg='auto' the CPU does what the GPU cannot"


def _problem(options: LoaderOptions, output: Output | None) -> str:
    """Why no GPU makes pictures, whatever the pipelines are; empty when one may."""
    if options.jpeg not in ("auto", "gpu"):
        return f"jpeg={options.jpeg!r}"
    if output is None or output.gpu is None:
        device = "None" if options.device is None else repr(str(options.device))
        return f"batches do not go to a GPU of NVIDIA (framework={options.framework!r}, device={device})"
    if options.precision == "fast":
        return "precision='fast' is the CPU's"
    return _NO_KERNELS if gpu_kernels() is None else ""


def _place(
    plans: tuple[FieldPlan, ...], dataset: Dataset, indices: IndexArray | None
) -> tuple[tuple[FieldPlan, ...], dict[str, str]]:
    placed: list[FieldPlan] = []
    reasons: dict[str, str] = {}
    for plan in plans:
        chosen = plan
        if plan.kind == "image":
            missing = _missing(dataset, indices, plan.field)
            chosen, refused = (plan, dict.fromkeys(plan.outputs(), missing)) if missing else plan.on_gpu(_refusal)
            reasons |= refused
        placed.append(chosen)
    return tuple(placed), reasons


def _refusal(run: FusedRun) -> str:
    """Why a GPU does not do this run; empty when it does."""
    if run.is_reduced:
        return "reduced=True is the CPU's"
    names = run.step_names()
    if gpu_can(run.native_options("window", is_fast=False), names):
        return ""
    others = [name for name in dict.fromkeys(names) if not gpu_can(run.native_options("window", is_fast=False), [name])]
    return f"the GPU does not do {', '.join(others) or run.ops_text()}"


def _missing(dataset: Dataset, indices: IndexArray | None, field: str) -> str:
    """What a GPU would need and the file does not have, as some samples show; empty when there is something for it."""
    count = len(dataset) if indices is None else len(indices)
    if not count:
        return ""
    seen = distinct(np.linspace(0, count - 1, min(count, _SAMPLES_SEEN)).astype(np.int64))
    for sample in seen if indices is None else indices[seen]:
        try:
            spans = dataset.image_spans(np.array([sample], np.int64), field)
        except HeadraceError:  # of that sample the loop will tell
            continue
        if _has_something(spans):
            return ""
    return f"{dataset.path} has no tile indices and no raw pictures; {_how_to_index(dataset)}"


def _how_to_index(dataset: Dataset) -> str:
    path = str(dataset.path)
    try:
        has_annex = find_format(path).index is not None
    except (HeadraceError, OSError):  # several files: what one of them is they all are
        has_annex = True
    if has_annex:
        return f"make indices with: headrace index {path}"
    return f"pack or convert it into a file that has them, such as: headrace create FILE.beton {path}"


def _has_something(spans: ImageSpans) -> bool:
    return bool((spans.modes == _RAW).any() or (spans.tile_indices is not None and spans.tile_indices[2].any()))
