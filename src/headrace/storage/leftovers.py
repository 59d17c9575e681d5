"""What killed writers leave behind, and how it goes away.

A file that is being written has no name at all, or a hidden one: ``.NAME.1a2b3c4d.unfinished``. Who writes it holds the
lock of the file itself (``flock``) for as long as the hidden name is there, and the lock goes with the process. So a
hidden file whose lock is free was left by a process that is dead, and the next writer of that name removes it.

The two sides cannot harm each other: who removes a file does so while holding its lock, and who has just created one
takes its lock and then looks whether the file still has a name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["hidden_name", "is_hidden", "lock", "remove_leftovers", "remove_leftovers_in"]

_HIDDEN = re.compile(r"\.(.+)\.[0-9a-f]{8}\.unfinished", re.DOTALL)
_NAME_BYTES = 100  # of the final name: enough to recognize it, and the whole fits into any file system
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def remove_leftovers(path: PathLike) -> list[str]:
    """Remove what dead processes left of a file that they were writing; gives the paths that were removed.

    Files of living writers and of other users stay, and so does everything where the file system has no locks.

    Args:
        path: the final name of the file, or a folder: then what was left of any file in it, but not further down.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / ".x.tar.0123abcd.unfinished").write_bytes(b"half of it")
        >>> len(remove_leftovers(folder / "x.tar")), list(folder.iterdir())
        (1, [])
    """
    plain = os.path.abspath(path)
    folder, name = (plain, None) if os.path.isdir(plain) else os.path.split(plain)
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        return [os.path.join(folder, left) for left in remove_leftovers_in(directory, name)]
    finally:
        os.close(directory)


def remove_leftovers_in(directory: int, name: str | None = None) -> list[str]:
    """The same for a directory that is open, and one name in it or all of them; gives names."""
    wanted = None if name is None else _cut(name)
    with os.scandir(directory) as entries:
        found = [
            entry.name
            for entry in entries
            if (match := _HIDDEN.fullmatch(entry.name)) and (wanted is None or match[1] == wanted)
        ]
    return [hidden for hidden in found if _remove_if_dead(directory, hidden)]


def _remove_if_dead(directory: int, hidden: str) -> bool:
    try:
        if not _is_own_file(os.stat(hidden, dir_fd=directory, follow_symlinks=False)):
            return False
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # some file systems lock only for writing
        fd = os.open(hidden, flags, dir_fd=directory)
    except OSError:
        return False  # it is gone, or not ours
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(fd), os.stat(hidden, dir_fd=directory, follow_symlinks=False)):
            return False
        os.unlink(hidden, dir_fd=directory)
    except OSError:
        return False  # somebody is writing it, or has given it its name, or there are no locks
    finally:
        os.close(fd)
    return True


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def hidden_name(name: str) -> str:
    """A hidden name that nobody uses, for a file that will get this name."""
    return f".{_cut(name)}.{os.urandom(4).hex()}.unfinished"


def is_hidden(name: str) -> bool:
    """A name is one that ``hidden_name`` gave."""
    return _HIDDEN.fullmatch(name) is not None


def _cut(name: str) -> str:
    return os.fsencode(name)[:_NAME_BYTES].decode("utf-8", "ignore") or "file"


def lock(fd: int) -> None:
    """Say that the file of this descriptor has a living writer; does nothing where there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
