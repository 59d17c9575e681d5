"""What stands before the items of an array that numpy has saved.

======  ======  =========================================================================================
offset  bytes   content
======  ======  =========================================================================================
0       6       0x93, then ``NUMPY``
6       2       version: 1.0, 2.0 or 3.0
8       2 or 4  length of the text, little-endian: 2 bytes in version 1, else 4
10, 12  length  ``{'descr': '<f8', 'fortran_order': False, 'shape': (20, 4), }``, then spaces and a line end
======  ======  =========================================================================================

The text is a Python literal. It is not given to Python's parser, which is not made for hostile text: only these three
keys are looked for, in any order, and only the values that numpy writes.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.fields import dtype_from_text
from headrace.progress import format_count

if TYPE_CHECKING:
    import numpy as np

    from headrace.types import Buffer

__all__ = ["MAGIC", "MAX_HEADER_BYTES", "ArrayHeader", "build_header", "parse_header"]

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 1 << 16
_MAX_SIDES = 33
_MAX_SIDE = 2**63 - 1
_ALIGNMENT = 64
_LENGTHS = {1: struct.Struct("<H"), 2: struct.Struct("<I"), 3: struct.Struct("<I")}
_ITEM = re.compile(
    r"""\s*(?P<q>['"])(?P<key>descr|fortran_order|shape)(?P=q)\s*:\s*"""
    r"""(?:(?P<p>['"])(?P<text>[^'"\\]{0,64})(?P=p)|(?P<bool>True|False)|\((?P<sides>[0-9L,\s]*)\))\s*(?:,|$)"""
)
_RECORDS = re.compile(r"""['"]descr['"]\s*:\s*[\[(]""")


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrayHeader:
    """What an array is: ``dtype`` is None for Python objects; ``size_bytes`` is the header's own size."""

    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    is_fortran: bool
    size_bytes: int

    @property
    def data_bytes(self) -> int:
        """Bytes of all items."""
        return 0 if self.dtype is None else self.dtype.itemsize * math.prod(self.shape)


def parse_header(path: str, what: str, start: Buffer) -> ArrayHeader:
    """Read a header; FormatError when it is none.

    Args:
        path: of the file, for errors.
        what: the array, in words, for errors.
        start: the first bytes of the array, ``MAX_HEADER_BYTES`` where there are so many.
    """
    try:
        return _parse(bytes(memoryview(start)[:MAX_HEADER_BYTES]))
    except ValueError as error:
        raise FormatError(path, problem=f"{what} {error}", fix="Save it again with numpy.save or headrace.") from None


def _parse(data: bytes) -> ArrayHeader:
    if not data.startswith(MAGIC):
        raise ValueError(f"is no array that numpy has saved: it begins with {data[:8]!r}, expected {MAGIC!r}")
    major = data[6] if len(data) > 6 else 0
    if major not in _LENGTHS:
        raise ValueError(f"has version {major} of the .npy format, and versions 1 to 3 are known")
    length = _LENGTHS[major]
    begin = 8 + length.size
    if len(data) < begin:
        raise ValueError(f"ends within its header, after {format_count(len(data), 'byte')}")
    (size,) = length.unpack_from(data, 8)
    if size > MAX_HEADER_BYTES - begin:
        raise ValueError(
            f"has a header of {format_count(size, 'byte')}, and {MAX_HEADER_BYTES} are the most that is read"
        )
    if begin + size > len(data):
        raise ValueError(f"has a header of {format_count(size, 'byte')} that does not fit into it")
    values = _items(data[begin : begin + size].decode("utf-8" if major == 3 else "latin-1"))
    return ArrayHeader(
        dtype=None if values["descr"] in ("|O", "O") else _dtype(values["descr"]),
        shape=values["shape"],
        is_fortran=values["fortran_order"],
        size_bytes=begin + size,
    )


def _items(text: str) -> dict[str, Any]:
    text = text.strip()
    if _RECORDS.search(text):
        raise ValueError("holds records of several values (a structured dtype); save each of its fields as an array")
    inside = text[1:-1].rstrip() if text.startswith("{") and text.endswith("}") else None
    found: dict[str, Any] = {}
    position = 0
    while inside and position < len(inside):
        item = _ITEM.match(inside, position)
        if item is None or item["key"] in found:
            break
        found[item["key"]] = _value(item)
        position = item.end()
    if inside is None or position < len(inside) or set(found) != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"has a header that cannot be read: {text[:100]!r}")
    return found


def _value(item: re.Match[str]) -> Any:
    values = {"descr": item["text"], "fortran_order": item["bool"], "shape": item["sides"]}
    value = values[item["key"]]
    if value is None:
        raise ValueError(f"has a header with an odd {item['key']}: {item[0][:100]!r}")
    if item["key"] == "shape":
        return _shape(value)
    return value == "True" if item["key"] == "fortran_order" else value


def _shape(text: str) -> tuple[int, ...]:
    sides = [side.strip().removesuffix("L") for side in text.split(",")]
    if sides and not sides[-1]:
        sides.pop()
    if len(sides) > _MAX_SIDES or not all(side.isdecimal() and len(side) < 20 for side in sides):
        raise ValueError(f"has an odd shape: ({text[:100]})")
    numbers = tuple(map(int, sides))
    if math.prod(max(side, 1) for side in numbers) > _MAX_SIDE:
        raise ValueError(f"has a shape of more items than there can be: ({text[:100]})")
    return numbers


def _dtype(text: str) -> np.dtype[Any]:
    dtype = dtype_from_text(text)
    if dtype.kind == "V":
        raise ValueError(f"holds items of a kind that numpy does not know ({text}); save them as numbers")
    if dtype.itemsize == 0:
        raise ValueError(f"holds items of no bytes ({text})")
    return dtype


def build_header(dtype: np.dtype[Any], shape: tuple[int, ...], *, size_bytes: int = 0) -> bytes:
    """A header, padded so that the items stand at a multiple of 64 bytes.

    Args:
        dtype: of the items.
        shape: of the array, in C order.
        size_bytes: at least so long, to replace another one.
    """
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": tuple(map(int, shape))})
    version = 1 if len(text) < 0xFF00 else 2
    begin = 8 + _LENGTHS[version].size
    total = max(size_bytes, -(-(begin + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT)
    length = _LENGTHS[version].pack(total - begin)
    return MAGIC + bytes((version, 0)) + length + text.encode("ascii").ljust(total - begin - 1) + b"\n"
