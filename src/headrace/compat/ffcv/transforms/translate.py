"""Shift pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import ops
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.transforms.pictures import PictureStep
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["RandomTranslate"]
pass_on(globals(), "AllocationQuery Callable Compiler Operation Optional State Tuple np randint replace")


class RandomTranslate(PictureStep):
    """Shift each picture by up to ``padding`` pixels in each direction."""

    makes_memory = True  # what is declared is for subclasses

    def __init__(self, padding: int, fill: Any = (0, 0, 0)) -> None:
        super().__init__()
        self.padding = padding
        self.fill = np.array(fill)

    def as_op(self) -> ops.RandomTranslate:
        """The op of headrace that does it."""
        red, green, blue = (int(v) for v in self.fill)
        return ops.RandomTranslate(self.padding, fill=(red, green, blue))

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, AllocationQuery]:
        """Pictures in, pictures out; memory with a margin."""
        height, width, channels = previous_state.shape
        shape = (height + 2 * self.padding, width + 2 * self.padding, channels)
        return replace(previous_state, jit_mode=True), AllocationQuery(shape, previous_state.dtype)
