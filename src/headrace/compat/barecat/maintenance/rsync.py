"""Copying what has changed, between folders, archives, tars and zips."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import sys
import time
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from headrace.compat.barecat.core.paths import is_tar_or_zip, normalize_path, without_ending
from headrace.compat.barecat.exceptions import translated
from headrace.formats.barecat import Archive
from headrace.formats.barecat.names import archive_exists
from headrace.progress import ProgressBar
from headrace.transfer.containers import kind_of, read_entries
from headrace.transfer.entry import Entry
from headrace.transfer.extract import CheckedFile
from headrace.transfer.tree import ArchiveTree, FolderTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.transfer.tree import Tree

__all__ = ["ParsedPath", "PathType", "RsyncOptions", "parse_path", "rsync"]

_SERVER = "barecat://"
_REMOTE = re.compile(r"(?:([^@]+)@)?([^:/]+):(/.*)", re.DOTALL)
_INSIDE = re.compile(r"((?:[^\\]|\\.)*?)::(.*)", re.DOTALL)  # a backslash takes the meaning from what follows


class PathType(Enum):
    """What a path is."""

    LOCAL = "local"
    LOCAL_ARCHIVE = "local_archive"
    TAR_ZIP = "tar_zip"
    SSH = "ssh"
    SSH_ARCHIVE = "ssh_archive"
    BARECAT_SERVER = "barecat_server"


@dataclass
class ParsedPath:
    """A source or target: where it is, and what inside of it."""

    path_type: PathType
    host: str | None
    user: str | None
    filesystem_path: str
    archive_path: str | None
    inner_path: str
    trailing_slash: bool

    @property
    def contents_mode(self) -> bool:
        """What is in it is meant, and not the directory itself."""
        return self.trailing_slash

    @property
    def is_archive(self) -> bool:
        """It is an archive, or inside of one."""
        return self.path_type in (PathType.LOCAL_ARCHIVE, PathType.SSH_ARCHIVE, PathType.BARECAT_SERVER)

    @property
    def is_tar_zip(self) -> bool:
        """It is a tar or zip, or inside of one."""
        return self.path_type == PathType.TAR_ZIP

    @property
    def is_remote(self) -> bool:
        """It is on another machine."""
        return self.path_type in (PathType.SSH, PathType.SSH_ARCHIVE, PathType.BARECAT_SERVER)

    @property
    def archive_basename(self) -> str:
        """The name of the archive without its ending."""
        return without_ending(os.path.basename(self.archive_path or "").removesuffix("-sqlite-index"))

    @property
    def name_in_target(self) -> str:
        """The directory of the target that it goes into; nothing if what is in it is meant."""
        if self.contents_mode:
            return ""
        whole = os.path.basename(self.filesystem_path) if self.archive_path is None else self.archive_basename
        return os.path.basename(self.inner_path) or whole


def parse_path(path: str) -> ParsedPath:
    r"""Take a path apart.

    ``archive.barecat::inside`` names something in an archive, ``photos.tar::inside`` in a tar or zip; ``\::`` stands
    for two colons that mean nothing. A slash at the end means what is in a directory. ``user@host:/path`` and
    ``barecat://host:port/archive::inside`` are understood, but nothing can be reached there.

    Example:
        >>> parsed = parse_path("photos.barecat::train/")
        >>> parsed.archive_path, parsed.inner_path, parsed.contents_mode
        ('photos.barecat', 'train', True)
    """
    plain, has_slash = path.rstrip("/"), path.endswith("/")
    if plain.startswith(_SERVER):
        host, slash, rest = plain.removeprefix(_SERVER).partition("/")
        if not slash:
            raise ValueError(f"Invalid barecat:// URL: {plain}")
        archive, inner = _split(rest)
        return ParsedPath(PathType.BARECAT_SERVER, host, None, "", archive, inner or "", has_slash)
    remote = _REMOTE.fullmatch(plain)
    user, host_name, rest = remote.groups() if remote else (None, None, plain)
    archive, inner = _split(rest)
    whole = _unescape(rest)
    if inner is None:
        kind = PathType.SSH if remote else PathType.LOCAL
        return ParsedPath(kind, host_name, user, whole, None, "", has_slash)
    if not remote and is_tar_or_zip(archive):
        return ParsedPath(PathType.TAR_ZIP, None, None, archive, archive, inner, has_slash)
    kind = PathType.SSH_ARCHIVE if remote else PathType.LOCAL_ARCHIVE
    return ParsedPath(kind, host_name, user, whole, archive, inner, has_slash)


def _split(path: str) -> tuple[str, str | None]:
    """Archive and what is inside; None if there are no two colons that count."""
    parts = _INSIDE.fullmatch(path)
    if parts is None:
        return _unescape(path), None
    return _unescape(parts[1]), _unescape(parts[2]).lstrip("/")


def _unescape(text: str) -> str:
    return re.sub(r"\\(\\|::)", r"\1", text)


@dataclass
class RsyncOptions:
    """What is copied, and how it is compared."""

    delete: bool = False
    dry_run: bool = False
    verbose: bool = False
    progress: bool = False
    checksum: bool = False
    update: bool = False
    ignore_existing: bool = False
    existing: bool = False
    size_only: bool = False
    times: bool = True
    max_size: int | None = None
    min_size: int | None = None
    include: list[str] | None = field(default_factory=list)
    exclude: list[str] | None = field(default_factory=list)
    recursive: bool = True

    def __post_init__(self) -> None:
        self.include = self.include or []
        self.exclude = self.exclude or []

    def is_excluded(self, name: str) -> bool:
        """A name is left out."""
        is_named = any(fnmatch.fnmatch(name, pattern) for pattern in self.exclude or ())
        return is_named and not any(fnmatch.fnmatch(name, pattern) for pattern in self.include or ())


def rsync(sources: Sequence[str], dest: str, options: RsyncOptions | None = None) -> None:
    """Copy what the target does not have, or has differently."""
    chosen = options or RsyncOptions()
    parsed, target = [parse_path(source) for source in sources], parse_path(dest)
    _refuse(parsed, target)
    with contextlib.ExitStack() as stack, translated():
        copier = _Copier(target, chosen, stack)
        is_shown = chosen.progress and sys.stdout.isatty()
        bar = stack.enter_context(ProgressBar("copying", unit="files")) if is_shown else None
        for source in parsed:
            for done, (entry, crc32c) in enumerate(_entries(source, stack), 1):
                copier.take(source, entry, crc32c)
                if bar is not None:
                    bar(done, None, 0)
        if chosen.delete:
            copier.delete_others()


def _refuse(sources: list[ParsedPath], target: ParsedPath) -> None:
    if all(one.path_type == PathType.LOCAL for one in (*sources, target)):
        raise ValueError("Use regular rsync for local-to-local directory sync")
    if target.path_type == PathType.LOCAL and any(one.path_type == PathType.LOCAL for one in sources):
        raise ValueError("Use regular rsync for local-to-local sync")
    if target.is_tar_zip:
        raise ValueError("a tar or zip cannot be the target; use barecat convert")
    if any(one.path_type == PathType.SSH for one in (*sources, target)):
        raise NotImplementedError("SSH directories are not supported; copy to this machine first")
    if any(one.is_remote for one in (*sources, target)):
        raise ImportError("archives on other machines cannot be reached; copy to this machine first")


def _entries(source: ParsedPath, stack: contextlib.ExitStack) -> Iterator[tuple[Entry, int | None]]:
    """The files of a source, named from the place that is meant, and their CRC-32Cs where they are known."""
    path, inner = source.filesystem_path, normalize_path(source.inner_path)
    if source.is_archive:
        archive = stack.enter_context(Archive(source.archive_path or "", follow_links=True))
        for info in archive.files("path"):
            if _is_in(info.path, inner):
                opened: Any = partial(CheckedFile, archive, info)
                yield Entry(info.path, False, info.size, info.metadata, opened), info.crc32c
        return
    if not os.path.exists(path):
        raise FileNotFoundError(f"Source not found: {path}")
    if not source.is_tar_zip and os.path.isfile(path):
        folder, name = os.path.split(path)
        yield replace(FolderTree(folder).file(name), name=""), None
        return
    skipped: list[str] = []
    for entry in read_entries(path, skipped, kind=kind_of(path) if source.is_tar_zip else "folder"):
        if not entry.is_dir and _is_in(entry.name, inner):
            yield entry, None
    for line in skipped:
        print(f"left out: {line}", file=sys.stderr)


def _is_in(path: str, inner: str) -> bool:
    return not inner or path == inner or path.startswith(f"{inner}/")


class _Copier:
    """Compares files with those of the target, and puts there what is new or differs."""

    def __init__(self, target: ParsedPath, options: RsyncOptions, stack: contextlib.ExitStack) -> None:
        self._options = options
        self._is_archive = target.is_archive
        self._root = normalize_path(target.inner_path) if target.is_archive else target.filesystem_path
        self._tree: Tree | None = None
        path = target.archive_path or ""
        if not target.is_archive:
            if not options.dry_run:
                os.makedirs(self._root, exist_ok=True)
            self._tree = FolderTree(self._root)
        elif not options.dry_run:
            self._tree = ArchiveTree(stack.enter_context(Archive(path, "a")), self._root)
        elif archive_exists(path):
            self._tree = ArchiveTree(stack.enter_context(Archive(path, follow_links=True)), self._root)
        found = {} if self._tree is None else self._tree.entries([])
        self._there = {name: item for name, item in found.items() if not item.is_dir}
        self._expected: set[str] = set()

    def take(self, source: ParsedPath, entry: Entry, crc32c: int | None) -> None:
        """Copy a file if it is due."""
        below = entry.name[len(normalize_path(source.inner_path)) :].lstrip("/")
        origin = entry.name or source.filesystem_path
        name = "/".join(part for part in (source.name_in_target, below) if part) or os.path.basename(origin)
        self._expected.add(name)
        is_local = source.path_type == PathType.LOCAL
        parts = entry.name.split("/") if is_local and entry.name else [os.path.basename(origin)]
        if not self._is_wanted(parts, entry.size):
            return
        old = self._there.get(name)
        reason = self._reason_to_skip(name, entry, crc32c, old)
        if reason is not None:
            if self._options.verbose:
                print(f"skip ({reason}): {os.path.join(self._root, name)}")
            return
        word = "extract" if not self._is_archive else "update" if old else "add" if is_local else "copy"
        if self._act(word, f"{origin} -> " if self._is_archive and not is_local else "", name):
            self._put(name, entry)

    def _is_wanted(self, parts: list[str], size: int) -> bool:
        low, high = self._options.min_size or 0, self._options.max_size
        fits = size >= low and (high is None or size <= high)
        return fits and not any(self._options.is_excluded(part) for part in parts)

    def _act(self, words: str, origin: str, name: str) -> bool:
        """Say what is done, or what would be; gives whether it shall be."""
        shown = os.path.join(self._root, name)
        if self._options.dry_run:
            print(f"would {words}: {origin}{shown}")
        elif self._options.verbose:
            print(f"{words}: {shown}")
        return not self._options.dry_run

    def _put(self, name: str, entry: Entry) -> None:
        about = entry.about if self._options.times else entry.about._replace(mtime_ns=time.time_ns())
        self._there[name] = replace(entry, name=name, about=about)
        if self._tree is not None:
            self._tree.put(self._there[name])

    def _reason_to_skip(self, name: str, entry: Entry, crc32c: int | None, old: Entry | None) -> str | None:
        options, new_time = self._options, entry.about.mtime_ns
        if old is None:
            return "new" if options.existing else None
        if options.ignore_existing:
            return "exists"
        old_time = old.about.mtime_ns
        if options.update and old_time and new_time and old_time >= new_time:
            return "newer"
        if options.checksum:
            is_known = crc32c is not None and self._is_archive and self._tree is not None
            return "checksum match" if is_known and crc32c == cast("Tree", self._tree).checksum(name) else None
        if old.size != entry.size:
            return None
        if options.size_only:
            return "same size"
        return "unchanged" if old_time == new_time else None

    def delete_others(self) -> None:
        """Delete the files of the target that no source has."""
        for name in sorted(set(self._there) - self._expected):
            if self._act("delete", "", name) and self._tree is not None:
                self._tree.remove(name, False)
