"""Mirror pictures."""

from __future__ import annotations

from headrace import ops
from headrace.compat.ffcv.transforms.pictures import PictureStep
from headrace.compat.passed_on import pass_on

__all__ = ["RandomHorizontalFlip"]
pass_on(globals(), "AllocationQuery Callable Compiler Operation Optional State Tuple rand replace")


class RandomHorizontalFlip(PictureStep):
    """Mirror each picture with a probability."""

    def __init__(self, flip_prob: float = 0.5) -> None:
        super().__init__()
        self.flip_prob = flip_prob

    def as_op(self) -> ops.RandomHorizontalFlip:
        """The op of headrace that does it."""
        return ops.RandomHorizontalFlip(self.flip_prob)
