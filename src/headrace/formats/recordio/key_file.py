"""The ``.idx`` beside a RecordIO file: a line for each record, its key, a tab and the byte where it begins."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import FormatError, RefusedError
from headrace.storage import RemotePath, open_for_reading, open_stored

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["Keys", "key_path", "read_keys"]

_MAX_BYTES = 4 << 30
_MAX_KEY = 4096
_MAX_DIGITS = 19


@dataclass(frozen=True, eq=False)
class Keys:
    """What such a file says; its lines are read when they are asked for, ValueError where they cannot be.

    Attributes:
        data: the whole file.
    """

    data: bytes

    @cached_property
    def checksum(self) -> int:
        """Tells it from another one."""
        return _native.crc32c(self.data)

    @cached_property
    def lines(self) -> tuple[list[str], npt.NDArray[np.uint64]]:
        """Keys in order, and where their records begin."""
        names: list[str] = []
        offsets: list[int] = []
        for number, line in enumerate(self.data.splitlines(), 1):
            key, tab, offset = line.partition(b"\t")
            if not tab or not key or len(key) > _MAX_KEY or not offset.isdigit() or len(offset) > _MAX_DIGITS:
                raise ValueError(f"line {number} is not a key, a tab and a number")
            names.append(key.decode("utf-8", "surrogateescape"))
            offsets.append(int(offset))
        if len(set(names)) != len(names):
            raise ValueError("a key stands there twice")
        return names, np.array(offsets, np.uint64)

    @property
    def names(self) -> list[str] | None:
        """Names of the samples; None where keys are 0, 1, 2 and so on, and say nothing."""
        names = self.lines[0]
        return None if all(name == str(i) for i, name in enumerate(names)) else names


def key_path(path: PathLike) -> str:
    """Where the keys of a file are.

    Example:
        >>> key_path("a/train.rec")
        'a/train.idx'
    """
    name = os.fspath(path)
    if isinstance(name, RemotePath):
        url, mark, query = str(name).partition("?")
        return name.with_url(f"{os.path.splitext(url)[0]}.idx{mark}{query}")
    return os.path.splitext(name)[0] + ".idx"


def read_keys(path: PathLike, *, follow_links: bool) -> Keys | None:
    """The keys of a RecordIO file; None where there are none, ValueError where they cannot be opened."""
    name = key_path(path)
    if isinstance(name, RemotePath):
        return _fetch_keys(name)
    if not os.path.lexists(name):
        return None
    try:
        fd = open_for_reading(name, nofollow=not follow_links)
    except (OSError, FormatError) as error:
        raise ValueError(f"it cannot be opened ({error})") from None
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        _check_size(size)
        return Keys(file.read(size))  # memory for all of it is asked for at once


def _fetch_keys(name: RemotePath) -> Keys | None:
    try:
        file = open_stored(name)
    except (FileNotFoundError, RefusedError):  # some stores refuse what is not there
        return None
    _check_size(file.size_bytes)
    data = file.hold(0, file.size_bytes).tobytes()
    file.check()
    file.close()
    return Keys(data)


def _check_size(size: int) -> None:
    if size > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
