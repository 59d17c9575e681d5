"""A random part of decoded pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import ops
from headrace._native import ImageLoader
from headrace.compat.ffcv.images import load_images
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.compiler import Compiler
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.ffcv.transforms.pictures import own_draws, spans_of, target_for
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State
    from headrace.ops import Draws

__all__ = ["RandomResizedCrop"]
pass_on(globals(), "AllocationQuery Callable Compiler Operation Optional State Tuple fast_crop np replace")


class RandomResizedCrop(Operation):
    """A random part of each picture, resized to a square; decoders that crop are faster."""

    def __init__(self, scale: Any, ratio: Any, size: int) -> None:
        super().__init__()
        self.scale = scale
        self.ratio = ratio
        self.size = size

    def generate_code(self) -> Callable[..., Any]:
        """A function of (pictures, memory)."""
        native = ImageLoader(max(1, Compiler.num_threads))
        low, high = (float(v) for v in self.scale)
        narrow, wide = (float(v) for v in self.ratio)
        op = ops.RandomResizedCrop(self.size, scale=(low, high), ratio=(narrow, wide))

        def crop(images: Any, dst: Any, draws: Draws | None = None) -> Any:
            images = np.ascontiguousarray(images)
            spans = spans_of(images)
            sides = spans.heights.astype(np.int64), spans.widths.astype(np.int64)
            out = target_for((len(images), self.size, self.size, 3), dst)
            crops = op.crops(*sides, own_draws(len(images)) if draws is None else draws)
            load_images(native, spans, crops, out, np.arange(len(images)))
            return out

        crop.with_draws = True  # type: ignore[attr-defined]
        crop.is_native = True  # type: ignore[attr-defined]
        return crop

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """Squares."""
        shape = (self.size, self.size, 3)
        return replace(previous_state, jit_mode=True, shape=shape), AllocationQuery(shape, previous_state.dtype)
