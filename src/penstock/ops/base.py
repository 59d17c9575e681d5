"""What ops share: the random numbers they draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.counter_random import random_uniform

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock.types import IndexArray

__all__ = ["Draws"]


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one op for one batch, named by (seed, epoch, op, sample, draw)."""

    seed: int
    epoch: int
    op: int
    samples: IndexArray

    def uniform(self, draw: int) -> npt.NDArray[np.float64]:
        """A number in [0, 1) for each sample."""
        return random_uniform(self.seed, self.epoch, self.op, self.samples, draw)
