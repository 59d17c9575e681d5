"""What the index says about one file or directory."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.formats.metadata import Metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "DIR_COLUMNS",
    "FILE_COLUMNS",
    "DirInfo",
    "FileInfo",
    "Place",
    "check_place",
    "make_dir_info",
    "make_file_info",
]

FILE_COLUMNS = "path, shard, offset, size, crc32c, mode, uid, gid, mtime_ns"
DIR_COLUMNS = "path, num_subdirs, num_files, num_files_tree, size_tree, mode, uid, gid, mtime_ns"


class Place(NamedTuple):
    """Where the bytes of a file are, and their CRC-32C (None: not known)."""

    shard: int
    offset: int
    size: int
    crc32c: int | None


class _FileRow(NamedTuple):
    path: str
    shard: int
    offset: int
    size: int
    crc32c: int | None
    mode: int | None
    uid: int | None
    gid: int | None
    mtime_ns: int | None


class FileInfo(_FileRow):
    """One file: its path, where its bytes are, their CRC-32C (None: not known), mode, owner and time."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def end(self) -> int:
        """First byte of the shard after the file."""
        return self.offset + self.size

    @property
    def place(self) -> Place:
        """Where its bytes are."""
        return Place(self.shard, self.offset, self.size, self.crc32c)

    @property
    def metadata(self) -> Metadata:
        """Mode, owner and time."""
        return Metadata(self.mode, self.uid, self.gid, self.mtime_ns)

    @property
    def mtime(self) -> datetime.datetime | None:
        """The time of the last change, in UTC."""
        return _time(self.mtime_ns)

    def is_dir(self) -> bool:
        """It is not a directory."""
        return False

    def is_file(self) -> bool:
        """It is a file."""
        return True


class _DirRow(NamedTuple):
    path: str
    num_subdirs: int
    num_files: int
    num_files_tree: int
    size_tree: int
    mode: int | None
    uid: int | None
    gid: int | None
    mtime_ns: int | None


class DirInfo(_DirRow):
    """One directory: its path, how many directories and files it has, the files and bytes of its whole tree."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def metadata(self) -> Metadata:
        """Mode, owner and time."""
        return Metadata(self.mode, self.uid, self.gid, self.mtime_ns)

    @property
    def mtime(self) -> datetime.datetime | None:
        """The time of the last change, in UTC."""
        return _time(self.mtime_ns)

    def is_dir(self) -> bool:
        """It is a directory."""
        return True

    def is_file(self) -> bool:
        """It is not a file."""
        return False


def _time(mtime_ns: int | None) -> datetime.datetime | None:
    if mtime_ns is None:
        return None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return epoch + datetime.timedelta(microseconds=mtime_ns // 1000)


def check_place(name: object, place: Sequence[object]) -> None:
    """TypeError unless shard, offset and size are numbers, and the CRC-32C is one or None; SQLite allows anything."""
    shard, offset, size, checksum = place
    is_known = checksum is None or type(checksum) is int
    if type(shard) is not int or type(offset) is not int or type(size) is not int or not is_known:
        raise TypeError(f"the place of {name!r} is not made of numbers: {tuple(place)}")


def make_file_info(row: Any) -> FileInfo:
    """A row of the table of files; TypeError if its values cannot be."""
    check_place(row[0], row[1:5])
    _check_about(row)
    return tuple.__new__(FileInfo, row)


def make_dir_info(row: Any) -> DirInfo:
    """A row of the table of directories; TypeError if its values cannot be."""
    if not all(type(value) is int for value in row[1:5]):
        raise TypeError(f"the statistics of {row[0]!r} are not numbers: {row[1:5]}")
    _check_about(row)
    return tuple.__new__(DirInfo, row)


def _check_about(row: Any) -> None:
    if type(row[0]) is not str:
        raise TypeError(f"the path {row[0]!r} is not text")
    for value in row[5:]:
        if value is not None and type(value) is not int:
            raise TypeError(f"mode, owner and time of {row[0]!r} are not numbers: {row[5:]}")
