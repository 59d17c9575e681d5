"""Archives that get their name only when they are complete."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.edit.handover import made_beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import PathLike

__all__ = ["new_archive"]


@contextlib.contextmanager
def new_archive(path: PathLike, *, shard_size: int | None = None) -> Iterator[Archive]:
    """Make an archive beside its final name, which it gets at the end of the block; one that is there is replaced.

    Until the block ends well there is nothing new under the name; leaving it by an exception, Ctrl-C included, leaves
    nothing behind. See ``handover`` for what happens then, and when the process is killed.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
        >>> with new_archive(path) as archive:
        ...     archive["a"] = b"1"
        ...     os.path.exists(path)
        False
        >>> Archive(path)["a"]
        b'1'
    """
    with made_beside(path) as beside, Archive(beside, "x", shard_size=shard_size) as archive:
        archive.path = os.fspath(path)
        archive.editor.show_as(archive.path)
        yield archive
