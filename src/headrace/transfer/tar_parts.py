"""Many small files into a tar: headers and contents of some at a time, by one native call.

To make an entry of each file, open it and write its header one by one takes five times as long as tar(1). What is
large, and what cannot be read that way, still goes entry by entry.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace._native import tar_files, tar_members
from headrace.formats.entry_names import check_new_name
from headrace.formats.metadata import Metadata
from headrace.formats.threads import map_ahead
from headrace.storage import open_stream, walk_folder
from headrace.transfer.containers import large_entry
from headrace.transfer.entry import Entry
from headrace.transfer.extract import LARGE_BYTES, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.rows import FileInfo
    from headrace.formats.report import Transfer
    from headrace.storage.walk import Found
    from headrace.transfer.tar import TarSink
    from headrace.types import Progress

__all__ = ["put_archive", "put_folder"]

_FILES = 128  # in one part
_MOST_BYTES = 256 << 10  # of a file that is read together with others
_MOST_THREADS = 4
_SORTED_FILES = 250_000  # so many rows of an index are sorted in memory, more by SQLite


class _Part(NamedTuple):
    """Some files in a row: members of the tar, how many of them are directories, and their bytes; or one file alone."""

    members: bytes
    found: list[Found]
    size_bytes: int
    is_read: bool


def put_folder(sink: TarSink, folder: str, result: Transfer, progress: Progress | None) -> None:
    """Everything below a folder, with its modes and times; what cannot be stored is noted in the result."""

    def leave_out(path: str, reason: str) -> None:
        result.skipped.append(f"{path}: {reason}")

    found = walk_folder(folder, follow_links=False, on_problem=leave_out, dirs_last=True)
    for part in _read_ahead(found, sink.has_exact_times):
        if part.is_read:
            sink.write(part.members)
            dirs = sum(one.is_dir for one in part.found)
            result.dirs += dirs
            result.files += len(part.found) - dirs
            result.size_bytes += part.size_bytes
        else:
            _put_alone(sink, part.found[0], result)
        if progress is not None:
            progress(result.files, None, result.size_bytes)


def _put_alone(sink: TarSink, one: Found, result: Transfer) -> None:
    try:
        status = one.status or os.stat(one.path)
    except OSError as error:
        result.skipped.append(f"{one.path}: {error.strerror}")
        return
    size = 0 if one.is_dir else status.st_size
    opened = partial(open_stream, one.path, buffering=0)
    sink.put(Entry(one.name, one.is_dir, size, Metadata.of(status), opened))
    result.dirs += one.is_dir
    result.files += not one.is_dir
    result.size_bytes += size


def _read_ahead(found: Iterator[Found], has_exact_times: bool) -> Iterator[_Part]:
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    parts = map_ahead(partial(_read, has_exact_times=has_exact_times), _chunks(found), threads=threads)
    return chain.from_iterable(parts)


def _chunks(found: Iterator[Found]) -> Iterator[list[Found]]:
    while chunk := list(islice(found, _FILES)):
        for one in chunk:
            check_new_name(one.name)
        yield chunk


def _read(chunk: list[Found], has_exact_times: bool) -> list[_Part]:
    parts = []
    while chunk:
        paths, names = [one.path for one in chunk], [one.name for one in chunk]
        members, taken, size_bytes = tar_files(paths, names, _MOST_BYTES, has_exact_times)
        if taken:
            parts.append(_Part(members, chunk[:taken], size_bytes, True))
        if taken < len(chunk):
            parts.append(_Part(b"", chunk[taken : taken + 1], 0, False))
        chunk = chunk[taken + 1 :]
    return parts


def put_archive(sink: TarSink, archive: Archive, result: Transfer, progress: Progress | None) -> None:
    """All files of an archive, checked, in the order in which they lie, after its directories."""
    for directory in archive.dirs("path"):
        if directory.path:
            sink.put(Entry(directory.path, True, 0, directory.metadata))
            result.dirs += 1
    for block in blocks_of(_by_address(archive)):
        if block[0].size > LARGE_BYTES:
            sink.put(large_entry(archive, block[0]))
        else:
            names = [info.path for info in block]
            contents = archive.read_many(names)
            bounds = np.zeros(len(block) + 1, np.int64)
            np.cumsum([len(data) for data in contents], out=bounds[1:])
            joined = np.frombuffer(b"".join(contents), np.uint8)
            sink.write(tar_members(names, _facts(block), joined, bounds, sink.has_exact_times))
        result.files += len(block)
        result.size_bytes += sum(info.size for info in block)
        if progress is not None:
            progress(result.files, None, result.size_bytes)


def _by_address(archive: Archive) -> Iterator[FileInfo]:
    if archive.num_files > _SORTED_FILES:
        return archive.files("address")
    return iter(sorted(archive.files("any"), key=lambda info: info[1:3]))


def _facts(block: list[FileInfo]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    flat = [0 if value is None else value for info in block for value in info[5:]]
    facts = np.array(flat, np.int64).reshape(-1, 4)
    unknown = [position for position, info in enumerate(block) if info.mode is None]
    facts[unknown, 0] = 0o644
    return facts
