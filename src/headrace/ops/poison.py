"""A pattern blended into chosen pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form, picture_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.ops.base import Draws

__all__ = ["Poison"]


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Poison:
    """picture * (1 - alpha) + mask * alpha for chosen samples: for studies of backdoors.

    Args:
        mask: float array (height, width, 3), or what broadcasts to it.
        alpha: how much of the mask, one number or an array that broadcasts to the picture.
        indices: the samples, by their index in the dataset.
        clamp: smallest and largest value that come out.
    """

    mask: npt.NDArray[np.float32] = field(repr=False)
    alpha: npt.NDArray[np.float32] = field(repr=False)
    indices: tuple[int, ...]
    clamp: tuple[float, float]
    digest: int

    def __init__(
        self,
        mask: npt.ArrayLike,
        alpha: npt.ArrayLike,
        indices: Sequence[int],
        clamp: tuple[float, float] = (0, 255),
    ) -> None:
        from headrace._native import crc32c

        object.__setattr__(self, "mask", np.array(mask, np.float32))
        object.__setattr__(self, "alpha", np.array(alpha, np.float32))
        object.__setattr__(self, "indices", tuple(sorted({int(i) for i in indices})))
        object.__setattr__(self, "clamp", (float(clamp[0]), float(clamp[1])))
        object.__setattr__(self, "digest", crc32c(self.mask.tobytes() + self.alpha.tobytes()))
        if not 0 <= self.clamp[0] <= self.clamp[1] <= 255:
            raise ValueError(f"clamp must be two ascending numbers, 0 to 255, got {clamp}")

    def form(self, before: Form) -> Form:
        """Pictures in, pictures out; the mask must fit them."""
        after = picture_form(self, before)
        shape = after.shape
        known = tuple(side for side in shape or () if side is not None)
        if len(known) == 3 and not self._fits(known):
            raise ValueError(
                f"Poison has a mask of shape {self.mask.shape} and alpha of shape {self.alpha.shape}, "
                f"and gets pictures, {before}"
            )
        return after

    def _fits(self, shape: tuple[int, ...]) -> bool:
        try:
            return np.broadcast_shapes(self.mask.shape, self.alpha.shape, shape) == shape
        except ValueError:
            return False

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Blend the mask into the chosen pictures of a batch."""
        for i in np.flatnonzero(np.isin(draws.samples, self.indices)).tolist():
            blended = values[i] * (1 - self.alpha) + self.mask * self.alpha
            values[i] = np.clip(blended, *self.clamp)
        pictures: npt.NDArray[Any] = values
        return pictures
