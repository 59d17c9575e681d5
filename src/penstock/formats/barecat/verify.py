"""Checking a whole archive: index, statistics, places, checksums. Every bad file is named; nothing ends the check."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from penstock import _native
from penstock.errors import FormatError
from penstock.formats.barecat.batches import Places
from penstock.formats.barecat.shards import MappedShards
from penstock.types import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from penstock.formats.barecat.archive import Archive
    from penstock.formats.barecat.index import Index
    from penstock.formats.barecat.shards import MappedShard
    from penstock.types import Progress

__all__ = ["verify_archive"]

_MAX_PROBLEMS = 10_000
_CHUNK_BYTES = 8 << 20
_CHUNK_FILES = 2048
_FIRST_CHUNK_FILES = 64
_COUNTED = (
    "directories are counted",
    "files are counted",
    "files are counted in the whole tree",
    "bytes are counted in the whole tree",
)


@dataclass(slots=True)
class _Found:
    files: int = 0
    checksums: int = 0
    decoded: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)

    def add(self, other: _Found) -> None:
        """Count what another part has found."""
        self.files += other.files
        self.checksums += other.checksums
        self.decoded += other.decoded
        self.size_bytes += other.size_bytes
        self.problems += other.problems


def verify_archive(
    archive: Archive,
    *,
    quick: bool,
    workers: int | None,
    progress: Progress | None,
    sample_of: Callable[[str], tuple[int, str] | None] = lambda name: None,
    decode: Callable[[str, bytes], object] | None = None,
) -> Report:
    """Check everything that can be checked and list what is wrong.

    Args:
        archive: what is checked.
        quick: everything but the bytes of the files.
        workers: threads; by default one for each core.
        progress: called as the work advances.
        sample_of: sample and field that a file belongs to, for the report.
        decode: is given the name and bytes of every file of a sample and raises ValueError when they are bad.
    """
    if archive.is_writable:
        archive.commit()
    check = _Check(MappedShards(archive.path), quick, sample_of, decode)
    count = archive.index.number("SELECT count(*) FROM files") if progress is not None else 0
    total = _Found()
    threads = workers or len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, threads)) as pool:
        about_sqlite = pool.submit(_sqlite_problems, archive.index)
        about_index = pool.submit(_index_problems, archive.index)
        for found in _in_order(pool, check, _chunks(archive.index), 2 * threads):
            total.add(found)
            if progress is not None:
                progress(total.files, count, total.size_bytes)
        total.problems = list(dict.fromkeys(about_sqlite.result() + about_index.result())) + total.problems
    return Report(
        path=archive.path,
        samples_checked=total.files,
        checksums_checked=total.checksums,
        images_decoded=total.decoded,
        size_bytes=total.size_bytes,
        problems=tuple(total.problems[:_MAX_PROBLEMS]),
        problems_left_out=max(0, len(total.problems) - _MAX_PROBLEMS),
    )


def _in_order(pool: ThreadPoolExecutor, check: _Check, chunks: Iterator[list[_Row]], ahead: int) -> Iterator[_Found]:
    """Check chunks while further ones are read; an index that breaks off is a problem, not an end."""
    waiting: deque[Future[_Found]] = deque()
    try:
        for chunk in chunks:
            # Threads only read and check bytes: rows are Python's work, which threads would only hinder.
            rows, places, found = check.sort_out(chunk)
            if places is None or check.quick:
                yield found
                continue
            waiting.append(pool.submit(check.check_bytes, rows, places, found))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
    except (FormatError, OSError) as error:
        yield _Found(problems=[_problem(f"the list of files cannot be read to its end ({_reason(error)})")])
    while waiting:
        yield waiting.popleft().result()


def _problem(message: str) -> Problem:
    return Problem(sample=None, field=None, message=message)


def _index_problems(index: Index) -> list[Problem]:
    """What is wrong with the tables; SQLite's own check, which takes longest, is done beside, see verify_archive."""
    found: list[Problem] = []
    try:
        found += map(_problem, chain(_clashes(index), _directory_problems(index)))
    except (FormatError, OSError) as error:
        found.append(_problem(_reason(error)))
    return found


def _sqlite_problems(index: Index) -> list[Problem]:
    try:
        return [_problem(f"index: {text}") for (text,) in index.rows("PRAGMA integrity_check") if text != "ok"]
    except (FormatError, OSError) as error:
        return [_problem(_reason(error))]


def _reason(error: Exception) -> str:
    return getattr(error, "problem", None) or str(error)


def _clashes(index: Index) -> Iterator[str]:
    for (path,) in index.rows("SELECT path FROM dirs WHERE path IN (SELECT path FROM files)"):
        yield f"{path}: is both a file and a directory"


def _directory_problems(index: Index) -> Iterator[str]:
    """Directories that are missing, and those whose statistics are not those of what is in them."""
    files = _sums(index, "SELECT parent, count(*), sum(size), 0 FROM files GROUP BY parent")
    below = _sums(
        index,
        "SELECT parent, count(*), sum(num_files_tree), sum(size_tree) FROM dirs WHERE path <> '' GROUP BY parent",
    )
    paths = set()
    question = "SELECT path, num_subdirs, num_files, num_files_tree, size_tree FROM dirs"
    for path, *counted in index.rows(question):
        paths.add(path)
        num_files, size, _ = files.get(path, (0, 0, 0))
        num_dirs, files_below, size_below = below.get(path, (0, 0, 0))
        there = (num_dirs, num_files, num_files + files_below, size + size_below)
        for what, stored, true in zip(_COUNTED, counted, there, strict=True):
            if stored != true:
                yield f"{path or 'the root'}: {stored} {what}, {true} are there"
    if "" not in paths:
        yield "the root directory is not in the index"
    for table, parents in (("files", files), ("dirs", below)):
        for parent in parents.keys() - paths:
            for (path,) in index.rows(f"SELECT path FROM {table} WHERE parent IS ? AND path <> ''", parent):
                yield f"{path}: its directory {parent or 'the root'} is not in the index"


def _sums(index: Index, question: str) -> dict[str, tuple[int, int, int]]:
    return {path: (first or 0, second or 0, third or 0) for path, first, second, third in index.rows(question)}


_Row = tuple[str, int, int, int, int | None]


def _chunks(index: Index) -> Iterator[list[_Row]]:
    """The files of one shard after the other, in pieces of a few megabytes."""
    rows = index.rows("SELECT path, shard, offset, size, crc32c FROM files ORDER BY shard, offset")
    count = _FIRST_CHUNK_FILES
    while block := list(islice(rows, count)):
        for _, of_shard in groupby(block, itemgetter(1)):
            yield list(of_shard)
        # A size that is no number is found by the check.
        size_bytes = sum(row[3] for row in block if type(row[3]) is int and row[3] > 0)
        count = min(max(1, len(block) * _CHUNK_BYTES // max(size_bytes, 1)), _CHUNK_FILES)


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks the files of a chunk, which lie in one shard."""

    shards: MappedShards
    quick: bool
    sample_of: Callable[[str], tuple[int, str] | None]
    decode: Callable[[str, bytes], object] | None

    def sort_out(self, chunk: list[_Row]) -> tuple[list[_Row], Places | None, _Found]:
        """The files whose bytes can be read, with their places, and what is wrong with the others."""
        found = _Found(files=len(chunk))
        places = self._plain_places(chunk)
        if places is not None:
            return chunk, places, found
        readable = self._sound_rows(chunk, found)
        return readable, Places.of([row[1:] for row in readable]) if readable else None, found

    def _plain_places(self, chunk: list[_Row]) -> Places | None:
        """Places that are all numbers inside the shard: the usual case, found out all at once; otherwise None."""
        try:
            shard = self.shards.shard(chunk[0][1])
            places = Places.of([row[1:] for row in chunk])
        except (FormatError, OSError, TypeError, ValueError, OverflowError):
            return None
        inside = (places.offset >= 0) & (places.size > 0) & (places.offset <= shard.size)
        is_plain = (inside & (places.size <= shard.size - places.offset) & (places.crc32c >= -1)).all()
        return places if is_plain else None

    def _sound_rows(self, chunk: list[_Row], found: _Found) -> list[_Row]:
        readable = []
        for row in chunk:
            problem = _place_problem(self.shards, row)
            if problem is not None:
                found.problems.append(self._problem(row[0], problem))
            elif row[3]:
                readable.append(row)
        return readable

    def _problem(self, name: str, message: str) -> Problem:
        sample, field_name = self.sample_of(name) or (None, None)
        return Problem(sample=sample, field=field_name, message=f"{name}: {message}")

    def check_bytes(self, rows: list[_Row], places: Places, found: _Found) -> _Found:
        """Compare checksums, and decode if that is wanted."""
        shard = self.shards.shard(rows[0][1])
        sums = _native.crc32c_spans(shard.array, places.offset.astype(np.uint64), places.size.astype(np.uint64))
        known = places.crc32c >= 0
        found.checksums = int(known.sum())
        found.size_bytes = int(places.size.sum())
        wrong = known & (sums != places.crc32c)
        for position in np.flatnonzero(wrong).tolist():
            expected = int(places.crc32c[position])
            message = f"checksum {expected:#010x} expected, found {int(sums[position]):#010x}"
            found.problems.append(self._problem(rows[position][0], message))
        if shard.is_cut:
            found.problems.append(_problem(f"{os.path.basename(shard.path)} became shorter while it was read"))
        for position in np.flatnonzero(~wrong).tolist() if self.decode is not None else ():
            self._check_value(rows[position], shard, found)
        return found

    def _check_value(self, row: _Row, shard: MappedShard, found: _Found) -> None:
        name, _, offset, size, _ = row
        if self.decode is None or self.sample_of(name) is None:
            return
        try:
            self.decode(name, bytes(shard.view[offset : offset + size]))
            found.decoded += 1
        except (ValueError, RecursionError) as error:
            found.problems.append(self._problem(name, f"cannot be decoded ({error})"))


def _place_problem(shards: MappedShards, row: _Row) -> str | None:
    _, number, offset, size, checksum = row
    if not all(isinstance(value, int) for value in row[1:4]) or not isinstance(checksum, int | None):
        return f"its place is not made of numbers: {row[1:]}"
    if size == 0 and not checksum:
        return None
    try:
        shard = shards.shard(number, offset + size)
    except (FormatError, OSError) as error:
        return getattr(error, "problem", str(error)) + f" (shard {number})"
    problem = shard.problem_of(offset, size)
    return None if problem is None else f"it should be {problem}"
