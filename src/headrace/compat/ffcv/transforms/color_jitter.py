"""Brightness, contrast, saturation."""

from __future__ import annotations

from typing import Any

from headrace import ops
from headrace.compat.ffcv.transforms.pictures import PictureStep
from headrace.compat.passed_on import pass_on

__all__ = ["RandomBrightness", "RandomContrast", "RandomSaturation"]
pass_on(globals(), "AllocationQuery Compiler Operation State np replace")


class _Jitter(PictureStep):
    _op: Any

    def __init__(self, magnitude: float, p: float = 0.5) -> None:
        super().__init__()
        self.p = p
        self.magnitude = magnitude

    def as_op(self) -> Any:
        """The op of headrace that does it."""
        return self._op(self.magnitude, self.p)


class RandomBrightness(_Jitter):
    """Blend pictures with black by a random factor."""

    _op = ops.RandomBrightness


class RandomContrast(_Jitter):
    """Blend pictures with their mean grey by a random factor."""

    _op = ops.RandomContrast


class RandomSaturation(_Jitter):
    """Blend pictures with their grey versions by a random factor."""

    _op = ops.RandomSaturation
