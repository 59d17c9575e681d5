"""Paths: of the index, and of what is inside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.formats.barecat.names import clean_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import PathLike

__all__ = ["get_ancestors", "get_parent", "normalize_path", "partition_path", "resolve_index_path"]

_ABOVE_ROOT = b"\x00"


def resolve_index_path(path: PathLike) -> str:
    """The SQLite file of an archive, also under its older name."""
    plain = os.fspath(path)
    old = f"{plain}-sqlite-index"
    is_there = os.path.exists(plain) and not os.path.isdir(plain)
    return old if not is_there and os.path.exists(old) else plain


def normalize_path(path: PathLike) -> str:
    """The path as the index has it.

    Example:
        >>> normalize_path("/a//b/./c/")
        'a/b/c'
    """
    return clean_name(path)


def get_parent(path: str) -> str | bytes:
    """The directory that a path is in; of the root, something that no path is."""
    return path.rpartition("/")[0] if path else _ABOVE_ROOT


def partition_path(path: str) -> tuple[str | bytes, str]:
    """The directory that a path is in, and its last part."""
    return get_parent(path), path.rpartition("/")[2]


def get_ancestors(path: str) -> Iterator[str]:
    """All directories on the way from the root to a path, and the path itself.

    Example:
        >>> list(get_ancestors("a/b"))
        ['', 'a', 'a/b']
    """
    yield ""
    parts = path.split("/") if path else []
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])
