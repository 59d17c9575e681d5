"""Compressed files: unpacked once, when they are opened, into a temporary file without a name.

A place in the middle of what is compressed can only be reached from the front, so random access needs the whole. The
temporary file lies where such files do (TMPDIR) and goes with the last array of its bytes; a killed process leaves
nothing. A few bytes can unpack to any number, so there is a limit, and nothing above it is written.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import logging
import lzma
import os
import tempfile
import zlib
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, cast

from headrace.codecs.zstd import open_zst
from headrace.errors import FormatError
from headrace.formats.spans.span_file import SpanFile
from headrace.progress import format_bytes, format_count
from headrace.registry import require
from headrace.storage import StoredStream, is_remote, open_stored, open_stream, temporary_file

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Self

    from headrace.errors import PathLike
    from headrace.types import Progress

__all__ = [
    "COMPRESSIONS",
    "Compression",
    "Packing",
    "compression_of_head",
    "compression_of_name",
    "compressor",
    "unpack",
]

Compression = Literal["gzip", "bzip2", "xz", "zstd"]
Packing: TypeAlias = Compression | Literal["zlib"]
"""zlib is known by no first bytes of its own, so only formats that look further know it."""
COMPRESSIONS: dict[bytes, Compression] = {
    b"\x1f\x8b\x08": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_ENDINGS: dict[Compression, tuple[str, ...]] = {
    "gzip": (".gz", ".tgz"),
    "bzip2": (".bz2", ".tbz2"),
    "xz": (".xz", ".txz"),
    "zstd": (".zst", ".tzst"),
}
_log = logging.getLogger("headrace")
_FREE_BYTES = 1 << 30
_MAX_RATIO = 200  # more is a bomb, or somebody knows better and says so
_PIECE = 1 << 20
_FETCHED_BYTES = 16 << 20  # at a time, so that several requests are under way
_WORTH_TELLING_BYTES = 64 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN = (EOFError, zlib.error, lzma.LZMAError)


def compression_of_head(head: bytes) -> Compression | None:
    """How a file is compressed, by its first bytes.

    Example:
        >>> compression_of_head(b"BZh91AY&SY")
        'bzip2'
    """
    return next((name for begin, name in COMPRESSIONS.items() if head.startswith(begin)), None)


def compression_of_name(path: str) -> Compression | None:
    """How a file will be compressed, by its ending."""
    return next((name for name, endings in _ENDINGS.items() if path.lower().endswith(endings)), None)


def compressor(file: IO[bytes], kind: Compression) -> AbstractContextManager[IO[bytes]]:
    """What compresses into a file; the same bytes give the same file."""
    opened: Any
    if kind == "gzip":
        opened = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
    elif kind == "bzip2":
        opened = bz2.BZ2File(file, "wb")
    elif kind == "xz":
        opened = lzma.LZMAFile(file, "wb")  # noqa: SIM115  # a context manager it is
    else:
        opened = require("zstandard", ".tar.zst").ZstdCompressor().stream_writer(file, closefd=False)
    return cast("AbstractContextManager[IO[bytes]]", opened)


class _ZlibStream:
    """What zlib has packed without gzip's frame, as a file that is read; several, one after the other, too."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._stream = zlib.decompressobj()
        self._packed = b""

    def read(self, size: int) -> bytes:
        piece = b""
        while not piece:
            self._packed = self._packed or self._file.read(_PIECE)
            if self._stream.eof:
                if not self._packed:
                    break
                self._stream = zlib.decompressobj()
            piece = self._stream.decompress(self._packed, size)  # without new bytes, what is left inside
            if not piece and not self._packed and not self._stream.eof:
                raise EOFError("it ends before its end-of-stream marker")
            self._packed = self._stream.unconsumed_tail or self._stream.unused_data
        return piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        pass


def _unpacker(file: BinaryIO, kind: Packing) -> BinaryIO:
    if kind == "zlib":
        return cast("BinaryIO", _ZlibStream(file))
    if kind == "gzip":
        return cast("BinaryIO", gzip.GzipFile(fileobj=file, mode="rb"))
    if kind == "bzip2":
        return cast("BinaryIO", bz2.BZ2File(file, "rb"))
    if kind == "xz":
        return cast("BinaryIO", lzma.LZMAFile(file, "rb"))
    return open_zst(require("zstandard", ".tar.zst"), file)


def unpack(
    path: PathLike, kind: Packing, *, max_bytes: int | None = None, progress: Progress | None = None
) -> SpanFile:
    """Unpack a whole file and give it as a SpanFile whose path is that of the compressed file.

    Args:
        path: the file.
        kind: how it is compressed.
        max_bytes: stop when the content is larger; by default 1 GiB, or 200 times the file if that is more.
        progress: called with the bytes that came out.

    Raises:
        FormatError: it is damaged, cut short, or unpacks to more than that.
        OSError: there is no room for the temporary file.
    """
    name = os.fspath(path)
    with contextlib.ExitStack() as stack:
        stream, size_bytes = _open(name, stack)
        limit = max(_FREE_BYTES, _MAX_RATIO * size_bytes) if max_bytes is None else max_bytes
        return _unpacked(name, stream, kind, limit, progress)


def _open(path: str, stack: contextlib.ExitStack) -> tuple[BinaryIO, int]:
    """The compressed bytes as a stream, and how many they are."""
    if not is_remote(path):
        return stack.enter_context(open_stream(path)), os.path.getsize(path)
    file = open_stored(path)
    stack.callback(file.close)
    return cast("BinaryIO", io.BufferedReader(StoredStream(file), _FETCHED_BYTES)), file.size_bytes


def _unpacked(name: str, stream: BinaryIO, kind: Packing, limit: int, progress: Progress | None) -> SpanFile:
    with temporary_file(tempfile.gettempdir()) as out:
        try:
            with _unpacker(stream, kind) as unpacked:
                count = _copy(name, unpacked, out, limit, progress)
            out.flush()
        except BaseException as error:
            raise _explained(name, kind, error) from error
        _tell(name, count)
        return SpanFile(name, fd=out.fileno())


def _copy(path: str, unpacked: BinaryIO, out: BinaryIO, limit: int, progress: Progress | None) -> int:
    count = 0
    while piece := unpacked.read(_PIECE):
        count += len(piece)
        if count > limit:
            raise FormatError(
                path,
                problem=f"the contents take more than {format_count(limit, 'byte')}, the limit for it",
                fix="If you trust it, raise the limit: max_unpacked_bytes=.",
            )
        out.write(piece)
        if progress is not None:
            progress(0, None, count)
    return count


def _explained(path: str, kind: str, error: BaseException) -> BaseException:
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        place = tempfile.gettempdir()
        reason = f"no room in {place} for the unpacked content; point TMPDIR elsewhere, or unpack it first"
        return OSError(error.errno, reason, path)
    # Broken bzip2 and Zstandard are an OSError without a number.
    if isinstance(error, _BROKEN) or (isinstance(error, OSError) and error.errno is None):
        problem = f"it cannot be unpacked by {kind} ({error})"
        return FormatError(path, problem=problem, fix="It was probably cut short on its way; fetch it again.")
    return error


def _tell(path: str, count: int) -> None:
    level = logging.WARNING if count >= _WORTH_TELLING_BYTES else logging.INFO
    stem, ending = os.path.splitext(path)
    plain = f"{stem}.tar" if ending.lower().startswith(".t") else stem  # .tgz and the like
    _log.log(
        level,
        "%s is compressed: it was unpacked whole, %s into a temporary file, and is each time that it is opened. To "
        "avoid that: headrace convert %s %s",
        path,
        format_bytes(count),
        path,
        plain,
    )
