"""Paths: of the index, and of what is inside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.formats.barecat.names import clean_name
from headrace.transfer.containers import KINDS, ending_of

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["is_tar_or_zip", "normalize_path", "resolve_index_path", "without_ending"]


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


def is_tar_or_zip(path: str) -> bool:
    """It is a tar or a zip, by its ending."""
    return ending_of(path) in KINDS


def without_ending(name: str) -> str:
    """A name without what says that it is an archive, a tar or a zip.

    Example:
        >>> without_ending("x.tar.gz")
        'x'
    """
    return name[: len(name) - len(ending_of(name))]
