"""Zstandard, decompressed so that what ends too early is an error: the library itself would take it for the end."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["open_zst", "zst_pieces"]

_STEP = 4096  # becomes 128 MiB at most


def zst_pieces(zstandard: Any, read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Decompress all frames, a piece at a time.

    Args:
        zstandard: the package.
        read: gives at most so many compressed bytes, and none at the end.

    Raises:
        EOFError: the last frame is not complete.
        OSError: this is not Zstandard.
    """
    frame: Any = None
    data = read(_STEP)
    while data:
        if frame is None:
            frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            yield frame.decompress(data)
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        data = frame.unused_data
        if frame.eof:
            frame = None
        data = data or read(_STEP)
    if frame is not None:
        raise EOFError("the compressed data end too early")


class _Stream(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def open_zst(zstandard: Any, file: BinaryIO) -> BinaryIO:
    """A compressed file as a stream of what is in it."""
    return cast("BinaryIO", io.BufferedReader(_Stream(zst_pieces(zstandard, file.read))))
