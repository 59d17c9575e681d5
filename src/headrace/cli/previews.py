"""What a file of an archive, or a sample, looks like on a few lines of a terminal."""

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
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headrace.formats.barecat import Archive, FileInfo
    from headrace.types import Dataset

__all__ = ["Preview", "describe_file", "describe_sample", "shrink"]

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
    return _described(lines, lambda: _content(archive, info, max_lines))


def describe_sample(dataset: Dataset, index: int, *, max_lines: int = 200) -> Preview:
    """The values of a sample; the first picture as pixels. Damage is described, not raised."""
    name = dataset.keys[index] if dataset.keys is not None else None
    lines = [f"sample {index:,}", *([] if name is None else [printable(name)])]
    return _described(lines, lambda: _values(dataset, index, max_lines))


def _described(head: list[str], look: Callable[[], Preview]) -> Preview:
    try:
        found = look()
    except (HeadraceError, ValueError, OSError, RecursionError, MemoryError) as error:
        return Preview([*head, "", f"It cannot be shown: {printable(str(error))}"])
    return Preview([*head, "", *(printable(line[:_MAX_LINE]) for line in found.lines)], found.pixels)


def _values(dataset: Dataset, index: int, max_lines: int) -> Preview:
    lines: list[str] = []
    shown: npt.NDArray[np.uint8] | None = None
    for name, value in dict(dataset[index]).items():
        kind = dataset.schema[name].kind
        found = _value(kind, value, dataset.class_names.get(name))
        if kind == "image" and shown is None:
            shown = value
        lines += [f"{name}: {found[0]}"] if len(found) == 1 else [f"{name}:", *(f"  {line}" for line in found)]
    return Preview(_cut(lines, max_lines), shown)


def _value(kind: str, value: object, classes: Sequence[str] | None) -> list[str]:
    if isinstance(value, np.ndarray):
        if kind == "image":
            return [f"{value.shape[1]} x {value.shape[0]} pixels"]
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
