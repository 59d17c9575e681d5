"""Checking a whole archive: index, statistics, places, checksums. Every bad file is named; nothing ends the check."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
_WRONG_STATISTICS = """
WITH RECURSIVE
    direct (path, files, size) AS (SELECT parent, count(*), sum(size) FROM files GROUP BY parent),
    subdirs (path, n) AS (SELECT parent, count(*) FROM dirs WHERE path <> '' GROUP BY parent)
SELECT dirs.path, num_files, coalesce(direct.files, 0), num_subdirs, coalesce(subdirs.n, 0)
FROM dirs LEFT JOIN direct USING (path) LEFT JOIN subdirs USING (path)
WHERE num_files IS NOT coalesce(direct.files, 0) OR num_subdirs IS NOT coalesce(subdirs.n, 0)
"""


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
        about_index = pool.submit(lambda: [_problem(text) for text in _index_problems(archive.index)])
        for found in _in_order(pool, check, _chunks(archive.index), 2 * threads):
            total.add(found)
            if progress is not None:
                progress(total.files, count, total.size_bytes)
        total.problems = about_index.result() + total.problems
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
            waiting.append(pool.submit(check, chunk))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
    except sqlite3.DatabaseError as error:
        yield _Found(problems=[_problem(f"the list of files cannot be read to its end ({error})")])
    while waiting:
        yield waiting.popleft().result()


def _problem(message: str) -> Problem:
    return Problem(sample=None, field=None, message=message)


def _index_problems(index: Index) -> Iterator[str]:
    for check in (_sqlite_problems, _reference_problems, _clashes, _statistics_problems, _tree_problems):
        try:
            yield from check(index)
        except sqlite3.DatabaseError as error:
            yield f"the index cannot be read ({error})"
            return


def _sqlite_problems(index: Index) -> Iterator[str]:
    for (text,) in index.rows("PRAGMA integrity_check"):
        if text != "ok":
            yield f"index: {text}"


def _reference_problems(index: Index) -> Iterator[str]:
    for table in ("files", "dirs"):
        question = (
            f"SELECT path, parent FROM {table} WHERE parent IS NOT NULL AND parent NOT IN (SELECT path FROM dirs)"
        )
        for path, parent in index.rows(question):
            yield f"{path}: its directory {parent or 'the root'} is not in the index"
    if not index.is_dir(""):
        yield "the root directory is not in the index"


def _clashes(index: Index) -> Iterator[str]:
    for (path,) in index.rows("SELECT path FROM files WHERE path IN (SELECT path FROM dirs)"):
        yield f"{path}: is both a file and a directory"


def _statistics_problems(index: Index) -> Iterator[str]:
    for path, files, true_files, subdirs, true_subdirs in index.rows(_WRONG_STATISTICS):
        if files != true_files:
            yield f"{path or 'the root'}: {files} files are counted, {true_files} are there"
        if subdirs != true_subdirs:
            yield f"{path or 'the root'}: {subdirs} directories are counted, {true_subdirs} are there"


def _tree_problems(index: Index) -> Iterator[str]:
    """Directories whose totals are not those of their own files and of the totals below."""
    own = dict(_pairs(index, "SELECT parent, count(*), sum(size) FROM files GROUP BY parent"))
    below = dict(
        _pairs(index, "SELECT parent, sum(num_files_tree), sum(size_tree) FROM dirs WHERE path <> '' GROUP BY parent")
    )
    for path, files, size in index.rows("SELECT path, num_files_tree, size_tree FROM dirs"):
        true_files, true_size = (a + b for a, b in zip(own.get(path, (0, 0)), below.get(path, (0, 0)), strict=True))
        if files != true_files:
            yield f"{path or 'the root'}: {files} files are counted in the whole tree, {true_files} are there"
        if size != true_size:
            yield f"{path or 'the root'}: {size} bytes are counted in the whole tree, {true_size} are there"


def _pairs(index: Index, question: str) -> Iterator[tuple[str, tuple[int, int]]]:
    for path, first, second in index.rows(question):
        yield path, (first or 0, second or 0)


_Row = tuple[str, int, int, int, int | None]


def _chunks(index: Index) -> Iterator[list[_Row]]:
    """The files of one shard after the other, in pieces of a few megabytes."""
    chunk: list[_Row] = []
    size_bytes = 0
    for row in index.rows("SELECT path, shard, offset, size, crc32c FROM files ORDER BY shard, offset"):
        if size_bytes >= _CHUNK_BYTES or len(chunk) >= _CHUNK_FILES or (chunk and row[1] != chunk[0][1]):
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(row)
        if type(row[3]) is int:
            size_bytes += row[3]
    if chunk:
        yield chunk


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks the files of a chunk, which lie in one shard."""

    shards: MappedShards
    quick: bool
    sample_of: Callable[[str], tuple[int, str] | None]
    decode: Callable[[str, bytes], object] | None

    def __call__(self, chunk: list[_Row]) -> _Found:
        found = _Found(files=len(chunk))
        readable = chunk if self._is_plain(chunk) else self._sound_rows(chunk, found)
        if readable and not self.quick:
            self._check_bytes(readable, found)
        return found

    def _is_plain(self, chunk: list[_Row]) -> bool:
        """All places are numbers inside the shard: the usual case, found out all at once."""
        try:
            shard = self.shards.shard(chunk[0][1])
            places = Places.of([row[1:] for row in chunk])
        except (FormatError, OSError, TypeError, ValueError, OverflowError):
            return False
        inside = (places.offset >= 0) & (places.size > 0) & (places.offset <= shard.size)
        return bool((inside & (places.size <= shard.size - places.offset) & (places.crc32c >= -1)).all())

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

    def _check_bytes(self, rows: list[_Row], found: _Found) -> None:
        places = Places.of([row[1:] for row in rows])
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
