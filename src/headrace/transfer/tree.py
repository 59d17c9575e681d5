"""The two sides of a synchronization: folders and directories of archives."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from headrace._native import crc32c
from headrace.formats.barecat.index.rows import Metadata
from headrace.formats.barecat.pack import find_below
from headrace.transfer.extract import CheckedFile, FolderTarget

if TYPE_CHECKING:
    from typing import BinaryIO

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.rows import FileInfo

__all__ = ["ArchiveTree", "FolderTree", "Item", "Tree"]


class Item(NamedTuple):
    """A file or directory."""

    is_dir: bool
    size: int
    about: Metadata


class Tree(Protocol):
    """One side: names are relative to its root."""

    def items(self, skipped: list[str]) -> dict[str, Item]:
        """Everything there is; what cannot be copied is noted in ``skipped``."""
        ...

    def item(self, name: str) -> Item:
        """One file."""
        ...

    def checksum(self, name: str) -> int:
        """CRC-32C of a file."""
        ...

    def open(self, name: str) -> BinaryIO:
        """The content of a file."""
        ...

    def make_dir(self, name: str, about: Metadata) -> None:
        """Make a directory; its time is set at the end."""
        ...

    def put(self, name: str, item: Item, file: BinaryIO) -> None:
        """Write a file, over one that is there."""
        ...

    def remove(self, name: str, is_dir: bool) -> None:
        """Remove a file, or a directory with all below."""
        ...

    def finish(self) -> None:
        """Give directories their times."""
        ...


class FolderTree:
    """A folder of the disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._target: FolderTarget | None = None

    def _place(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def items(self, skipped: list[str]) -> dict[str, Item]:
        """Everything below; links to files are followed."""
        if not os.path.isdir(self._folder):
            return {}
        found = {}
        for one in find_below(self._folder, skipped=skipped):
            is_dir = stat.S_ISDIR(one.status.st_mode)
            found[one.name] = Item(is_dir, 0 if is_dir else one.status.st_size, Metadata.of(one.status))
        return found

    def item(self, name: str) -> Item:
        """One file."""
        status = os.stat(self._place(name))
        return Item(False, status.st_size, Metadata.of(status))

    def checksum(self, name: str) -> int:
        """CRC-32C of a file."""
        value = 0
        with open(self._place(name), "rb") as file:
            while piece := file.read(1 << 20):
                value = crc32c(piece, value)
        return value

    def open(self, name: str) -> BinaryIO:
        """The content of a file."""
        return open(self._place(name), "rb")

    def _writer(self) -> FolderTarget:
        if self._target is None:
            self._target = FolderTarget(self._folder, force=True)
        return self._target

    def make_dir(self, name: str, about: Metadata) -> None:
        """Make a directory."""
        self._writer().make_dir(name, about)

    def put(self, name: str, item: Item, file: BinaryIO) -> None:
        """Write a file, over one that is there."""
        self._writer().write(name, file, item.about)

    def remove(self, name: str, is_dir: bool) -> None:
        """Remove a file, or a directory with all below."""
        path = self._place(name)
        if is_dir and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def finish(self) -> None:
        """Give directories their times."""
        if self._target is not None:
            self._target.finish()


class ArchiveTree:
    """A directory of an archive."""

    def __init__(self, archive: Archive, inner: str) -> None:
        self._archive = archive
        self._before = f"{inner}/" if inner else ""
        self._times: list[tuple[str, Metadata]] = []

    def items(self, skipped: list[str]) -> dict[str, Item]:
        """Everything below; links to files are followed."""
        below = self._before.rstrip("/")
        cut = len(self._before)
        index = self._archive.index
        found = {row.path[cut:]: Item(True, 0, row.metadata) for row in index.dirs(below=below) if row.path}
        found |= {row.path[cut:]: Item(False, row.size, row.metadata) for row in index.files(below=below)}
        return found

    def item(self, name: str) -> Item:
        """One file."""
        info = self._archive.stat(self._before + name)
        return Item(False, getattr(info, "size", 0), info.metadata)

    def checksum(self, name: str) -> int:
        """CRC-32C of a file."""
        known = self._archive.stat(self._before + name)
        stored: int | None = getattr(known, "crc32c", None)
        return crc32c(self._archive[self._before + name]) if stored is None else stored

    def open(self, name: str) -> BinaryIO:
        """The content of a file."""
        info = cast("FileInfo", self._archive.stat(self._before + name))
        return cast("BinaryIO", CheckedFile(self._archive, info))

    def make_dir(self, name: str, about: Metadata) -> None:
        """Make a directory."""
        self._archive.mkdir(self._before + name, metadata=about, exist_ok=True)
        self._times.append((self._before + name, about))

    def put(self, name: str, item: Item, file: BinaryIO) -> None:
        """Write a file, over one that is there."""
        self._archive.add(self._before + name, file, size=item.size, metadata=item.about, replace=True)

    def remove(self, name: str, is_dir: bool) -> None:
        """Remove a file, or a directory with all below."""
        (self._archive.rmtree if is_dir else self._archive.remove)(self._before + name)

    def finish(self) -> None:
        """Give directories their times."""
        for name, about in self._times:  # adding files has touched them
            self._archive.set_metadata(name, about)
