"""What is carried between archives, folders, tar and zip: one entry after the other."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.formats.barecat.names import check_new_name, clean_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from penstock.formats.barecat.rows import Metadata

__all__ = ["Entry", "Transfer", "safe_name"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory on its way; ``open`` gives a file's content and is called at most once."""

    name: str
    is_dir: bool
    size: int
    about: Metadata
    open: Callable[[], BinaryIO] = io.BytesIO


@dataclass(slots=True)
class Transfer:
    """What was carried: counts, bytes, and what was left out, with the reason."""

    files: int = 0
    dirs: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list)


def safe_name(name: str) -> str:
    """A name from an archive that stays inside the target; ValueError for one that does not.

    Example:
        >>> safe_name("./a//b")
        'a/b'
    """
    if name.startswith("/"):
        raise ValueError(f"{name!r} is an absolute path; names in an archive must be relative")
    if ".." in name.split("/"):
        raise ValueError(f"{name!r} leads out of the archive; it is refused")
    return check_new_name(clean_name(name))
