"""Archives joined, and parts of archives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import EntryExistsError
from penstock.formats.barecat.archive import Archive
from penstock.formats.barecat.entries import Transfer
from penstock.formats.barecat.globbing import translate
from penstock.formats.barecat.names import shard_numbers, shard_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.errors import PathLike
    from penstock.formats.barecat.rows import FileInfo
    from penstock.types import Progress

__all__ = ["Rule", "copy_files", "link_archives", "merge_archives", "rule_filter"]

Rule = tuple[bool, str]
"""True to include or False to exclude what a pattern matches."""
_BLOCK_BYTES = 32 << 20
_BLOCK_FILES = 512


def rule_filter(rules: Sequence[Rule]) -> Callable[[str], bool]:
    """A test of paths: the first rule whose pattern matches decides; without one, a path is included.

    Example:
        >>> keep = rule_filter([(True, "**/*.jpg"), (False, "**")])
        >>> keep("a/b.jpg"), keep("a/b.txt")
        (True, False)
    """
    compiled = [
        (is_included, translate(pattern, recursive=True, include_hidden=True).fullmatch)
        for is_included, pattern in rules
    ]

    def keep(path: str) -> bool:
        return next((is_included for is_included, match in compiled if match(path)), True)

    return keep


def copy_files(
    source: Archive,
    target: Archive,
    *,
    prefix: str = "",
    keep: Callable[[str], bool] = lambda path: True,
    ignore_duplicates: bool = False,
    progress: Progress | None = None,
) -> Transfer:
    """Copy files with their directories and metadata into another archive, in the order in which they lie.

    Args:
        source: what is read; every file is checked on the way.
        target: open for writing.
        prefix: a directory of the target that everything goes into.
        keep: says for each path whether it is copied.
        ignore_duplicates: leave out files that the target has already; otherwise that is an error.
        progress: called as the work advances.
    """
    before = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    result = Transfer()
    times = []
    for directory in source.dirs("path"):
        if directory.path and keep(directory.path):
            target.mkdir(before + directory.path, metadata=directory.metadata, exist_ok=True)
            times.append((before + directory.path, directory.metadata))
            result.dirs += 1
    total = None if progress is None else sum(map(keep, source.index.file_names()))
    wanted = (info for info in source.files("address") if keep(info.path))
    block: list[FileInfo] = []
    for info in wanted:
        block.append(info)
        if len(block) >= _BLOCK_FILES or sum(i.size for i in block) >= _BLOCK_BYTES:
            _copy_block(source, target, before, block, ignore_duplicates, result)
            block = []
            if progress is not None:
                progress(result.files, total, result.size_bytes)
    _copy_block(source, target, before, block, ignore_duplicates, result)
    for path, about in times:  # adding files has touched them
        target.set_metadata(path, about)
    return result


def _copy_block(
    source: Archive, target: Archive, before: str, block: list[FileInfo], ignore_duplicates: bool, result: Transfer
) -> None:
    for info, data in zip(block, source.read_many([info.path for info in block]), strict=True):
        try:
            target.add(before + info.path, data, metadata=info.metadata)
        except EntryExistsError:
            if not ignore_duplicates:
                raise
            result.skipped.append(f"{before}{info.path}: exists already")
            continue
        result.files += 1
        result.size_bytes += info.size


def merge_archives(
    sources: Sequence[PathLike],
    target: Archive,
    *,
    as_subdirs: bool = False,
    prefix: str = "",
    rules: Sequence[Rule] = (),
    ignore_duplicates: bool = False,
    progress: Progress | None = None,
) -> Transfer:
    """Copy archives into one, one after the other.

    Args:
        sources: the archives.
        target: open for writing.
        as_subdirs: each goes into a directory with its name.
        prefix: a directory that everything goes into.
        rules: which paths are copied; see ``rule_filter``.
        ignore_duplicates: leave out files that are there already; otherwise that is an error.
        progress: called as the work advances.
    """
    total = Transfer()
    count = None if progress is None or rules else sum(_count_files(path) for path in sources)
    for path in sources:
        stem = os.path.basename(os.fspath(path)).removesuffix(".barecat")
        below = "/".join(part for part in (prefix.strip("/"), stem if as_subdirs else "") if part)
        with Archive(path) as source:
            result = copy_files(
                source,
                target,
                prefix=below,
                keep=rule_filter(rules),
                ignore_duplicates=ignore_duplicates,
                progress=None if progress is None else _after(total, count, progress),
            )
        total.files += result.files
        total.dirs += result.dirs
        total.size_bytes += result.size_bytes
        total.skipped += result.skipped
    return total


def link_archives(
    sources: Sequence[PathLike], path: PathLike, *, prefixes: Sequence[str] = (), ignore_duplicates: bool = False
) -> Transfer:
    """Make an archive whose shards are symbolic links to those of others: nothing is copied.

    It can be read as long as the others stay where they are and are not changed.

    Args:
        sources: the archives.
        path: of the new one.
        prefixes: for each source, the directory that it goes into; by default the root.
        ignore_duplicates: leave out files that are there already; otherwise that is an error.
    """
    total = Transfer()
    with Archive(path, "x", allow_links=True) as target:
        base = 0
        for one, prefix in zip(sources, prefixes or [""] * len(sources), strict=True):
            with Archive(one) as source:
                _insert_rows(source, target, base, f"{prefix}/" if prefix else "", ignore_duplicates, total)
                base += max(shard_numbers(source.path), default=-1) + 1
        target.commit()
    _link_shards(sources, os.fspath(path))
    return total


def _insert_rows(
    source: Archive, target: Archive, base: int, before: str, ignore_duplicates: bool, total: Transfer
) -> None:
    for directory in source.dirs("path"):
        if directory.path:
            target.mkdir(before + directory.path, metadata=directory.metadata, exist_ok=True)
            total.dirs += 1
    for info in source.files("address"):
        place = (info.shard + base, info.offset, info.size, info.crc32c)
        try:
            target.editor.insert(before + info.path, place, info.metadata)
        except EntryExistsError:
            if not ignore_duplicates:
                raise
            total.skipped.append(f"{before}{info.path}: exists already")
            continue
        total.files += 1
        total.size_bytes += info.size


def _link_shards(sources: Sequence[PathLike], path: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    os.unlink(shard_path(path, 0))
    base = 0
    for one in sources:
        numbers = shard_numbers(os.fspath(one))
        for number in numbers:
            file = os.path.realpath(shard_path(os.fspath(one), number))
            os.symlink(os.path.relpath(file, folder), shard_path(path, base + number))
        base += max(numbers, default=-1) + 1
    if not os.path.lexists(shard_path(path, 0)):
        open(shard_path(path, 0), "wb").close()


def _count_files(path: PathLike) -> int:
    with Archive(path) as archive:
        return archive.num_files


def _after(before: Transfer, count: int | None, progress: Progress) -> Progress:
    """Progress of one archive as that of all; without a count, of as many as are known."""
    files, base = before.files, before.size_bytes

    def report(done: int, total: int | None, size_bytes: int) -> None:
        known = count if count is not None or total is None else files + total
        progress(files + done, known, base + size_bytes)

    return report
