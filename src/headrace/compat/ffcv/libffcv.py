"""FFCV's C library: functions on arrays, and what they call.

A function of a user's that numba compiles calls them by address, as it does FFCV's: ``Compiler.compile`` takes the
short form of each, ``for_numba``. Called from Python, they check their arguments.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import CDLL, c_bool, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from headrace._native import ImageLoader, _core
from headrace.compat.ffcv.images import load_images
from headrace.compat.passed_on import pass_on
from headrace.types import ImageSpans

__all__ = [
    "ctypes_imdecode",
    "ctypes_memcopy",
    "ctypes_resize",
    "imdecode",
    "lib",
    "libc",
    "memcpy",
    "read",
    "read_c",
    "resize_crop",
]
pass_on(
    globals(),
    "CDLL POINTER c_bool c_int64 c_uint32 c_uint64 c_uint8 c_void_p cdll ctypes njit np platform",
    ffcv="headrace.compat.ffcv",
)

lib = CDLL(_core.__file__)
libc = CDLL(None)
read_c = libc.pread
read_c.argtypes = [c_uint32, c_void_p, c_uint64, c_uint64]
read_c.restype = c_int64
ctypes_resize = lib.resize
ctypes_resize.argtypes = [c_int64] * 11
ctypes_imdecode = lib.imdecode
ctypes_imdecode.argtypes = [c_void_p, c_uint64, c_uint32, c_uint32, c_void_p, *[c_uint32] * 6, c_bool, c_bool]
ctypes_memcopy = lib.my_memcpy
ctypes_memcopy.argtypes = [c_void_p, c_void_p, c_uint64]
ctypes_memcopy.restype = None
_failure = ctypes.create_string_buffer(256)


def take_failure() -> str | None:
    """What went wrong first in calls by address since this was asked last."""
    return _failure.value.decode() if lib.take_failure(_failure, len(_failure)) else None


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


def _imdecode_by_address(
    source: Any,
    dst: Any,
    source_height: int,
    source_width: int,
    crop_height: int,
    crop_width: int,
    offset_x: int = 0,
    offset_y: int = 0,
    scale_factor_num: int = 1,
    scale_factor_denom: int = 1,
    enable_crop: bool = False,
    do_flip: bool = False,
) -> Any:
    return ctypes_imdecode(
        source.ctypes.data,
        source.size,
        source_height,
        source_width,
        dst.ctypes.data,
        crop_height,
        crop_width,
        offset_x,
        offset_y,
        scale_factor_num,
        scale_factor_denom,
        enable_crop,
        do_flip,
    )


def _resize_crop_by_address(
    source: Any, start_row: int, end_row: int, start_col: int, end_col: int, destination: Any
) -> None:
    ctypes_resize(
        0,
        source.ctypes.data,
        source.shape[0],
        source.shape[1],
        start_row,
        end_row,
        start_col,
        end_col,
        destination.ctypes.data,
        destination.shape[0],
        destination.shape[1],
    )


_NATIVE: tuple[tuple[Any, Any], ...] = (
    (read, None),
    (resize_crop, _resize_crop_by_address),
    (imdecode, _imdecode_by_address),
)
for _function, _for_numba in _NATIVE:
    _function.is_native = _for_numba is None  # Compiler.compile() gives it back as it is
    _function.for_numba = _for_numba
