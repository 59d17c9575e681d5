"""Files from the disk into an archive."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.index.rows import Metadata
from headrace.formats.barecat.names import is_part_of, lies_in
from headrace.formats.entry_names import check_new_name, clean_name
from headrace.formats.patterns import translate
from headrace.formats.report import Transfer
from headrace.storage import check_folder, note_left_out, open_for_reading, open_stream, walk_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from headrace.errors import PathLike
    from headrace.formats.barecat.archive import Archive
    from headrace.types import Progress

__all__ = [
    "DiskEntry",
    "count_ahead",
    "count_found",
    "find_below",
    "find_files",
    "is_excluded",
    "pack_archive",
    "pack_entries",
    "pack_files",
]

_log = logging.getLogger("headrace")
_CHUNK_FILES = 64
_IN_MEMORY_BYTES = 8 << 20


class DiskEntry(NamedTuple):
    """A file or directory on the disk, and the name it gets."""

    path: str
    name: str
    status: os.stat_result


def is_excluded(name: str, patterns: Sequence[str]) -> bool:
    """One of the patterns matches the whole path or its last part.

    Example:
        >>> is_excluded("a/b/x.pyc", ["*.pyc"]), is_excluded("a/b/x.pyc", ["a/**"])
        (True, True)
    """
    last = name.rpartition("/")[2]
    for pattern in patterns:
        match = translate(pattern.rstrip("/"), recursive=True, include_hidden=True).fullmatch
        if match(name) or ("/" not in pattern and match(last)):
            return True
    return False


def find_files(
    paths: Iterable[str],
    *,
    folder: str = "",
    exclude: Sequence[str] = (),
    recurse: bool = True,
    skipped: list[str] | None = None,
) -> Iterator[DiskEntry]:
    """Everything below the paths, which begin in a folder; a directory before what is in it, sorted by name.

    What leads up in front of a path, ``/`` or ``../``, is no part of the names, as in a tar. Links to files are
    followed. Links to directories, links that lead nowhere, devices, pipes and sockets are left out and noted in
    ``skipped``.
    """
    notes: list[str] = [] if skipped is None else skipped
    for path in paths:
        name = _name_of(path)
        if name and is_excluded(name, exclude):
            continue
        place = os.path.join(folder, path)
        problem, status = _look_at(place, follow=recurse)
        if problem is not None:
            notes.append(f"{place}: {problem}")
            continue
        if name or not stat.S_ISDIR(status.st_mode):
            check_new_name(name)
            yield DiskEntry(place, name, status)
        if recurse and stat.S_ISDIR(status.st_mode):
            yield from _below(place, name, exclude, notes)


def _name_of(path: str) -> str:
    name = clean_name(path)
    while name == ".." or name.startswith("../"):
        name = name[3:]
    return name


def _look_at(place: str, *, follow: bool) -> tuple[str | None, os.stat_result]:
    """Why a path that was named cannot be packed, and what it is; FileNotFoundError when there is none.

    A link to a directory is followed if everything below is wanted; from a list of all names it is one of them.
    """
    status = os.lstat(place)
    if stat.S_ISLNK(status.st_mode):
        try:
            status = os.stat(place)
        except OSError as error:
            return f"a link that leads nowhere ({error.strerror})", status
        if stat.S_ISDIR(status.st_mode) and not follow:
            return "a link to a directory", status
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return "not a regular file", status
    return None, status


def find_below(folder: str, *, skipped: list[str] | None = None) -> Iterator[DiskEntry]:
    """Everything below a folder, under names relative to it."""
    check_folder(folder)
    return _below(folder, "", (), [] if skipped is None else skipped)


def _below(folder: str, prefix: str, exclude: Sequence[str], skipped: list[str]) -> Iterator[DiskEntry]:
    before = f"{prefix}/" if prefix else ""

    def leave_out(path: str, reason: str) -> None:
        skipped.append(f"{path}: {reason}")

    def is_wanted(name: str, is_dir: bool) -> bool:
        return not is_excluded(before + name, exclude)

    below = walk_folder(folder, follow_links=False, on_problem=leave_out, is_wanted=is_wanted, dirs_last=True)
    for found in below:
        check_new_name(before + found.name)
        try:
            status = found.status or os.stat(found.path)
        except OSError as error:
            leave_out(found.path, str(error.strerror))
            continue
        yield DiskEntry(found.path, before + found.name, status)


@contextlib.contextmanager
def count_ahead(progress: Progress | None, find: Callable[[], Iterator[DiskEntry]]) -> Iterator[Progress | None]:
    """Progress that knows the total: a thread of its own counts the files that ``find`` gives."""
    if progress is None:
        yield None
        return
    total: int | None = None
    is_wanted = True

    def count() -> None:
        nonlocal total
        files = 0
        with contextlib.suppress(OSError, ValueError):  # the thread that packs meets them, too, and raises
            for found in find():
                if not is_wanted:
                    return
                files += not stat.S_ISDIR(found.status.st_mode)
            total = files

    thread = threading.Thread(target=count, daemon=True, name="headrace-count")
    thread.start()
    try:
        yield lambda done, _, size_bytes: progress(done, total, size_bytes)
    finally:
        is_wanted = False
        thread.join()


def pack_archive(
    folder: PathLike,
    path: PathLike,
    *,
    shard_size: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Transfer:
    """Pack all files below a folder into an archive, which replaces one that is there; gives what was packed."""
    source, target = os.path.join(os.fspath(folder), ""), os.fspath(path)
    if lies_in(target, source):
        raise ValueError(f"{target} lies in {source}, which is read; write it elsewhere")
    result = Transfer()
    if dry_run:
        return count_found(find_below(source, skipped=result.skipped), result)
    with (
        new_archive(path, shard_size=shard_size) as archive,
        count_ahead(progress, lambda: find_below(source)) as report,
    ):
        pack_entries(archive, find_below(source, skipped=result.skipped), result, progress=report)
    if result.skipped:
        _log.warning("%s: %s", folder, note_left_out(result.skipped))
    return result


def count_found(found: Iterable[DiskEntry], result: Transfer) -> Transfer:
    """Count what would be packed."""
    for one in found:
        is_dir = stat.S_ISDIR(one.status.st_mode)
        result.dirs += is_dir
        result.files += not is_dir
        result.size_bytes += 0 if is_dir else one.status.st_size
    return result


def pack_files(
    archive: Archive,
    paths: Iterable[str],
    *,
    folder: str = "",
    exclude: Sequence[str] = (),
    recurse: bool = True,
    replace: bool = False,
    itself: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Transfer:
    """Add files and folders from the disk, under their paths, with mode, owner and time.

    Args:
        archive: open for writing.
        paths: of files and folders; a leading slash is left out of the name. Files of the archive itself are left out.
        folder: where the paths begin; it is not part of the names.
        exclude: patterns of names that are left out, with all that is below them.
        recurse: also add what is in the folders.
        replace: replace files that exist; otherwise that is an error.
        itself: the name that the archive will have; an older one of that name is left out, too.
        workers: threads that read ahead; by default one for each core. The outcome is the same for any number.
        progress: called as the work advances.
    """
    result = Transfer()
    paths = list(paths)
    owns = [archive.path] if itself is None else [archive.path, itself]

    def find(skipped: list[str] | None) -> Iterator[DiskEntry]:
        found = find_files(paths, folder=folder, exclude=exclude, recurse=recurse, skipped=skipped)
        return (one for one in found if not any(is_part_of(one.path, own) for own in owns))

    with count_ahead(progress, lambda: find(None)) as report:
        found = find(result.skipped)
        return pack_entries(archive, found, result, replace=replace, workers=workers, progress=report)


def pack_entries(
    archive: Archive,
    found: Iterator[DiskEntry],
    result: Transfer,
    *,
    replace: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Transfer:
    """Add files and directories that were found on the disk, as ``pack_files`` does; counts in ``result``."""
    times: list[tuple[str, Metadata]] = []
    threads = workers if workers is not None else len(os.sched_getaffinity(0))
    for one, data in _read_ahead(found, threads):
        about = Metadata.of(one.status)
        if stat.S_ISDIR(one.status.st_mode):
            archive.mkdir(one.name, metadata=about, exist_ok=True)
            times.append((one.name, Metadata(mtime_ns=about.mtime_ns)))
            result.dirs += 1
            continue
        if data is not None:
            archive.add(one.name, data, metadata=about, replace=replace)
        else:
            with open_stream(one.path, buffering=0) as stream:
                archive.add(one.name, stream, size=one.status.st_size, metadata=about, replace=replace)
        result.files += 1
        result.size_bytes += one.status.st_size
        if progress is not None:
            progress(result.files, None, result.size_bytes)
    for name, about in times:  # adding files has touched them
        archive.set_metadata(name, about)
    return result


def _read_ahead(found: Iterator[DiskEntry], threads: int) -> Iterator[tuple[DiskEntry, bytes | None]]:
    """Contents of small files, read by several threads, in order; None for folders and large files."""
    with ThreadPoolExecutor(max(1, threads)) as pool:
        waiting: deque[tuple[list[DiskEntry], Future[list[bytes | None]]]] = deque()
        chunk: list[DiskEntry] = []

        def submit() -> None:
            nonlocal chunk
            if chunk:
                waiting.append((chunk, pool.submit(_read, chunk)))
                chunk = []

        for one in found:
            chunk.append(one)
            if len(chunk) >= _CHUNK_FILES or sum(f.status.st_size for f in chunk[-1:]) > _IN_MEMORY_BYTES:
                submit()
            if len(waiting) > 2 * threads:
                names, contents = waiting.popleft()
                yield from zip(names, contents.result(), strict=True)
        submit()
        while waiting:
            names, contents = waiting.popleft()
            yield from zip(names, contents.result(), strict=True)


def _read(chunk: list[DiskEntry]) -> list[bytes | None]:
    contents: list[bytes | None] = []
    for found in chunk:
        is_small = found.status.st_size <= _IN_MEMORY_BYTES and not stat.S_ISDIR(found.status.st_mode)
        contents.append(_read_file(found.path, found.status.st_size) if is_small else None)
    return contents


def _read_file(path: str, size: int) -> bytes:
    fd = open_for_reading(path, nofollow=False)
    try:
        data = os.read(fd, size + 1)
    finally:
        os.close(fd)
    if len(data) == size:
        return data
    with open_stream(path) as file:  # it was changed since it was listed, or the read was cut: take what is there now
        return file.read()
