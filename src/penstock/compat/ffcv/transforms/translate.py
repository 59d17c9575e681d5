"""Shift pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock import ops
from penstock.compat.ffcv.transforms.pictures import PictureStep

__all__ = ["RandomTranslate"]


class RandomTranslate(PictureStep):
    """Shift each picture by up to ``padding`` pixels in each direction."""

    def __init__(self, padding: int, fill: Any = (0, 0, 0)) -> None:
        super().__init__()
        self.padding = padding
        self.fill = np.array(fill)

    def as_op(self) -> ops.RandomTranslate:
        """The op of penstock that does it."""
        red, green, blue = (int(v) for v in self.fill)
        return ops.RandomTranslate(self.padding, fill=(red, green, blue))
