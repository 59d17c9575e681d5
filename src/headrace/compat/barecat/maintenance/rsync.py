"""Copying what has changed, between folders, archives, tars and zips."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatFileInfo
from headrace.compat.barecat.formats.archive_formats import iter_archive
from headrace.compat.barecat.maintenance.rsync_paths import ParsedPath, PathType, parse_path
from headrace.compat.barecat.util.misc import exists
from headrace.compat.barecat.util.progbar import progressbar
from headrace.formats.barecat.index.rows import Metadata
from headrace.formats.barecat.names import safe_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["ParsedPath", "PathType", "RsyncOptions", "parse_path", "rsync"]


@dataclass
class RsyncOptions:
    """What is copied, and how it is compared.

    Attributes:
        delete: delete from the target what the sources do not have.
        dry_run: only say what would be done.
        verbose: say what is done.
        progress: show a bar.
        checksum: compare CRC-32Cs where both sides have one; otherwise copy.
        update: leave out what is newer in the target.
        ignore_existing: leave out what the target has.
        existing: leave out what the target does not have.
        size_only: do not compare times.
        times: keep times; otherwise files get the present one.
        max_size: leave out larger files.
        min_size: leave out smaller files.
        include: names that are taken though ``exclude`` matches.
        exclude: names that are left out.
        recursive: kept for programs that pass it.
    """

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


@dataclass
class _Item:
    """A file on its way: ``path`` below the target, ``source`` where it comes from."""

    path: str
    source: str
    size: int
    about: Metadata
    open: Callable[[], Any]
    crc32c: int | None = None
    is_local: bool = False


class _Target(Protocol):
    def find(self, item: _Item) -> tuple[str, tuple[int, int | None, int | None] | None]:
        """How the target calls an item, and size, time and CRC-32C of what it has there."""
        ...

    def verb(self, item: _Item, *, is_there: bool, is_dry: bool) -> str:
        """What is said about it."""
        ...

    def store(self, item: _Item, *, is_there: bool) -> None:
        """Put it there."""
        ...

    def paths(self) -> Iterator[str]:
        """Everything that the target has, as ``find`` calls it."""
        ...

    def delete(self, path: str) -> None:
        """Remove something."""
        ...


def rsync(sources: Sequence[str], dest: str, options: RsyncOptions | None = None) -> None:
    """Copy what the target does not have, or has differently.

    Args:
        sources: folders, files, ``archive.barecat::inside``, ``photos.tar::inside``; see ``parse_path``.
        dest: a folder, or ``archive.barecat::inside``, which is made if it is missing.
        options: what is copied.
    """
    chosen = options or RsyncOptions()
    parsed, target = [parse_path(source) for source in sources], parse_path(dest)
    _refuse(parsed, target)
    with contextlib.ExitStack() as stack:
        place: _Target
        if target.is_archive:
            place = _ArchiveTarget(_open_target(target, chosen, stack), target.inner_path)
        else:
            if not chosen.dry_run:
                os.makedirs(target.filesystem_path, exist_ok=True)
            place = _FolderTarget(target.filesystem_path)
        expected: set[str] = set()
        for source in parsed:
            items: Any = _items(source, chosen, expected, place)
            for item in progressbar(items, desc="Copying") if chosen.progress else items:
                _sync(item, place, chosen)
        if chosen.delete:
            _delete_others(place, expected, chosen)


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


def _open_target(target: ParsedPath, options: RsyncOptions, stack: contextlib.ExitStack) -> Barecat | None:
    path = target.archive_path or ""
    if options.dry_run:
        return stack.enter_context(Barecat(path)) if exists(path) else None
    return stack.enter_context(Barecat(path, readonly=False))


# Sources


def _items(source: ParsedPath, options: RsyncOptions, expected: set[str], place: _Target) -> Iterator[_Item]:
    """The files of a source that are not left out; all of them are noted as expected."""
    if not source.is_archive and not os.path.exists(source.filesystem_path):
        raise FileNotFoundError(f"Source not found: {source.filesystem_path}")
    if source.path_type == PathType.LOCAL:
        found = _local_items(source.filesystem_path, options)
    else:
        found = _archive_items(source) if source.is_archive else _tar_items(source)
    if source.path_type == PathType.LOCAL and options.delete:
        for item in _local_items(source.filesystem_path, RsyncOptions()):
            expected.add(place.find(_below(source, item))[0])
    for item in found:
        named = _below(source, item)
        expected.add(place.find(named)[0])
        if not options.is_excluded(os.path.basename(item.path or item.source)):
            yield named


def _below(source: ParsedPath, item: _Item) -> _Item:
    name = "/".join(part for part in (source.name_in_target, item.path) if part)
    return replace(item, path=name or os.path.basename(item.source))


def _local_items(path: str, options: RsyncOptions) -> Iterator[_Item]:
    if os.path.isfile(path):
        yield _local_item(path, "")
        return
    for folder, dirs, files in os.walk(path):
        dirs[:] = [name for name in dirs if not options.is_excluded(name)]
        for name in files:
            file = os.path.join(folder, name)
            yield _local_item(file, os.path.relpath(file, path))


def _local_item(file: str, path: str) -> _Item:
    status = os.stat(file)
    return _Item(path, file, status.st_size, Metadata.of(status), lambda: open(file, "rb"), is_local=True)


def _archive_items(source: ParsedPath) -> Iterator[_Item]:
    inner = normalize_path(source.inner_path)
    with Barecat(source.archive_path or "") as bc:
        if bc.isfile(inner):
            infos = [bc.index.lookup_file(inner)]
        else:
            pattern = f"{inner}/**" if inner else "**"
            found = bc.index.iterglob_infos(pattern, recursive=True, include_hidden=True, only_files=True)
            infos = [info for info in found if isinstance(info, BarecatFileInfo)]
        for info in infos:
            path = info.path[len(inner) :].lstrip("/")
            yield _Item(path, info.path, info.size or 0, info.metadata, _opener(bc, info), info.crc32c)


def _opener(bc: Barecat, info: BarecatFileInfo) -> Callable[[], Any]:
    return lambda: bc.open(info, "rb")


def _tar_items(source: ParsedPath) -> Iterator[_Item]:
    inner = normalize_path(source.inner_path)
    for info, file in iter_archive(source.filesystem_path):
        if not isinstance(info, BarecatFileInfo):
            continue
        if inner and info.path != inner and not info.path.startswith(f"{inner}/"):
            continue
        path = info.path[len(inner) :].lstrip("/")
        yield _Item(path, info.path, info.size or 0, info.metadata, contextlib.nullcontext(file).__enter__)


# Targets


class _ArchiveTarget:
    def __init__(self, bc: Barecat | None, prefix: str) -> None:
        self._bc = bc
        self._prefix = normalize_path(prefix) if prefix else ""

    def find(self, item: _Item) -> tuple[str, tuple[int, int | None, int | None] | None]:
        path = normalize_path("/".join(part for part in (self._prefix, item.path) if part))
        if self._bc is None or path not in self._bc:
            return path, None
        info = self._bc.index.lookup_file(path)
        return path, (info.size or 0, info.mtime_ns, info.crc32c)

    def verb(self, item: _Item, *, is_there: bool, is_dry: bool) -> str:
        path = self.find(item)[0]
        word = "update" if is_there else ("add" if item.is_local else "copy")
        if is_dry:
            return f"would {word}: {path}" if item.is_local else f"would {word}: {item.source} -> {path}"
        return f"{word}: {path}"

    def store(self, item: _Item, *, is_there: bool) -> None:
        assert self._bc is not None  # only a dry run has none
        path = self.find(item)[0]
        info = BarecatFileInfo(path, *item.about, size=item.size)
        with item.open() as file:
            if is_there:
                self._bc.update_file(path, info, fileobj=file, size=item.size)
            else:
                self._bc.add(info, fileobj=file)

    def paths(self) -> Iterator[str]:
        if self._bc is None:
            return iter(())
        pattern = f"{self._prefix}/**" if self._prefix else "**"
        found = self._bc.index.iterglob_infos(pattern, recursive=True, include_hidden=True, only_files=True)
        return iter([info.path for info in found])

    def delete(self, path: str) -> None:
        if self._bc is not None:
            del self._bc[path]


class _FolderTarget:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, item: _Item) -> tuple[str, tuple[int, int | None, int | None] | None]:
        path = os.path.join(self._folder, safe_name(item.path))
        if not os.path.exists(path):
            return path, None
        status = os.stat(path)
        return path, (status.st_size, status.st_mtime_ns, None)

    def verb(self, item: _Item, *, is_there: bool, is_dry: bool) -> str:
        return f"{'would extract' if is_dry else 'extract'}: {self.find(item)[0]}"

    def store(self, item: _Item, *, is_there: bool) -> None:
        path = self.find(item)[0]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        root = os.path.realpath(self._folder)
        if os.path.commonpath([root, os.path.realpath(path)]) != root:
            raise ValueError(f"{path} leads out of {self._folder} through a link; nothing is written there")
        with item.open() as file, open(path, "wb") as out:
            shutil.copyfileobj(file, out)
        if item.about.mtime_ns:
            os.utime(path, ns=(item.about.mtime_ns, item.about.mtime_ns))

    def paths(self) -> Iterator[str]:
        for folder, _, files in os.walk(self._folder):
            yield from (os.path.join(folder, name) for name in files)

    def delete(self, path: str) -> None:
        os.remove(path)


# One file


def _sync(item: _Item, place: _Target, options: RsyncOptions) -> None:
    if options.max_size is not None and item.size > options.max_size:
        return
    if options.min_size is not None and item.size < options.min_size:
        return
    path, there = place.find(item)
    reason = _reason_to_skip(item, there, options)
    if reason is not None:
        if options.verbose:
            print(f"skip ({reason}): {path}")
        return
    is_there = there is not None
    if options.dry_run:
        print(place.verb(item, is_there=is_there, is_dry=True))
        return
    if options.verbose:
        print(place.verb(item, is_there=is_there, is_dry=False))
    if not options.times:
        item = replace(item, about=item.about._replace(mtime_ns=time.time_ns()))
    place.store(item, is_there=is_there)


def _reason_to_skip(item: _Item, there: tuple[int, int | None, int | None] | None, options: RsyncOptions) -> str | None:
    if there is None:
        return "new" if options.existing else None
    if options.ignore_existing:
        return "exists"
    size, mtime_ns, crc32c = there
    if options.update and mtime_ns and item.about.mtime_ns and mtime_ns >= item.about.mtime_ns:
        return "newer"
    if options.checksum:
        return "checksum match" if item.crc32c is not None and item.crc32c == crc32c else None
    if size != item.size:
        return None
    if options.size_only:
        return "same size"
    return "unchanged" if mtime_ns == item.about.mtime_ns else None


def _delete_others(place: _Target, expected: set[str], options: RsyncOptions) -> None:
    for path in list(place.paths()):
        if path in expected:
            continue
        if options.dry_run:
            print(f"would delete: {path}")
            continue
        if options.verbose:
            print(f"delete: {path}")
        place.delete(path)
