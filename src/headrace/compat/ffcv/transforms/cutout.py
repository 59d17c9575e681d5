"""Fill a random square."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import ops
from headrace.compat.ffcv.transforms.pictures import PictureStep
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.pipeline.state import State

__all__ = ["Cutout"]
pass_on(globals(), "AllocationQuery Callable Compiler Operation Optional State Tuple np replace")


class Cutout(PictureStep):
    """Fill a random square of each picture with a colour."""

    def __init__(self, crop_size: int, fill: Any = (0, 0, 0)) -> None:
        super().__init__()
        self.crop_size = crop_size
        self.fill = np.array(fill)

    def as_op(self) -> ops.Cutout:
        """The op of headrace that does it."""
        red, green, blue = (int(v) for v in self.fill)
        return ops.Cutout(self.crop_size, fill=(red, green, blue))

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, None]:
        """Pictures in, pictures out."""
        return replace(previous_state, jit_mode=True), None
