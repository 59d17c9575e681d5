"""Files of the disk, opened."""

from __future__ import annotations

import os
from typing import IO, Any

__all__ = ["open_", "reopen"]


def open_(path: str | os.PathLike[str], mode: str, *args: Any, **kwargs: Any) -> IO[Any]:
    """As ``open``, but ``x`` and ``a`` may stand together: a new file, whose writes all go to the end."""
    letters = set(mode)
    if not {"a", "x"} <= letters:
        return open(path, mode, *args, **kwargs)
    access = os.O_RDWR if "+" in letters else os.O_WRONLY
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | access, 0o666)
    return os.fdopen(fd, mode.replace("x", ""), *args, **kwargs)


def reopen(file: IO[Any], mode: str) -> IO[Any]:
    """The same file in another mode; it is closed first."""
    if file.mode == mode:
        return file
    file.close()
    return open_(file.name, mode)
