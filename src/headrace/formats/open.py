"""``headrace.open``: find the format of a path and open it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headrace.errors import UnknownFormatError
from headrace.registry import PluginTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.types import Dataset

__all__ = ["FORMATS", "find_format", "open_dataset"]

FORMATS: PluginTable[Format] = PluginTable("headrace.formats", kind="format")
_HEAD_BYTES = 4096


def open_dataset(path: PathLike | Sequence[PathLike], *, format: str | None = None, **options: Any) -> Dataset:
    """Open a dataset of any known format.

    Args:
        path: a file or folder; for formats of several parts, such as .ffr, also a list of files.
        format: name of the format; by default it is found by the name's ending, then by the content.
        **options: what the format's reader takes, such as ``annex`` and ``checksums`` for a .beton.

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
    first = path if isinstance(path, str | os.PathLike) else next(iter(path), "")
    found = FORMATS.load(format) if format is not None else find_format(first)
    return found.open(path, **options)


def find_format(path: PathLike, *, must_exist: bool = True) -> Format:
    """The format of a path: by its ending, or else by its first bytes."""
    name = os.fspath(path)
    formats = [FORMATS.load(known) for known in FORMATS.names()]
    if not (must_exist and os.path.isdir(name)):
        for candidate in formats:
            if name.lower().endswith(candidate.suffixes) and (candidate.exists(name) or not must_exist):
                return candidate
    if must_exist:
        if not os.path.exists(name):
            raise FileNotFoundError(f"{name} does not exist")
        head = _first_bytes(name)
        for candidate in formats:
            if candidate.matches(name, head):
                return candidate
    known = ", ".join(suffix for candidate in formats for suffix in candidate.suffixes)
    hint = " Or say format=..." if must_exist else ""
    raise UnknownFormatError(f"{name}: no format is known for this. Known endings: {known}.{hint}")


def _first_bytes(path: str) -> bytes:
    if os.path.isdir(path):
        return b""
    with open(path, "rb") as file:
        return file.read(_HEAD_BYTES)
