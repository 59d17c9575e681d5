"""simplejpeg and OpenCV in a plain loop of one thread: the fastest way that is written in a few lines of Python.

JPEGs are decoded whole by libjpeg-turbo with its fast transform, and resized without antialiasing: less work than what
the others do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import simplejpeg

from headrace.bench.peers.pillow_crop import draw_box
from headrace.formats.open import open_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bench.peers.contender import Place

__all__ = ["SimplejpegLoader"]

_KEPT = 224 / 256
"""Share of the shorter side that validation takes."""


class SimplejpegLoader:
    """The JPEGs of a .beton, which are in memory before the first epoch."""

    def __init__(self, place: Place) -> None:
        cv2.setNumThreads(1)
        self._place = place
        self._rng = np.random.default_rng(0)
        with open_dataset(Path(place.folder, str(place.options.get("file", "x.beton")))) as dataset:
            self._jpegs = dataset.read_bytes(np.arange(len(dataset)), "image")

    def write(self) -> None:
        """Nothing: it reads the .beton of others."""

    def epoch(self) -> Iterable[Any]:
        """Batches in memory of their own, whose channels stand first as a view: it is not made to copy them."""
        side = self._place.side
        order = self._rng.permutation(len(self._jpegs))
        for first in range(0, len(order), self._place.batch):
            chosen = order[first : first + self._place.batch]
            batch = np.empty((len(chosen), side, side, 3), np.uint8)
            for slot, number in zip(batch, chosen, strict=True):
                part = self._part(simplejpeg.decode_jpeg(self._jpegs[number], fastdct=True))
                if self._place.options.get("flip") and self._rng.random() < 0.5:
                    part = part[:, ::-1]
                cv2.resize(part, (side, side), dst=slot, interpolation=cv2.INTER_LINEAR)
            yield batch.transpose(0, 3, 1, 2)

    def _part(self, pixels: Any) -> Any:
        height, width = pixels.shape[:2]
        if self._place.options.get("crop") == "center":
            short = int(min(height, width) * _KEPT)
            left, top, w, h = (width - short) // 2, (height - short) // 2, short, short
        else:
            left, top, w, h = draw_box(width, height, self._rng)
        return pixels[top : top + h, left : left + w]

    def whole(self, data: bytes) -> Any:
        """By the same decoder and filter."""
        side = self._place.side
        return cv2.resize(simplejpeg.decode_jpeg(data, fastdct=True), (side, side), interpolation=cv2.INTER_LINEAR)
