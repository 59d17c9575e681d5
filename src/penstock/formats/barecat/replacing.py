"""Archives that get their name only when they are complete.

Contract: until ``new_archive`` ends well there is nothing new under the name, and an archive that is there stays as it
is. Leaving the block by an exception, Ctrl-C included, leaves nothing behind. Then the old archive goes and the new one
gets the name, its index last: at no time does an index stand beside shards that are not its own.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.formats.barecat.appending import lock_archive, sync_directory
from penstock.formats.barecat.archive import Archive, remove_archive
from penstock.formats.barecat.names import archive_files, archive_path, shard_numbers, shard_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.errors import PathLike

__all__ = ["move_archive", "name_beside", "new_archive"]


def name_beside(path: str) -> str:
    """A name in the same folder that nobody uses, for what is not complete yet."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.urandom(4).hex()}.incomplete")


@contextlib.contextmanager
def new_archive(path: PathLike, *, shard_size: int | None = None) -> Iterator[Archive]:
    """Make an archive beside its final name, which it gets at the end of the block; one that is there is replaced.

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
    final = archive_path(path)
    if os.path.isdir(final):
        raise IsADirectoryError(f"{final} is a directory; name a file to write to")
    beside = name_beside(final)
    with _claimed(final):
        pass  # an error now, not after hours
    try:
        with Archive(beside, "x", shard_size=shard_size) as archive:
            yield archive
        move_archive(beside, final)
    except PenstockError as error:
        remove_archive(beside)
        error.args = tuple(arg.replace(beside, final) if isinstance(arg, str) else arg for arg in error.args)
        raise
    except BaseException:
        remove_archive(beside)
        raise


def move_archive(old: str, new: str) -> None:
    """Give a closed archive another name in the same folder; what is there under that name goes."""
    numbers = shard_numbers(old)
    shards = {shard_path(new, number) for number in numbers}
    with _claimed(new):
        for file in archive_files(new):  # the index first
            if file not in shards:
                os.unlink(file)
        for number in numbers:
            os.replace(shard_path(old, number), shard_path(new, number))
        os.replace(old, new)
    sync_directory(new)


@contextlib.contextmanager
def _claimed(path: str) -> Iterator[None]:
    """Keep writers away from an archive that is there; ArchiveBusyError when there is one."""
    first = shard_path(path, 0)
    if os.path.islink(first) or not os.path.exists(first):  # a link leads to the shard of somebody else
        yield
        return
    fd = lock_archive(path)
    try:
        yield
    finally:
        os.close(fd)
