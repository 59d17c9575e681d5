"""Archives, tars, zips and folders joined, and parts of archives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.errors import EntryExistsError
from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.names import shard_numbers, shard_path
from headrace.formats.patterns import translate
from headrace.formats.report import Transfer
from headrace.storage import check_regular
from headrace.transfer.containers import (
    archive_entries,
    ending_of,
    kind_of,
    open_archive,
    read_entries,
    translate_errors,
)
from headrace.transfer.sinks import ArchiveSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.transfer.entry import Entry
    from headrace.types import Progress

__all__ = ["Rule", "link_archives", "merge_archives", "rule_filter"]

Rule = tuple[bool, str]
"""True to include or False to exclude what a pattern matches."""


def rule_filter(rules: Sequence[Rule], *, by_last_part: bool = False) -> Callable[[str], bool]:
    """A test of paths: the first rule whose pattern matches decides; without one, a path is included.

    With ``by_last_part`` a pattern without a slash also fits the last part of a path, and one may end in a slash.

    Example:
        >>> keep = rule_filter([(True, "**/*.jpg"), (False, "**")])
        >>> keep("a/b.jpg"), keep("a/b.txt")
        (True, False)
    """
    compiled = []
    for is_included, text in rules:
        pattern = translate(text.rstrip("/") if by_last_part else text, recursive=True, include_hidden=True)
        compiled.append((is_included, by_last_part and "/" not in text, pattern))

    def keep(path: str) -> bool:
        for is_included, is_last, pattern in compiled:
            if pattern.fullmatch(path) or (is_last and pattern.fullmatch(path.rpartition("/")[2])):
                return is_included
        return True

    return keep


def merge_archives(
    sources: Sequence[PathLike],
    target: Archive,
    *,
    as_subdirs: bool = False,
    prefix: str = "",
    rules: Sequence[Rule] = (),
    ignore_duplicates: bool = False,
    max_bytes: int | None = None,
    follow_links: bool = False,
    progress: Progress | None = None,
) -> Transfer:
    """Copy archives, tars, zips and folders into one archive, one after the other.

    Args:
        sources: what is read.
        target: open for writing.
        as_subdirs: each goes into a directory with its name.
        prefix: a directory that everything goes into.
        rules: which paths are copied; see ``rule_filter``.
        ignore_duplicates: leave out files that are there already; otherwise that is an error.
        max_bytes: refuse a tar or zip with more content than this; see ``convert``.
        follow_links: also read shards of the sources that are symbolic links.
        progress: called as the work advances.
    """
    result = Transfer()
    keep = rule_filter(rules)
    paths = [os.fspath(source) for source in sources]
    total = None if progress is None else _count_all(paths, keep if rules else None, follow_links)
    for path in paths:
        below = "/".join(part for part in (prefix.strip("/"), _stem(path) if as_subdirs else "") if part)
        sink = ArchiveSink(target, prefix=below, ignore_duplicates=ignore_duplicates)
        with translate_errors(path):
            for entry in _entries(path, keep, result.skipped, max_bytes, follow_links):
                sink.put_counted(entry, result)
                if progress is not None:
                    progress(result.files, total, result.size_bytes)
        sink.finish()
    return result


def _stem(path: str) -> str:
    name = os.path.basename(os.path.abspath(path))
    return name if os.path.isdir(path) else name[: len(name) - len(ending_of(name))]


def _entries(
    source: str, keep: Callable[[str], bool], skipped: list[str], max_bytes: int | None, follow_links: bool
) -> Iterator[Entry]:
    if kind_of(source) == "archive":
        with open_archive(source, follow_links=follow_links) as archive:
            yield from archive_entries(archive, keep)  # what is not wanted is not read
    else:
        yield from (one for one in read_entries(source, skipped, max_bytes=max_bytes) if keep(one.name))


def _count_all(paths: list[str], keep: Callable[[str], bool] | None, follow_links: bool) -> int | None:
    """How many files there are in all, if that can be known beforehand."""
    total = 0
    for path in paths:
        if kind_of(path) != "archive":
            return None
        with open_archive(path, follow_links=follow_links) as archive:
            total += archive.num_files if keep is None else sum(map(keep, archive.index.file_names()))
    return total


def link_archives(
    sources: Sequence[PathLike],
    path: PathLike,
    *,
    prefixes: Sequence[str] = (),
    ignore_duplicates: bool = False,
    follow_links: bool = False,
) -> Transfer:
    """Make an archive whose shards are symbolic links to those of others: nothing is copied.

    It can be read as long as the others stay where they are and are not changed.

    Args:
        sources: the archives.
        path: of the new one.
        prefixes: for each source, the directory that it goes into; by default the root.
        ignore_duplicates: leave out files that are there already; otherwise that is an error.
        follow_links: also take shards of the sources that are symbolic links; the new links lead where those lead.
    """
    total = Transfer()
    shards: dict[int, str] = {}
    with Archive(path, "x", allow_links=True) as target:
        base = 0
        for one, prefix in zip(sources, prefixes or [""] * len(sources), strict=True):
            with Archive(one, follow_links=follow_links) as source:
                numbers = shard_numbers(source.full_path)
                for number in numbers:
                    shards[base + number] = file = shard_path(source.full_path, number)
                    check_regular(file, nofollow=not follow_links)
                _insert_rows(source, target, base, f"{prefix}/" if prefix else "", ignore_duplicates, total)
                base += max(numbers, default=-1) + 1
        target.commit()
    _link_shards(shards, os.fspath(path))
    return total


def _insert_rows(
    source: Archive, target: Archive, base: int, before: str, ignore_duplicates: bool, total: Transfer
) -> None:
    for directory in source.dirs():
        name = (before + directory.path).rstrip("/")
        if name:
            target.mkdir(name, metadata=directory.metadata, exist_ok=True)
            total.dirs += bool(directory.path)
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


def _link_shards(shards: Mapping[int, str], path: str) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    os.unlink(shard_path(path, 0))
    for number, file in shards.items():
        os.symlink(os.path.relpath(os.path.realpath(file), folder), shard_path(path, number))
    if not os.path.lexists(shard_path(path, 0)):
        open(shard_path(path, 0), "wb").close()
