"""What a file of an archive looks like on a few lines of a terminal."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.cli.common import printable
from headrace.codecs import image as image_codec
from headrace.codecs import npy
from headrace.errors import HeadraceError
from headrace.progress import format_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from headrace.formats.barecat import Archive, FileInfo

__all__ = ["Preview", "describe_file", "shrink"]

_HEAD_BYTES = 4096
_MAX_BYTES = 64 << 20
_MAX_JSON_BYTES = 4 << 20  # which can take a hundred times as much when it is laid out
_MAX_LINE = 1000
_TEXT = frozenset((".txt", ".md", ".csv", ".tsv", ".xml", ".html", ".yaml", ".yml", ".toml", ".py", ".log"))


class Preview(NamedTuple):
    """Lines of text, and pixels for a picture."""

    lines: list[str]
    pixels: npt.NDArray[np.uint8] | None = None


def describe_file(archive: Archive, info: FileInfo, *, max_lines: int = 200) -> Preview:
    """The facts about a file and what is in it; damage is described, not raised."""
    lines = [printable(info.name), format_bytes(info.size)]
    if info.mtime is not None:
        lines.append(f"{info.mtime:%Y-%m-%d %H:%M:%S} UTC")
    try:
        found = _content(archive, info, max_lines)
    except (HeadraceError, ValueError, OSError, RecursionError, MemoryError) as error:
        return Preview([*lines, "", f"It cannot be shown: {printable(str(error))}"])
    return Preview([*lines, "", *(printable(line[:_MAX_LINE]) for line in found.lines)], found.pixels)


def _content(archive: Archive, info: FileInfo, max_lines: int) -> Preview:
    ending = os.path.splitext(info.name)[1].lower()
    if info.size <= _MAX_BYTES:
        if ending in image_codec.SUFFIXES:
            pixels = image_codec.decode(archive[info.path])
            return Preview([f"{pixels.shape[1]} x {pixels.shape[0]} pixels"], pixels)
        if ending == ".json" and info.size <= _MAX_JSON_BYTES:
            text = json.dumps(json.loads(archive[info.path]), indent=2, ensure_ascii=False)
            return Preview(_cut(text.splitlines(), max_lines))
        if ending == ".npy":
            array = npy.decode(archive[info.path])
            shape = " x ".join(map(str, array.shape)) or "one value"
            return Preview([f"{array.dtype}, {shape}", *_cut(str(array).splitlines(), max_lines)])
    head = archive.read(info.path, 0, _HEAD_BYTES)
    if ending in _TEXT or (head and b"\0" not in head and _is_text(head)):
        return Preview(_cut(head.decode(errors="replace").splitlines(), max_lines))
    return Preview(_cut(_dump(head), max_lines))


def _is_text(head: bytes) -> bool:
    try:
        head[:-4].decode()  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], "..."]


def _dump(data: bytes) -> list[str]:
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<47}  {text}")
    return lines


def shrink(pixels: npt.NDArray[np.uint8], width: int, height: int) -> npt.NDArray[np.uint8]:
    """A picture that fits into so many columns and twice as many half lines, its sides in proportion.

    Example:
        >>> shrink(np.zeros((100, 200, 3), np.uint8), 40, 40).shape
        (20, 40, 3)
    """
    scale = min(width / pixels.shape[1], height / pixels.shape[0], 1.0)
    rows = np.linspace(0, pixels.shape[0] - 1, max(2, int(pixels.shape[0] * scale))).astype(int)
    columns = np.linspace(0, pixels.shape[1] - 1, max(1, int(pixels.shape[1] * scale))).astype(int)
    small: npt.NDArray[np.uint8] = pixels[rows][:, columns]
    return small[: len(small) // 2 * 2]
