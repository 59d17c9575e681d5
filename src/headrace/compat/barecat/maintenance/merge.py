"""One archive into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.compat.barecat.core._globs import compile_rules, matcher
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatDirInfo, Order
from headrace.compat.barecat.exceptions import DuplicateBarecatError
from headrace.formats.barecat import Archive
from headrace.formats.report import Transfer
from headrace.transfer.containers import archive_entries
from headrace.transfer.sinks import ArchiveSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.compat.barecat.core.barecat import Barecat
    from headrace.compat.barecat.core.index import Index
    from headrace.formats.barecat import DirInfo

__all__ = ["check_prefix", "make_filter", "merge_archive", "merge_rows"]


def check_prefix(target: Index, prefix: str) -> None:
    """Refuse a directory that everything shall go into, but that is a file or lies below one."""
    parts = prefix.split("/") if prefix else []
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count])
        if target.isfile(above):
            raise ValueError(f"Cannot use prefix '{prefix}': '{above}' exists as a file")


def make_filter(pattern: str | None, filter_rules: Sequence[tuple[str, str]] | None) -> Callable[[str], object]:
    """A test of paths from a pattern or from rules; without both, everything passes."""
    if pattern is not None:
        return matcher(pattern, recursive=True, include_hidden=True)
    return compile_rules(filter_rules or ())


def merge_archive(
    target: Barecat,
    source_path: str,
    ignore_duplicates: bool,
    prefix: str,
    pattern: str | None,
    filter_rules: Sequence[tuple[str, str]] | None,
) -> None:
    """Copy what passes a filter; refuses before anything is copied."""
    below, keep = normalize_path(prefix), make_filter(pattern, filter_rules)
    with Archive(source_path, follow_links=True) as source:
        files = [info for info in source.files() if keep(info.path)]
        dirs = [] if pattern is not None or filter_rules else list(source.dirs("path"))
        _check(target.index, below, [info.path for info in files], dirs, ignore_duplicates)
        if any(info.size > target.shard_size_limit for info in files):
            raise ValueError("Files in the source archive are larger than the shard size")
        wanted = _merge_dirs(target.index, dirs, below)
        sink = ArchiveSink(target._archive, prefix=below, ignore_duplicates=ignore_duplicates)
        for entry in archive_entries(source, lambda path: bool(keep(path))):
            if not entry.is_dir:
                sink.put_counted(entry, Transfer())
        for directory in wanted:  # adding files has touched them
            target.index.add_dir(directory, exist_ok=True)


def merge_rows(source: Index, target: Index, *, ignore_duplicates: bool, prefix: str) -> None:
    """Add the rows of another index, whose shards are counted on from those in use here."""
    below, base = normalize_path(prefix), target.num_used_shards
    files = list(source.iter_all_fileinfos(Order.ADDRESS))
    dirs = list(source.iter_all_dirinfos(Order.PATH))
    _check(target, below, [info.path for info in files], dirs, ignore_duplicates)
    wanted = _merge_dirs(target, dirs, below)
    for info in files:
        info.path = f"{below}/{info.path}"
        info.shard = (info.shard or 0) + base
    target.add_files([info for info in files if not (ignore_duplicates and target.isfile(info.path))])
    for directory in wanted:  # adding files has touched them
        target.add_dir(directory, exist_ok=True)


def _check(
    target: Index, prefix: str, files: Iterable[str], dirs: Iterable[DirInfo | BarecatDirInfo], ignore_duplicates: bool
) -> None:
    check_prefix(target, prefix)
    before = f"{prefix}/" if prefix else ""
    for path in files:
        if target.isdir(before + path):
            raise ValueError(f"Source file '{before}{path}' conflicts with target directory")
        if not ignore_duplicates and target.isfile(before + path):
            raise DuplicateBarecatError(before + path)
    for directory in dirs:
        if directory.path and target.isfile(before + directory.path):
            raise ValueError(f"Source directory '{before}{directory.path}' conflicts with target file")


def _merge_dirs(target: Index, dirs: Iterable[DirInfo | BarecatDirInfo], below: str) -> list[BarecatDirInfo]:
    """Make directories; where both have one, modes are joined and the later time counts. Gives what they must be."""
    wanted = []
    for directory in dirs:
        path = normalize_path(f"{below}/{directory.path}")
        old = target.lookup_dir(path) if target.isdir(path) else BarecatDirInfo(path)
        mode = None if old.mode is None and directory.mode is None else (old.mode or 0) | (directory.mode or 0)
        times = [time for time in (old.mtime_ns, directory.mtime_ns) if time is not None]
        uid = old.uid if directory.uid is None else directory.uid
        gid = old.gid if directory.gid is None else directory.gid
        wanted.append(BarecatDirInfo(path, mode, uid, gid, max(times, default=None)))
        target.add_dir(wanted[-1], exist_ok=True)
    return wanted
