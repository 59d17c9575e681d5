"""Archives of many files: ``Archive``.

Contract: any number of threads may use one archive, and an archive that is read may be used by forked children and
pickled; nobody has to ask for it. One process at a time may write.
"""

from __future__ import annotations

import io
import os
from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, overload

from headrace._native import crc32c
from headrace.errors import (
    EntryExistsError,
    EntryIsDirectoryError,
    EntryNotFoundError,
)
from headrace.formats.barecat.changing import Changing
from headrace.formats.barecat.edit.editor import Editor
from headrace.formats.barecat.edit.handover import finish_handover, made_beside
from headrace.formats.barecat.file_objects import ArchiveRawFile, EditedFile, parse_mode
from headrace.formats.barecat.index.schema import VERSION
from headrace.formats.barecat.listing import Listing
from headrace.formats.barecat.names import (
    archive_exists,
    archive_files,
    archive_path,
    clean_name,
)
from headrace.formats.barecat.reader import Reading

if TYPE_CHECKING:
    from typing import Self

    from headrace.errors import PathLike
    from headrace.types import Progress, Report

__all__ = ["Archive", "Mode"]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "x"]
_T = TypeVar("_T")
_BLOCK = 256
_MODES = ("r", "r+", "a", "w", "x")


class Archive(Listing, Reading, Changing, MutableMapping[str, bytes]):
    """A .barecat: files under paths, in one SQLite index and a few large shards.

    It is a mapping of paths to bytes, and has directories, metadata and file objects besides.

    Args:
        path: of the archive; the index has this name, the shards ``PATH-shard-00000`` and so on.
        mode: ``"r"`` reads; ``"r+"`` also writes; ``"a"`` writes and makes the archive if it is missing; ``"w"``
            replaces it, at once and in one step, by an empty one; ``"x"`` makes a new one and refuses to replace.
        shard_size: limit of a shard in bytes; by default that of the archive, or none.
        checksums: check every file that is read as a whole against its CRC-32C.
        preload: read where all files are into memory, about 50 bytes a file: look-ups are then many times faster.
        cold: how many files at once are read. True: past the page cache, for data that are read once and do not fit
            into memory. False: always from the mapped shards. None: looks at a few files of each call; those in the
            cache are copied from it, others are read by a queue of asynchronous reads.
        sync: wait for the disk at every commit. Without, a crash of the machine (not of the process) may cost more.
        wal: use SQLite's write-ahead log; stays with the archive.
        allow_links: also write to shards that are symbolic links into another archive.
        append_only: refuse everything but new files and directories.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
        >>> with Archive(path, "x") as archive:
        ...     archive["cat/1.txt"] = b"meow"
        >>> archive = Archive(path)
        >>> archive["cat/1.txt"], archive.listdir("cat"), len(archive)
        (b'meow', ['1.txt'], 1)
    """

    def __init__(
        self,
        path: PathLike,
        mode: Mode = "r",
        *,
        shard_size: int | None = None,
        checksums: bool = True,
        preload: bool = False,
        cold: bool | None = None,
        sync: bool = True,
        wal: bool = False,
        allow_links: bool = False,
        append_only: bool = False,
    ) -> None:
        self.path = archive_path(path)
        self.full_path = os.path.abspath(self.path)
        self._is_checked = checksums
        self._cold = cold
        self._editor = None
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        if shard_size is not None and shard_size < 1:
            raise ValueError(f"shard_size must be at least 1, got {shard_size}")
        finish_handover(self.full_path)
        _prepare(self.path, mode)
        if mode == "r":
            self._open_for_reading(preload)
            return
        if preload or cold is not None:
            raise ValueError("preload and cold are for reading; open with mode 'r'")
        self._editor = Editor(
            self.path,
            shard_size=shard_size,
            is_synced=sync,
            wal=wal,
            allow_links=allow_links,
            is_append_only=append_only,
        )
        self.index = self._editor.index
        self._place = self.index.place

    # Life

    @property
    def is_writable(self) -> bool:
        """It was opened for writing."""
        return self._editor is not None

    def commit(self) -> None:
        """Put everything written so far on the disk: from now on no crash takes it."""
        self.editor.commit()

    def close(self) -> None:
        """Commit what was written and let go of all files. Bytes that were handed out stay valid."""
        if self._editor is not None:
            self._editor.close()
        else:
            self._connections.close()
            self._shards.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._editor is not None:
            raise TypeError(f"{self.path} is open for writing, and only one process can; open it again elsewhere")
        return _reopen, (self.full_path, self._is_checked, self._is_preloaded, self._cold)

    def __repr__(self) -> str:
        return f"<Archive {self.path!r}{' for writing' if self.is_writable else ''}>"

    @property
    def editor(self) -> Editor:
        """What changes the archive; PermissionError when it is only read."""
        if self._editor is None:
            raise PermissionError(f"{self.path} is open for reading only; open it with mode 'r+' or 'a'")
        return self._editor

    # Files as objects, and all of them

    def open(
        self,
        name: PathLike,
        mode: str = "r",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """A file object, as Python's ``open`` gives it: text unless the mode has a ``b``.

        What is written is stored when the file object is closed.
        """
        letter, is_updated, is_text = parse_mode(mode)
        binary: Any
        if letter == "r" and not is_updated:
            cleaned, (shard, offset, size, checksum) = self._locate(name)
            view = (
                memoryview(self._bytes(cleaned, shard, offset, size))
                if self.is_writable
                else self._view(cleaned, shard, offset, size)
            )

            def check(data: bytes) -> None:
                if checksum is not None and self._is_checked and crc32c(data) != checksum:
                    raise self._mismatch(cleaned, data, checksum)

            binary = io.BufferedReader(ArchiveRawFile(cleaned, view, check))
        else:
            binary = self._open_edited(clean_name(name), letter, is_updated)
        if not is_text:
            return cast("IO[Any]", binary)
        return io.TextIOWrapper(binary, encoding=encoding or "utf-8", errors=errors, newline=newline)

    def _open_edited(self, name: str, letter: str, is_updated: bool) -> EditedFile:
        editor = self.editor
        exists = self.index.is_file(name)
        if letter == "x" and exists:
            raise EntryExistsError(self.path, name)
        if letter == "r" and not exists:
            self._find(name)
        editor.check_writable(name, exists=exists)
        # What is in such an archive cannot be changed, so a file comes when it is complete.
        is_kept_back = editor.is_append_only
        if not exists and not is_kept_back:
            self.add(name, b"")  # errors show at once, not when the file is closed
        content = self[name] if exists and letter in "ra" else b""
        return EditedFile(
            name,
            content,
            partial(self.add if is_kept_back else editor.update, name),
            readable=is_updated,
            appends=letter == "a",
            dirty=is_kept_back or (letter == "w" and exists),
        )

    @overload
    def get(self, name: str, /) -> bytes | None: ...

    @overload
    def get(self, name: str, default: bytes | _T, /) -> bytes | _T: ...

    def get(self, name: str, default: Any = None, /) -> Any:
        """The content of a file, or the default when there is no such file."""
        try:
            return self[name]
        except (EntryNotFoundError, EntryIsDirectoryError):
            return default

    def items(self) -> ItemsView[str, bytes]:
        """Paths and contents, read in the order of the shards."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Contents, read in the order of the shards."""
        return _Values(self)

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version of the schema."""
        return VERSION if self._editor is not None else self._connections.version

    # Whole archives

    def verify(self, *, quick: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check the index, the shards and every checksum; a file that is bad is named in the report.

        Args:
            quick: everything but the bytes of the files.
            workers: threads; by default one for each core.
            progress: called as the work advances.
        """
        from headrace.formats.barecat.verify import verify_archive

        return verify_archive(self, quick=quick, workers=workers, progress=progress)


def _prepare(path: str, mode: str) -> None:
    exists = archive_exists(path)
    if mode in ("r", "r+") and not exists:
        raise FileNotFoundError(f"{path} does not exist")
    if mode == "x" and exists:
        raise FileExistsError(f"{path} exists; open it with mode 'a' to add to it, or with 'w' to replace it")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory, not an archive")
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise FileNotFoundError(f"{directory} does not exist; make it with: mkdir -p {directory}")
    if mode == "w" and archive_files(path):
        with made_beside(path) as beside:  # an empty archive takes the place of the old one, which goes only then
            Archive(beside, "x").close()


def _reopen(path: str, checksums: bool, preload: bool, cold: bool | None) -> Archive:
    return Archive(path, checksums=checksums, preload=preload, cold=cold)


def _blocks(archive: Archive) -> Iterator[tuple[list[str], list[bytes]]]:
    names: list[str] = []
    for name in archive.index.file_names("address"):
        names.append(name)
        if len(names) == _BLOCK:
            yield names, archive.read_many(names)
            names = []
    if names:
        yield names, archive.read_many(names)


class _Items(ItemsView[str, bytes]):
    _mapping: Archive

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for names, values in _blocks(self._mapping):
            yield from zip(names, values, strict=True)


class _Values(ValuesView[bytes]):
    _mapping: Archive

    def __iter__(self) -> Iterator[bytes]:
        for _, values in _blocks(self._mapping):
            yield from values
