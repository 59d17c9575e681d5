"""Files of an archive back to the disk: never outside the folder, whatever the names say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self, cast

from headrace._native import crc32c
from headrace.errors import CorruptFileError, FormatError
from headrace.formats.barecat.batches import RESTORE, checksum_problem
from headrace.formats.entry_names import safe_name
from headrace.formats.report import Transfer
from headrace.storage import FolderWriter
from headrace.transfer.entry import Exactly, content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from headrace.errors import HeadraceError, PathLike
    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.rows import DirInfo, FileInfo
    from headrace.formats.metadata import Metadata
    from headrace.transfer.entry import Entry
    from headrace.types import Progress

__all__ = ["LARGE_BYTES", "CheckedFile", "FolderSink", "blocks_of", "extract_files", "select_infos"]

_BLOCK = 256
_PIECE = 1 << 20
LARGE_BYTES = 64 << 20
"""Files from this size on are not held in memory as a whole."""
_PERMISSIONS = 0o777  # set-user-id and the like do not come out of an archive


class FolderSink:
    """Writes entries below a folder.

    Args:
        folder: made if it is missing.
        force: replace files that exist.
    """

    def __init__(self, folder: PathLike, *, force: bool = False) -> None:
        self._writer = FolderWriter(folder)
        self._force = force
        self._dirs: list[tuple[str, Metadata]] = []

    def make_dir(self, name: str, about: Metadata) -> None:
        """Make a directory; its mode and time are set at the end."""
        name = safe_name(name)
        if name:
            self._writer.make_dir(name)
            self._dirs.append((name, about))

    def write(self, name: str, data: bytes | BinaryIO, about: Metadata) -> None:
        """Write a file, given as bytes or piece by piece; never through a link, and all of it or none."""
        self._writer.write(
            safe_name(name),
            [data] if isinstance(data, bytes) else iter(partial(data.read, _PIECE), b""),
            replace=self._force,
            mode=None if about.mode is None else about.mode & _PERMISSIONS,
            mtime_ns=about.mtime_ns,
        )

    def put(self, entry: Entry) -> None:
        """Write one."""
        if entry.is_dir:
            self.make_dir(entry.name, entry.about)
        elif entry.size <= LARGE_BYTES:
            self.write(entry.name, content_of(entry), entry.about)
        else:
            with entry.open() as file:
                self.write(entry.name, cast("BinaryIO", Exactly(entry, file)), entry.about)

    def abort(self, error: BaseException | None = None) -> None:
        """Leave what is there: it may be the user's own, and every file is complete."""
        self._writer.close()
        if isinstance(error, KeyboardInterrupt):
            self._writer.note_interrupt(error)

    def finish(self) -> None:
        """Give the directories their modes and times, the deepest first."""
        for name, about in sorted(self._dirs, key=lambda one: one[0], reverse=True):
            mode = None if about.mode is None else about.mode & _PERMISSIONS
            self._writer.set_dir(name, mode=mode, mtime_ns=about.mtime_ns)
        self._writer.close()


class CheckedFile:
    """A file of an archive, read once from the front; the last piece is only given if the checksum is right."""

    def __init__(self, archive: Archive, info: FileInfo) -> None:
        self._archive, self._info = archive, info
        self._file = archive.open(info.path, "rb")
        self._checksum, self._left = 0, info.size

    def read(self, size: int = -1) -> bytes:
        """The next piece."""
        piece: bytes = self._file.read(self._left if size < 0 else min(size, self._left))
        self._checksum = crc32c(piece, self._checksum)
        self._left -= len(piece)
        wanted = self._info.crc32c
        if piece and not self._left and wanted is not None and wanted != self._checksum:
            problem = checksum_problem(wanted, self._checksum)
            raise CorruptFileError(self._archive.path, name=self._info.path, problem=problem, fix=RESTORE)
        return piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()


def select_infos(archive: Archive, names: Iterable[str]) -> tuple[list[DirInfo], list[FileInfo]]:
    """Directories and files under the names, or all; names of directories stand for everything below them."""
    wanted = list(names)
    if not wanted:
        return list(archive.dirs("path")), list(archive.files("address"))
    dirs: dict[str, DirInfo] = {}
    files: dict[str, FileInfo] = {}
    for name in wanted:
        matches = archive.glob(name, recursive=True, include_hidden=True) if _is_pattern(archive, name) else [name]
        if not matches:
            raise FileNotFoundError(f"{archive.path}: nothing matches {name}")
        for match in matches:
            info = archive.stat(match)
            if info.is_file():
                files[info.path] = info  # type: ignore[assignment]
            else:
                dirs[info.path] = info  # type: ignore[assignment]
                dirs.update((below.path, below) for below in archive.index.dirs(below=info.path))
                files.update((below.path, below) for below in archive.index.files(below=info.path))
    return list(dirs.values()), sorted(files.values(), key=lambda info: (info.shard, info.offset))


def _is_pattern(archive: Archive, name: str) -> bool:
    return any(char in name for char in "*?[") and not archive.exists(name)


def extract_files(
    archive: Archive,
    folder: PathLike,
    names: Iterable[str] = (),
    *,
    force: bool = False,
    on_damage: Callable[[HeadraceError], None] | None = None,
    progress: Progress | None = None,
) -> Transfer:
    """Write files, with their modes and times, and directories, also empty ones, below a folder.

    Args:
        archive: what is read.
        folder: made if it is missing.
        names: files, directories (with all below) or patterns; by default everything.
        force: replace files that exist.
        on_damage: called with the error for each file that cannot be read, which is then left out; by default the first
            such error is raised.
        progress: called as the work advances.
    """
    dirs, files = select_infos(archive, names)
    sink = FolderSink(folder, force=force)
    result = Transfer(dirs=len(dirs))
    try:
        for directory in dirs:
            if directory.path:
                sink.make_dir(directory.path, directory.metadata)
        for block in blocks_of(files):
            try:
                written = _write_block(archive, block, sink)
            except (CorruptFileError, FormatError):
                if on_damage is None:
                    raise
                written = _write_intact(archive, block, sink, on_damage)
            result.files += len(written)
            result.size_bytes += sum(info.size for info in written)
            if progress is not None:
                progress(result.files, len(files), result.size_bytes)
        sink.finish()
    except BaseException as error:
        sink.abort(error)
        raise
    return result


def _write_block(archive: Archive, block: list[FileInfo], sink: FolderSink) -> list[FileInfo]:
    if block[0].size > LARGE_BYTES:
        with CheckedFile(archive, block[0]) as file:
            sink.write(block[0].path, cast("BinaryIO", file), block[0].metadata)
    else:
        contents = archive.read_many([info.path for info in block])
        for info, data in zip(block, contents, strict=True):
            sink.write(info.path, data, info.metadata)
    return block


def _write_intact(
    archive: Archive, block: list[FileInfo], sink: FolderSink, on_damage: Callable[[HeadraceError], None]
) -> list[FileInfo]:
    """One after the other, without those that cannot be read."""
    written = []
    for info in block:
        try:
            written += _write_block(archive, [info], sink)
        except (CorruptFileError, FormatError) as error:
            on_damage(error)
    return written


def blocks_of(files: Iterable[FileInfo]) -> Iterator[list[FileInfo]]:
    """A few files, or one that is large."""
    block: list[FileInfo] = []
    size_bytes = 0
    for info in files:
        if block and (len(block) >= _BLOCK or size_bytes + info.size > LARGE_BYTES):
            yield block
            block, size_bytes = [], 0
        block.append(info)
        size_bytes += info.size
    if block:
        yield block
