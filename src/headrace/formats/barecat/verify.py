"""Checking a whole archive: index, statistics, places, checksums. Every bad file is named; nothing ends the check."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from headrace._native import FileRows, NativeError, crc32c_file, crc32c_spans
from headrace.errors import ArchiveBusyError, FormatError
from headrace.formats.barecat.batches import Places, checksum_problem
from headrace.formats.barecat.index.checks import file_problems, table_problems
from headrace.formats.barecat.index.rows import FileInfo, check_place
from headrace.formats.barecat.names import shard_numbers, shard_path
from headrace.formats.barecat.shards import MappedShards
from headrace.formats.barecat.unfinished import is_being_changed
from headrace.formats.report import Found, advance
from headrace.formats.threads import map_ahead
from headrace.storage import check_regular, is_remote
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.queries import Index
    from headrace.formats.barecat.shards import MappedShard
    from headrace.types import IndexArray, Progress, Report

__all__ = ["verify_archive"]

_BLOCK = 1 << 16  # rows of the index at a time, read in the order of their addresses
_CHUNK_BYTES = 8 << 20
_CHUNK_FILES = 2048

_Row: TypeAlias = tuple[Any, ...]  # path, shard, offset, size, CRC-32C, as the index has them


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

    Raises:
        ArchiveBusyError: something looks damaged, and somebody has changed the archive meanwhile.
    """
    if archive.is_writable:
        archive.commit()
    follow_links = archive.follow_links or archive.is_writable  # a writer has refused those that it must not touch
    for number in shard_numbers(archive.full_path) if not is_remote(archive.full_path) else ():
        check_regular(shard_path(archive.full_path, number), nofollow=not follow_links)
    shards = MappedShards(archive.path, place=archive.full_path, follow_links=follow_links)
    check = _Check(shards, quick, sample_of, decode)
    count = archive.index.number("SELECT count(*) FROM files") if progress is not None else 0
    total = Found()
    with ThreadPoolExecutor(2) as pool:
        about_file = pool.submit(file_problems, archive.index)
        about_tables = pool.submit(table_problems, archive.index)
        for found in map_ahead(check.files, _chunks_or_problem(archive.index), threads=workers or None):
            total.add(found)
            advance(progress, total, count, found)
        about_index = list(dict.fromkeys(about_file.result() + about_tables.result()))
        total.problems = about_index + total.problems
    if total.problems and not archive.is_writable:
        _refuse_news(archive)
    return total.report(archive.path)


def _refuse_news(archive: Archive) -> None:
    """ArchiveBusyError when a writer was at work: what it is moving looks like damage."""
    if is_being_changed(archive.full_path, archive.path) or archive.refresh():
        raise ArchiveBusyError(f"{archive.path}: somebody changed this archive while it was checked; check it again")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Files that lie one after the other in one shard."""

    names: list[str]  # of the block that they were read with
    where: IndexArray  # in the block
    places: Places

    def name(self, position: int) -> str:
        return self.names[int(self.where[position])]


def _chunks_or_problem(index: Index) -> Iterator[_Chunk | list[_Row] | Found]:
    """All files; an index that breaks off is a problem, not an end."""
    try:
        yield from _chunks(index)
    except (FormatError, OSError) as error:
        reason = getattr(error, "problem", None) or error
        problem = f"the list of files cannot be read to its end ({reason})"
        yield Found(problems=[Problem(sample=None, field=None, message=problem)])


def _chunks(index: Index) -> Iterator[_Chunk | list[_Row]]:
    """All files in pieces of a few megabytes; rows that are not as they should be as they are."""
    for names, table in _blocks(index):
        if table is None:
            yield names
            continue
        places = Places(table)
        order = np.lexsort((places.offset, places.shard))
        sizes = places.size[order]
        # A new chunk where the shard changes, and after so many bytes or files.
        steps = np.diff(places.shard[order]) != 0
        steps |= np.diff(np.cumsum(np.clip(sizes, 0, _CHUNK_BYTES)) // _CHUNK_BYTES) != 0
        steps |= np.diff(np.arange(len(order)) // _CHUNK_FILES) != 0
        for where in np.split(order, np.flatnonzero(steps) + 1):
            yield _Chunk(names, where, places.take(where))


def _blocks(index: Index) -> Iterator[tuple[list[Any], Any]]:
    """Names and places of some files; where places are not made of numbers, the rows and None."""
    done = 0
    if index.table is not None:
        rows = FileRows(index.table, FileInfo)
        try:
            while (block := rows.places(_BLOCK))[0]:
                yield block
                done += len(block[0])
            return
        except (NativeError, UnicodeError):  # SQLite goes on
            pass
    found = index.rows("SELECT path, shard, offset, size, crc32c FROM files ORDER BY rowid LIMIT -1 OFFSET ?", done)
    while part := list(islice(found, _CHUNK_FILES)):
        try:
            yield [row[0] for row in part], Places.of([row[1:] for row in part]).table
        except (TypeError, ValueError, OverflowError):
            yield part, None


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks files; called from several threads."""

    shards: MappedShards
    quick: bool
    sample_of: Callable[[str], tuple[int, str] | None]
    decode: Callable[[str, bytes], object] | None

    def files(self, files: _Chunk | list[_Row] | Found) -> Found:
        """What is wrong with these files."""
        if isinstance(files, Found):
            return files
        return self._check_rows(files) if isinstance(files, list) else self._check_chunk(files)

    def _check_rows(self, rows: list[_Row]) -> Found:
        """Rows that are not made of numbers only."""
        total = Found()
        for name, shard, offset, size, checksum in rows:
            place = (shard, offset, size, checksum)
            try:
                check_place(name, place)
                places = Places.of([place])
            except (TypeError, OverflowError):
                problem = f"its place is not made of numbers that a place can have: {place}"
                total.add(Found(samples=1, problems=[self._problem(name, problem)]))
            else:
                total.add(self._check_chunk(_Chunk([name], np.zeros(1, np.int64), places)))
        return total

    def _check_chunk(self, chunk: _Chunk) -> Found:
        """Files of one shard: where they are, their checksums, and what is in them if that is wanted."""
        found = Found(samples=len(chunk.where))
        places = chunk.places
        is_filled = (places.size != 0) | (places.crc32c > 0)
        is_there = is_filled.copy()
        for position in np.flatnonzero(is_filled & ~self._is_inside(places)).tolist():
            is_there[position] = False
            problem = self._place_problem(*places.table[position, :3].tolist())
            found.problems.append(self._problem(chunk.name(position), problem))
        readable = np.flatnonzero(is_there)
        if len(readable) and not self.quick:
            self._check_bytes(_Chunk(chunk.names, chunk.where[readable], places.take(readable)), found)
        return found

    def _is_inside(self, places: Places) -> Any:
        """For each file, whether its shard has these bytes."""
        number = int(places.shard[0])
        try:
            size = self.shards.shard(number).size
        except (FormatError, OSError):
            return np.zeros(len(places), bool)
        return (
            (places.offset >= 0) & (places.size >= 0) & (places.offset <= size) & (places.size <= size - places.offset)
        )

    def _place_problem(self, number: int, offset: int, size: int) -> str:
        try:
            shard = self.shards.shard(number, offset + size)
        except (FormatError, OSError) as error:
            return getattr(error, "problem", str(error)) + f" (shard {number})"
        return f"it should be {shard.problem_of(offset, size)}"

    def _problem(self, name: str, message: str) -> Problem:
        sample, field_name = self.sample_of(name) or (None, None)
        return Problem(sample=sample, field=field_name, message=f"{name}: {message}")

    def _check_bytes(self, chunk: _Chunk, found: Found) -> None:
        places = chunk.places
        shard = self.shards.shard(int(places.shard[0]))
        offsets, sizes = places.offset.astype(np.uint64), places.size.astype(np.uint64)
        try:
            sums = self._sums(shard, offsets, sizes)
        except NativeError as error:
            problem = f"{os.path.basename(shard.path)} cannot be read at byte {offsets[error.offset]} ({error.detail})"
            found.problems.append(self._problem(chunk.name(error.offset), problem))
            return
        known = places.crc32c >= 0
        found.checksums = int(known.sum())
        found.size_bytes = int(places.size.sum())
        wrong = known & (sums != places.crc32c)
        for position in np.flatnonzero(wrong).tolist():
            message = checksum_problem(int(places.crc32c[position]), int(sums[position]))
            found.problems.append(self._problem(chunk.name(position), message))
        if self.decode is None:
            return
        for position in np.flatnonzero(~wrong).tolist():
            _, offset, size, _ = places.table[position].tolist()
            self._check_value(chunk.name(position), shard.view[offset : offset + size], found)

    def _sums(
        self, shard: MappedShard, offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.uint32]:
        if not self.shards.is_local:
            base, starts = shard.region(offsets, sizes)
            sums = crc32c_spans(base, starts, sizes)
            shard.check()
            return sums
        # Read, not mapped: to map a page that is needed once costs more than to copy it.
        with open(shard.open(), "rb", buffering=0) as file:
            return crc32c_file(file.fileno(), offsets, sizes)

    def _check_value(self, name: str, data: memoryview, found: Found) -> None:
        if self.decode is None or self.sample_of(name) is None:
            return
        try:
            self.decode(name, bytes(data))
            found.images += 1
        except (ValueError, RecursionError) as error:
            found.problems.append(self._problem(name, f"cannot be decoded ({error})"))
