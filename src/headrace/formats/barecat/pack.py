"""Files from the disk into an archive."""

from __future__ import annotations

import logging
import os
import stat
from itertools import chain
from typing import TYPE_CHECKING

from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.names import is_part_of
from headrace.formats.disk_files import DiskEntry, count_ahead, count_found, find_below, find_files, lies_in
from headrace.formats.metadata import Metadata
from headrace.formats.report import Transfer
from headrace.formats.threads import map_ahead
from headrace.storage import note_left_out, open_for_reading, open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.errors import PathLike
    from headrace.formats.barecat.archive import Archive
    from headrace.types import Progress

__all__ = ["pack_archive", "pack_entries", "pack_files"]

_log = logging.getLogger("headrace")
_CHUNK_FILES = 64
_IN_MEMORY_BYTES = 8 << 20


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
    for one, data in _read_ahead(found, workers):
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


def _read_ahead(found: Iterator[DiskEntry], threads: int | None) -> Iterator[tuple[DiskEntry, bytes | None]]:
    """Contents of small files, read by several threads, in order; None for folders and large files."""
    return chain.from_iterable(map_ahead(_read, _chunks(found), threads=threads))


def _chunks(found: Iterator[DiskEntry]) -> Iterator[list[DiskEntry]]:
    """A few at a time; a large one ends its chunk, so that it is not waited for with others."""
    chunk: list[DiskEntry] = []
    for one in found:
        chunk.append(one)
        if len(chunk) >= _CHUNK_FILES or one.status.st_size > _IN_MEMORY_BYTES:
            yield chunk
            chunk = []
    yield chunk


def _read(chunk: list[DiskEntry]) -> list[tuple[DiskEntry, bytes | None]]:
    contents: list[tuple[DiskEntry, bytes | None]] = []
    for found in chunk:
        is_small = found.status.st_size <= _IN_MEMORY_BYTES and not stat.S_ISDIR(found.status.st_mode)
        contents.append((found, _read_file(found.path, found.status.st_size) if is_small else None))
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
