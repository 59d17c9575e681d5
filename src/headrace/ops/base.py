"""What ops share: the random numbers they draw, and how they say what fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from headrace import _native
from headrace._native import step_kinds

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.types import IndexArray

__all__ = [
    "CHOICE_VALUES",
    "ArrayOp",
    "Draws",
    "Form",
    "NativeStep",
    "checked_fill",
    "checked_probability",
    "checked_range",
    "native_steps",
    "picture_form",
    "step_number",
]

NativeStep: TypeAlias = "tuple[str, npt.NDArray[np.float32]]"
"""The kind of a native step, and its values: a row for each picture."""

CHOICE_VALUES = 10  # of the step "choice": the number of a kind, and its values, at most nine

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Draws:
    """The random numbers of one op for one batch, named by (seed, epoch, op, sample, draw)."""

    seed: int
    epoch: int
    op: int
    samples: IndexArray

    def uniform(self, draw: int) -> npt.NDArray[np.float64]:
        """A number in [0, 1) for each sample."""
        numbers: npt.NDArray[np.float64] = self.uniforms(draw, 1)[0]
        return numbers

    def uniforms(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """The same as rows for several draws."""
        return _native.draw_uniforms(self.words, np.ascontiguousarray(self.samples, np.int64), first, count)

    @property
    def words(self) -> list[int]:
        """What names the numbers, before sample and draw."""
        return [int(word) & _MASK for word in (self.seed, self.epoch, self.op)]


@dataclass(frozen=True, slots=True)
class Form:
    """What the values of a batch look like between two ops.

    ``shape`` is that of one value; None inside it is a side that differs from sample to sample. ``dtype`` is None when
    nothing is known (behind a function), and ``"list"`` for values that do not form an array.
    """

    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None

    @property
    def is_known(self) -> bool:
        """False behind a function, whose result shows only when it runs."""
        return self.dtype is not None

    def __str__(self) -> str:
        if not self.is_known:
            return "values of unknown shape"
        if self.shape is None:
            return "a list of values of any size"
        sides = ", ".join("?" if side is None else str(side) for side in self.shape)
        return f"{self.dtype} of shape ({sides}{',' if len(self.shape) == 1 else ''})"


@runtime_checkable
class ArrayOp(Protocol):
    """An op on the array of a whole batch, run by Python one batch after the other."""

    def form(self, before: Form) -> Form:
        """What comes out for what goes in; ValueError when it does not fit."""
        ...

    def apply(self, values: Any, draws: Draws) -> Any:
        """Work on the values of a batch; the array may be changed and given back."""
        ...


def picture_form(op: object, before: Form) -> Form:
    """Refuse what is not a batch of uint8 pictures, channels last."""
    shape = before.shape
    if before.is_known and (before.dtype != "uint8" or shape is None or len(shape) != 3 or shape[2] != 3):
        raise ValueError(
            f"{type(op).__name__} works on pictures, uint8 of shape (height, width, 3), and gets {before}; "
            "put it before Normalize, ToDtype and ToLayout"
        )
    return before if before.is_known else Form("uint8", (None, None, 3))


def native_steps(op: Any, size: tuple[int, int], draws: Draws) -> list[NativeStep]:
    """What an op does to pictures of a size (height, width): one native step, or those that it lists."""
    steps: list[NativeStep] = op.steps(size, draws) if hasattr(op, "steps") else [(op.kind, op.step(size, draws))]
    return steps


def step_number(kind: str) -> float:
    """How the step "choice" names a kind of step."""
    return float(step_kinds().index(kind))


def checked_range(name: str, limits: tuple[float, float], low: float, high: float = np.inf) -> tuple[float, float]:
    """Two ascending numbers within limits."""
    pair = tuple(float(limit) for limit in limits)
    if len(pair) != 2 or not low <= pair[0] <= pair[1] <= high or pair[1] == np.inf:
        most = "" if high == np.inf else f" and at most {high:g}"
        raise ValueError(f"{name} must be two ascending numbers, at least {low:g}{most}, got {limits}")
    return pair[0], pair[1]


def checked_probability(probability: float) -> None:
    """Refuse what is no probability."""
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be 0 to 1, got {probability}")


def checked_fill(fill: int | tuple[int, int, int]) -> tuple[int, int, int]:
    """A colour from one number or three."""
    colour = tuple(index(part) for part in (fill if isinstance(fill, Iterable) else (fill, fill, fill)))
    if len(colour) != 3 or min(colour) < 0 or max(colour) > 255:
        raise ValueError(f"fill must be a number or three, 0 to 255, got {fill}")
    return colour[0], colour[1], colour[2]
