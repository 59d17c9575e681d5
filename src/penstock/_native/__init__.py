"""The only importer of the compiled extension."""

from __future__ import annotations

import warnings

from penstock._native._core import (
    DEBUG,
    AllocationTable,
    ImageLoader,
    JpegInfo,
    JpegTilesInfo,
    MappingGuard,
    NativeError,
    PathIndex,
    RangeReader,
    crc32,
    crc32_spans,
    crc32c,
    crc32c_buffers,
    crc32c_rows,
    crc32c_spans,
    decode_jpeg,
    encode_jpeg,
    gather,
    gather_into,
    jpeg_info,
    jpeg_tiles,
    jpeg_tiles_info,
    mix,
    place,
    quasi_random_order_ffcv,
    resize_area,
    set_simd_level,
    simd_level,
    slice_jpeg,
    store_jpegs,
)

__all__ = [
    "AllocationTable",
    "ImageLoader",
    "JpegInfo",
    "JpegTilesInfo",
    "MappingGuard",
    "NativeError",
    "PathIndex",
    "RangeReader",
    "crc32",
    "crc32_spans",
    "crc32c",
    "crc32c_buffers",
    "crc32c_rows",
    "crc32c_spans",
    "decode_jpeg",
    "encode_jpeg",
    "gather",
    "gather_into",
    "jpeg_info",
    "jpeg_tiles",
    "jpeg_tiles_info",
    "mix",
    "place",
    "quasi_random_order_ffcv",
    "resize_area",
    "set_simd_level",
    "simd_level",
    "slice_jpeg",
    "store_jpegs",
]

if DEBUG:
    warnings.warn("penstock's native core is a debug build: it is slow", RuntimeWarning, stacklevel=2)
