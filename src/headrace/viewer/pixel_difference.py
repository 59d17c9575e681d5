"""How two pictures of the same size differ: in numbers, and as a picture in which the difference is seen."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PixelDifference", "amplified", "amplify_by", "marked", "measure_pixels", "png_of"]

_STRIP = 1 << 19  # pixels that are looked at together
_MARK = np.array([255, 0, 64], np.uint8)
Pixels = npt.NDArray[np.uint8]


class PixelDifference(NamedTuple):
    """Two pictures in numbers; levels are 0 to 255 of any of the three colours.

    ``psnr_db`` is None where no pixel differs: it is infinite then.
    """

    pixels: int
    differing: int
    max_difference: int
    mean_difference: float
    psnr_db: float | None

    @property
    def share(self) -> float:
        """How many of the pixels differ, 0 to 1."""
        return self.differing / self.pixels if self.pixels else 0.0


def measure_pixels(a: Pixels, b: Pixels) -> PixelDifference:
    """Compare two pictures, height x width x 3.

    Example:
        >>> a = np.zeros((2, 2, 3), np.uint8)
        >>> b = a.copy()
        >>> b[0, 0, 1] = 10
        >>> measure_pixels(a, b)[:3], round(measure_pixels(a, b).psnr_db, 2)
        ((4, 1, 10), 38.92)
    """
    levels, differing = np.zeros(256, np.int64), 0
    for rows in _strips(a):
        apart = _apart(a[rows], b[rows])
        levels += np.bincount(apart.reshape(-1), minlength=256)
        differing += int(np.count_nonzero(_is_apart(apart)))
    steps, values = np.arange(256, dtype=np.int64), a.size
    squares = int((levels * steps * steps).sum())
    psnr_db = 10 * math.log10(255 * 255 * values / squares) if squares else None
    mean = float((levels * steps).sum()) / values if values else 0.0
    return PixelDifference(a.shape[0] * a.shape[1], differing, int(steps[levels > 0].max(initial=0)), mean, psnr_db)


def amplify_by(difference: PixelDifference) -> int:
    """By how much differences are multiplied so that they are seen, a power of two: the usual ones become bright.

    Example:
        >>> amplify_by(PixelDifference(4, 1, 10, 1.0, 38.92)), amplify_by(PixelDifference(4, 0, 0, 0.0, None))
        (16, 1)
    """
    if difference.psnr_db is None:
        return 1
    usual = 4 * 255 / 10 ** (difference.psnr_db / 20)  # four times the root mean square
    return 1 << min(7, max(0, int(255 / usual).bit_length() - 1))


def amplified(a: Pixels, b: Pixels, factor: int, side: int) -> Pixels:
    """The difference of each colour times ``factor``, no side longer than ``side``; single pixels stay visible."""
    step = _step(a, side)
    out = _empty(a, step)
    for rows, where in _blocks(a, step):
        apart = _pooled(_apart(a[rows], b[rows]), step)
        out[where] = np.minimum(apart.astype(np.uint16) * min(factor, 255), 255)
    return out


def marked(a: Pixels, b: Pixels, side: int, above: int = 0) -> Pixels:
    """The first picture, pale and grey, with every pixel in a loud colour that differs by more than ``above``."""
    step = _step(a, side)
    out = _empty(a, step)
    for rows, where in _blocks(a, step):
        grey = a[rows][::step, ::step].mean(axis=2, keepdims=True)
        pale = (128 + grey * 0.4).astype(np.uint8)
        apart = _apart(a[rows], b[rows])
        is_apart = _is_apart(apart if not above else np.where(apart > above, apart, 0))
        out[where] = np.where(_pooled(is_apart[:, :, None], step), _MARK, pale)
    return out


def png_of(pixels: Pixels) -> bytes:
    """A PNG, made fast rather than small."""
    from PIL import Image as Pillow

    out = io.BytesIO()
    Pillow.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()


def _apart(a: Pixels, b: Pixels) -> Pixels:
    found: Pixels = np.maximum(a, b) - np.minimum(a, b)
    return found


def _is_apart(apart: Pixels) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (apart[:, :, 0] | apart[:, :, 1] | apart[:, :, 2]) != 0
    return found


def _step(pixels: Pixels, side: int) -> int:
    longest = int(max(pixels.shape[:2]))
    return max(1, -(-longest // max(side, 1)))


def _empty(pixels: Pixels, step: int) -> Pixels:
    height, width = pixels.shape[:2]
    return np.zeros((-(-height // step), -(-width // step), 3), np.uint8)


def _strips(pixels: Pixels, step: int = 1) -> Iterator[slice]:
    """Rows, some at a time, so that memory does not grow with the picture; a multiple of ``step``."""
    height, width = pixels.shape[:2]
    rows = max(1, _STRIP // max(width, 1) // step) * step
    for top in range(0, height, rows):
        yield slice(top, min(top + rows, height))


def _blocks(pixels: Pixels, step: int) -> Iterator[tuple[slice, slice]]:
    """Rows of the picture, and those of the smaller one that are made of them."""
    for rows in _strips(pixels, step):
        yield rows, slice(rows.start // step, -(-rows.stop // step))


def _pooled(values: npt.NDArray[Any], step: int) -> npt.NDArray[Any]:
    """The largest value of each block of step x step."""
    if step == 1:
        return values
    height, width = values.shape[:2]
    columns = np.maximum.reduceat(values, np.arange(0, width, step), axis=1)
    return np.maximum.reduceat(columns, np.arange(0, height, step), axis=0)
