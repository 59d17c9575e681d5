"""Looking at a loader without touching it: what it makes of a sample, and the batches that come next.

Contract: an Inspector works on a copy of the loader that has its own memory, threads, counters and list of damaged
samples, and makes batches on the CPU. The loader's place, its state and its numbers stay as they are, also while it is
in a loop in another thread. What both share is the dataset, which any number of threads may read, and the ops: a
function of the user that keeps something between calls is called more often than in the loop alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace.loader.plan import is_module
from headrace.progress import format_bytes
from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from headrace.loader.epoch import Epoch
    from headrace.loader.loader import Loader
    from headrace.loader.plan import Pipeline
    from headrace.ops import Normalize
    from headrace.types import Batch, IndexArray

__all__ = ["Inspector", "Look", "SeenBatch", "Window", "value_at"]

_MOST_BATCH_BYTES = 1 << 30


class Window(NamedTuple):
    """The part of a stored picture that an output is made of; it may stick out where a crop has a padding."""

    output: str
    field: str
    left: int
    top: int
    width: int
    height: int
    is_flipped: bool


@dataclass(frozen=True, slots=True)
class Look:
    """What a loader makes of one sample: a value for each output, and the parts of pictures that were taken."""

    values: dict[str, Any]
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch, or its first samples: how many there are in it, the numbers of those that are here, and their values."""

    epoch: int
    step: int
    size: int
    samples: IndexArray
    values: Batch


class Inspector:
    """A copy of a loader to look at.

    Args:
        loader: any loader, also one that is in a loop.

    Attributes:
        notes: what the copy does not do, in words.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.beton")
        >>> headrace.write(path, range(10), fields={"n": headrace.Int()})
        >>> loader = headrace.Loader(path, 4, order="random", seed=1)
        >>> seen = Inspector(loader).batch(0, 0)
        >>> seen.values.n.tolist() == next(iter(loader)).n.tolist()
        True
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        pipelines, dropped = _without_gpu_modules(loader)
        options = loader.options
        is_torch = options.framework == "torch"
        self._copy = loader._remade(
            pipelines=pipelines,
            framework="torch" if is_torch else "numpy",
            device="cpu" if is_torch else None,
            jpeg="auto" if options.jpeg == "gpu" else options.jpeg,
            workers=1,
            batches_ahead=1,
            cache="os",
            progress=False,
            trace=None,
            on_error="raise" if options.on_error == "raise" else "skip",
        )
        self.notes = [f"{name} is not shown: it is a module of torch on a GPU" for name in dropped]

    def position(self) -> tuple[int, int]:
        """The epoch and the step of the batch that comes next."""
        epoch, step = self.loader.epoch, self.loader._step
        return (epoch + 1, 0) if step >= len(self.loader) else (epoch, step)

    def batch(self, epoch: int, step: int, most: int | None = None) -> SeenBatch:
        """A batch as the loader makes it, or at least its first ``most`` samples."""
        if not 0 <= step < len(self._copy):
            raise IndexError(f"batch {step} is out of range, an epoch has {len(self._copy)}")
        made = self._epoch(epoch)
        size = made.batches.size_of(made.order, step)
        is_native = all(plan.is_native() for plan in made.plans)
        self._check_size(min(size, most) if is_native and most is not None else size)
        begun = made.begin(step, most if is_native else None)
        samples = begun[0].indices
        return SeenBatch(epoch, step, size, samples, _as_arrays(made.finish(step, begun)))

    def _epoch(self, number: int) -> Epoch:
        self._copy._use_pool(self.loader._pool_pages)
        return self._copy._epoch(number, self._copy._sources.single())

    def _check_size(self, samples: int) -> None:
        forms = [form for form in self._copy.forms().values() if form.shape is not None and form.dtype is not None]
        known = [math.prod(side or 1 for side in form.shape or ()) * np.dtype(form.dtype).itemsize for form in forms]
        if (total := samples * sum(known)) > _MOST_BATCH_BYTES:
            raise ValueError(f"a batch takes {format_bytes(total)}, and {format_bytes(_MOST_BATCH_BYTES)} are shown")

    def look(self, index: int, *, seed: int, epoch: int = 0) -> Look:
        """What the loader would make of a sample if it had this seed, alone in a batch."""
        one = self._copy._remade(
            indices=[index],
            batch_size=1,
            seed=seed,
            order="sequential",
            drop_last=False,
            distributed=False,
            rank=0,
            world=1,
            on_error="raise",
        )
        made = one._epoch(epoch, one._sources.single())
        batch = _as_arrays(made.finish(0, made.begin(0)))
        return Look({name: value_at(batch[name], 0) for name in batch.keys()}, tuple(_windows(made, index)))  # noqa: SIM118

    def normalizes(self) -> dict[str, Normalize]:
        """How the values of pictures were changed in the end, by output, so that they can be shown as they were."""
        found = {}
        for plan in self._copy._plans:
            for name, runs in plan.runs_by_output().items():
                if runs and runs[-1].normalize is not None:
                    found[name] = runs[-1].normalize
        return found


def _windows(epoch: Epoch, index: int) -> list[Window]:
    job, found = replace(epoch.job, indices=np.array([index], np.int64)), []
    for plan in epoch.plans:
        if plan.kind != "image":
            continue
        spans = job.dataset.image_spans(job.indices, plan.field)
        sides = spans.heights.astype(np.int64), spans.widths.astype(np.int64)
        for output, runs in plan.runs_by_output().items():
            crops, flips = runs[0].choose_windows(job, *sides)
            row = [0, 0, int(sides[0][0]), int(sides[1][0])] if crops is None else crops[0].tolist()
            top, left, height, width = row
            found.append(Window(output, plan.field, left, top, width, height, flips is not None and bool(flips[0])))
    return found


def value_at(values: Any, position: int) -> Any:
    """The value of one sample of an output, without padding."""
    if isinstance(values, Ragged):
        return values.values[int(values.offsets[position]) : int(values.offsets[position + 1])]
    if isinstance(values, Padded):
        lengths = np.atleast_1d(values.lengths[position]).tolist()
        return values.values[position][tuple(slice(0, length) for length in lengths)]
    return values[position]


def _as_arrays(batch: Batch) -> Batch:
    return type(batch)(batch.keys(), tuple(_as_array(value) for value in batch))


def _as_array(value: Any) -> Any:
    if isinstance(value, Padded | Ragged):
        return type(value)(*(_as_array(part) for part in value))
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach()
    return tensor.float().numpy() if str(tensor.dtype) == "torch.bfloat16" else tensor.numpy()


def _without_gpu_modules(loader: Loader) -> tuple[dict[str, Pipeline | None], list[str]]:
    """The pipelines, without the modules of torch that may live on a GPU, and the names of those."""
    pipelines, dropped = dict(loader.options.ops), list[str]()
    if loader.options.framework == "torch" and loader._output is not None and loader._output.is_device:
        pipelines = {name: None if ops is None else _stripped(ops, dropped) for name, ops in pipelines.items()}
    return pipelines, dropped


def _stripped(ops: Pipeline, dropped: list[str]) -> Pipeline:
    dropped += [type(op).__name__ for op in ops if is_module(op)]
    kept: Sequence[Any] = [op for op in ops if not is_module(op)]
    return [
        {name: _stripped(branch, dropped) for name, branch in op.items()} if isinstance(op, Mapping) else op
        for op in kept
    ]
