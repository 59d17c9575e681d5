"""The calls to the system that change something on a disk, as x86-64 numbers them."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["CALLS", "CHANGES", "O_CHANGES", "SYNCS", "Call"]

# Flags of open that change something; the last is the bit of O_TMPFILE without O_DIRECTORY.
O_CHANGES = os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call: where it names its file, and how it can fail.

    Attributes:
        number: of the call.
        fd: which argument is the descriptor of the file that changes.
        path: which argument is its path; ``folder`` is then the descriptor that the path begins at, if there is one.
        flags: which argument has the flags of open.
        size: which argument counts bytes, of calls that may do less than they were asked.
        takes_space: a full disk can be the answer.
    """

    number: int
    fd: int | None = None
    path: int | None = None
    folder: int | None = None
    flags: int | None = None
    size: int | None = None
    takes_space: bool = False


CALLS = {
    "write": Call(number=1, fd=0, size=2, takes_space=True),
    "pwrite64": Call(number=18, fd=0, size=2, takes_space=True),
    "writev": Call(number=20, fd=0, size=2, takes_space=True),
    "pwritev": Call(number=296, fd=0, size=2, takes_space=True),
    "pwritev2": Call(number=328, fd=0, size=2, takes_space=True),
    "sendfile": Call(number=40, fd=0, size=3, takes_space=True),
    "copy_file_range": Call(number=326, fd=2, size=4, takes_space=True),
    "splice": Call(number=275, fd=2, takes_space=True),
    "open": Call(number=2, path=0, flags=1, takes_space=True),
    "creat": Call(number=85, path=0, takes_space=True),
    "openat": Call(number=257, folder=0, path=1, flags=2, takes_space=True),
    "openat2": Call(number=437, folder=0, path=1, flags=2, takes_space=True),
    "rename": Call(number=82, path=1, takes_space=True),
    "renameat": Call(number=264, folder=2, path=3, takes_space=True),
    "renameat2": Call(number=316, folder=2, path=3, takes_space=True),
    "link": Call(number=86, path=1, takes_space=True),
    "linkat": Call(number=265, folder=2, path=3, takes_space=True),
    "symlink": Call(number=88, path=1, takes_space=True),
    "symlinkat": Call(number=266, folder=1, path=2, takes_space=True),
    "mkdir": Call(number=83, path=0, takes_space=True),
    "mkdirat": Call(number=258, folder=0, path=1, takes_space=True),
    "mknod": Call(number=133, path=0, takes_space=True),
    "mknodat": Call(number=259, folder=0, path=1, takes_space=True),
    "unlink": Call(number=87, path=0),
    "unlinkat": Call(number=263, folder=0, path=1),
    "rmdir": Call(number=84, path=0),
    "truncate": Call(number=76, path=0, takes_space=True),
    "ftruncate": Call(number=77, fd=0, takes_space=True),
    "fallocate": Call(number=285, fd=0, takes_space=True),
    "fsync": Call(number=74, fd=0, takes_space=True),
    "fdatasync": Call(number=75, fd=0, takes_space=True),
    "sync_file_range": Call(number=277, fd=0, takes_space=True),
    "syncfs": Call(number=306, fd=0, takes_space=True),
    "chmod": Call(number=90, path=0),
    "fchmod": Call(number=91, fd=0),
    "fchmodat": Call(number=268, folder=0, path=1),
    "fchmodat2": Call(number=452, folder=0, path=1),
    "chown": Call(number=92, path=0),
    "lchown": Call(number=94, path=0),
    "fchown": Call(number=93, fd=0),
    "fchownat": Call(number=260, folder=0, path=1),
    "utime": Call(number=132, path=0),
    "utimes": Call(number=235, path=0),
    "utimensat": Call(number=280, folder=0, path=1),
    "futimesat": Call(number=261, folder=0, path=1),
    "setxattr": Call(number=188, path=0, takes_space=True),
    "lsetxattr": Call(number=189, path=0, takes_space=True),
    "fsetxattr": Call(number=190, fd=0, takes_space=True),
    "removexattr": Call(number=197, path=0),
    "lremovexattr": Call(number=198, path=0),
    "fremovexattr": Call(number=199, fd=0),
}
CHANGES = {call.number: name for name, call in CALLS.items()}
SYNCS = ("fsync", "fdatasync", "sync_file_range", "syncfs")
