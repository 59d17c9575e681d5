"""The few functions of FFCV's C library that programs call, on arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from headrace._native import ImageLoader
from headrace.compat.ffcv.images import load_images
from headrace.types import ImageSpans

__all__ = ["imdecode", "memcpy", "read", "resize_crop"]


def read(fileno: int, destination: Any, offset: int) -> int:
    """Read bytes of a file from ``offset`` on into an array; gives their number."""
    return os.preadv(fileno, [memoryview(destination).cast("B")], offset)


def memcpy(source: Any, dest: Any) -> None:
    """Copy the bytes of one array to the beginning of another; plain enough for numba."""
    data = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
    if not dest.flags.c_contiguous:
        raise ValueError("memcpy needs a contiguous array to copy to")
    target = dest.reshape(-1).view(np.uint8)
    if len(data) > len(target):
        raise ValueError("memcpy has more bytes to copy than there is room for")
    target[: len(data)] = data


def _one(data: Any, mode: int, height: int, width: int) -> ImageSpans:
    flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return ImageSpans(
        flat,
        np.zeros(1, np.uint64),
        np.array([len(flat)], np.uint64),
        np.array([mode], np.uint8),
        np.array([width], np.uint32),
        np.array([height], np.uint32),
    )


def resize_crop(source: Any, start_row: int, end_row: int, start_col: int, end_col: int, destination: Any) -> None:
    """Resize a part of a picture into another picture, area-averaged."""
    crops = np.array([[start_row, start_col, end_row - start_row, end_col - start_col]], np.int32)
    spans = _one(source, 1, source.shape[0], source.shape[1])
    load_images(ImageLoader(1), spans, crops, destination[None], [0])


def imdecode(
    source: Any,
    dst: Any,
    source_height: int,
    source_width: int,
    crop_height: int | None = None,
    crop_width: int | None = None,
    offset_x: int = 0,
    offset_y: int = 0,
    scale_factor_num: int = 1,
    scale_factor_denom: int = 1,
    enable_crop: bool = False,
    do_flip: bool = False,
) -> int:
    """Decode a JPEG into an array, perhaps cropped and mirrored; gives 0."""
    if scale_factor_num != scale_factor_denom:
        raise ValueError("imdecode does not scale; use resize_crop on the result")
    if not dst.flags.c_contiguous:
        raise ValueError("imdecode needs a contiguous array to decode into")
    height, width = int(source_height), int(source_width)
    part = [0, 0, height, width]
    if enable_crop:
        part = [int(offset_y), int(offset_x), int(crop_height or height), int(crop_width or width)]
    size = part[2] * part[3] * 3
    out = dst.reshape(-1)[:size].reshape(1, part[2], part[3], 3)
    crops, flips = np.array([part], np.int32), np.array([do_flip], np.uint8)
    load_images(ImageLoader(1), _one(source, 0, height, width), crops, out, [0], flips=flips)
    return 0


_NATIVE: tuple[Any, ...] = (read, resize_crop, imdecode)
for _function in _NATIVE:
    _function.is_native = True  # Compiler.compile() gives them back as they are
