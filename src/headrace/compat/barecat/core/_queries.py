"""The part of an archive that asks its index, and that looks after it as a whole."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from headrace._native import crc32c as crc32c_of
from headrace.compat.barecat.exceptions import BarecatError, translated
from headrace.compat.barecat.util import misc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.compat.barecat.core.index import Index
    from headrace.compat.barecat.core.sharder import Sharder
    from headrace.compat.barecat.core.types import BarecatEntryInfo, BarecatFileInfo
    from headrace.formats.barecat import Archive

__all__ = ["Queries"]

_logger = logging.getLogger("headrace.compat.barecat")
_MAX_LOGGED = 10


class Queries:
    """What there is, how large it is, and whether it is intact."""

    path: str
    readonly: bool
    append_only: bool
    index: Index
    sharder: Sharder
    _archive: Archive

    def exists(self, path: str) -> bool:
        """There is a file or directory of this name."""
        return self.index.exists(path)

    def isfile(self, path: str) -> bool:
        """There is a file of this name."""
        return self.index.isfile(path)

    def isdir(self, path: str) -> bool:
        """There is a directory of this name."""
        return self.index.isdir(path)

    def listdir(self, path: str) -> list[str]:
        """Names of what is directly in a directory."""
        return self.index.listdir_names(path)

    def walk(self, path: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``: (directory, names of directories, names of files); the root is ``.``."""
        return self.index.walk_names(path)

    def scandir(self, path: str) -> Iterator[BarecatEntryInfo]:
        """What is directly in a directory, with what is known about it."""
        return self.index.iterdir_infos(path)

    def glob(self, pattern: str, recursive: bool = False, include_hidden: bool = False) -> list[str]:
        """Paths of files and directories that match, with the rules of Python's ``glob``."""
        return self.index.glob_paths(pattern, recursive, include_hidden)

    def globfiles(self, pattern: str, recursive: bool = False, include_hidden: bool = False) -> list[str]:
        """Paths of files that match."""
        return self.index.glob_paths(pattern, recursive, include_hidden, only_files=True)

    def iglob(self, pattern: str, recursive: bool = False, include_hidden: bool = False) -> Iterator[str]:
        """Paths of files and directories that match, one after the other."""
        return self.index.iterglob_paths(pattern, recursive, include_hidden)

    def iglobfiles(self, pattern: str, recursive: bool = False, include_hidden: bool = False) -> Iterator[str]:
        """Paths of files that match, one after the other."""
        return self.index.iterglob_paths(pattern, recursive, include_hidden, only_files=True)

    def files(self) -> Iterator[str]:
        """Paths of all files."""
        return self.index.iter_all_filepaths()

    def dirs(self) -> Iterator[str]:
        """Paths of all directories, the root included."""
        return self.index.iter_all_dirpaths()

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return self.index.num_files

    @property
    def num_dirs(self) -> int:
        """How many directories there are, the root included."""
        return self.index.num_dirs

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        return self.index.total_size

    total_logical_size = total_size

    @property
    def total_physical_size_seek(self) -> int:
        """Bytes of all shards, gaps included."""
        return self.sharder.total_physical_size_seek

    @property
    def total_physical_size_stat(self) -> int:
        """Bytes of all shards, as the file system says."""
        return self.sharder.total_physical_size_stat

    @property
    def shard_size_limit(self) -> int:
        """How large a shard may be; set it with bytes, or text such as ``1G``."""
        return self.index.shard_size_limit

    @shard_size_limit.setter
    def shard_size_limit(self, value: int | str) -> None:
        self.index.shard_size_limit = value
        self.sharder.shard_size_limit = self.index.shard_size_limit

    def logical_shard_end(self, shard_number: int) -> int:
        """The byte after the last file of a shard."""
        return self.index.logical_shard_end(shard_number)

    def physical_shard_end(self, shard_number: int) -> int:
        """The byte after the last of a shard."""
        return self.sharder.physical_shard_end(shard_number)

    def raise_if_readonly(self, message: str) -> None:
        """Raise ValueError if the archive is only read."""
        if self.readonly:
            raise ValueError(message)

    def raise_if_append_only(self, message: str) -> None:
        """Raise ValueError if what is there may not be changed."""
        if self.append_only:
            raise ValueError(message)

    # As a whole

    def check_crc32c(self, item: BarecatFileInfo | str) -> bool:
        """Whether the bytes of a file are those that were stored."""
        info = self.index._as_fileinfo(item)
        try:
            data = self.sharder.read_from_address(info.shard or 0, info.offset or 0, info.size or 0)
        except BarecatError as error:
            _logger.warning("%s cannot be read (%s)", info.path, error)
            return False
        found = crc32c_of(data)
        if len(data) == info.size and info.crc32c in (None, found):
            return True
        _logger.warning("CRC32C mismatch for %s. Expected %s, got %s", info.path, info.crc32c, found)
        return False

    def verify_integrity(self, quick: bool = False) -> bool:
        """Check the index, the shards and every checksum; what is wrong goes to the log.

        Args:
            quick: of the bytes, check only those of the last file.
        """
        report = self._archive.verify(quick=quick)
        for problem in report.problems[:_MAX_LOGGED]:
            _logger.error("%s", problem.message)
        if len(report.problems) > _MAX_LOGGED:
            _logger.error("... and %d more", len(report.problems) - _MAX_LOGGED)
        if quick and self.num_files and not self.check_crc32c(self.index.get_last_file()):
            return False
        return report.ok

    @misc.raise_if_readonly
    def merge_from_other_barecat(
        self,
        source_path: str,
        ignore_duplicates: bool = False,
        prefix: str | None = "",
        pattern: str | None = None,
        filter_rules: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        """Copy files and directories of another archive into this one; every file is checked on the way.

        Args:
            source_path: the other archive.
            ignore_duplicates: leave out files that are there already; otherwise that is an error, and nothing is done.
            prefix: a directory that everything goes into.
            pattern: copy only files that match.
            filter_rules: copy only files that these let through; see ``Index.iterglob_infos_incl_excl``.
        """
        from headrace.compat.barecat.maintenance.merge import merge_archive

        with translated():
            merge_archive(
                self,
                source_path,
                ignore_duplicates=ignore_duplicates,
                prefix=prefix or "",
                pattern=pattern,
                filter_rules=filter_rules,
            )

    def truncate_all_to_logical_size(self) -> None:
        """End every shard after its last file, and delete the empty ones at the end."""
        self.sharder.truncate_all_to_logical_size([])

    def defrag(self, quick: bool = False) -> Any:
        """Take the gaps out of the shards; gives the number of bytes freed."""
        from headrace.compat.barecat.maintenance.defrag import BarecatDefragger

        defragger = BarecatDefragger(self)
        return defragger.defrag_quick() if quick else defragger.defrag()
