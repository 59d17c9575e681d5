"""Mixup: every sample is blended with the one before it in the batch, picture and label by the same share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.ops.base import Form
from headrace.ops.labels import check_labels

if TYPE_CHECKING:
    from headrace.ops.base import Draws

__all__ = ["ImageMixup", "LabelMixup", "MixupToOneHot"]

_MIXABLE = ("uint8", "float16", "float32")


@dataclass(frozen=True, slots=True)
class _Mixup:
    """The share that a sample keeps is drawn from Beta(alpha, alpha).

    Args:
        alpha: above 0; the smaller, the more samples stay nearly as they are.
        same_share: one share for the whole batch instead of one for each sample.
        share: ops with the same word draw the same numbers, so that pictures and labels agree.
    """

    alpha: float
    same_share: bool = False
    share: str = "mixup"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be above 0, got {self.alpha}")

    def shares(self, draws: Draws) -> npt.NDArray[np.float32]:
        """What each sample of the batch keeps of itself."""
        if self.same_share and len(draws.samples):
            one = type(draws)(draws.seed, draws.epoch, draws.op, draws.samples[-1:])
            return np.repeat(random_beta(self.alpha, one), len(draws.samples)).astype(np.float32)
        return random_beta(self.alpha, draws).astype(np.float32)


class ImageMixup(_Mixup):
    """Blend each picture with the one before it in the batch (the first with the last).

    Args:
        alpha: above 0; the share that a sample keeps is drawn from Beta(alpha, alpha).
        same_share: one share for the whole batch instead of one for each sample.
        share: LabelMixup with the same word draws the same numbers.
    """

    __slots__ = ()

    def form(self, before: Form) -> Form:
        """An array in, an array of the same form out."""
        if before.is_known and (before.shape is None or before.dtype not in _MIXABLE):
            raise ValueError(f"ImageMixup takes arrays of {', '.join(_MIXABLE)}, and gets {before}")
        return before

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[Any]:
        """Blend a batch."""
        array = np.asarray(values)
        if array.ndim == 4 and not array.flags.c_contiguous and array.transpose(0, 2, 3, 1).flags.c_contiguous:
            return self.apply(array.transpose(0, 2, 3, 1), draws).transpose(0, 3, 1, 2)  # channels last stay last
        array = np.ascontiguousarray(array)
        if array.dtype.name not in _MIXABLE:
            raise ValueError(f"ImageMixup takes arrays of {', '.join(_MIXABLE)}, and gets {array.dtype}")
        out = np.empty_like(array)
        _native.mix(array, self.shares(draws), out)
        return out


class LabelMixup(_Mixup):
    """A label becomes (label, label of the sample before it in the batch, share it keeps), as float32.

    Arguments as ImageMixup.
    """

    __slots__ = ()

    def form(self, before: Form) -> Form:
        """One number in, three out."""
        if before.is_known and before.shape not in ((), (1,)):
            raise ValueError(f"LabelMixup takes one label for each sample, and gets {before}")
        return Form("float32", (3,))

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[np.float32]:
        """Pair the labels of a batch."""
        labels = np.asarray(values).reshape(len(values)).astype(np.float32)
        return np.stack([labels, np.roll(labels, 1), self.shares(draws)], axis=1)


@dataclass(frozen=True, slots=True)
class MixupToOneHot:
    """What LabelMixup gives, as a row of shares for each sample.

    Args:
        num_classes: length of the row.
    """

    num_classes: int

    def __post_init__(self) -> None:
        if self.num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, got {self.num_classes}")

    def form(self, before: Form) -> Form:
        """Three numbers in, a row out."""
        if before.is_known and before.shape != (3,):
            raise ValueError(f"MixupToOneHot takes what LabelMixup gives, float32 of shape (3,), and gets {before}")
        return Form("float32", (self.num_classes,))

    def apply(self, values: Any, draws: Draws) -> npt.NDArray[np.float32]:
        """Turn a batch into rows that sum to one."""
        mixed = np.asarray(values, np.float32)
        out = np.zeros((len(mixed), self.num_classes), np.float32)
        rows = np.arange(len(mixed))
        for column, shares in ((0, mixed[:, 2]), (1, 1 - mixed[:, 2])):
            labels = mixed[:, column].astype(np.int64)
            check_labels(self, labels, self.num_classes, draws)
            out[rows, labels] += shares
        return out


def random_beta(alpha: float, draws: Draws) -> npt.NDArray[np.float64]:
    """A number from Beta(alpha, alpha) for each sample."""
    first, second = _log_gamma(alpha, draws, 0), _log_gamma(alpha, draws, 1)
    return 1 / (1 + np.exp(np.clip(second - first, -700, 700)))


def _log_gamma(alpha: float, draws: Draws, stream: int) -> npt.NDArray[np.float64]:
    """Logarithms of Gamma(alpha) numbers, by Marsaglia and Tsang's rejection; logarithms, for alpha may be tiny."""
    shape = alpha if alpha >= 1 else alpha + 1
    d = shape - 1 / 3
    c = 1 / np.sqrt(9 * d)
    result = np.zeros(len(draws.samples))
    is_open = np.ones(len(draws.samples), bool)
    attempt = 0
    while is_open.any():
        at = 2 + 8 * attempt + 4 * stream
        radius = np.sqrt(-2 * np.log1p(-draws.uniform(at)))
        x = radius * np.cos(2 * np.pi * draws.uniform(at + 1))
        v = (1 + c * x) ** 3
        log_v = np.log(np.maximum(v, 1e-300))
        u = np.log1p(-draws.uniform(at + 2))
        fits = is_open & (v > 0) & (u < 0.5 * x * x + d - d * v + d * log_v)
        result[fits] = (np.log(d) + log_v)[fits]
        is_open &= ~fits
        attempt += 1
    if alpha < 1:
        result += np.log1p(-draws.uniform(stream)) / alpha
    return result
