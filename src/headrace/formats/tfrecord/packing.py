"""How a TFRecord file is compressed: by its content, whatever it is called."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from headrace.formats.tfrecord.scan import HEAD_BYTES, is_head

if TYPE_CHECKING:
    from headrace.formats.spans import SpanFile
    from headrace.formats.spans.unpacked import Packing

__all__ = ["packing_of", "unpacked_head"]

_GZIP = b"\x1f\x8b\x08"
_LOOKED_AT = 4096
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpacked_head(head: bytes) -> bytes | None:
    """What the first bytes of a file unpack to, up to the head of a record; None where they cannot be unpacked."""
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = stream.decompress(head, HEAD_BYTES)
    except zlib.error:
        return None
    return found if found or stream.eof else None


def packing_of(file: SpanFile) -> Packing | None:
    """How a file is compressed, or None.

    A record may begin as gzip does, but then its head is right. zlib has two bytes to be known by, which is not enough:
    what it unpacks to must be the head of a record, or nothing.
    """
    head = file.head(_LOOKED_AT)
    if is_head(head):
        return None
    if head.startswith(_GZIP):
        return "gzip"
    unpacked = unpacked_head(head)
    return "zlib" if unpacked is not None and (is_head(unpacked) or not unpacked) else None
