"""What the index says about one file or directory."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os

__all__ = ["DIR_COLUMNS", "FILE_COLUMNS", "DirInfo", "FileInfo", "Metadata", "Place"]

FILE_COLUMNS = "path, shard, offset, size, crc32c, mode, uid, gid, mtime_ns"
DIR_COLUMNS = "path, num_subdirs, num_files, num_files_tree, size_tree, mode, uid, gid, mtime_ns"


class Metadata(NamedTuple):
    """Mode, owner and time of a file or directory; None where they are not known."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime_ns: int | None = None

    @classmethod
    def of(cls, status: os.stat_result) -> Metadata:
        """What the file system says."""
        return cls(status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)


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
