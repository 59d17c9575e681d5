"""Fields of protocol buffers, made by hand: a tag, a length and the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headrace import _native

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FIRST", "SECOND", "THIRD", "bytes_list", "message", "varint"]

FIRST, SECOND, THIRD = b"\x0a", b"\x12", b"\x1a"
"""Tags of the fields 1, 2 and 3, which have a length."""

_SHORT = 0x80


def varint(number: int) -> bytes:
    r"""A number that is not negative.

    Example:
        >>> varint(5), varint(300)
        (b'\x05', b'\xac\x02')
    """
    return bytes((number,)) if number < _SHORT else _native.pack_tf_ints(np.array([number], np.int64))


def message(tag: bytes, content: bytes) -> bytes:
    """A field with its content."""
    return b"".join((tag, varint(len(content)), content))


def bytes_list(values: Iterable[bytes]) -> bytes:
    r"""A BytesList.

    Example:
        >>> bytes_list([b"a", b"bc"])
        b'\n\x01a\n\x02bc'
    """
    return b"".join(message(FIRST, value) for value in values)
