"""The two sides of a synchronization: folders and directories of archives. Names are relative to their root."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from headrace._native import crc32c
from headrace.formats.metadata import Metadata
from headrace.storage import FolderWriter, open_stream
from headrace.transfer.containers import folder_entries
from headrace.transfer.entry import Entry
from headrace.transfer.extract import CheckedFile, FolderSink
from headrace.transfer.sinks import ArchiveSink

if TYPE_CHECKING:
    from typing import BinaryIO

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.rows import FileInfo

__all__ = ["ArchiveTree", "FolderTree", "Tree"]

_PIECE = 1 << 20


class FolderTree:
    """A folder of the disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sink: FolderSink | None = None

    def entries(self, skipped: list[str]) -> dict[str, Entry]:
        """Everything below by name; links to files are followed, what cannot be copied is noted in ``skipped``."""
        if not os.path.isdir(self._folder):
            return {}
        return {entry.name: entry for entry in folder_entries(self._folder, skipped)}

    def file(self, name: str) -> Entry:
        """One file."""
        path = os.path.join(self._folder, name)
        status = os.stat(path)
        return Entry(name, False, status.st_size, Metadata.of(status), partial(open_stream, path))

    def checksum(self, name: str) -> int:
        """CRC-32C of a file."""
        value = 0
        with open_stream(os.path.join(self._folder, name)) as file:
            while piece := file.read(_PIECE):
                value = crc32c(piece, value)
        return value

    def put(self, entry: Entry) -> None:
        """Make a directory, or write a file over one that is there."""
        if self._sink is None:
            self._sink = FolderSink(self._folder, force=True)
        self._sink.put(entry)

    def remove(self, name: str, is_dir: bool) -> None:
        """Remove a file, or a directory with all below."""
        with FolderWriter(self._folder) as writer:
            writer.remove(name)

    def finish(self) -> None:
        """Give directories their times."""
        if self._sink is not None:
            self._sink.finish()


class ArchiveTree:
    """A directory of an archive."""

    def __init__(self, archive: Archive, inner: str) -> None:
        self._archive = archive
        self._inner = inner
        self._before = f"{inner}/" if inner else ""
        self._sink = ArchiveSink(archive, prefix=inner, replace=True)
        self.put = self._sink.put
        self.finish = self._sink.finish

    def entries(self, skipped: list[str]) -> dict[str, Entry]:
        """Everything below by name."""
        cut = len(self._before)
        index = self._archive.index
        dirs = (Entry(row.path[cut:], True, 0, row.metadata) for row in index.dirs(below=self._inner) if row.path)
        found = {entry.name: entry for entry in dirs}
        return found | {row.path[cut:]: self._entry(row) for row in index.files(below=self._inner)}

    def _entry(self, info: FileInfo) -> Entry:
        name = info.path[len(self._before) :]
        return Entry(name, False, info.size, info.metadata, lambda: cast("BinaryIO", CheckedFile(self._archive, info)))

    def _info(self, name: str) -> FileInfo:
        return cast("FileInfo", self._archive.stat(self._before + name))

    def file(self, name: str) -> Entry:
        """One file."""
        return self._entry(self._info(name))

    def checksum(self, name: str) -> int:
        """CRC-32C of a file."""
        stored = self._info(name).crc32c
        return crc32c(self._archive[self._before + name]) if stored is None else stored

    def remove(self, name: str, is_dir: bool) -> None:
        """Remove a file, or a directory with all below."""
        (self._archive.rmtree if is_dir else self._archive.remove)(self._before + name)


Tree: TypeAlias = FolderTree | ArchiveTree
