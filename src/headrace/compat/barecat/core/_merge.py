"""Another archive merged into this one: what cannot be is refused, and directories that both have are joined."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatDirInfo, Order
from headrace.compat.barecat.exceptions import DuplicateBarecatError
from headrace.formats.entry_names import parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.compat.barecat.core.index import Index
    from headrace.formats.barecat import DirInfo

__all__ = ["check_merge", "merge_dirs", "merge_index"]


def merge_index(index: Index, source: Index, below: str, ignore_duplicates: bool) -> None:
    """Add the rows of another index below a directory; its shards are counted on from those in use here."""
    base = index.num_used_shards
    files = list(source.iter_all_fileinfos(Order.ADDRESS))
    dirs = list(source.iter_all_dirinfos())
    check_merge(index, below, [info.path for info in files], dirs, ignore_duplicates)
    for above in itertools.accumulate(below.split("/"), "{}/{}".format):
        index.put_dir(BarecatDirInfo(above))
    wanted = merge_dirs(index, dirs, below)
    for info in files:
        info.path = f"{below}/{info.path}"
        info.shard = (info.shard or 0) + base
    index.add_files([info for info in files if not (ignore_duplicates and index.isfile(info.path))])
    for directory in wanted:  # adding files has touched them
        index.put_dir(directory)


def check_merge(
    index: Index, prefix: str, files: Iterable[str], dirs: Iterable[DirInfo | BarecatDirInfo], ignore_duplicates: bool
) -> None:
    """Refuse files and directories that cannot all be added below a directory."""
    above = prefix
    while above:
        if index.isfile(above):
            raise ValueError(f"Cannot use prefix '{prefix}': '{above}' exists as a file")
        above = parent_of(above)
    before = f"{prefix}/" if prefix else ""
    for path in files:
        if index.isdir(before + path):
            raise ValueError(f"Source file '{before}{path}' conflicts with target directory")
        if not ignore_duplicates and index.isfile(before + path):
            raise DuplicateBarecatError(before + path)
    for directory in dirs:
        if directory.path and index.isfile(before + directory.path):
            raise ValueError(f"Source directory '{before}{directory.path}' conflicts with target file")


def merge_dirs(index: Index, dirs: Iterable[DirInfo | BarecatDirInfo], below: str) -> list[BarecatDirInfo]:
    """Make directories, and give them; where both have one, modes are joined and the later time counts."""
    wanted = []
    for directory in dirs:
        path = normalize_path(f"{below}/{directory.path}")
        old = index.lookup_dir(path) if index.isdir(path) else BarecatDirInfo(path)
        mode = None if old.mode is None and directory.mode is None else (old.mode or 0) | (directory.mode or 0)
        times = [time for time in (old.mtime_ns, directory.mtime_ns) if time is not None]
        uid = old.uid if directory.uid is None else directory.uid
        gid = old.gid if directory.gid is None else directory.gid
        wanted.append(BarecatDirInfo(path, mode, uid, gid, max(times, default=None)))
        index.put_dir(wanted[-1])
    return wanted
