"""Ops on numbers and small arrays: labels, axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.ops.base import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.ops.base import Draws

__all__ = ["OneHot", "ReplaceLabel", "Squeeze"]


@dataclass(frozen=True, slots=True, init=False)
class ReplaceLabel:
    """Give some samples another label.

    Args:
        indices: the samples, by their index in the dataset.
        label: the label they get.
    """

    indices: tuple[int, ...]
    label: int

    def __init__(self, indices: Sequence[int], label: int) -> None:
        object.__setattr__(self, "indices", tuple(sorted({int(i) for i in indices})))
        object.__setattr__(self, "label", int(label))

    def form(self, before: Form) -> Form:
        """Whole numbers in, whole numbers out."""
        return _whole_numbers(self, before)

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Replace the labels of the chosen samples."""
        labels = np.array(values)
        labels[np.isin(draws.samples, self.indices)] = self.label
        return labels


@dataclass(frozen=True, slots=True)
class OneHot:
    """A label as a row of zeros with a one.

    Args:
        num_classes: length of the row.
        dtype: of the row.
    """

    num_classes: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype).name)
        if self.num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, got {self.num_classes}")

    def form(self, before: Form) -> Form:
        """One whole number in, a row out."""
        form = _whole_numbers(self, before)
        if form.is_known and form.shape not in ((), (1,)):
            raise ValueError(f"OneHot takes one label for each sample, and gets {before}")
        return Form(self.dtype, (self.num_classes,))

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Turn a batch of labels into rows."""
        labels = np.asarray(values).reshape(len(values))
        check_labels(self, labels, self.num_classes, draws)
        out = np.zeros((len(labels), self.num_classes), self.dtype)
        out[np.arange(len(labels)), labels] = 1
        return out


@dataclass(frozen=True, slots=True, init=False)
class Squeeze:
    """Leave out axes of length 1; without arguments all of them.

    Args:
        axes: axes of one value, counted from 0 (the batch does not count), or from the end.
    """

    axes: tuple[int, ...]

    def __init__(self, *axes: int) -> None:
        object.__setattr__(self, "axes", tuple(int(axis) for axis in axes))

    def form(self, before: Form) -> Form:
        """An array in, one with fewer axes out."""
        if not before.is_known:
            return before
        if before.shape is None:
            raise ValueError(f"Squeeze works on arrays, and gets {before}")
        axes = self._axes(before.shape)
        return Form(before.dtype, tuple(side for i, side in enumerate(before.shape) if i not in axes))

    def _axes(self, shape: tuple[int | None, ...]) -> set[int]:
        if not self.axes:
            return {i for i, side in enumerate(shape) if side == 1}
        axes = {axis % len(shape) if -len(shape) <= axis < len(shape) else -1 for axis in self.axes}
        if any(axis < 0 or shape[axis] != 1 for axis in axes):
            raise ValueError(f"Squeeze{self.axes} needs axes of length 1, and a value has the shape {shape}")
        return axes

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Leave out the axes."""
        array = np.asarray(values)
        axes = self._axes(array.shape[1:])
        return array.squeeze(tuple(axis + 1 for axis in axes))


def check_labels(op: object, labels: npt.NDArray[Any], num_classes: int, draws: Draws) -> None:
    """Refuse labels that are not whole numbers from 0 to below num_classes."""
    if labels.dtype.kind not in "iub":
        raise ValueError(f"{op} takes whole numbers, and gets {labels.dtype}")
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(outside):
        i = int(outside[0])
        raise ValueError(f"{op}: the label of sample {draws.samples[i]} is {labels[i]}, outside 0 to {num_classes - 1}")


def _whole_numbers(op: object, before: Form) -> Form:
    if before.is_known and (before.shape is None or np.dtype(before.dtype).kind not in "iub"):
        raise ValueError(f"{type(op).__name__} takes whole numbers, and gets {before}")
    return before
