"""Paths: of the index, and of what is inside."""

from __future__ import annotations

from headrace.formats.barecat.names import index_path as resolve_index_path
from headrace.formats.entry_names import clean_name as normalize_path
from headrace.transfer.containers import KINDS, ending_of

__all__ = ["is_tar_or_zip", "normalize_path", "resolve_index_path", "without_ending"]


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
