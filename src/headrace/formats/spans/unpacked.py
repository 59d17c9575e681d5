"""Compressed files, unpacked once to a temporary file without a name, and then read as if they lay there.

Contract: the temporary file is in the folder for such files (``TMPDIR``) and goes with the last array of its bytes; a
killed process leaves nothing. A few bytes can unpack to any number, so there is a limit, and nothing above it is
written.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.codecs.zstd import zst_pieces
from headrace.errors import FormatError
from headrace.formats.spans.span_file import SpanFile
from headrace.progress import format_count
from headrace.registry import require
from headrace.storage import open_stream, temporary_file
from headrace.storage.atomic import write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.errors import PathLike

__all__ = ["Packing", "unpack"]

Packing: TypeAlias = Literal["gzip", "zstd"]

_LEAST_LIMIT_BYTES = 1 << 30
_LARGEST_FACTOR = 200
_STEP_BYTES = 64 << 10
_PIECE_BYTES = 1 << 20
_GZIP = 31  # zlib's word for gzip with its header and checksum
_TRUNCATED = "The file was probably cut short; make or fetch it again."


def unpack(path: PathLike, kind: Packing, *, max_bytes: int | None = None) -> SpanFile:
    """Unpack a whole file and give it as a SpanFile whose path is that of the compressed file.

    Args:
        path: the compressed file.
        kind: how it is compressed.
        max_bytes: the most that it may unpack to; by default 1 GiB or 200 times its size, whichever is more.

    Raises:
        FormatError: it is damaged, cut short, or unpacks to more than that.
        OSError: there is no room for the temporary file.
    """
    name = os.fspath(path)
    with open_stream(name) as source:
        limit = max_bytes
        if limit is None:
            limit = max(_LEAST_LIMIT_BYTES, _LARGEST_FACTOR * os.fstat(source.fileno()).st_size)
        pieces = _gzip_pieces(source.read) if kind == "gzip" else zst_pieces(_zstandard(name), source.read)
        with temporary_file(tempfile.gettempdir()) as target:
            _write(name, pieces, target.fileno(), limit)
            return SpanFile(name, fd=target.fileno())


def _zstandard(name: str) -> object:
    return require("zstandard", name)


def _write(path: str, pieces: Iterator[bytes], target: int, limit: int) -> None:
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            if size > limit:
                raise FormatError(
                    path,
                    problem=f"it unpacks to more than {format_count(limit, 'byte')}",
                    fix="If you trust it, unpack it yourself, or give max_unpacked_bytes=.",
                )
            write_all(target, [piece], size - len(piece))
    except (EOFError, zlib.error) as error:
        raise FormatError(path, problem=f"it cannot be unpacked ({error})", fix=_TRUNCATED) from None
    except OSError as error:
        if error.errno is None:  # what zst_pieces says of data that are damaged
            raise FormatError(path, problem=f"it cannot be unpacked ({error})", fix=_TRUNCATED) from None
        folder = tempfile.gettempdir()
        reason = (
            f"{error.strerror}, after {format_count(size, 'byte')} of {path} were unpacked; TMPDIR names the folder"
        )
        raise type(error)(error.errno, reason, folder) from None


def _gzip_pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Decompress all members, a piece at a time; zeros after a member are padding, as gzip has it."""
    member = None
    data = read(_STEP_BYTES)
    while data:
        member = member or zlib.decompressobj(_GZIP)
        yield member.decompress(data, _PIECE_BYTES)
        data = member.unconsumed_tail
        if member.eof:
            data = member.unused_data.lstrip(b"\0")
            while not data and (more := read(_STEP_BYTES)):
                data = more.lstrip(b"\0")
            member = None
        data = data or read(_STEP_BYTES)
    if member is not None:
        raise EOFError("the compressed data end too early")
