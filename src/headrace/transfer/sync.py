"""Folders and archives made alike: only what differs is copied, as rsync does it.

A place is a path on the disk or ``ARCHIVE::DIR``, a directory in an archive; ``ARCHIVE.barecat`` alone is its root.
With a slash at the end of the source its contents are meant, without one the directory itself.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.formats.barecat.archive import Archive
from headrace.formats.barecat.names import archive_exists, clean_name, is_part_of
from headrace.formats.barecat.patterns import translate
from headrace.transfer.tree import ArchiveTree, FolderTree, Item

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.transfer.merge import Rule
    from headrace.transfer.tree import Tree
    from headrace.types import Progress

__all__ = ["Place", "SyncOptions", "SyncReport", "parse_place", "sync"]


class Place(NamedTuple):
    """A folder or file on the disk (``inner`` is None), or something in an archive."""

    path: str
    inner: str | None
    has_slash: bool


def parse_place(text: str) -> Place:
    r"""Take a place apart; ``\::`` stands for two colons in a file name.

    Example:
        >>> parse_place("x.barecat::a/b/"), parse_place("x.barecat").inner, parse_place("folder").inner
        (Place(path='x.barecat', inner='a/b', has_slash=True), '', None)
    """
    path, separator, inner = text.replace("\\::", "\0").partition("::")
    path, inner = path.replace("\0", "::"), inner.replace("\0", "::")
    if separator:
        return Place(path, clean_name(inner), inner.endswith("/") or not inner)
    if path.lower().endswith(".barecat") and not os.path.isdir(path):
        return Place(path, "", True)
    return Place(path, None, path.endswith("/"))


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
        sources: places; see the top of this module.
        target: a place; an archive is made if it is missing.
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
            origin, wanted, below = _open_source(parse_place(source), stack, report)
            place = parse_place(target)
            if place.inner is not None and _is_same(parse_place(source), place):
                raise ValueError(f"{target} lies in the archive that is read; use 'headrace mv' inside an archive")
            _leave_out_itself(parse_place(source), place, wanted)
            copy = _open_target(place, below, stack, chosen.dry_run)
            _Sync(origin, copy, chosen, on_action, report).run(wanted, progress)
    return report


def _leave_out_itself(source: Place, target: Place, wanted: dict[str, Item]) -> None:
    """The files of the target archive are no part of the folder that goes into it."""
    if source.inner is None and target.inner is not None:
        for name in [name for name in wanted if is_part_of(os.path.join(source.path, name), target.path)]:
            del wanted[name]


def _is_same(source: Place, target: Place) -> bool:
    return source.inner is not None and os.path.realpath(source.path) == os.path.realpath(target.path)


def _open_source(place: Place, stack: contextlib.ExitStack, report: SyncReport) -> tuple[Tree, dict[str, Item], str]:
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
        archive = stack.enter_context(Archive(place.path))
        parent, name = posixpath.split(place.inner)
        is_file = archive.stat(place.inner).is_file()
        tree = ArchiveTree(archive, parent if is_file else place.inner)
    if is_file:
        return tree, {name: tree.item(name)}, ""
    return tree, tree.items(report.skipped), "" if place.has_slash else name


def _open_target(place: Place, below: str, stack: contextlib.ExitStack, is_dry: bool) -> Tree | None:
    """The target, or None when it is missing and must not be made."""
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

    def run(self, wanted: dict[str, Item], progress: Progress | None) -> None:
        there = {} if self._target is None else self._target.items([])
        kept = _kept(wanted, self._options.rules)
        if self._options.delete:
            self._remove(set(_kept(there, self._options.rules)) - set(kept), there)
        files = 0
        total = sum(not item.is_dir for item in kept.values())
        for name in sorted(kept):
            item = kept[name]
            if item.is_dir:
                self._make_dir(name, item, there.get(name))
                continue
            self._copy(name, item, there.get(name))
            files += 1
            if progress is not None:
                progress(files, total, self._report.size_bytes)
        if self._target is not None and not self._options.dry_run:
            self._target.finish()

    def _remove(self, names: set[str], there: dict[str, Item]) -> None:
        names = names - {parent for name in set(there) - names for parent in _parents(name)}  # something in it stays
        for name in sorted(names):
            if any(parent in names for parent in _parents(name)):
                continue  # it goes with its directory
            self._on_action("remove", name)
            self._report.removed.append(name)
            if self._target is not None and not self._options.dry_run:
                self._target.remove(name, there[name].is_dir)
            there.pop(name)

    def _make_dir(self, name: str, item: Item, old: Item | None) -> None:
        if old is None and self._options.existing:
            return
        if old is None:
            self._on_action("mkdir", name)
        elif not old.is_dir:
            raise ValueError(f"{name} is a directory in the source and a file in the target; remove one of them")
        if self._target is not None and not self._options.dry_run:
            self._target.make_dir(name, item.about)

    def _copy(self, name: str, item: Item, old: Item | None) -> None:
        if not self._is_due(name, item, old):
            self._report.unchanged += 1
            return
        self._on_action("copy", name)
        self._report.copied.append(name)
        self._report.size_bytes += item.size
        if self._target is None or self._options.dry_run:
            return
        with self._source.open(name) as file:
            self._target.put(name, item, file)

    def _is_due(self, name: str, item: Item, old: Item | None) -> bool:
        options = self._options
        if options.min_size is not None and item.size < options.min_size:
            return False
        if options.max_size is not None and item.size > options.max_size:
            return False
        if old is None:
            return not options.existing
        if old.is_dir:
            raise ValueError(f"{name} is a file in the source and a directory in the target; remove one of them")
        if options.ignore_existing:
            return False
        if options.update and (old.about.mtime_ns or 0) > (item.about.mtime_ns or 0):
            return False
        return self._differs(name, item, old)

    def _differs(self, name: str, item: Item, old: Item) -> bool:
        if item.size != old.size:
            return True
        if self._options.size_only or self._target is None:
            return False
        if self._options.checksum:
            return self._source.checksum(name) != self._target.checksum(name)
        return item.about.mtime_ns is None or item.about.mtime_ns != old.about.mtime_ns


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _kept(items: dict[str, Item], rules: Sequence[Rule]) -> dict[str, Item]:
    """What the rules leave; with a directory goes all that is below. Patterns without a slash fit the last part."""
    if not rules:
        return items
    compiled = [
        (is_included, "/" in pattern, translate(pattern.rstrip("/"), recursive=True, include_hidden=True).fullmatch)
        for is_included, pattern in rules
    ]

    def keep(name: str) -> bool:
        last = name.rpartition("/")[2]
        return next((inc for inc, is_path, match in compiled if match(name) or (not is_path and match(last))), True)

    gone = {name for name in items if not keep(name)}
    return {
        name: item
        for name, item in items.items()
        if name not in gone and not any(parent in gone for parent in _parents(name))
    }
