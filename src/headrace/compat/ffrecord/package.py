"""Packed folders with FFRecord's calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.compat.ffrecord._errors import TRANSLATED, translated
from headrace.compat.ffrecord.fileio import FileReader
from headrace.compat.passed_on import pass_on
from headrace.formats import ffr
from headrace.formats.ffr.layout import SUFFIX
from headrace.formats.ffr.packed_index import find, read_index, walk
from headrace.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.formats.ffr.packed_index import Tree

__all__ = ["PackedFolder", "pack_folder"]
pass_on(
    globals(),
    "OrderedDict Path pickle",
    FileReader="headrace.compat.ffrecord.fileio.FileReader",
    FileWriter="headrace.compat.ffrecord.fileio.FileWriter",
    MAGIC_BYTES="headrace.formats.ffr.packed_index.INDEX_MAGIC",
)


def pack_folder(folder: PathLike, out_file: PathLike, verbose: bool = False) -> None:
    """Pack all files below a folder into one .ffr file, which appears when it is complete.

    Args:
        folder: what to pack.
        out_file: the file to write.
        verbose: show the progress.
    """
    if not os.path.isdir(folder):
        raise AssertionError(f"{os.fspath(folder)} is not a folder")
    if os.path.splitext(out_file)[1] != SUFFIX:
        raise AssertionError(f"out_file must end with {SUFFIX}, got {os.fspath(out_file)!r}")
    with ProgressBar("packing", unit="files", enabled=bool(verbose)) as bar:
        ffr.pack_folder(folder, out_file, progress=bar)


class PackedFolder:
    """The files of a packed folder, by path. Its index is never unpickled: a hostile file runs no code.

    Args:
        ffr_file: the .ffr file.
        check_data: check every file that is read.

    Raises:
        ValueError: the file is no packed folder.
    """

    def __init__(self, ffr_file: PathLike, check_data: bool = True) -> None:
        self.reader = FileReader(ffr_file, check_data)
        try:
            self.structure: Tree = read_index(self.reader.native)
        except TRANSLATED as error:
            raise translated(error) from None

    def num_files(self) -> int:
        """How many files there are, in all folders."""
        return self.reader.n - 1

    def _find(self, path: PathLike) -> int | Tree | None:
        return find(self.structure, os.fspath(path))

    def exists(self, path: PathLike) -> bool:
        """There is a file or folder of that path."""
        return self._find(path) is not None

    def is_file(self, path: PathLike) -> bool:
        """There is a file of that path."""
        return isinstance(self._find(path), int)

    def is_dir(self, path: PathLike) -> bool:
        """There is a folder of that path."""
        return isinstance(self._find(path), dict)

    def _number(self, path: PathLike) -> int:
        found = self._find(path)
        if not isinstance(found, int):
            problem = "does not exist" if found is None else "is a folder, not a file"
            raise AssertionError(f"{os.fspath(path)!r} {problem}")
        return found

    def read_one(self, fname: PathLike) -> npt.NDArray[np.uint8]:
        """Read one file."""
        return self.reader.read_one(self._number(fname))

    def read(self, fnames: Sequence[PathLike]) -> Sequence[npt.NDArray[np.uint8]]:
        """Read the files of a list in one call."""
        if not isinstance(fnames, list | tuple):
            raise AssertionError(f"fnames must be a list of paths, got {fnames!r}; read_one() reads one file")
        return self.reader.read([self._number(path) for path in fnames])

    def list(
        self, path: PathLike | None = None, list_file: bool = True, list_dir: bool = True, recursive: bool = False
    ) -> list[str | Path]:  # the built-in, named before this method is
        """What is in a folder, in stored order, relative to it; what is further below as ``Path``.

        Args:
            path: the folder.
            list_file: list files.
            list_dir: list folders.
            recursive: go into folders.
        """
        tree = self.structure if path is None else self._find(path)
        if not isinstance(tree, dict):
            problem = "does not exist" if tree is None else "is a file, not a folder"
            raise AssertionError(f"{os.fspath(path or '')!r} {problem}")
        entries = walk(tree) if recursive else iter(tree.items())
        names = (name for name, value in entries if (list_file if isinstance(value, int) else list_dir))
        return [Path(name) if "/" in name else name for name in names]
