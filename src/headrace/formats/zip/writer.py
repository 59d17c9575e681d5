"""Writes zips whose files are not compressed, so that they are read in place; the same samples give the same bytes.

A file: header (30 bytes), name, for 4 GiB and more its size in 20 bytes, content. The list of files ends the zip: for
each 46 bytes, name, and 12 to 28 bytes where numbers have no room; then its own place and size, twice in a large zip.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from headrace._native import crc32
from headrace.formats.member_files.member_writer import MemberWriter
from headrace.formats.zip.members import open_zip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.spans import IndexedFile
    from headrace.types import Field

__all__ = ["ZipWriter"]

_LOCAL = struct.Struct("<4s5H3I2H")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_WIDE_END = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4s4H2IH")
_UTF8 = 1 << 11
_OLD, _WIDE = 20, 45  # versions that can read it
_ON_UNIX = 3 << 8
_ATTRIBUTES = 0o100644 << 16
_FIRST_DAY = (0 << 9) | (1 << 5) | 1  # 1980-01-01
_U16, _U32 = 0xFFFF, 0xFFFFFFFF


class ZipWriter(MemberWriter):
    """Writes samples into a zip, one file for each value; see MemberWriter for the arguments."""

    def __init__(self, path: PathLike, fields: Mapping[str, Field], **options: Any) -> None:
        super().__init__(path, fields, **options)
        self._entries: list[bytes] = []

    def _put_file(self, name: str, data: bytes) -> None:
        encoded, checksum, at = name.encode(), crc32(data), self._written
        size = len(data)
        wide = _wide_numbers(size, size)
        small = min(size, _U32)
        version = _WIDE if wide else _OLD
        facts = (_UTF8, 0, 0, _FIRST_DAY, checksum, small, small, len(encoded))
        self._write(_LOCAL.pack(b"PK\3\4", version, *facts, len(wide)) + encoded + wide)
        self._write(data)
        self._entries.append(_entry(encoded, checksum, size, at))

    def _end_archive(self) -> None:
        at, count = self._written, len(self._entries)
        for entry in self._entries:
            self._write(entry)
        size = self._written - at
        if count >= _U16 or at >= _U32 or size >= _U32:
            end = self._written
            self._write(_WIDE_END.pack(b"PK\6\6", 44, _WIDE | _ON_UNIX, _WIDE, 0, 0, count, count, size, at))
            self._write(_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        few = min(count, _U16)
        self._write(_END.pack(b"PK\5\6", 0, 0, few, few, min(size, _U32), min(at, _U32), 0))
        self._flush()

    def _open_indexed(self, columns: Sequence[str]) -> IndexedFile:
        return open_zip(self._path, group=True, columns=columns, annex=False)


def _wide_numbers(*numbers: int) -> bytes:
    """The numbers of 4 GiB and more, as they stand beside a header."""
    large = [number for number in numbers if number >= _U32]
    return struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""


def _entry(name: bytes, checksum: int, size: int, at: int) -> bytes:
    wide = _wide_numbers(size, size, at)
    version = _WIDE if wide else _OLD
    small = min(size, _U32)
    facts = (version | _ON_UNIX, version, _UTF8, 0, 0, _FIRST_DAY, checksum, small, small, len(name), len(wide))
    return _ENTRY.pack(b"PK\1\2", *facts, 0, 0, 0, _ATTRIBUTES, min(at, _U32)) + name + wide
