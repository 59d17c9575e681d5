"""``headrace.open``: find the format of a path and open it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.errors import UnknownFormatError
from headrace.formats.content import CONTAINERS, explained
from headrace.formats.contract import Format
from headrace.registry import PluginTable
from headrace.storage import open_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.errors import PathLike
    from headrace.types import Dataset

__all__ = ["FORMATS", "all_formats", "find_format", "format_of_name", "open_dataset"]

FORMATS: PluginTable[Format] = PluginTable("headrace.formats", kind="format", type=Format)
_HEAD_BYTES = 4096


def open_dataset(path: PathLike | Sequence[PathLike], *, format: str | None = None, **options: Any) -> Dataset:
    """Open a dataset of any known format.

    Args:
        path: a file or folder; for formats of several parts, such as .ffr, also a list of files.
        format: name of the format; by default it is found by the name's ending, then by the content.
        **options: what the format's reader takes, such as ``annex`` and ``checksums`` for a .beton. ``follow_links``
            (also read an annex and shards that are symbolic links) may be given for every format.

    Raises:
        FileNotFoundError: there is nothing at the path.
        UnknownFormatError: no format fits.
        FormatError: the file is damaged.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.beton")
        >>> headrace.write(path, range(5), fields={"n": headrace.Int()})
        >>> dataset = headrace.open(path)
        >>> len(dataset), dataset[-1].n, [s.n for s in dataset[1:4]], [s.n for s in dataset[[3, 0]]]
        (5, 4, [1, 2, 3], [3, 0])
    """
    first = path if isinstance(path, str | os.PathLike) else next(iter(path), None)
    if first is None:
        raise ValueError("path is an empty list; give one file at least")
    found = FORMATS.load(format) if format is not None else find_format(first)
    with explained(first, all_formats):
        return found.open_checked(path, **options)


def all_formats() -> list[Format]:
    """Every known format, by name."""
    return [FORMATS.load(known) for known in FORMATS.names()]


def format_of_name(path: PathLike) -> Format | None:
    """The format that the ending of a path names, or None; the path need not exist."""
    name = os.fspath(path).lower()
    return next((known for known in all_formats() if known.suffixes and name.endswith(known.suffixes)), None)


def find_format(path: PathLike, *, must_exist: bool = True) -> Format:
    """The format of a path: by its ending, or else by its first bytes."""
    name = os.fspath(path)
    if not name:
        raise ValueError("the path is empty")
    named = format_of_name(name)
    if named is not None and (not must_exist or (named.exists(name) and not os.path.isdir(name))):
        return named
    if must_exist:
        if not os.path.exists(name):
            raise FileNotFoundError(f"{name} does not exist")
        head = _first_bytes(name)
        for candidate in sorted(all_formats(), key=lambda known: not known.suffixes):  # any folder is a folder
            if candidate.matches(name, head):
                return candidate
    known = ", ".join(candidate.suffixes[0] for candidate in all_formats() if candidate.suffixes)
    message = f"{name}: no format is known for this. Known endings: {known}."
    if name.lower().endswith(CONTAINERS):
        beside = f"{os.path.splitext(name)[0].removesuffix('.tar')}.barecat"
        message += f" Convert a tar or zip first, for example: headrace convert {name} {beside}"
    raise UnknownFormatError(message)


def _first_bytes(path: str) -> bytes:
    if os.path.isdir(path):
        return b""
    with open_stream(path) as file:
        return file.read(_HEAD_BYTES)
