"""Folders and archives made alike: only what differs is copied, as rsync does it.

A location is a path on the disk or ``ARCHIVE::DIR``, a directory in an archive; ``ARCHIVE.barecat`` alone is its root.
With a slash at the end of the source its contents are meant, without one the directory itself.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.names import archive_exists, is_part_of
from headrace.formats.entry_names import clean_name
from headrace.storage import check_local
from headrace.transfer.containers import KINDS, ending_of
from headrace.transfer.merge import rule_filter
from headrace.transfer.tree import ArchiveTree, FolderTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.transfer.entry import Entry
    from headrace.transfer.merge import Rule
    from headrace.transfer.tree import Tree
    from headrace.types import Progress

__all__ = ["Location", "SyncOptions", "SyncReport", "parse_location", "sync"]


class Location(NamedTuple):
    """A folder or file on the disk (``inner`` is None), or something in an archive."""

    path: str
    inner: str | None
    has_slash: bool


def parse_location(text: str) -> Location:
    r"""Take a location apart; ``\::`` stands for two colons in a file name.

    Example:
        >>> parse_location("x.barecat::a/b/"), parse_location("x.barecat").inner, parse_location("folder").inner
        (Location(path='x.barecat', inner='a/b', has_slash=True), '', None)
    """
    path, separator, inner = text.replace("\\::", "\0").partition("::")
    path, inner = path.replace("\0", "::"), inner.replace("\0", "::")
    if separator:
        return Location(path, clean_name(inner), inner.endswith("/") or not inner)
    if not path.endswith("/") and not os.path.isdir(path) and ending_of(path) not in ("", *KINDS):
        return Location(path, "", True)
    return Location(path, None, path.endswith("/"))


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncOptions:
    """What counts as different, and what is done about it.

    Args:
        delete: remove what the source does not have.
        dry_run: change nothing, only report.
        checksum: compare contents instead of size and time.
        size_only: compare sizes only.
        update: leave alone what is newer in the target.
        ignore_existing: leave alone whatever the target has.
        existing: add nothing new.
        min_size: leave out files with fewer bytes.
        max_size: leave out files with more bytes.
        rules: the first pattern that matches decides whether something is copied; what is left out is not deleted.
        follow_links: also read shards of source archives that are symbolic links; a target may not have such.
    """

    delete: bool = False
    dry_run: bool = False
    checksum: bool = False
    size_only: bool = False
    update: bool = False
    ignore_existing: bool = False
    existing: bool = False
    min_size: int | None = None
    max_size: int | None = None
    rules: Sequence[Rule] = ()
    follow_links: bool = False


@dataclass(slots=True)
class SyncReport:
    """What was done: names that were copied and removed, how many were alike, bytes, what was left out and why."""

    copied: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    size_bytes: int = 0
    skipped: list[str] = field(default_factory=list)


def sync(
    sources: Sequence[str],
    target: str,
    options: SyncOptions | None = None,
    *,
    on_action: Callable[[str, str], None] = lambda action, name: None,
    progress: Progress | None = None,
) -> SyncReport:
    """Make a folder or a directory of an archive like others; only what differs is copied.

    Args:
        sources: locations; see the top of this module.
        target: a location; an archive is made if it is missing.
        options: what counts as different, and what is done.
        on_action: called with ``"copy"``, ``"mkdir"`` or ``"remove"`` and the name, before it is done.
        progress: called as the work advances.

    Example:
        >>> import os, pathlib, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> pathlib.Path(folder, "in").mkdir()
        >>> _ = pathlib.Path(folder, "in", "a.txt").write_text("hello")
        >>> sync([f"{folder}/in/"], f"{folder}/x.barecat").copied
        ['a.txt']
        >>> sync([f"{folder}/in/"], f"{folder}/x.barecat").copied
        []
    """
    chosen = options or SyncOptions()
    if chosen.delete and len(sources) > 1:
        raise ValueError("delete goes with one source: each would remove what comes from the others")
    report = SyncReport()
    for source in sources:
        with contextlib.ExitStack() as stack:
            origin, wanted, below = _open_source(parse_location(source), stack, report, chosen.follow_links)
            place = parse_location(target)
            if place.inner is not None and _is_same(parse_location(source), place):
                raise ValueError(f"{target} lies in the archive that is read; use 'headrace mv' inside an archive")
            _leave_out_itself(parse_location(source), place, wanted)
            copy = _open_target(place, below, stack, chosen.dry_run)
            _Sync(origin, copy, chosen, on_action, report).run(wanted, progress)
    return report


def _leave_out_itself(source: Location, target: Location, wanted: dict[str, Entry]) -> None:
    """The files of the target archive are no part of the folder that goes into it."""
    if source.inner is None and target.inner is not None:
        for name in [name for name in wanted if is_part_of(os.path.join(source.path, name), target.path)]:
            del wanted[name]


def _is_same(source: Location, target: Location) -> bool:
    return source.inner is not None and os.path.realpath(source.path) == os.path.realpath(target.path)


def _open_source(
    place: Location, stack: contextlib.ExitStack, report: SyncReport, follow_links: bool
) -> tuple[Tree, dict[str, Entry], str]:
    """The source, what is wanted of it, and the directory of the target that it goes into."""
    tree: Tree
    if place.inner is None:
        full = place.path.rstrip("/") or "/"
        if not os.path.exists(full):
            raise FileNotFoundError(f"{place.path} does not exist")
        parent, name = os.path.split(os.path.abspath(full))
        is_file = not os.path.isdir(full)
        tree = FolderTree(parent if is_file else full)
    else:
        archive = stack.enter_context(Archive(place.path, follow_links=follow_links))
        parent, name = posixpath.split(place.inner)
        is_file = archive.stat(place.inner).is_file()
        tree = ArchiveTree(archive, parent if is_file else place.inner)
    if is_file:
        return tree, {name: tree.file(name)}, ""
    return tree, tree.entries(report.skipped), "" if place.has_slash else name


def _open_target(place: Location, below: str, stack: contextlib.ExitStack, is_dry: bool) -> Tree | None:
    """The target, or None when it is missing and must not be made."""
    check_local(place.path)
    if place.inner is None:
        return FolderTree(os.path.join(place.path, below) if below else place.path)
    inner = posixpath.join(place.inner, below) if below else place.inner
    if is_dry:
        return ArchiveTree(stack.enter_context(Archive(place.path)), inner) if archive_exists(place.path) else None
    return ArchiveTree(stack.enter_context(Archive(place.path, "a")), inner)


class _Sync:
    """Compares two trees and makes the second like the first."""

    def __init__(
        self,
        source: Tree,
        target: Tree | None,
        options: SyncOptions,
        on_action: Callable[[str, str], None],
        report: SyncReport,
    ) -> None:
        self._source, self._target, self._options = source, target, options
        self._on_action, self._report = on_action, report

    def run(self, wanted: dict[str, Entry], progress: Progress | None) -> None:
        there = {} if self._target is None else self._target.entries([])
        kept = _kept(wanted, self._options.rules)
        if self._options.delete:
            self._remove(set(_kept(there, self._options.rules)) - set(kept), there)
        files = 0
        total = sum(not entry.is_dir for entry in kept.values())
        for name in sorted(kept):
            entry = kept[name]
            if entry.is_dir:
                self._make_dir(entry, there.get(name))
                continue
            self._copy(entry, there.get(name))
            files += 1
            if progress is not None:
                progress(files, total, self._report.size_bytes)
        if self._target is not None and not self._options.dry_run:
            self._target.finish()

    def _remove(self, names: set[str], there: dict[str, Entry]) -> None:
        names = names - {parent for name in set(there) - names for parent in _parents(name)}  # something in it stays
        for name in sorted(names):
            if any(parent in names for parent in _parents(name)):
                continue  # it goes with its directory
            self._on_action("remove", name)
            self._report.removed.append(name)
            if self._target is not None and not self._options.dry_run:
                self._target.remove(name, there[name].is_dir)
            there.pop(name)

    def _make_dir(self, entry: Entry, old: Entry | None) -> None:
        if old is None and self._options.existing:
            return
        if old is None:
            self._on_action("mkdir", entry.name)
        elif not old.is_dir:
            raise ValueError(f"{entry.name} is a directory in the source and a file in the target; remove one of them")
        if self._target is not None and not self._options.dry_run:
            self._target.put(entry)

    def _copy(self, entry: Entry, old: Entry | None) -> None:
        if not self._is_due(entry, old):
            self._report.unchanged += 1
            return
        self._on_action("copy", entry.name)
        self._report.copied.append(entry.name)
        self._report.size_bytes += entry.size
        if self._target is not None and not self._options.dry_run:
            self._target.put(entry)

    def _is_due(self, entry: Entry, old: Entry | None) -> bool:
        options = self._options
        if options.min_size is not None and entry.size < options.min_size:
            return False
        if options.max_size is not None and entry.size > options.max_size:
            return False
        if old is None:
            return not options.existing
        if old.is_dir:
            raise ValueError(f"{entry.name} is a file in the source and a directory in the target; remove one of them")
        if options.ignore_existing:
            return False
        if options.update and (old.about.mtime_ns or 0) > (entry.about.mtime_ns or 0):
            return False
        return self._differs(entry, old)

    def _differs(self, entry: Entry, old: Entry) -> bool:
        if entry.size != old.size:
            return True
        if self._options.size_only or self._target is None:
            return False
        if self._options.checksum:
            return self._source.checksum(entry.name) != self._target.checksum(entry.name)
        return entry.about.mtime_ns is None or entry.about.mtime_ns != old.about.mtime_ns


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _kept(entries: dict[str, Entry], rules: Sequence[Rule]) -> dict[str, Entry]:
    """What the rules leave; with a directory goes all that is below. Patterns without a slash fit the last part."""
    if not rules:
        return entries
    keep = rule_filter(rules, by_last_part=True)
    gone = {name for name in entries if not keep(name)}
    return {
        name: entry
        for name, entry in entries.items()
        if name not in gone and not any(parent in gone for parent in _parents(name))
    }
