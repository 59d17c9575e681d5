"""tar and zip, read and written one entry after the other."""

from __future__ import annotations

import os
import stat
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, Self, cast

from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo
from headrace.formats.barecat.names import safe_name
from headrace.transfer.containers import read_entries
from headrace.transfer.entry import Entry
from headrace.transfer.sinks import open_sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

__all__ = [
    "ArchiveWriter",
    "get_archive_writer",
    "is_traditional_archive",
    "iter_archive",
    "iter_archive_nocontent",
    "iter_tar_stream",
]

TAR_EXTENSIONS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst")
ARCHIVE_EXTENSIONS = (*TAR_EXTENSIONS, ".zip")


def is_traditional_archive(path: str) -> bool:
    """It is a tar or a zip, by its ending."""
    return path.lower().endswith(ARCHIVE_EXTENSIONS)


def _check_ending(path: str) -> None:
    if not is_traditional_archive(path):
        raise ValueError(f"Unsupported archive format: {path}; known are {', '.join(ARCHIVE_EXTENSIONS)}")


def iter_archive(src_path: str) -> Iterator[tuple[BarecatEntryInfo, Any]]:
    """What is in a tar or zip: an info, and for files an open file; what cannot be stored is said on standard error."""
    _check_ending(src_path)
    if not os.path.exists(src_path):
        raise FileNotFoundError(f"{src_path} does not exist")
    return _infos(src_path)


def iter_tar_stream(stream: BinaryIO, kind: str) -> Iterator[tuple[BarecatEntryInfo, Any]]:
    """The same of a tar that can be read only once: ``"tar"``, ``"tar.gz"`` and so on."""
    return _infos(stream, kind)


def _infos(source: str | BinaryIO, kind: str | None = None) -> Iterator[tuple[BarecatEntryInfo, Any]]:
    skipped: list[str] = []
    for entry in read_entries(source, skipped, kind=kind):
        if entry.is_dir:
            yield BarecatDirInfo(entry.name, *entry.about), None
        else:
            with entry.open() as file:
                yield BarecatFileInfo(entry.name, *entry.about, size=entry.size), file
    for line in skipped:
        print(f"left out: {line}", file=sys.stderr)


def iter_archive_nocontent(src_path: str) -> Iterator[BarecatEntryInfo]:
    """What is in a tar or zip that is not compressed, files with the place of their bytes."""
    _check_ending(src_path)
    return _zip_places(src_path) if src_path.lower().endswith(".zip") else _tar_places(src_path)


def _tar_places(path: str) -> Iterator[BarecatEntryInfo]:
    with tarfile.open(path, "r:*") as tar:
        for member in tar:
            name = safe_name(member.name)
            about = (member.mode, member.uid, member.gid, int(member.mtime * 1e9))
            if member.isdir() and name:
                yield BarecatDirInfo(name, *about)
            elif member.isreg() and not member.issparse():
                yield BarecatFileInfo(name, *about, shard=0, offset=member.offset_data, size=member.size)


def _zip_places(path: str) -> Iterator[BarecatEntryInfo]:
    size = os.path.getsize(path)
    with open(path, "rb") as file, zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name, mode = safe_name(member.filename), stat.S_IMODE(member.external_attr >> 16) or None
            if member.is_dir():
                yield BarecatDirInfo(name, mode)
                continue
            file.seek(member.header_offset + 26)
            lengths = file.read(4)
            if len(lengths) < 4:
                raise ValueError(f"{path}: {name} lies outside of the file")
            names, extra = int.from_bytes(lengths[:2], "little"), int.from_bytes(lengths[2:], "little")
            offset = member.header_offset + 30 + names + extra
            if offset + member.file_size > size:
                raise ValueError(f"{path}: {name} lies outside of the file")
            yield BarecatFileInfo(name, mode, shard=0, offset=offset, size=member.file_size)


class ArchiveWriter:
    """Writes a tar or zip; it appears under its name when everything is in it.

    Args:
        target_path: of the new file, whose ending says what it will be; or a stream.
        kind: of a stream: ``"tar"``, ``"tar.gz"`` and so on.
    """

    def __init__(self, target_path: str | BinaryIO, kind: str | None = None) -> None:
        if isinstance(target_path, str):
            _check_ending(target_path)
        self._sink = open_sink(target_path, kind=kind, force=True)
        self._is_done = False

    def add(self, info: BarecatEntryInfo, fileobj: Any = None) -> None:
        """Add a directory, or a file with its content."""
        is_dir = isinstance(info, BarecatDirInfo)
        size = 0 if is_dir else cast("BarecatFileInfo", info).size or 0
        self._sink.put(Entry(info.path, is_dir, size, info.metadata, lambda: cast("BinaryIO", fileobj)))

    def close(self) -> None:
        """Finish the file."""
        if not self._is_done:
            self._is_done = True
            self._sink.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if kind is None:
            self.close()
        else:
            self._is_done = True
            self._sink.abort()


def get_archive_writer(target_path: str) -> ArchiveWriter:
    """What writes a tar or zip."""
    return ArchiveWriter(target_path)
