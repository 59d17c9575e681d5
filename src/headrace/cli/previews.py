"""What a file of an archive, or a sample, looks like on a few lines of a terminal."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.cli.common import printable, say
from headrace.codecs import image as image_codec
from headrace.codecs import npy
from headrace.codecs.small_picture import looks_like_picture, small_array, small_file
from headrace.errors import HeadraceError
from headrace.formats.thumbnails import small_picture
from headrace.progress import format_bytes
from headrace.terminal import draw, enlarge, find_screen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.codecs.small_picture import Box
    from headrace.formats.barecat import Archive, FileInfo
    from headrace.types import Dataset

__all__ = ["ANY_BOX", "Preview", "describe_file", "describe_sample", "print_preview"]

ANY_BOX: Box = (1024, 1024)
"""Of a picture where nothing is known about a screen."""

_HEAD_BYTES = 4096
_MAX_BYTES = 64 << 20
_MAX_JSON_BYTES = 4 << 20  # which can take a hundred times as much when it is laid out
_MAX_LINE = 1000
_LINES_BELOW = 8  # of the screen, for the values below a picture
_TEXT = frozenset((".txt", ".md", ".csv", ".tsv", ".xml", ".html", ".yaml", ".yml", ".toml", ".py", ".log"))


class Preview(NamedTuple):
    """Lines of text, and the pixels of a picture, made small, with alpha where it is transparent."""

    lines: list[str]
    pixels: npt.NDArray[np.uint8] | None = None


def print_preview(describe: Callable[[Box], Preview]) -> int:
    """Print a preview as large as the terminal allows; where there is none, its text alone."""
    screen = find_screen(sys.stdout, sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None)
    preview = describe(screen.box(screen.columns, max(4, screen.lines - _LINES_BELOW)))
    if preview.pixels is not None:
        sys.stdout.write(draw(preview.pixels, screen))
    for line in preview.lines:
        say(line)
    return 0


def describe_file(archive: Archive, info: FileInfo, *, max_lines: int = 200, box: Box = ANY_BOX) -> Preview:
    """The facts about a file and what is in it; damage is described, not raised."""
    lines = [printable(info.name), format_bytes(info.size)]
    if info.mtime is not None:
        lines.append(f"{info.mtime:%Y-%m-%d %H:%M:%S} UTC")
    return _described(lines, lambda: _content(archive, info, max_lines, box))


def describe_sample(
    dataset: Dataset, index: int, *, fields: Sequence[str] | None = None, max_lines: int = 200, box: Box = ANY_BOX
) -> Preview:
    """The values of a sample, all or some; the first picture as pixels. Damage is described, not raised."""
    name = dataset.keys[index] if dataset.keys is not None else None
    lines = [f"sample {index:,}", *([] if name is None else [printable(name)])]
    wanted = tuple(dataset.schema) if fields is None else fields
    return _described(lines, lambda: _values(dataset, index, wanted, max_lines, box))


def _described(head: list[str], look: Callable[[], Preview]) -> Preview:
    try:
        found = look()
    except (HeadraceError, ValueError, OSError, RecursionError, MemoryError) as error:
        return Preview([*head, "", f"It cannot be shown: {printable(str(error))}"])
    return Preview([*head, "", *(printable(line[:_MAX_LINE]) for line in found.lines)], found.pixels)


def _values(dataset: Dataset, index: int, fields: Sequence[str], max_lines: int, box: Box) -> Preview:
    lines: list[str] = []
    shown: npt.NDArray[np.uint8] | None = None
    for name in fields:
        kind = dataset.schema[name].kind
        if kind == "image":
            small = small_picture(dataset, index, name, box)
            found = [f"{small.width} x {small.height} pixels"]
            shown = enlarge(small.pixels, box) if shown is None else shown
        else:
            value = dataset.read_values(np.array([index], np.int64), name)[0]
            found = _value(
                kind, value.item() if isinstance(value, np.generic) else value, dataset.class_names.get(name)
            )
            shown = _array_picture(value, box) if shown is None else shown
        lines += [f"{name}: {found[0]}"] if len(found) == 1 else [f"{name}:", *(f"  {line}" for line in found)]
    return Preview(_cut(lines, max_lines), shown)


def _array_picture(value: object, box: Box) -> npt.NDArray[np.uint8] | None:
    is_picture = isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and looks_like_picture(value.shape)
    return enlarge(small_array(value, box).pixels, box) if isinstance(value, np.ndarray) and is_picture else None


def _value(kind: str, value: object, classes: Sequence[str] | None) -> list[str]:
    if isinstance(value, np.ndarray):
        return _array_lines(value)
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value[:_HEAD_BYTES])
        return [format_bytes(len(value)), *(_text_lines(data) if _is_text(data) else _dump(data))]
    if kind == "json":
        return json.dumps(value, indent=2, ensure_ascii=False, default=str).splitlines()
    if classes is not None and isinstance(value, int) and 0 <= value < len(classes):
        return [f"{value} ({classes[value]})"]
    return str(value).splitlines() or [""]


def _array_lines(array: npt.NDArray[np.generic]) -> list[str]:
    shape = " x ".join(map(str, array.shape)) or "one value"
    return [f"{array.dtype}, {shape}", *str(array).splitlines()]


def _text_lines(data: bytes) -> list[str]:
    return data.decode(errors="replace").splitlines()


def _content(archive: Archive, info: FileInfo, max_lines: int, box: Box) -> Preview:
    ending = os.path.splitext(info.name)[1].lower()
    if info.size <= _MAX_BYTES:
        if ending in image_codec.SUFFIXES:
            small = small_file(archive[info.path], box)
            return Preview([f"{small.width} x {small.height} pixels"], enlarge(small.pixels, box))
        if ending == ".json" and info.size <= _MAX_JSON_BYTES:
            text = json.dumps(json.loads(archive[info.path]), indent=2, ensure_ascii=False)
            return Preview(_cut(text.splitlines(), max_lines))
        if ending == ".npy":
            return Preview(_cut(_array_lines(npy.decode(archive[info.path])), max_lines))
    head = archive.read(info.path, 0, _HEAD_BYTES)
    if ending in _TEXT or (head and _is_text(head)):
        return Preview(_cut(_text_lines(head), max_lines))
    return Preview(_cut(_dump(head), max_lines))


def _is_text(head: bytes) -> bool:
    try:
        head[:-4].decode()  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _cut(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], "..."]


def _dump(data: bytes) -> list[str]:
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<47}  {text}")
    return lines
