"""Files of an archive, opened to be written.

What lies beside an index may come from anybody: a tar brings links and pipes along. So a file that will be written is
opened without following a link and without waiting, and must be a regular file. A new one has the permissions of the
archive from the beginning: nobody may read a part of a private archive, not even for a moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from headrace.errors import FormatError
from headrace.formats.barecat.names import index_path, shard_path
from headrace.storage.new_file import kept_mode

__all__ = ["archive_status", "kind_problem", "open_own", "take_over"]

_ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PRIVATE, _USUAL = 0o600, 0o666


def archive_status(path: str) -> os.stat_result | None:
    """Owner and permissions that new files of an archive take over: those of its index, else of its first shard."""
    for file in (index_path(path), shard_path(path, 0)):
        with contextlib.suppress(FileNotFoundError):
            return os.stat(file)
    return None


def open_own(
    file: str, flags: int, *, like: os.stat_result | None = None, create: bool = False, follow: bool = False
) -> int:
    """Open a file of an archive and give its descriptor.

    Args:
        file: its path.
        flags: ``os.O_RDWR`` and the like.
        like: whose permissions it takes over if it is created; by default the umask decides.
        create: make it if it is missing.
        follow: it may be a symbolic link.

    Raises:
        FormatError: it is a link, a pipe or a device.
    """
    _check_kind(file, follow)  # opening a device may do something already
    while True:
        try:
            fd = os.open(file, flags | _ALWAYS | (0 if follow else os.O_NOFOLLOW))
        except FileNotFoundError:
            if not create:
                raise
            with contextlib.suppress(FileExistsError):  # somebody else was quicker: open that
                return _create(file, flags, like)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _refusal(file, "a symbolic link") from None
            raise
        else:
            break
    problem = kind_problem(os.fstat(fd))
    if problem is not None:
        os.close(fd)
        raise _refusal(file, problem)
    return fd


def _create(file: str, flags: int, like: os.stat_result | None) -> int:
    fd = os.open(file, flags | _ALWAYS | os.O_CREAT | os.O_EXCL, _USUAL if like is None else _PRIVATE)
    if like is not None:
        try:
            take_over(fd, like)
        except BaseException:
            os.close(fd)
            os.unlink(file)
            raise
    return fd


def take_over(fd: int, like: os.stat_result) -> None:
    """Give a file the group and the permissions of another; nobody gets more than they have there."""
    os.fchmod(fd, kept_mode(fd, like) & _USUAL)


def kind_problem(status: os.stat_result) -> str | None:
    """What a file is, if it is not a regular one."""
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a directory"}
    kind = stat.S_IFMT(status.st_mode)
    return None if kind == stat.S_IFREG else kinds.get(kind, "a device or a socket")


def _check_kind(file: str, follow: bool) -> None:
    try:
        problem = kind_problem(os.stat(file, follow_symlinks=follow))
    except FileNotFoundError:
        return
    if problem is not None:
        raise _refusal(file, problem)


def _refusal(file: str, problem: str) -> FormatError:
    if "link" in problem:
        return FormatError(
            file,
            problem="this is a symbolic link, so writing could change a file elsewhere",
            fix="Make a copy with headrace merge --follow-links, or for shards, open with allow_links=True.",
        )
    return FormatError(file, problem=f"this is {problem}, and a regular file is needed")
