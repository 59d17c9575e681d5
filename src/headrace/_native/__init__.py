"""The only importer of the compiled extension."""

from __future__ import annotations

import functools
import os
import warnings
from pathlib import Path

from headrace._native import _core
from headrace._native._core import (
    DEBUG,
    AllocationTable,
    BetonColumn,
    BufferPool,
    FfrTable,
    FileRows,
    FileTable,
    GpuImageLoader,
    ImageLoader,
    JpegInfo,
    LoadCounts,
    LoadFailure,
    LoadNote,
    LoadOptions,
    LoadReport,
    MappingGuard,
    MemberGroups,
    MsgpackScanner,
    NativeError,
    PathIndex,
    PlaceReader,
    PooledBuffer,
    RangeReader,
    TarScanner,
    TextList,
    TextRecords,
    TileIndexInfo,
    ZipFiles,
    check_ffr_header,
    check_ffr_offsets,
    crc32,
    crc32_buffers,
    crc32_spans,
    crc32c,
    crc32c_buffers,
    crc32c_file,
    crc32c_rows,
    crc32c_spans,
    decode_jpeg,
    decode_msgpack_floats,
    decode_msgpack_ints,
    draw_resized_crops,
    draw_uniforms,
    encode_jpeg,
    find_wrong_row,
    gather,
    gather_into,
    gpu_can,
    gpu_driver_is_open,
    group_members,
    interleave,
    jpeg_info,
    jpeg_sides,
    locate_tile_indices,
    make_tile_index,
    mix,
    permute,
    place,
    quasi_random_order_ffcv,
    resize_area,
    set_simd_level,
    simd_level,
    slice_jpeg,
    step_kinds,
    store_jpegs,
    tar_files,
    tar_header,
    tar_members,
    tile_index_info,
)

__all__ = [
    "AllocationTable",
    "BetonColumn",
    "BufferPool",
    "FfrTable",
    "FileRows",
    "FileTable",
    "GpuImageLoader",
    "ImageLoader",
    "JpegInfo",
    "LoadCounts",
    "LoadFailure",
    "LoadNote",
    "LoadOptions",
    "LoadReport",
    "MappingGuard",
    "MemberGroups",
    "MsgpackScanner",
    "NativeError",
    "PathIndex",
    "PlaceReader",
    "PooledBuffer",
    "RangeReader",
    "TarScanner",
    "TextList",
    "TextRecords",
    "TileIndexInfo",
    "ZipFiles",
    "check_ffr_header",
    "check_ffr_offsets",
    "crc32",
    "crc32_buffers",
    "crc32_spans",
    "crc32c",
    "crc32c_buffers",
    "crc32c_file",
    "crc32c_rows",
    "crc32c_spans",
    "decode_jpeg",
    "decode_msgpack_floats",
    "decode_msgpack_ints",
    "draw_resized_crops",
    "draw_uniforms",
    "encode_jpeg",
    "find_wrong_row",
    "gather",
    "gather_into",
    "gpu_can",
    "gpu_driver_is_open",
    "gpu_kernels",
    "group_members",
    "interleave",
    "jpeg_info",
    "jpeg_sides",
    "locate_tile_indices",
    "make_tile_index",
    "mix",
    "permute",
    "place",
    "quasi_random_order_ffcv",
    "resize_area",
    "set_simd_level",
    "simd_level",
    "slice_jpeg",
    "step_kinds",
    "store_jpegs",
    "tar_files",
    "tar_header",
    "tar_members",
    "tile_index_info",
]


@functools.cache
def gpu_kernels() -> bytes | None:
    """The compiled kernels for GPUs, as the CUDA driver loads them; None in a build without nvcc."""
    try:
        return Path(_core.__file__).with_name("kernels.fatbin").read_bytes()
    except FileNotFoundError:
        return None


if DEBUG:
    warnings.warn("headrace's native core is a debug build: it is slow", RuntimeWarning, stacklevel=2)

# For comparing speeds and looking for faults: slower instruction sets than the best one of the processor.
if os.environ.get("HEADRACE_SIMD"):
    try:
        set_simd_level(os.environ["HEADRACE_SIMD"])
    except NativeError as error:
        raise ValueError(f"the environment variable HEADRACE_SIMD is wrong: {error.detail}") from None
