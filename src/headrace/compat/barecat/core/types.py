"""What is known about one file or directory, and orders."""

from __future__ import annotations

from datetime import datetime
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self

from headrace.compat.barecat.core.paths import normalize_path
from headrace.formats.barecat.index.schema import UNLIMITED
from headrace.formats.metadata import Metadata

if TYPE_CHECKING:
    import os
    import sqlite3

__all__ = ["SHARD_SIZE_UNLIMITED", "BarecatDirInfo", "BarecatEntryInfo", "BarecatFileInfo", "Order", "path_of"]

SHARD_SIZE_UNLIMITED = UNLIMITED
"""The limit of an archive that has none."""


class BarecatEntryInfo:
    """What files and directories have in common: path, mode, owner and time."""

    __slots__ = ("_path", "gid", "mode", "mtime_ns", "uid")
    _OWN_COLUMNS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mtime_ns: int | datetime | None = None,
    ) -> None:
        if path is None:
            raise TypeError("path must be a str or PathLike, not None")
        self._path = normalize_path(path)
        self.mode, self.uid, self.gid = mode, uid, gid
        self.mtime_ns: int | None = int(mtime_ns.timestamp() * 1e9) if isinstance(mtime_ns, datetime) else mtime_ns

    @property
    def path(self) -> str:
        """The path in the archive; cleaned when it is set."""
        return self._path

    @path.setter
    def path(self, value: str | os.PathLike[str]) -> None:
        self._path = normalize_path(value)

    @property
    def mtime_dt(self) -> datetime | None:
        """The time of the last change, in local time."""
        return datetime.fromtimestamp(self.mtime_ns / 1e9) if self.mtime_ns else None

    @mtime_dt.setter
    def mtime_dt(self, dt: datetime) -> None:
        self.mtime_ns = int(dt.timestamp() * 1e9)

    @property
    def metadata(self) -> Metadata:
        """Mode, owner and time, as headrace has them."""
        return Metadata(self.mode, self.uid, self.gid, None if self.mtime_ns is None else int(self.mtime_ns))

    def asdict(self) -> dict[str, Any]:
        """All columns of the index."""
        names = ("path", *self._OWN_COLUMNS, "mode", "uid", "gid", "mtime_ns")
        return {name: getattr(self, name) for name in names}

    def isfile(self) -> bool:
        """It is a file."""
        return isinstance(self, BarecatFileInfo)

    def isdir(self) -> bool:
        """It is a directory."""
        return isinstance(self, BarecatDirInfo)

    def update_mtime(self) -> None:
        """Set the time of the last change to now."""
        self.mtime_dt = datetime.now()

    def fill_from_statresult(self, s: os.stat_result) -> None:
        """Take mode, owner and time from what the file system says."""
        self.mode, self.uid, self.gid, self.mtime_ns = Metadata.of(s)

    @classmethod
    def row_factory(cls, cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Self:
        """Make one from a row of the index."""
        instance = cls.__new__(cls)
        for column, value in zip(cursor.description, row, strict=True):
            object.__setattr__(instance, "_path" if column[0] == "path" else column[0], value)
        return instance


class BarecatFileInfo(BarecatEntryInfo):
    """A file: where its bytes are, and what is known about it.

    Example:
        >>> BarecatFileInfo("/a//b.txt", mode=0o644, size=3).path
        'a/b.txt'
    """

    __slots__ = ("crc32c", "offset", "shard", "size")
    _OWN_COLUMNS = ("shard", "offset", "size", "crc32c")

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mtime_ns: int | datetime | None = None,
        shard: int | None = None,
        offset: int | None = None,
        size: int | None = None,
        crc32c: int | None = None,
    ) -> None:
        super().__init__(path, mode, uid, gid, mtime_ns)
        self.shard, self.offset, self.size, self.crc32c = shard, offset, size, crc32c

    def fill_from_statresult(self, s: os.stat_result) -> None:
        """Take size, mode, owner and time from what the file system says."""
        super().fill_from_statresult(s)
        self.size = s.st_size

    @property
    def end(self) -> int:
        """The byte of the shard after the last of the file."""
        return self.offset + self.size  # type: ignore[operator]  # not known before it is stored

    def __repr__(self) -> str:
        return f"BarecatFileInfo('{self.path}', {self.size} bytes, shard={self.shard})"


class BarecatDirInfo(BarecatEntryInfo):
    """A directory: what is in it, and what is known about it."""

    __slots__ = ("num_files", "num_files_tree", "num_subdirs", "size_tree")
    _OWN_COLUMNS = ("num_subdirs", "num_files", "size_tree", "num_files_tree")

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mtime_ns: int | datetime | None = None,
        num_subdirs: int | None = None,
        num_files: int | None = None,
        size_tree: int | None = None,
        num_files_tree: int | None = None,
    ) -> None:
        super().__init__(path, mode, uid, gid, mtime_ns)
        self.num_subdirs, self.num_files = num_subdirs, num_files
        self.size_tree, self.num_files_tree = size_tree, num_files_tree

    @property
    def num_entries(self) -> int:
        """How many files and directories are directly in it."""
        return (self.num_subdirs or 0) + (self.num_files or 0)

    def fill_from_statresult(self, s: os.stat_result) -> None:
        """Take mode, owner, time and the number of subdirectories from what the file system says."""
        super().fill_from_statresult(s)
        self.num_subdirs = s.st_nlink - 2

    def __repr__(self) -> str:
        parts = [f"'{self.path}'"]
        if self.num_files_tree is not None:
            parts.append(f"{self.num_files_tree} files")
        if self.size_tree is not None:
            parts.append(_format_size_short(self.size_tree))
        return f"BarecatDirInfo({', '.join(parts)})"


def path_of(item: BarecatEntryInfo | str) -> str:
    """The clean path of an info or of text."""
    return item.path if isinstance(item, BarecatEntryInfo) else normalize_path(item)


def _format_size_short(size: float) -> str:
    units = ("B", "KB", "MB", "GB", "TB", "PB")
    step = 0
    while abs(size) >= 1024 and step + 1 < len(units):
        size /= 1024
        step += 1
    return f"{size} B" if step == 0 else f"{size:.1f} {units[step]}"


class Order(Flag):
    """In which order files and directories are listed; ``DESC`` turns ``ADDRESS`` and ``PATH`` round."""

    ANY = auto()
    RANDOM = auto()
    ADDRESS = auto()
    PATH = auto()
    DESC = auto()

    def as_query_text(self) -> str:
        """The end of an SQL query."""
        down = " DESC" if self & Order.DESC else ""
        if self & Order.ADDRESS:
            return f" ORDER BY shard{down}, offset{down}"
        if self & Order.PATH:
            return f" ORDER BY path{down}"
        return " ORDER BY RANDOM()" if self & Order.RANDOM else ""
