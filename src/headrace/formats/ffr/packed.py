"""Folders packed into one .ffr file: any files, found again by path."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self, cast

from headrace.formats.ffr.packed_index import Tree, find, pack_index, read_index, walk
from headrace.formats.ffr.reader import FfrReader
from headrace.formats.ffr.writer import FfrWriter
from headrace.formats.report import Transfer
from headrace.progress import format_count
from headrace.storage import open_stream, walk_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.types import Progress

__all__ = ["PackedFolder", "pack_folder"]


def pack_folder(
    folder: PathLike, path: PathLike, *, dry_run: bool = False, progress: Progress | None = None
) -> Transfer:
    """Pack all files below a folder, hidden and empty ones too, into one .ffr file.

    Files are stored byte for byte, folder by folder, sorted by name; links are followed. The file appears when it is
    complete, or not at all.

    Args:
        folder: what to pack.
        path: the file to write.
        dry_run: write nothing.
        progress: called as the work advances.

    Returns:
        How many files were packed, or would be.

    Raises:
        OSError: something cannot be read or is no regular file, or a link leads nowhere or into a circle.
        ValueError: the folder is the root of the machine, or made by the kernel.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "a").mkdir()
        >>> _ = (folder / "a" / "b.txt").write_bytes(b"hello")
        >>> pack_folder(folder / "a", folder / "a.ffr").files
        1
        >>> PackedFolder(folder / "a.ffr").read_one("b.txt").tobytes()
        b'hello'
    """
    files: list[str] = []
    dirs = 0
    tree: Tree = OrderedDict()
    for found in walk_folder(os.fspath(folder), follow_links=True, on_problem=_refuse):
        *above, last = found.name.split("/")
        parent = tree
        for name in above:
            parent = cast("Tree", parent[name])
        parent[last] = OrderedDict() if found.is_dir else len(files)
        dirs += found.is_dir
        if not found.is_dir:
            files.append(found.path)
    result = Transfer(files=len(files), dirs=dirs)
    if dry_run:
        result.size_bytes = sum(os.stat(file).st_size for file in files)
        return result
    with FfrWriter(path, len(files) + 1) as writer:
        for file in files:
            with open_stream(file) as opened:
                writer.append(opened.read())
            if progress is not None:
                progress(len(writer), len(files), writer.size_bytes)
        result.size_bytes = writer.size_bytes
        writer.append(pack_index(tree))
    return result


def _refuse(path: str, reason: str) -> None:
    # All files or none: the index of a packed folder is taken for the whole folder.
    raise (OSError if os.path.exists(path) else FileNotFoundError)(f"{path}: {reason}")


class PackedFolder:
    """The files of a packed folder, by path.

    Paths are relative and use ``/``; ``""`` and ``"."`` are the folder itself. The index in the file is read by a
    parser that can build nothing but names and numbers: opening a hostile file runs no code.

    Args:
        path: the .ffr file.
        checksums: check every file that is read.
        cold: see ``FfrReader``.
    """

    def __init__(self, path: PathLike, *, checksums: bool = True, cold: bool | None = None) -> None:
        self.reader = FfrReader(path, checksums=checksums, cold=cold)
        self.structure: Tree = read_index(self.reader)

    def __reduce__(self) -> tuple[Any, ...]:
        _, (paths, options) = self.reader.__reduce__()
        return _reopen, (paths[0], options)

    def close(self) -> None:
        """Let go of the file."""
        self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PackedFolder {self.reader.paths[0]!r}: {format_count(self.num_files(), 'file')}>"

    def num_files(self) -> int:
        """How many files there are, in all folders."""
        return len(self.reader) - 1

    def _find(self, path: str) -> int | Tree | None:
        return find(self.structure, path)

    def exists(self, path: str) -> bool:
        """There is a file or folder of that path."""
        return self._find(path) is not None

    def is_file(self, path: str) -> bool:
        """There is a file of that path."""
        return isinstance(self._find(path), int)

    def is_dir(self, path: str) -> bool:
        """There is a folder of that path."""
        return isinstance(self._find(path), dict)

    def list(
        self, path: str = "", *, files: bool = True, folders: bool = True, recursive: bool = False
    ) -> list[str]:  # the built-in, named before this method is
        """Paths below a folder, relative to it, in stored order.

        Args:
            path: the folder.
            files: list files.
            folders: list folders.
            recursive: go into folders.
        """
        tree = self._find(path)
        if not isinstance(tree, dict):
            known = "is a file" if tree is not None else "does not exist"
            raise NotADirectoryError(f"{self.reader.paths[0]}: the folder {path!r} {known}")
        entries = walk(tree) if recursive else iter(tree.items())
        return [name for name, value in entries if (files if isinstance(value, int) else folders)]

    def number(self, path: str) -> int:
        """Which sample a file is."""
        found = self._find(path)
        if not isinstance(found, int):
            known = "is a folder" if found is not None else "does not exist"
            raise FileNotFoundError(f"{self.reader.paths[0]}: the file {path!r} {known}")
        return found

    def read_one(self, path: str) -> npt.NDArray[np.uint8]:
        """Read one file."""
        return self.reader.read_one(self.number(path))

    def read(self, paths: Sequence[str]) -> Sequence[npt.NDArray[np.uint8]]:
        """Read many files in one call."""
        if isinstance(paths, str):
            raise TypeError(f"paths must be a list of paths, got one; use read_one({paths!r})")
        return self.reader.read([self.number(path) for path in paths])


def _reopen(path: str, options: dict[str, Any]) -> PackedFolder:
    return PackedFolder(path, **options)
