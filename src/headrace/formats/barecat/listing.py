"""What there is in an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import EntryIsFileError, EntryNotFoundError
from headrace.formats.barecat.globbing import fixed_prefix, translate
from headrace.formats.barecat.index.schema import UNLIMITED
from headrace.formats.barecat.names import clean_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import PathLike
    from headrace.formats.barecat.index.queries import Index, Order
    from headrace.formats.barecat.index.rows import DirInfo, FileInfo

__all__ = ["Listing"]


class Listing:
    """The part of an archive that tells which files and directories there are."""

    path: str
    index: Index

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self.index.is_file(name) or self.is_file(name))

    def __len__(self) -> int:
        return self.index.count_files()

    def __iter__(self) -> Iterator[str]:
        return self.index.file_names()

    def exists(self, name: PathLike) -> bool:
        """There is a file or directory of this name."""
        return self.is_file(name) or self.is_dir(name)

    def is_file(self, name: PathLike) -> bool:
        """There is a file of this name."""
        return self.index.is_file(clean_name(name))

    def is_dir(self, name: PathLike) -> bool:
        """There is a directory of this name."""
        return self.index.is_dir(clean_name(name))

    def stat(self, name: PathLike) -> FileInfo | DirInfo:
        """What the index says about a file or directory."""
        cleaned = clean_name(name)
        found = self.index.file(cleaned) or self.index.directory(cleaned)
        if found is None:
            raise EntryNotFoundError(self.path, cleaned)
        return found

    def files(self, order: Order = "any") -> Iterator[FileInfo]:
        """All files with what the index says about them."""
        return self.index.files(order)

    def dirs(self, order: Order = "any") -> Iterator[DirInfo]:
        """All directories, the root included, with their statistics."""
        return self.index.dirs(order)

    def _directory(self, name: PathLike) -> str:
        cleaned = clean_name(name)
        if not self.index.is_dir(cleaned):
            if self.index.is_file(cleaned):
                raise EntryIsFileError(self.path, cleaned)
            raise EntryNotFoundError(self.path, cleaned)
        return cleaned

    def listdir(self, name: PathLike = "") -> list[str]:
        """Names of what is directly in a directory, directories first."""
        dirs, files = self.index.names_in(self._directory(name))
        return dirs + files

    def scandir(self, name: PathLike = "") -> Iterator[FileInfo | DirInfo]:
        """What is directly in a directory, with what the index says about it; directories first."""
        cleaned = self._directory(name)
        yield from self.index.dirs_in(cleaned)
        yield from self.index.files_in(cleaned)

    def walk(self, name: PathLike = "") -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``: (directory, names of directories, names of files), from the top down.

        Take names out of the list of directories to leave them out. The root is the empty string.
        """
        waiting = [self._directory(name)]
        while waiting:
            directory = waiting.pop()
            dirs, files = self.index.names_in(directory)
            yield directory, dirs, files
            prefix = f"{directory}/" if directory else ""
            waiting.extend(prefix + child for child in reversed(dirs))

    def iglob(self, pattern: str, *, recursive: bool = False, include_hidden: bool = False) -> Iterator[str]:
        """Paths of files and directories that match, with the rules of Python's ``glob``."""
        match = translate(pattern, recursive=recursive, include_hidden=include_hidden).fullmatch
        wants_dirs = pattern.endswith("/") or (recursive and pattern.endswith("/**"))
        prefix = fixed_prefix(pattern)
        for path in self.index.matching(_escape(prefix) + "*", dirs=True):
            if path and match(path):
                yield path
        if wants_dirs:
            for path in self.index.dir_names():
                if path and match(f"{path}/"):
                    yield f"{path}/"

    def glob(self, pattern: str, *, recursive: bool = False, include_hidden: bool = False) -> list[str]:
        """The paths of ``iglob`` as a list."""
        return list(self.iglob(pattern, recursive=recursive, include_hidden=include_hidden))

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return self.index.count_files()

    @property
    def num_dirs(self) -> int:
        """How many directories there are, the root included."""
        return self.index.count_dirs()

    @property
    def total_size(self) -> int:
        """Bytes of all files, without gaps."""
        return self.index.total_size()

    @property
    def shard_size(self) -> int | None:
        """The limit of a shard, or None when there is none."""
        limit = self.index.config("shard_size_limit")
        return None if limit is None or limit >= UNLIMITED else limit


def _escape(text: str) -> str:
    """Text that a GLOB of SQLite takes literally."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)
