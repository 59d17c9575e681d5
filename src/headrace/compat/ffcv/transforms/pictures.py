"""What the transforms on pictures share: an op of headrace does the work on a batch of uint8 pictures.

Inside a loader runs of them, together with the decoder, are one native call; by itself each one is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import ImageLoader
from headrace.compat.ffcv.images import load_images
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.compiler import Compiler
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.ops import Draws
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["PictureStep", "own_draws", "spans_of", "target_for"]


class PictureStep(Operation):
    """A step of the native call: flip, colour, translate, cut out."""

    makes_memory = False

    def as_op(self) -> Any:
        """The op of headrace that does it."""
        raise NotImplementedError

    def generate_code(self) -> Callable[..., Any]:
        """A function of (pictures, memory)."""
        native = ImageLoader(max(1, Compiler.num_threads))

        def step(images: Any, dst: Any, draws: Draws | None = None) -> Any:
            images = np.ascontiguousarray(images)
            op, spans, samples = self.as_op(), spans_of(images), np.arange(len(images))
            out = target_for(images.shape, dst)
            values = op.step(images.shape[1:3], own_draws(len(images)) if draws is None else draws)
            load_images(native, spans, None, out, samples, steps=[(op.kind, values)])
            return out

        step.is_native = True  # type: ignore[attr-defined]
        step.with_draws = True  # type: ignore[attr-defined]
        step.makes_memory = self.makes_memory  # type: ignore[attr-defined]
        return step

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery | None]:
        """Pictures in, pictures out."""
        return replace(previous_state, jit_mode=True), AllocationQuery(previous_state.shape, previous_state.dtype)


def target_for(shape: tuple[int, ...], dst: Any) -> Any:
    """Where a batch of pictures goes: into the memory that was given, if it fits, else into new memory."""
    if isinstance(dst, np.ndarray) and dst.dtype == np.uint8 and dst.flags.c_contiguous and dst.shape[1:] == shape[1:]:
        return dst[: shape[0]]
    return np.empty(shape, np.uint8)


def own_draws(count: int) -> Draws:
    """Random numbers where no loader gives them: numpy's global generator decides."""
    return Draws(int(np.random.randint(1 << 31)), 0, 0, np.arange(count, dtype=np.int64))


def spans_of(images: Any) -> ImageSpans:
    """A batch of pictures in memory, seen as stored raw pictures."""
    count, height, width, _ = images.shape
    size = height * width * 3
    offsets = np.arange(count, dtype=np.uint64) * np.uint64(size)
    sides = (np.full(count, width, np.uint32), np.full(count, height, np.uint32))
    return ImageSpans(images.reshape(-1), offsets, np.full(count, size, np.uint64), np.ones(count, np.uint8), *sides)
