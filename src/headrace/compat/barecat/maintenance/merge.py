"""One archive into another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.paths import normalize_path, resolve_index_path
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatFileInfo, Order
from headrace.compat.barecat.exceptions import DuplicateBarecatError
from headrace.compat.barecat.util.glob_helper import compile_rules
from headrace.compat.barecat.util.glob_to_regex import glob_to_regex
from headrace.compat.barecat.util.misc import exists
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.compat.barecat.core._queries import Queries
    from headrace.compat.barecat.core.index import Index

__all__ = ["check_prefix", "merge_archive", "merge_rows"]

_BLOCK_FILES = 512
_BLOCK_BYTES = 32 << 20


def check_prefix(target: Index, prefix: str) -> None:
    """Refuse a directory that everything shall go into, but that is a file or lies below one."""
    parts = prefix.split("/") if prefix else []
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count])
        if target.isfile(above):
            raise ValueError(f"Cannot use prefix '{prefix}': '{above}' exists as a file")


def make_filter(pattern: str | None, filter_rules: Sequence[tuple[str, str]] | None) -> Callable[[str], Any]:
    """A test of paths from a pattern or from rules; without both, everything passes."""
    if pattern is not None:
        return re.compile(glob_to_regex(pattern, recursive=True, include_hidden=True)).match
    return compile_rules(filter_rules or ())  # type: ignore[no-any-return]


def merge_archive(
    target: Queries,
    source_path: str,
    *,
    ignore_duplicates: bool,
    prefix: str,
    pattern: str | None,
    filter_rules: Sequence[tuple[str, str]] | None,
) -> None:
    """Copy what passes a filter; refuses before anything is copied."""
    from headrace.compat.barecat.core.index import Index

    if not exists(source_path):
        raise FileNotFoundError(f"{source_path} does not exist")
    before = f"{normalize_path(prefix)}/" if normalize_path(prefix) else ""
    is_filtered = pattern is not None or bool(filter_rules)
    keep = make_filter(pattern, filter_rules)
    check_prefix(target.index, before.rstrip("/"))
    with Index(resolve_index_path(source_path)) as index, Archive(source_path) as archive:
        files = [info for info in index.iter_all_fileinfos(Order.ADDRESS) if keep(info.path)]
        dirs = [] if is_filtered else list(index.iter_all_dirinfos(Order.PATH))
        _check(target.index, files, dirs, before, ignore_duplicates)
        if any((info.size or 0) > target.shard_size_limit for info in files):
            raise ValueError("Files in the source archive are larger than the shard size")
        wanted = _merge_dirs(target.index, dirs, before)
        if ignore_duplicates:
            files = [info for info in files if not target.index.isfile(before + info.path)]
        editor = target._archive.editor
        for block in _blocks(files):
            contents = archive.read_many([info.path for info in block])
            for info, data in zip(block, contents, strict=True):
                editor.add(before + info.path, data, info.metadata)
        for directory in wanted:  # adding files has touched them
            target.index.add_dir(directory, exist_ok=True)


def _blocks(files: Iterable[BarecatFileInfo]) -> Iterable[list[BarecatFileInfo]]:
    block: list[BarecatFileInfo] = []
    size_bytes = 0
    for info in files:
        block.append(info)
        size_bytes += info.size or 0
        if len(block) >= _BLOCK_FILES or size_bytes >= _BLOCK_BYTES:
            yield block
            block, size_bytes = [], 0
    if block:
        yield block


def _check(
    target: Index,
    files: Iterable[BarecatFileInfo],
    dirs: Iterable[BarecatDirInfo],
    before: str,
    ignore_duplicates: bool,
) -> None:
    for info in files:
        if target.isdir(before + info.path):
            raise ValueError(f"Source file '{before}{info.path}' conflicts with target directory")
        if not ignore_duplicates and target.isfile(before + info.path):
            raise DuplicateBarecatError(before + info.path)
    for directory in dirs:
        if directory.path and target.isfile(before + directory.path):
            raise ValueError(f"Source directory '{before}{directory.path}' conflicts with target file")


def _merge_dirs(target: Index, dirs: Iterable[BarecatDirInfo], before: str) -> list[BarecatDirInfo]:
    """Make directories; where both have one, modes are joined and the later time counts. Gives what they must be."""
    wanted = []
    for directory in dirs:
        path = normalize_path(before + directory.path)
        old = target.lookup_dir(path) if target.isdir(path) else BarecatDirInfo(path)
        mode = None if old.mode is None and directory.mode is None else (old.mode or 0) | (directory.mode or 0)
        times = [time for time in (old.mtime_ns, directory.mtime_ns) if time is not None]
        uid = old.uid if directory.uid is None else directory.uid
        gid = old.gid if directory.gid is None else directory.gid
        new = BarecatDirInfo(path, mode, uid, gid, max(times, default=None))
        target.add_dir(new, exist_ok=True)
        wanted.append(new)
    return wanted


def merge_rows(source: Index, target: Index, *, ignore_duplicates: bool, prefix: str) -> None:
    """Add the rows of another index, whose shards are counted on from those in use here."""
    before = f"{normalize_path(prefix)}/" if normalize_path(prefix) else ""
    base = target.num_used_shards
    check_prefix(target, before.rstrip("/"))
    files = list(source.iter_all_fileinfos(Order.ADDRESS))
    dirs = list(source.iter_all_dirinfos(Order.PATH))
    _check(target, files, dirs, before, ignore_duplicates)
    wanted = _merge_dirs(target, dirs, before)
    new = [info for info in files if not (ignore_duplicates and target.isfile(before + info.path))]
    for info in new:
        info.path = before + info.path
        info.shard = (info.shard or 0) + base
    target.add_files(new)
    for directory in wanted:  # adding files has touched them
        target.add_dir(directory, exist_ok=True)
