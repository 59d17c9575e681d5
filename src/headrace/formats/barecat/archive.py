"""Archives of many files: ``Archive``.

Contract: any number of threads may use one archive, and an archive that is read may be used by forked children and
pickled; nobody has to ask for it. One process at a time may write.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, overload

from headrace.errors import ClosedError, CorruptFileError, EntryExistsError, EntryIsDirectoryError, EntryNotFoundError
from headrace.formats.barecat.batches import check_content
from headrace.formats.barecat.edit.editor import Editor
from headrace.formats.barecat.edit.handover import finish_handover, made_beside
from headrace.formats.barecat.edit.transactions import WriteOptions
from headrace.formats.barecat.file_objects import ArchiveRawFile, EditedFile, parse_mode
from headrace.formats.barecat.names import archive_exists, archive_files, archive_path
from headrace.formats.barecat.reader import ArchiveReader
from headrace.formats.entry_names import clean_name
from headrace.formats.metadata import Metadata, check_metadata
from headrace.storage import absolute, check_local, is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO, Self

    from headrace.errors import PathLike
    from headrace.formats.barecat.index.queries import ListOrder
    from headrace.formats.barecat.index.rows import DirInfo, FileInfo
    from headrace.formats.barecat.shards import MappedShards
    from headrace.types import Buffer, Progress, Report

__all__ = ["Archive", "Mode", "new_archive"]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "x"]
_T = TypeVar("_T")
_BLOCK = 256
_MODES = ("r", "r+", "a", "w", "x")


class Archive(MutableMapping[str, bytes]):
    """A .barecat: files under paths, in one SQLite index and a few large shards.

    It is a mapping of paths to bytes, and has directories, metadata and file objects besides.

    Args:
        path: of the archive; the index has this name, the shards ``PATH-shard-00000`` and so on.
        mode: ``"r"`` reads; ``"r+"`` also writes; ``"a"`` writes and makes the archive if it is missing; ``"w"``
            replaces it, at once and in one step, by an empty one; ``"x"`` makes a new one and refuses to replace.
        shard_size: limit of a shard in bytes; by default that of the archive, or none.
        checksums: check every file that is read as a whole against its CRC-32C. Without, a reader beside a writer may
            get bytes that are being overwritten.
        preload: read where all files are into memory, about 50 bytes a file: look-ups are then many times faster.
        cold: how many files at once are read. True: past the page cache, for data that are read once and do not fit
            into memory. False: always from the mapped shards. None: looks at a few files of each call; those in the
            cache are copied from it, others are read by a queue of asynchronous reads.
        sync: wait for the disk at every commit. Without, a crash of the machine (not of the process) may cost more.
        wal: use SQLite's write-ahead log; stays with the archive.
        allow_links: also write to shards that are symbolic links into another archive.
        append_only: refuse everything but new files and directories.
        follow_links: for reading, also follow shards and an annex that are symbolic links. A path that is a link
            itself is always followed, to the archive that it leads to.

    Raises:
        UnfinishedError: a writer was killed, and ``headrace repair`` must put the archive in order. To open for
            reading never changes anything.

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
        follow_links: bool = False,
    ) -> None:
        self.path = archive_path(path)
        self.full_path = absolute(self.path)
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        if shard_size is not None and shard_size < 1:
            raise ValueError(f"shard_size must be at least 1, got {shard_size}")
        if mode != "r" and (preload or cold is not None or follow_links):
            raise ValueError("preload, cold and follow_links are for reading; open with mode 'r'")
        if mode != "r":
            finish_handover(self.full_path)
        _prepare(self.path, mode)
        self.follow_links = follow_links
        self._is_checked = checksums
        self._reader: ArchiveReader | None = None
        self._editor: Editor | None = None
        if mode == "r":
            self._options = dict[str, Any](checksums=checksums, preload=preload, cold=cold, follow_links=follow_links)
            self._reader = ArchiveReader(
                self.path, is_checked=checksums, preload=preload, cold=cold, follow_links=follow_links
            )
            self.full_path = self._reader.place
        else:
            options = WriteOptions(
                shard_size=shard_size, is_synced=sync, wal=wal, allow_links=allow_links, is_append_only=append_only
            )
            self._editor = Editor(self.path, options, is_checked=checksums)
            self.full_path = self._editor.full_path
        self._contents: ArchiveReader | Editor = self._reader or cast("Editor", self._editor)
        self._read = self._contents.read
        self.index = self._contents.index

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
        self._contents.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._editor is not None:
            raise TypeError(f"{self.path} is open for writing, and only one process can; open it again elsewhere")
        return partial(Archive, **self._options), (self.full_path,)

    def __repr__(self) -> str:
        return f"<Archive {self.path!r}{' for writing' if self.is_writable else ''}>"

    @property
    def editor(self) -> Editor:
        """What changes the archive; PermissionError when it is only read."""
        if self._editor is None:
            raise PermissionError(f"{self.path} is open for reading only; open it with mode 'r+' or 'a'")
        return self._editor

    @property
    def shards(self) -> MappedShards:
        """The mapped shards of an archive that is read."""
        if self._reader is None:
            raise ClosedError(f"{self.path} is open for writing; its shards are not mapped")
        return self._reader.shards

    def refresh(self) -> bool:
        """Look whether somebody has written to the archive since it was opened; if so, the changes are followed."""
        return self._reader is not None and self._reader.refresh()

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version of the schema."""
        return self._contents.version

    # What there is

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
        return self.index.entry(clean_name(name))

    def files(self, order: ListOrder = "any") -> Iterator[FileInfo]:
        """All files with what the index says about them."""
        return self.index.files(order)

    def dirs(self, order: ListOrder = "any") -> Iterator[DirInfo]:
        """All directories, the root included, with their statistics."""
        return self.index.dirs(order)

    def listdir(self, name: PathLike = "") -> list[str]:
        """Names of what is directly in a directory, directories first."""
        cleaned = clean_name(name)
        self.index.check_dir(cleaned)
        dirs, files = self.index.names_in(cleaned)
        return dirs + files

    def scandir(self, name: PathLike = "") -> Iterator[FileInfo | DirInfo]:
        """What is directly in a directory, with what the index says about it; directories first."""
        cleaned = clean_name(name)
        self.index.check_dir(cleaned)
        yield from self.index.dirs_in(cleaned)
        yield from self.index.files_in(cleaned)

    def walk(self, name: PathLike = "") -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``: (directory, names of directories, names of files), from the top down.

        Take names out of the list of directories to leave them out. The root is the empty string.
        """
        return self.index.walk(clean_name(name))

    def iglob(self, pattern: str, *, recursive: bool = False, include_hidden: bool = False) -> Iterator[str]:
        """Paths of files and directories that match, with the rules of Python's ``glob``."""
        return self.index.matching(pattern, recursive=recursive, include_hidden=include_hidden)

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
        return self.index.shard_size()

    # Reading

    def __getitem__(self, name: str) -> bytes:
        return self._read(name)

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

    def read(self, name: PathLike, offset: int = 0, size: int = -1) -> bytes:
        """A part of a file; the whole file is checked, a part cannot be."""
        if offset == 0 and size < 0:
            return self[os.fspath(name)]
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        return bytes(self._contents.view(name, offset, size)[1])

    def read_many(self, names: Sequence[str]) -> list[bytes]:
        """Many files in one call, in the order of the names: read in the order of the shards, everything checked.

        Example:
            >>> import os, tempfile
            >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
            >>> with Archive(path, "x") as archive:
            ...     archive.update({"a": b"1", "b": b"2"})
            >>> Archive(path).read_many(["b", "a", "b"])
            [b'2', b'1', b'2']
        """
        return self._contents.read_many(names)

    def readinto(self, name: PathLike, buffer: Any, offset: int = 0) -> int:
        """Fill a buffer from a file; gives the number of bytes."""
        target = memoryview(buffer).cast("B")
        data = self.read(name, offset, len(target))
        target[: len(data)] = data
        return len(data)

    def items(self) -> ItemsView[str, bytes]:
        """Paths and contents, read in the order of the shards."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Contents, read in the order of the shards."""
        return _Values(self)

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
        if letter == "r" and not is_updated:
            binary: Any = self._open_stored(name)
        else:
            binary = self._open_edited(clean_name(name), letter, is_updated)
        if not is_text:
            return cast("IO[Any]", binary)
        return io.TextIOWrapper(binary, encoding=encoding or "utf-8", errors=errors, newline=newline)

    def _open_stored(self, name: PathLike) -> io.BufferedReader:
        cleaned, view, checksum = self._contents.view(name)
        known = checksum if self._is_checked else None

        def checked(data: bytes) -> bytes:
            try:
                check_content(self.path, cleaned, data, known)
            except CorruptFileError:
                return self._read(cleaned)  # somebody may have moved it meanwhile
            return data

        return io.BufferedReader(ArchiveRawFile(cleaned, view, checked))

    def _open_edited(self, name: str, letter: str, is_updated: bool) -> EditedFile:
        editor = self.editor
        exists = self.index.is_file(name)
        if letter == "x" and exists:
            raise EntryExistsError(self.path, name)
        if letter == "r" and not exists:
            raise self.index.missing_file(name)
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

    # Changes

    def __setitem__(self, name: str, data: Buffer) -> None:
        self.add(name, data)

    def __delitem__(self, name: str) -> None:
        self.remove(name)

    def add(
        self,
        name: PathLike,
        data: Buffer | BinaryIO,
        *,
        size: int | None = None,
        metadata: Metadata | None = None,
        replace: bool = False,
    ) -> None:
        """Add a file.

        Args:
            name: its path in the archive; directories on the way are made.
            data: bytes, or a file open for reading.
            size: of a file open for reading, if it is known; then it is stored a piece at a time.
            metadata: mode, owner and time.
            replace: replace a file that exists; otherwise that is an error.
        """
        cleaned, about = clean_name(name), metadata or Metadata()
        check_metadata(cleaned, about)
        editor = self.editor
        if hasattr(data, "read"):
            if size is None or (replace and self.index.is_file(cleaned)):
                data = cast("BinaryIO", data).read()
            else:
                editor.add_stream(cleaned, cast("BinaryIO", data), size, about)
                return
        content = _bytes_of(cleaned, data)
        if replace and self.index.is_file(cleaned):
            editor.update(cleaned, content, about)
        else:
            editor.add(cleaned, content, about)

    def add_by_path(self, path: PathLike, name: PathLike | None = None, *, replace: bool = False) -> None:
        """Add a file from the disk with its metadata; of a directory only itself, not what is in it.

        Args:
            path: on the disk; links are followed.
            name: in the archive; by default the same.
            replace: take what is there already for replaced, instead of raising.
        """
        target = path if name is None else name
        status = os.stat(path)
        about = Metadata.of(status)
        if os.path.isdir(path):
            self.mkdir(target, metadata=about, exist_ok=replace)
            return
        with open(path, "rb", buffering=0) as file:
            self.add(target, cast("BinaryIO", file), size=status.st_size, metadata=about, replace=replace)

    def update_file(self, name: PathLike, data: Buffer | BinaryIO, *, metadata: Metadata | None = None) -> None:
        """Replace the content of a file, which must exist: in place if it is not longer, else at the end."""
        cleaned = clean_name(name)
        content = _bytes_of(cleaned, cast("BinaryIO", data).read() if hasattr(data, "read") else data)
        if metadata is not None:
            check_metadata(cleaned, metadata)
        self.editor.update(cleaned, content, metadata)

    def remove(self, name: PathLike) -> None:
        """Remove a file."""
        self.editor.remove(clean_name(name))

    def mkdir(
        self, name: PathLike, *, mode: int = 0o755, metadata: Metadata | None = None, exist_ok: bool = False
    ) -> None:
        """Make a directory, and those it lies in."""
        cleaned, about = clean_name(name), metadata or Metadata(mode=mode)
        check_metadata(cleaned, about)
        self.editor.directories.make_dir(cleaned, about, exist_ok=exist_ok)

    def rmdir(self, name: PathLike) -> None:
        """Remove an empty directory."""
        self.editor.directories.remove_dir(clean_name(name))

    def rmtree(self, name: PathLike) -> None:
        """Remove a directory and everything below."""
        self.editor.directories.remove_tree(clean_name(name))

    def rename(self, old: PathLike, new: PathLike) -> None:
        """Give a file or directory another name; there must be nothing of that name."""
        self.editor.directories.rename(clean_name(old), clean_name(new))

    def set_metadata(self, name: PathLike, metadata: Metadata) -> None:
        """Set those of mode, owner and time that are not None."""
        cleaned = clean_name(name)
        check_metadata(cleaned, metadata)
        self.editor.directories.set_metadata(cleaned, metadata)

    def clear(self) -> None:
        """Remove everything."""
        self.rmtree("")

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


@contextlib.contextmanager
def new_archive(path: PathLike, *, shard_size: int | None = None) -> Iterator[Archive]:
    """Make an archive beside its final name, which it gets at the end of the block; one that is there is replaced.

    Until the block ends well there is nothing new under the name; leaving it by an exception, Ctrl-C included, leaves
    nothing behind. See ``handover`` for what happens then, and when the process is killed.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
        >>> with new_archive(path) as archive:
        ...     archive["a"] = b"1"
        ...     os.path.exists(path)
        False
        >>> Archive(path)["a"]
        b'1'
    """
    with made_beside(path) as beside, Archive(beside, "x", shard_size=shard_size) as archive:
        archive.path = os.fspath(path)
        archive.editor.show_as(archive.path)
        yield archive
        archive.commit()  # an error that somebody has caught in the block must not look as if all were well


def _prepare(path: str, mode: str) -> None:
    if mode != "r":
        check_local(path)
    if is_remote(path):
        return  # opening it says whether it is there
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


def _bytes_of(name: str, data: object) -> bytes:
    """The bytes of anything that has some: an array of numbers has more of them than entries."""
    if isinstance(data, bytes):
        return data
    try:
        return memoryview(data).tobytes()  # type: ignore[arg-type]
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"{name}: bytes are needed, or a file open for reading them; got {kind}") from None


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
