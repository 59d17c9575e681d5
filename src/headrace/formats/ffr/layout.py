"""The frame of an .ffr file, every number checked before it is used.

Byte layout, little-endian, nothing aligned; docs/formats/ffr.md is the long form::

    0        4 bytes   u32     CRC-32 of bytes 4 to 12 + 12 N; 0 in files of the first generation: not checked
    4        8 bytes   i64     N, the number of samples
    12       4 N       u32[N]  CRC-32 of each sample
    12 + 4N  8 N       i64[N]  where each sample begins
    12 + 12N ...               samples; each ends where the next begins, the last one with the file
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace._native import check_ffr_header, check_ffr_offsets, crc32
from headrace.errors import FormatError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.storage import StoredFile
    from headrace.types import Buffer

__all__ = [
    "SUFFIX",
    "Layout",
    "header_size",
    "is_ffr_folder",
    "missing_part",
    "pack_header",
    "part_paths",
    "read_layout",
]

SUFFIX = ".ffr"
_NUMBERED = re.compile(r"PART_(\d{5})\.ffr")
FIXED = struct.Struct("<Iq")
CHECKED_FROM = 4
_CHECKSUM_SIZE, _OFFSET_SIZE = 4, 8
_LARGEST_OFFSET = 2**63 - 1
_INTERRUPTED = "The write was probably interrupted; write the file again."
_DAMAGED = "The file is damaged or was not completely copied; restore it from a copy."


def header_size(num_samples: int) -> int:
    """Bytes in front of the first sample.

    Example:
        >>> header_size(3)
        48
    """
    return FIXED.size + (_CHECKSUM_SIZE + _OFFSET_SIZE) * num_samples


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header of one file says."""

    num_samples: int
    header_checksum: int
    size_bytes: int

    @property
    def header_end(self) -> int:
        """First byte after the header."""
        return header_size(self.num_samples)

    @property
    def offsets_at(self) -> int:
        """First byte of the offset table."""
        return FIXED.size + _CHECKSUM_SIZE * self.num_samples

    def checksums(self, mapped: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
        """CRC-32 of each sample, without a copy."""
        return mapped[FIXED.size : self.offsets_at].view("<u4")

    def offsets(self, mapped: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Where each sample begins, without a copy; aligned only when the number of samples is even."""
        return mapped[self.offsets_at : self.header_end].view("<i8")


def pack_header(checksums: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64]) -> list[Buffer]:
    """The header of a file with these samples."""
    parts: list[Buffer] = [FIXED.pack(0, len(checksums))[CHECKED_FROM:]]
    parts.append(np.ascontiguousarray(checksums, "<u4").view(np.uint8))
    parts.append(np.ascontiguousarray(offsets, "<i8").view(np.uint8))
    value = 0
    for part in parts:
        value = crc32(part, value)
    return [struct.pack("<I", value), *parts]


def read_layout(file: StoredFile, *, is_checked: bool) -> Layout:
    """Parse and check the header of a file; it is held.

    Args:
        file: the whole file.
        is_checked: compare the header with its checksum, where it has one, and look at every offset.
    """
    path, size = file.path, file.size_bytes
    if size < FIXED.size:
        raise FormatError(
            path,
            offset=size,
            problem=f"an .ffr header needs at least {FIXED.size} bytes, the file has {size}",
            fix=_INTERRUPTED,
        )
    checksum, num_samples = FIXED.unpack(file.hold(0, FIXED.size))
    layout = Layout(num_samples, checksum, size)
    if num_samples < 0:
        raise FormatError(
            path,
            offset=CHECKED_FROM,
            problem=f"the number of samples must not be negative, found {num_samples}",
            fix="This is not an .ffr file, or its header is damaged.",
        )
    if layout.header_end > size:
        raise FormatError(
            path,
            offset=size,
            problem=(
                f"the header of {format_count(num_samples, 'sample')} needs {format_count(layout.header_end, 'byte')}, "
                f"the file has {size}"
            ),
            fix=_INTERRUPTED,
        )
    header = file.hold(0, layout.header_end)
    if is_checked:
        _check_header(path, header, layout)
    return layout


def _check_header(path: str, mapped: npt.NDArray[np.uint8], layout: Layout) -> None:
    # Offsets behind the end of the file are left to the reader: what stands before them can still be read.
    if layout.header_checksum:
        found, bad = check_ffr_header(mapped[: layout.header_end], _LARGEST_OFFSET)
    else:
        table = mapped[layout.offsets_at : layout.header_end]
        found, bad = 0, check_ffr_offsets(table, layout.header_end, _LARGEST_OFFSET)
    if found != layout.header_checksum:
        raise FormatError(
            path,
            offset=0,
            problem=f"the header should have the checksum {layout.header_checksum:#010x}, found {found:#010x}",
            fix=f"{_DAMAGED} To read what is left of it, open it with checksums=False.",
        )
    if bad >= 0:
        offsets = layout.offsets(mapped)
        before = layout.header_end if bad == 0 else int(offsets[bad - 1])
        raise FormatError(
            path,
            offset=layout.offsets_at + _OFFSET_SIZE * bad,
            problem=f"sample {bad} begins at byte {int(offsets[bad])}, and cannot begin before byte {before}",
            fix=f"{_DAMAGED} To read what is left of it, open it with checksums=False.",
        )


def part_paths(folder: str) -> list[str]:
    """The .ffr files of a folder, sorted by path; everything else in it is ignored."""
    names = (name for name in os.listdir(folder) if name.endswith(SUFFIX))
    return sorted(path for path in (os.path.join(folder, name) for name in names) if not os.path.isdir(path))


def missing_part(paths: Sequence[str]) -> str | None:
    """The first part that is not there although parts with higher numbers are; FFRecord's dump numbers them.

    Example:
        >>> missing_part(["x/PART_00000.ffr", "x/PART_00002.ffr", "x/notes.ffr"])
        'PART_00001.ffr'
    """
    matches = [_NUMBERED.fullmatch(os.path.basename(path)) for path in paths]
    numbers = {int(match[1]) for match in matches if match is not None}
    missing = set(range(max(numbers, default=-1) + 1)) - numbers
    return f"PART_{min(missing):05d}{SUFFIX}" if missing else None


def is_ffr_folder(path: str, head: bytes) -> bool:
    """A folder with .ffr files in it; files have no magic number, only their name tells."""
    return os.path.isdir(path) and bool(part_paths(path))
