"""What the directories of a TIFF declare, looked at before Pillow and libtiff ask for memory.

The two do not read the same: libtiff knows types of numbers that Pillow leaves out, so Pillow's word for the size of a
tile is not enough. Pillow keeps the data of all tags, and older versions do not mind that tags share it: a small file
can have any amount.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.types import Buffer

__all__ = ["check", "is_tiff"]

_MAGICS = (b"II*\0", b"MM\0*", b"II\0*", b"MM*\0", b"II+\0", b"MM\0+")  # two of them are wrong, and Pillow takes them
_BIG = (b"II+\0", b"MM\0+")
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_TILE_WIDTH = 322
_TILE_LENGTH = 323
_DIRECTORIES = frozenset({34665, 34853, 40965})  # Exif, GPS, interoperability: Pillow reads them, too


class _Tag(NamedTuple):
    number: int
    data: memoryview
    size: int  # of its entry, and of the data where they are elsewhere


def is_tiff(data: Buffer) -> bool:
    """Tell by the first bytes whether this is a TIFF."""
    return bytes(memoryview(data)[:4]) in _MAGICS


def check(data: Buffer, max_pixels: float | None) -> None:
    """Refuse a TIFF that declares more than it may. What is damaged in another way is left to Pillow.

    Raises:
        ImageError: a tile has more than ``max_pixels``, or the tags together are larger than the file.
    """
    view = memoryview(data).cast("B")
    is_little = bytes(view[:1]) == b"I"
    is_big = bytes(view[:4]) in _BIG
    word = "Q" if is_big else "I"
    to_visit = [_number(view[8:16] if is_big else view[4:8], is_little)]
    seen = set()
    sides = {_TILE_WIDTH: 0, _TILE_LENGTH: 0}
    left = len(view)
    while to_visit:
        start = to_visit.pop()
        if start in seen:
            continue
        seen.add(start)
        for tag in _read_directory(view, start, ("<" if is_little else ">") + word):
            left -= tag.size
            if left < 0:  # without this, directories could lead to each other for hours
                raise ImageError(f"the tags of the TIFF take more bytes than the file has, which are {len(view)}")
            if tag.number in sides:
                sides[tag.number] = max(sides[tag.number], _number(tag.data[:8], is_little))
            elif tag.number in _DIRECTORIES:
                to_visit.append(_number(tag.data[:8], is_little))
    width, length = sides.values()
    if max_pixels is not None and width * length > max_pixels:
        raise ImageError(
            f"the TIFF has tiles of {width}x{length} pixels, and at most {max_pixels} are decoded; "
            "store it with smaller tiles, or if you trust it, raise PIL.Image.MAX_IMAGE_PIXELS"
        )


def _read_directory(view: memoryview, start: int, word: str) -> Iterator[_Tag]:
    """The tags, as far as they and their data are in the file."""
    order, is_big = word[0], word[1] == "Q"
    count_size = 8 if is_big else 2
    entry = struct.Struct(f"{order}HH{word[1]}{8 if is_big else 4}s")
    count = _number(view[start : start + count_size], order == "<")
    first = start + count_size
    for at in range(first, min(first + count * entry.size, len(view) - entry.size + 1), entry.size):
        number, kind, values, field = entry.unpack_from(view, at)
        size = values * _SIZES.get(kind, 0)
        if size <= len(field):
            yield _Tag(number, memoryview(field)[:size], entry.size)
            continue
        offset = _number(memoryview(field), order == "<")
        if offset + size <= len(view):
            yield _Tag(number, view[offset : offset + size], entry.size + size)


def _number(data: memoryview, is_little: bool) -> int:
    return int.from_bytes(data, "little" if is_little else "big")
