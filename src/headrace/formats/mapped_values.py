"""Values that lie in a mapped file as they are: taken out many at once, and pictures for the loader without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._native import gather
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError, ImageError
from headrace.formats.contract import join_images
from headrace.storage import check_mapping
from headrace.types import ImageSpans

if TYPE_CHECKING:
    from headrace.types import IndexArray

__all__ = ["Places", "pictures_in_place", "take_bytes"]


class Places(NamedTuple):
    """Where values are in a file; all of them were checked to lie inside."""

    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]


def take_bytes(path: str, mapped: npt.NDArray[np.uint8], places: Places) -> list[bytes]:
    """The values; FormatError when the file was cut short meanwhile."""
    values = gather(mapped, places.offsets, places.sizes) if len(mapped) else [b""] * len(places.offsets)
    check_mapping(mapped, path)
    return values


def pictures_in_place(
    path: str, field: str, indices: IndexArray, mapped: npt.NDArray[np.uint8], places: Places
) -> ImageSpans:
    """Pictures for the loader: spans of the file where all of them are JPEGs, a copy where some are not."""
    sides = np.zeros((len(indices), 2), np.uint32)
    for position, (start, size) in enumerate(zip(places.offsets.tolist(), places.sizes.tolist(), strict=True)):
        data = mapped[start : start + size]
        try:
            if not size or not jpeg.is_jpeg(data) or not jpeg.is_plain(info := jpeg.read_info(data)):
                return join_images(path, field, indices, take_bytes(path, mapped, places))
        except ImageError as error:
            sample = int(indices[position])
            raise CorruptSampleError(path, sample=sample, field=field, problem=str(error), offset=start) from error
        sides[position] = info.width, info.height
    check_mapping(mapped, path)
    modes = np.zeros(len(indices), np.uint8)
    return ImageSpans(mapped, places.offsets, places.sizes, modes, sides[:, 0].copy(), sides[:, 1].copy())
