"""Opening files that somebody else may have put there.

A pipe would make the reader wait for ever, a device may do anything, and a link may lead out of the folder that the
user has in mind. So what is opened must be a regular file, and that is looked at before and after.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from headrace.errors import FormatError

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["check_regular", "open_for_reading", "open_stream"]

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


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
    check_regular(path, nofollow=nofollow)  # opening a device may do something already
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (os.O_NOFOLLOW if nofollow else 0)
    try:
        fd = os.open(path, flags)
    except OSError as error:  # it has become a link, or a socket
        if error.errno == errno.ELOOP and nofollow:
            raise _refusal(path, _KINDS[stat.S_IFLNK]) from None
        raise
    try:
        _check_kind(path, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_regular(path: PathLike, *, nofollow: bool) -> os.stat_result:
    """What the file system says of a path, unless it is something that ``open_for_reading`` refuses."""
    status = os.stat(path, follow_symlinks=not nofollow)
    _check_kind(path, status)
    return status


def _check_kind(path: PathLike, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a directory, and a file is needed", os.fspath(path))
    raise _refusal(path, _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file"))


def _refusal(path: PathLike, kind: str) -> FormatError:
    fix = "Name what it leads to, or allow links (follow_links=True, --follow-links)." if "link" in kind else ""
    return FormatError(path, problem=f"this is {kind}, and a regular file is needed", fix=fix)


def open_stream(path: PathLike, *, buffering: int = -1) -> BinaryIO:
    """The same as a file object, links followed.

    Args:
        path: of the file.
        buffering: as ``open`` takes it.
    """
    return open(open_for_reading(path, nofollow=False), "rb", buffering=buffering)
