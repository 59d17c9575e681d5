"""One block on the disk: its header, and the proof that it is the block that is wanted.

A slot of a cache holds a page with the block's header, and the block. The header: magic (4 bytes), CRC-32C of all that
follows, the block included (4), length of the block (4), its number in the object (8), hash of the whole key (32),
length of the URL (2), and the URL as people may see it: without credentials, and cut to the page. Numbers are
little-endian.
"""

from __future__ import annotations

import hashlib
import os
import struct
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from headrace._native import crc32c
from headrace.storage.cache_table import PAGE_BYTES, SLOT_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["MAX_BLOCK_BYTES", "BlockKey", "CachedBlock", "pages_of", "read_block", "read_header", "write_block"]

MAX_BLOCK_BYTES = 4 << 20
_MAGIC = b"HRCB"
_FIELDS = struct.Struct("<4sIIQ32sH")
_PROVEN_FROM = 8
_URL_BYTES = PAGE_BYTES - _FIELDS.size


class BlockKey(NamedTuple):
    """What a block is: a part of one version of an object.

    Attributes:
        url: of the object, without credentials.
        version: of the object, such as its ETag.
        number: of the block in the object.
    """

    url: str
    version: str
    number: int

    @property
    def id(self) -> int:
        """What stands for the block in the table; never 0."""
        return int.from_bytes(self.digest[:8], "little") | 1

    @property
    def digest(self) -> bytes:
        """A hash of all of it."""
        words = (self.url, self.version, str(self.number))
        parts = (f"{len(word)}:{word}".encode("utf-8", "surrogatepass") for word in words)
        return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


class CachedBlock(NamedTuple):
    """A block that is in a cache, as ``BlockCache.blocks`` tells.

    Attributes:
        slot: where it is.
        url: of its object, without credentials and what stands behind a question mark.
        size_bytes: of the block.
        disk_bytes: that are reserved for it.
    """

    slot: int
    url: str
    size_bytes: int
    disk_bytes: int


def pages_of(size_bytes: int, fd: int) -> int:
    """What a block takes on the disk at most: whole blocks of the file system, and what it needs to find them."""
    unit = min(max(os.fstatvfs(fd).f_frsize, PAGE_BYTES), SLOT_BYTES - MAX_BLOCK_BYTES)
    pages = -(-(PAGE_BYTES + size_bytes) // unit) * unit // PAGE_BYTES
    return pages + pages // 256 + 1


def _header(key: BlockKey, data: memoryview) -> bytes:
    url = _shown(key.url).encode("utf-8", "replace")[:_URL_BYTES]
    page = _FIELDS.pack(_MAGIC, 0, data.nbytes, key.number, key.digest, len(url)) + url
    page = page.ljust(PAGE_BYTES, b"\0")
    checksum = crc32c(data, crc32c(page[_PROVEN_FROM:]))
    return page[:4] + checksum.to_bytes(4, "little") + page[_PROVEN_FROM:]


def _shown(url: str) -> str:
    """A URL for people: user names, passwords and signatures stay out of it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def read_block(fd: int, slot: int, key: BlockKey, out: npt.NDArray[np.uint8]) -> bool:
    """Read a slot; False if it does not hold this block, whole."""
    page, view = bytearray(PAGE_BYTES), memoryview(out).cast("B")
    wanted = PAGE_BYTES + view.nbytes
    if _read(fd, [memoryview(page), view], slot * SLOT_BYTES) != wanted:
        return False
    magic, checksum, size_bytes, number, digest, _ = _FIELDS.unpack_from(page)
    is_this = (magic, size_bytes, number, digest) == (_MAGIC, view.nbytes, key.number, key.digest)
    return is_this and crc32c(view, crc32c(bytes(page[_PROVEN_FROM:]))) == checksum


def _read(fd: int, views: list[memoryview], position: int) -> int:
    try:
        done = os.preadv(fd, views, position)
        head, body = views
        while head.nbytes <= done < head.nbytes + body.nbytes:
            count = os.preadv(fd, [body[done - head.nbytes :]], position + done)
            if count == 0:
                break
            done += count
    except OSError:
        return -1  # a disk that fails is a block that is damaged
    return done


def write_block(fd: int, slot: int, key: BlockKey, data: memoryview) -> None:
    """Fill a slot."""
    position = slot * SLOT_BYTES
    for view in (memoryview(_header(key, data)), data):
        done = 0
        while done < view.nbytes:
            done += os.pwrite(fd, view[done:], position + done)
        position += done


def read_header(fd: int, slot: int) -> tuple[str, int] | None:
    """URL and length of the block in a slot, not proven; None if there is no block."""
    page = os.pread(fd, PAGE_BYTES, slot * SLOT_BYTES)
    if len(page) < PAGE_BYTES or page[:4] != _MAGIC:
        return None
    _, _, size_bytes, _, _, length = _FIELDS.unpack_from(page)
    return page[_FIELDS.size : _FIELDS.size + length].decode("utf-8", "replace"), size_bytes
