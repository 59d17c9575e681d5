"""Photographs: the user's own, or photo-like pictures that are made up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headrace.codecs import jpeg

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.bench.suite import Settings

__all__ = ["find_photographs", "photo", "photograph_bytes", "photograph_count", "typical_bytes"]

_QUALITY = 92
_QUICK_BYTES, _FULL_BYTES, _LEAST = 32 << 20, 512 << 20, 16
_MOST_MADE_UP = 2000
_TYPICAL_BYTES = 40_000
"""Of a picture that is made up; none is larger."""


def find_photographs(folder: str | Path, most: int) -> list[Path]:
    """The first JPEG files below a folder that can be decoded, in the order of their names.

    Raises:
        ValueError: there are none.
    """
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"{os.fspath(folder)} is not a folder; name one with JPEG files in it")
    found: list[Path] = []
    for path in sorted(Path(folder).rglob("*")):
        if len(found) == most:
            break
        if path.suffix.lower() in (".jpg", ".jpeg") and path.is_file() and _is_fit(path):
            found.append(path)
    if not found:
        raise ValueError(f"{os.fspath(folder)}: no JPEG file below this folder can be read; name one with photographs")
    return found


def _is_fit(path: Path) -> bool:
    """It is a plain JPEG: other loaders decode it, too."""
    try:
        info = jpeg.read_info(path.read_bytes())
    except (OSError, ValueError):
        return False
    return jpeg.is_plain(info) and info.color_space != "grayscale"


def photograph_count(settings: Settings, *, quick: int, full: int, full_bytes: int = _FULL_BYTES) -> int:
    """How many photographs a suite takes: fewer of large ones, so that a quick run stays quick, unless it was told."""
    count = settings.count(quick=quick, full=full)
    if settings.images is None or settings.samples is not None:
        return count
    sizes = [path.stat().st_size for path in find_photographs(settings.images, count)]
    budget = _QUICK_BYTES if settings.quick else full_bytes
    return max(_LEAST, min(count, budget * len(sizes) // sum(sizes)))


def photograph_bytes(images: str | None, count: int) -> list[bytes]:
    """So many JPEGs: those of a folder, or made-up ones; again from the first where there are fewer."""
    if images is None:
        different = min(count, _MOST_MADE_UP)
        return repeated([jpeg.encode(photo(number), quality=_QUALITY) for number in range(different)], count)
    files = [path.read_bytes() for path in find_photographs(images, count)]
    return repeated(files, count)


def repeated(values: Sequence[bytes], count: int) -> list[bytes]:
    """The values again and again until there are so many.

    Example:
        >>> repeated([b"a", b"b"], 3)
        [b'a', b'b', b'a']
    """
    return [values[number % len(values)] for number in range(count)]


def typical_bytes(images: str | None, count: int) -> int:
    """About how much so many photographs take; at most, for made-up ones."""
    if images is None:
        return count * _TYPICAL_BYTES
    sizes = [path.stat().st_size for path in find_photographs(images, count)]
    return sum(sizes) * -(-count // len(sizes))


def photo(seed: int) -> npt.NDArray[np.uint8]:
    """A photo-like picture: smooth colour fields of several sizes, hard edges, mild noise."""
    rng = np.random.default_rng(seed)
    height, width = (int(v) for v in rng.integers(160, 361, 2))
    pixels = np.full((height, width, 3), 128.0, np.float32)
    for detail, strength in ((3, 60.0), (9, 30.0), (40, 12.0)):
        coarse = rng.normal(0, strength, (detail, detail, 3)).astype(np.float32)
        across = np.zeros((width, detail, 3), np.float32)
        _add_stretched(across, coarse.transpose(1, 0, 2))
        _add_stretched(pixels, across.transpose(1, 0, 2))
    top, left = int(rng.integers(0, height // 2)), int(rng.integers(0, width // 2))
    pixels[top : top + height // 3, left : left + width // 4] += rng.normal(0, 40, 3).astype(np.float32)
    pixels += rng.standard_normal((height, width, 1), np.float32) * 4
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _add_stretched(target: npt.NDArray[np.float32], values: npt.NDArray[np.float32]) -> None:
    """Stretch the first axis of ``values`` linearly to the target's, and add it.

    Not as a matrix product, whose threads would fight with those of the caller.
    """
    place = np.linspace(0, len(values) - 1, len(target), dtype=np.float32)
    below = np.minimum(place.astype(np.intp), len(values) - 2)
    part = np.empty_like(target)
    np.take(np.diff(values, axis=0), below, axis=0, out=part, mode="clip")
    part *= (place - below).astype(np.float32)[:, None, None]
    target += part
    target += np.take(values, below, axis=0, out=part, mode="clip")
