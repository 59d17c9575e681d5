"""Where the members of a zip lie: the directory at its end, and the header before each member.

Parts that matter here, all integers little-endian::

    member      PK 03 04, version, flags, method, time, date, crc32, packed size, size, name length, extra length,
                name, extra; then the packed bytes
    directory   for each member PK 01 02, versions, flags, method, time, date, crc32, packed size, size, name length,
                extra length, comment length, disk, attributes, offset of the member; name, extra, comment
    end         PK 05 06, disks, entries on this disk, entries, size and offset of the directory, comment
    zip64       PK 06 06 with the same numbers in 64 bits; PK 06 07 directly before the end says where; an extra field
                with number 1 has the sizes and the offset of a member where the directory says 0xFFFFFFFF

What the directory says is true; a member whose own header says something else is refused, as are members that overlap.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import FormatError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.storage import StoredFile

__all__ = ["ZipMember", "read_directory"]

_LOCAL = struct.Struct("<4s5H3I2H")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64_AT = struct.Struct("<4sIQI")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_MAX_COMMENT = 0xFFFF
_MAX_MEMBERS = 1 << 16
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _UTF8 = 1, 1 << 11
_FULL_32, _FULL_16 = 0xFFFFFFFF, 0xFFFF
_FIX = "The file is damaged, or its copy is not complete; copy or write it again."


@dataclass(frozen=True, kw_only=True, slots=True)
class ZipMember:
    """One member: where its bytes lie, and what they unpack to."""

    name: str
    is_packed: bool
    crc32: int
    packed_bytes: int
    size_bytes: int
    offset: int


def read_directory(file: StoredFile) -> list[ZipMember]:
    """All members, in the order of the directory; FormatError when anything contradicts the file or itself."""
    try:
        begin, size, count = _find_directory(file)
        members = list(_members(file, begin, size, count))
        _check_places(members, begin)
    except (ValueError, struct.error) as error:
        raise FormatError(file.path, problem=f"this is no whole .npz ({error})", fix=_FIX) from None
    return members


def _find_directory(file: StoredFile) -> tuple[int, int, int]:
    """Where the directory begins, its size, and its number of entries."""
    first = max(0, file.size_bytes - _END.size - _MAX_COMMENT)
    tail = file.hold(first, file.size_bytes).tobytes()
    at = tail.rfind(b"PK\x05\x06", 0, max(0, len(tail) - _END.size + 4))
    if at < 0:
        raise ValueError("the directory at the end of a zip is missing")
    _, _, _, _, count, size, begin, _ = _END.unpack_from(tail, at)
    end = first + at
    if count == _FULL_16 or size == _FULL_32 or begin == _FULL_32:
        end, count, size, begin = _read_zip64(file, end, (count, size, begin))
    if begin + size > end:
        raise ValueError(
            f"its directory of {format_count(size, 'byte')} at byte {begin} does not end before byte {end}"
        )
    if count > _MAX_MEMBERS or count * _ENTRY.size > size:
        raise ValueError(f"{format_count(count, 'member')} do not fit into a directory of {format_count(size, 'byte')}")
    return begin, size, count


def _read_zip64(file: StoredFile, end: int, small: tuple[int, int, int]) -> tuple[int, int, int, int]:
    at = end - _END_64_AT.size
    if at < 0 or file.hold(at, at + 4).tobytes() != b"PK\x06\x07":
        return end, *small  # so large a number that is meant as it is
    _, _, place, _ = _END_64_AT.unpack(file.hold(at, end).tobytes())
    if place + _END_64.size > at:
        raise ValueError(f"the end of its directory should be at byte {place}, behind where it is used")
    fields = _END_64.unpack(file.hold(place, place + _END_64.size).tobytes())
    if fields[0] != b"PK\x06\x06":
        raise ValueError(f"the end of its directory is not at byte {place}")
    return place, fields[7], fields[8], fields[9]


def _members(file: StoredFile, begin: int, size: int, count: int) -> Iterator[ZipMember]:
    directory = file.hold(begin, begin + size).tobytes()
    position = 0
    for _ in range(count):
        fields = _ENTRY.unpack_from(directory, position)
        magic, _, _, flags, method, _, _, crc32, packed, whole, name_size, extra_size, comment_size, *_, offset = fields
        name_at = position + _ENTRY.size
        extra_at = name_at + name_size
        position = extra_at + extra_size + comment_size
        if magic != b"PK\x01\x02" or position > size:
            raise ValueError(f"its directory is damaged at byte {begin + name_at - _ENTRY.size}")
        name = directory[name_at:extra_at]
        whole, packed, offset = _large(directory[extra_at : extra_at + extra_size], (whole, packed, offset))
        start = _check_local(file, begin, name, offset, method)
        yield _member(name, flags, method, crc32, packed, whole, start, begin)


def _large(extra: bytes, numbers: tuple[int, int, int]) -> tuple[int, int, int]:
    """Size, packed size and offset, from the extra field of zip64 where they did not fit."""
    missing = [i for i, number in enumerate(numbers) if number == _FULL_32]
    found, position = list(numbers), 0
    while missing and position + 4 <= len(extra):
        number, size = struct.unpack_from("<HH", extra, position)
        if number == 1:
            values = struct.unpack_from(f"<{len(missing)}Q", extra[: position + 4 + size], position + 4)
            for i, value in zip(missing, values, strict=True):
                found[i] = value
            break
        position += 4 + size
    return found[0], found[1], found[2]


def _check_local(file: StoredFile, end: int, name: bytes, offset: int, method: int) -> int:
    """Where the bytes of a member begin, after its own header."""
    if offset + _LOCAL.size > end:
        raise ValueError(f"member {_text(name)!r} should begin at byte {offset}, and the members end at byte {end}")
    fields = _LOCAL.unpack(file.hold(offset, offset + _LOCAL.size).tobytes())
    name_at = offset + _LOCAL.size
    start = name_at + fields[9] + fields[10]
    is_same = fields[0] == b"PK\x03\x04" and fields[3] == method and fields[9] == len(name) and start <= end
    if not is_same or file.hold(name_at, name_at + len(name)).tobytes() != name:
        raise ValueError(f"what stands at byte {offset} is not member {_text(name)!r}")
    return int(start)


def _member(
    name: bytes, flags: int, method: int, crc32: int, packed: int, whole: int, start: int, end: int
) -> ZipMember:
    text = _text(name)
    if flags & _ENCRYPTED:
        raise ValueError(f"member {text!r} is encrypted; unpack it first")
    if method not in (_STORED, _DEFLATED):
        raise ValueError(f"member {text!r} is packed by method {method}; numpy packs by none and by deflate")
    if start + packed > end or (method == _STORED and packed != whole):
        raise ValueError(
            f"member {text!r} of {format_count(packed, 'byte')} at byte {start} does not fit into the file"
        )
    return ZipMember(
        name=text, is_packed=method == _DEFLATED, crc32=crc32, packed_bytes=packed, size_bytes=whole, offset=start
    )


def _text(name: bytes) -> str:
    # numpy writes UTF-8 and says so; names that do not say it are ASCII or somebody's code page
    return name.decode("utf-8", "surrogateescape")


def _check_places(members: list[ZipMember], end: int) -> None:
    reached, previous = 0, ""
    for member in sorted(members, key=lambda one: (one.offset, one.packed_bytes)):
        if member.offset < reached:
            raise ValueError(f"members {previous!r} and {member.name!r} overlap at byte {member.offset}")
        reached, previous = member.offset + member.packed_bytes, member.name
    names = [member.name for member in members]
    if len(set(names)) < len(names):
        raise ValueError(f"two members are called {next(name for name in names if names.count(name) > 1)!r}")
