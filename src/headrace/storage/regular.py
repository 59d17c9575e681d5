"""Opening files that somebody else may have put there.

A pipe would make the reader wait for ever, a device may do anything, and a link may lead out of the folder that the
user has in mind. So what is opened must be a regular file, and that is looked at before and after. A file that will be
written is no link at all; a new one has the permissions of those that it belongs to from the beginning: nobody may read
a part of something private, not even for a moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from headrace.errors import FormatError
from headrace.storage.new_file import kept_mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.errors import PathLike

__all__ = ["check_regular", "kind_problem", "open_for_reading", "open_own", "open_stream", "take_over"]

_LINK, _DIRECTORY = "a symbolic link", "a directory"
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: _LINK,
    stat.S_IFDIR: _DIRECTORY,
}
_ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PRIVATE, _USUAL = 0o600, 0o666


def open_for_reading(path: PathLike, *, nofollow: bool) -> int:
    """Open a regular file and give its descriptor; never waits, never creates anything.

    Args:
        path: of the file.
        nofollow: refuse a path whose last part is a symbolic link.

    Raises:
        FormatError: it is a pipe, a socket or a device, or a link that is not to be followed.
        IsADirectoryError: it is a directory.

    Example:
        >>> open_for_reading("/dev/null", nofollow=True)
        Traceback (most recent call last):
        headrace.errors.FormatError: /dev/null: this is a device, and a regular file is needed.
    """
    return _open(path, os.O_RDONLY, nofollow, _refusal)


def open_own(
    path: PathLike, flags: int, *, like: os.stat_result | None = None, create: bool = False, follow: bool = False
) -> int:
    """Open a file that is ours, to write to it or to lock it, and give its descriptor.

    Args:
        path: of the file.
        flags: ``os.O_RDWR`` and the like.
        like: whose permissions it takes over if it is created; by default the umask decides.
        create: make it if it is missing.
        follow: it may be a symbolic link.

    Raises:
        FormatError: it is something else than a regular file.
    """
    while True:
        try:
            return _open(path, flags, not follow, _own_refusal)
        except FileNotFoundError:
            if not create:
                raise
            with contextlib.suppress(FileExistsError):  # somebody else was quicker: open that
                return _create(path, flags, like)


def _open(path: PathLike, flags: int, nofollow: bool, refusal: Callable[[PathLike, str], Exception]) -> int:
    _check_kind(path, os.stat(path, follow_symlinks=not nofollow), refusal)  # opening a device may do something already
    try:
        fd = os.open(path, flags | _ALWAYS | (os.O_NOFOLLOW if nofollow else 0))
    except OSError as error:  # it has become a link, or a socket
        if error.errno == errno.ELOOP and nofollow:
            raise refusal(path, _LINK) from None
        raise
    try:
        _check_kind(path, os.fstat(fd), refusal)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _create(path: PathLike, flags: int, like: os.stat_result | None) -> int:
    fd = os.open(path, flags | _ALWAYS | os.O_CREAT | os.O_EXCL, _USUAL if like is None else _PRIVATE)
    if like is not None:
        try:
            take_over(fd, like)
        except BaseException:
            os.close(fd)
            os.unlink(path)
            raise
    return fd


def take_over(fd: int, like: os.stat_result) -> None:
    """Give a file the group and the permissions of another; nobody gets more than they have there."""
    os.fchmod(fd, kept_mode(fd, like) & _USUAL)


def check_regular(path: PathLike, *, nofollow: bool) -> os.stat_result:
    """What the file system says of a path, unless it is something that ``open_for_reading`` refuses."""
    status = os.stat(path, follow_symlinks=not nofollow)
    _check_kind(path, status, _refusal)
    return status


def kind_problem(status: os.stat_result) -> str | None:
    """What a file is, if it is not a regular one."""
    kind = stat.S_IFMT(status.st_mode)
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "no regular file")


def _check_kind(path: PathLike, status: os.stat_result, refusal: Callable[[PathLike, str], Exception]) -> None:
    problem = kind_problem(status)
    if problem is not None:
        raise refusal(path, problem)


def _refusal(path: PathLike, kind: str) -> Exception:
    if kind == _DIRECTORY:
        return IsADirectoryError(errno.EISDIR, "this is a directory, and a file is needed", os.fspath(path))
    fix = "Name what it leads to, or allow links (follow_links=True, --follow-links)." if kind == _LINK else ""
    return FormatError(path, problem=f"this is {kind}, and a regular file is needed", fix=fix)


def _own_refusal(path: PathLike, kind: str) -> Exception:
    if kind != _LINK:
        return FormatError(path, problem=f"this is {kind}, and a regular file is needed")
    problem = "this is a symbolic link, so writing could change a file elsewhere"
    return FormatError(path, problem=problem, fix="Put a copy of what it leads to in its place.")


def open_stream(path: PathLike, *, buffering: int = -1) -> BinaryIO:
    """A regular file as a file object for reading, links followed.

    Args:
        path: of the file.
        buffering: as ``open`` takes it.
    """
    return open(open_for_reading(path, nofollow=False), "rb", buffering=buffering)
