"""The archive itself."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from headrace import errors
from headrace._native import crc32c as crc32c_of
from headrace.compat.barecat.core._merge import check_merge, merge_dirs
from headrace.compat.barecat.core.index import Index
from headrace.compat.barecat.core.paths import normalize_path, resolve_index_path
from headrace.compat.barecat.core.sharder import COPY_BUFSIZE, Sharder, as_stream, check_content
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo, path_of
from headrace.compat.barecat.exceptions import (
    BarecatError,
    FileExistsBarecatError,
    FileNotFoundBarecatError,
    IsADirectoryBarecatError,
    translated,
)
from headrace.compat.barecat.io.codecs import CodecRegistry
from headrace.compat.barecat.io.copyfile import pieces
from headrace.compat.barecat.io.fileobj import BarecatFileObject, BarecatReadWriteFileObject
from headrace.compat.barecat.util import misc
from headrace.compat.barecat.util.glob_to_regex import make_filter
from headrace.formats.barecat import Archive
from headrace.formats.barecat.file_objects import parse_mode
from headrace.formats.entry_names import parent_of
from headrace.formats.report import Transfer
from headrace.transfer.containers import archive_entries
from headrace.transfer.sinks import ArchiveSink

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["Barecat"]

_logger = logging.getLogger("headrace.compat.barecat")
_SMALL_BYTES = 1 << 20
_MAX_LOGGED = 10


class Barecat(MutableMapping[str, Any]):
    """An archive of many files: a mapping of paths to bytes, with directories, metadata and file objects besides.

    The arguments are those of Barecat 0.3. Any number of threads may use one, and forked processes may read from one:
    ``threadsafe`` and ``readonly_is_immutable`` are kept for programs that pass them, as is ``bufsize`` in methods.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
        >>> with Barecat(path, readonly=False) as bc:
        ...     bc["cat/1.txt"] = b"meow"
        >>> with Barecat(path) as bc:
        ...     bc["cat/1.txt"], bc.listdir("cat")
        (b'meow', ['1.txt'])
    """

    def __init__(
        self,
        path: PathLike,
        shard_size_limit: int | str | None = None,
        readonly: bool = True,
        overwrite: bool = False,
        auto_codec: bool = False,
        exist_ok: bool = True,
        append_only: bool = False,
        threadsafe: bool = False,
        allow_writing_symlinked_shard: bool = False,
        wal: bool = False,
        readonly_is_immutable: bool = False,
    ) -> None:
        if threadsafe and not readonly:
            raise ValueError("Threadsafe mode is only supported for readonly Barecat.")
        self.path, self.wal = os.fspath(path), wal
        self.readonly, self.append_only, self.threadsafe = readonly, append_only, threadsafe
        self.allow_writing_symlinked_shard = allow_writing_symlinked_shard
        self.readonly_is_immutable = readonly_is_immutable
        self.auto_codec = auto_codec
        self._archive = self._open(overwrite, exist_ok)
        self.index: Index = Index.of_archive(self._archive, resolve_index_path(self.path))
        try:
            if not readonly and shard_size_limit is not None:
                self.index.shard_size_limit = shard_size_limit
            limit, allow_links = self.shard_size_limit, allow_writing_symlinked_shard
            self.sharder = Sharder(self.path, limit, readonly, append_only, threadsafe, allow_links)
            self.sharder.use_archive(self._archive)
        except BaseException:
            self._archive.close()
            raise
        self.codec_registry = CodecRegistry(auto_codec=auto_codec)
        if auto_codec:
            misc.deprecate("auto_codec", "DecodedView instead: dec = DecodedView(bc); dec['file.json'] = data")

    def _open(self, overwrite: bool, exist_ok: bool) -> Archive:
        is_there = misc.exists(self.path)
        if self.readonly and not is_there:
            raise FileNotFoundError(f"{self.path} does not exist")
        if not self.readonly and is_there and not exist_ok:
            raise FileExistsError(f"{self.path} exists already, and exist_ok is False")
        with translated():
            if self.readonly:
                return Archive(self.path, follow_links=True)
            links, only = self.allow_writing_symlinked_shard, self.append_only
            return Archive(self.path, "w" if overwrite else "a", wal=self.wal, allow_links=links, append_only=only)

    # A mapping of paths to contents

    def __getitem__(self, path: str) -> Any:
        try:
            data = self._read_whole(path)
        except FileNotFoundBarecatError:
            raise KeyError(normalize_path(path)) from None
        return self.codec_registry.decode(path, data)

    def get(self, path: str, default: Any = None) -> Any:
        """The content of a file, or a default if there is none."""
        return super().get(path, default)

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # an iterator, as it was
        """Paths and contents of all files."""
        with translated():
            for path, data in self._archive.items():
                yield path, self.codec_registry.decode(path, data)

    def keys(self) -> Iterator[str]:  # type: ignore[override]
        """Paths of all files."""
        return self.files()

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Contents of all files."""
        return (value for _, value in self.items())

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and self.index.isfile(os.fspath(path))

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[str]:
        return self.files()

    def __setitem__(self, path: str, content: Any) -> None:
        self.add(path, data=self.codec_registry.encode(path, content))

    def __delitem__(self, path: str) -> None:
        try:
            self.remove(path)
        except (FileNotFoundBarecatError, IsADirectoryBarecatError):
            raise KeyError(path) from None

    # Reading

    def open(
        self,
        item: BarecatFileInfo | str,
        mode: str = "r",
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """A file object, as Python's ``open`` gives it; what is written is stored when it is closed."""
        letter, is_updated, is_text = parse_mode(mode)
        binary = self._open_binary(item, letter, is_updated)
        if not is_text:
            return binary
        return io.TextIOWrapper(binary, encoding=encoding or "utf-8", errors=errors, newline=newline)

    def _open_binary(self, item: BarecatFileInfo | str, letter: str, is_updated: bool) -> BarecatFileObject:
        path = path_of(item)
        info = self.index.file_of(item) if self.index.isfile(path) else None
        if letter == "x" and info is not None:
            raise FileExistsBarecatError(path)
        if letter == "r" and info is None:
            raise FileNotFoundBarecatError(path)
        if letter == "r" and not is_updated and info is not None:
            return self.sharder.open_from_address(info.shard or 0, info.offset or 0, info.size or 0)
        if self.readonly:
            raise ValueError(f"Cannot open file '{path}' for writing: archive is read-only")
        if info is None and self.isdir(path):
            raise IsADirectoryBarecatError(path)
        if info is not None and self.append_only:
            raise PermissionError(f"Cannot open file '{path}' for writing: it exists, and the archive is append-only")

        def store(file: BarecatReadWriteFileObject) -> None:
            if file.dirty or info is None or letter == "w":
                self._store(path, file, is_new=info is None)

        mode = f"{letter}{'+' if is_updated else ''}b"
        if letter == "w" or info is None:
            return BarecatReadWriteFileObject(None, 0, 0, store, mode)
        return self.sharder.open_from_address(info.shard or 0, info.offset or 0, info.size or 0, mode, store)

    def _store(self, path: str, file: BarecatReadWriteFileObject, *, is_new: bool) -> None:
        """Put the content where the original would: new and grown files behind all others, changed ones in place."""
        size = file.size
        file.seek(0)
        if is_new and not size:
            self.index.add_file(BarecatFileInfo(path=path, shard=0, offset=0, size=0, crc32c=0))
        elif is_new:
            self.add(BarecatFileInfo(path=path, size=size), fileobj=file)
        elif size > file.original_size:
            self.index.update_file(path, *self.sharder.add(size=size, fileobj=file))
        else:
            self.update_file(path, fileobj=file, size=size)

    def read(self, item: BarecatFileInfo | str, offset: int = 0, size: int = -1) -> bytes:
        """A part of a file; the whole file is checked, a part cannot be."""
        if offset == 0 and size == -1 and isinstance(item, str):
            return self._read_whole(item)
        if offset < 0 or size < -1:
            raise ValueError(f"offset must not be negative, size at least -1; got {offset} and {size}")
        info = self.index.file_of(item)
        length = info.size or 0
        first = min(offset, length)
        count = length - first if size < 0 else min(size, length - first)
        expected = info.crc32c if count == length else None
        return self.sharder.read_from_address(info.shard or 0, (info.offset or 0) + first, count, expected)

    def _read_whole(self, path: str) -> bytes:
        try:
            return self._archive[path]
        except (errors.EntryNotFoundError, errors.EntryIsDirectoryError):
            raise FileNotFoundBarecatError(normalize_path(path)) from None
        except errors.HeadraceError:
            with translated():
                raise

    def readinto(self, item: BarecatFileInfo | str, buffer: Any, offset: int = 0) -> int:
        """Fill a buffer from a file; gives the number of bytes."""
        target = memoryview(buffer).cast("B")
        data = self.read(item, offset, len(target))
        target[: len(data)] = data
        return len(data)

    # Writing

    @misc.raise_if_readonly
    def add_by_path(
        self, filesys_path: PathLike, store_path: PathLike | None = None, dir_exist_ok: bool = False
    ) -> None:
        """Add a file of the disk with its metadata; of a directory only itself, not what is in it."""
        kind = BarecatDirInfo if os.path.isdir(filesys_path) else BarecatFileInfo
        info = kind(path=filesys_path if store_path is None else store_path)
        info.fill_from_statresult(os.stat(filesys_path))
        if isinstance(info, BarecatDirInfo):
            self.index.add_dir(info, exist_ok=dir_exist_ok)
            return
        with open(filesys_path, "rb", buffering=0) as file:
            self.add(info, fileobj=file)

    @misc.raise_if_readonly
    def add(
        self,
        item: BarecatEntryInfo | str,
        *,
        data: Any = None,
        fileobj: Any = None,
        bufsize: int = COPY_BUFSIZE,
        dir_exist_ok: bool = False,
        file_exist_ok: bool = False,
    ) -> None:
        """Add a file or directory; directories on the way are made."""
        if isinstance(item, BarecatDirInfo):
            self.index.add_dir(item, exist_ok=dir_exist_ok)
            return
        info = item if isinstance(item, BarecatFileInfo) else BarecatFileInfo(path=item)  # type: ignore[arg-type]
        if file_exist_ok and info.path in self:
            return
        check_content(data, fileobj, info.size)
        editor = self._archive.editor
        with translated():
            if data is not None:
                place = editor.add(info.path, bytes(data), info.metadata)
            else:
                with as_stream(None, fileobj, info.size) as (file, size):
                    if size <= _SMALL_BYTES:
                        place = editor.add(info.path, b"".join(pieces(file, size, _SMALL_BYTES)), info.metadata)
                    else:
                        place = editor.add_stream(info.path, file, size, info.metadata)
        info.shard, info.offset, info.size, info.crc32c = place

    @misc.raise_if_readonly_or_append_only
    def update_file(
        self,
        old_item: BarecatFileInfo | str,
        new_item: BarecatFileInfo | str | None = None,
        *,
        data: Any = None,
        fileobj: Any = None,
        size: int | None = None,
        bufsize: int = COPY_BUFSIZE,
    ) -> None:
        """Replace the content of a file: in place if it is not longer, else behind all others."""
        old = self.index.file_of(old_item)
        check_content(data, fileobj, size if data is not None else None)
        length = memoryview(data).nbytes if data is not None else size
        if length is not None and length <= (old.size or 0):
            place = self.sharder.add(old.shard, old.offset, length, data, fileobj, raise_if_cannot_fit=True)
        else:
            place = self.sharder.add(size=length, data=data, fileobj=fileobj)
        about = new_item if isinstance(new_item, BarecatFileInfo) else BarecatFileInfo(path=old.path)
        self.index.update_file(old.path, *place, about.mtime_ns, about.mode, about.uid, about.gid)
        new_path = normalize_path(new_item) if isinstance(new_item, str) else about.path
        if new_path != old.path:
            self.rename(old.path, new_path)

    @misc.raise_if_readonly
    def mkdir(self, path: str, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Make a directory, and those it lies in."""
        self.index.add_dir(BarecatDirInfo(path=path, mode=mode), exist_ok=exist_ok)

    @misc.raise_if_readonly_or_append_only
    def remove(self, item: BarecatFileInfo | str) -> None:
        """Remove a file; its bytes stay as a gap unless they are the last of their shard."""
        with translated():
            self._archive.editor.remove(path_of(item))

    @misc.raise_if_readonly_or_append_only
    def rmdir(self, item: BarecatDirInfo | str) -> None:
        """Remove an empty directory."""
        self.index.remove_empty_dir(item)

    @misc.raise_if_readonly_or_append_only
    def rmtree(self, item: BarecatDirInfo | str) -> None:
        """Remove a directory and everything below."""
        self.index.remove_recursively(item)

    @misc.raise_if_readonly_or_append_only
    def rename(self, old_path: str, new_path: str) -> None:
        """Give a file or directory another name."""
        self.index.rename(old_path, new_path)

    # What there is

    exists = misc.delegate("index", Index.exists)
    isfile = misc.delegate("index", Index.isfile)
    isdir = misc.delegate("index", Index.isdir)
    files = misc.delegate("index", Index.iter_all_filepaths)
    dirs = misc.delegate("index", Index.iter_all_dirpaths)
    glob = misc.delegate("index", Index.glob_paths)
    iglob = misc.delegate("index", Index.iterglob_paths)
    physical_shard_end = misc.delegate("sharder", Sharder.physical_shard_end)
    raise_if_readonly = misc.delegate("sharder", Sharder.raise_if_readonly)
    raise_if_append_only = misc.delegate("sharder", Sharder.raise_if_append_only)

    def listdir(self, path: str) -> list[str]:
        """Names of what is directly in a directory."""
        return self.index.listdir_names(path)

    def walk(self, path: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``: (directory, names of directories, names of files); the root is ``.``."""
        return self.index.walk_names(path)

    def scandir(self, path: str) -> Iterator[BarecatEntryInfo]:
        """What is directly in a directory, with what is known about it."""
        return self.index.iterdir_infos(path)

    def logical_shard_end(self, shard_number: int) -> int:
        """The byte after the last file of a shard."""
        return self.index.logical_shard_end(shard_number)

    def globfiles(self, pattern: str, recursive: bool = False, include_hidden: bool = False) -> list[str]:
        """Paths of files that match."""
        return self.index.glob_paths(pattern, recursive, include_hidden, only_files=True)

    def iglobfiles(self, pattern: str, recursive: bool = False, include_hidden: bool = False) -> Iterator[str]:
        """Paths of files that match, one after the other."""
        return self.index.iterglob_paths(pattern, recursive, include_hidden, only_files=True)

    num_files = property(attrgetter("index.num_files"), doc="How many files there are.")
    num_dirs = property(attrgetter("index.num_dirs"), doc="How many directories there are, the root included.")
    total_size = total_logical_size = property(attrgetter("index.total_size"), doc="Bytes of all files.")
    total_physical_size_seek = property(attrgetter("sharder.total_physical_size_seek"), doc="Bytes of all shards.")
    total_physical_size_stat = property(attrgetter("sharder.total_physical_size_stat"), doc="The same, as stat says.")

    @property
    def shard_size_limit(self) -> int:
        """How large a shard may be; set it with bytes, or text such as ``1G``."""
        return self.index.shard_size_limit

    @shard_size_limit.setter
    def shard_size_limit(self, value: int | str) -> None:
        self.index.shard_size_limit = value
        self.sharder.shard_size_limit = self.index.shard_size_limit

    # As a whole

    def check_crc32c(self, item: BarecatFileInfo | str) -> bool:
        """Whether the bytes of a file are those that were stored."""
        info = self.index.file_of(item)
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
        """Check the index, the shards and every checksum; what is wrong goes to the log."""
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
        """Copy files and directories of another archive into this one; every file is checked on the way."""
        below, keep = normalize_path(prefix or ""), make_filter(pattern, filter_rules)
        with translated(), Archive(source_path, follow_links=True) as source:
            files = [info for info in source.files() if keep(info.path)]
            is_filtered = pattern is not None or bool(filter_rules)
            dirs = [] if is_filtered else list(source.dirs("path"))
            check_merge(self.index, below, [info.path for info in files], dirs, ignore_duplicates)
            if any(info.size > self.shard_size_limit for info in files):
                raise ValueError("Files in the source archive are larger than the shard size")
            wanted = merge_dirs(self.index, dirs, below)
            for parent in sorted({parent_of(info.path) for info in files} if is_filtered else ()):
                self.index.put_dir(BarecatDirInfo(f"{below}/{parent}"))
            sink = ArchiveSink(self._archive, prefix=below, ignore_duplicates=ignore_duplicates)
            for entry in archive_entries(source, lambda path: bool(keep(path))):
                if not entry.is_dir:
                    sink.put_counted(entry, Transfer())
            for directory in wanted:  # adding files has touched them
                self.index.put_dir(directory)

    def truncate_all_to_logical_size(self) -> None:
        """End every shard after its last file, and delete the empty ones at the end."""
        self.sharder.truncate_all_to_logical_size([])

    def defrag(self, quick: bool = False) -> int:
        """Take the gaps out of the shards; gives the number of bytes freed."""
        from headrace.compat.barecat.maintenance.defrag import defragment

        return defragment(self, "quick", 5) if quick else defragment(self, "full")

    # Values instead of bytes

    def register_codec(
        self, exts: list[str], encoder: Callable[[Any], bytes], decoder: Callable[[bytes], Any], nonfinal: bool = False
    ) -> None:
        """Say how values become bytes for endings of names; ``DecodedView`` does that better."""
        misc.deprecate("register_codec", "DecodedView instead: dec = DecodedView(bc); dec.register_codec(...)")
        self.codec_registry.register_codec(exts, encoder, decoder, nonfinal)

    # Life

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.readonly:
            raise ValueError("Cannot pickle a non-readonly Barecat")
        path = os.path.abspath(self.path)
        return type(self), (path, None, True, False, self.auto_codec, True, False, self.threadsafe)

    def close(self) -> None:
        """Commit what was written and let go of all files."""
        self.sharder.close()
        self.index.close()
        with translated():
            self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = "readonly" if self.readonly else "read-write"
        try:
            return f"Barecat('{self.path}', {mode}, {self.num_files} files)"
        except errors.ClosedError:
            return f"Barecat('{self.path}', {mode})"
