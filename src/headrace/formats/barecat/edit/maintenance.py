"""Shards rewritten: gaps taken out, or another size limit.

Contract: a crash at any point loses nothing. Files are moved in batches; what lies where a batch goes, and is still
named by committed rows, is saved first (see ``undo``). Shards whose numbers change exist under both names until the
rows that name them are committed; a note in the index (the setting ``reshard_from``) says so, and whoever writes next
finishes that. Files that share bytes are moved together, as one stretch, and share them afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.errors import FileTooLargeError, FormatError
from headrace.formats.barecat.edit.lock import lock_archive, sync_directory
from headrace.formats.barecat.edit.transactions import check_limit
from headrace.formats.barecat.names import MAX_SHARDS, duplicate_path, shard_numbers, shard_path
from headrace.progress import format_count
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.edit.editor import Editor
    from headrace.formats.barecat.index.rows import FileInfo
    from headrace.types import Progress

__all__ = ["Method", "defragment", "find_gaps", "finish_reshard", "is_resharding", "reshard"]

Method: TypeAlias = Literal["full", "smart", "quick"]
_BATCH_BYTES = 64 << 20
_COPY_BYTES = 16 << 20
_RESHARD_FROM = "reshard_from"
_MOVE = "UPDATE files SET shard = ?, offset = ? WHERE path = ?"


@dataclass(slots=True)
class _Stretch:
    """Bytes of a shard with all files that have some of them; nearly always one file, which shares them with nobody."""

    shard: int
    offset: int
    size: int
    files: list[FileInfo] = field(default_factory=list)


_Move = tuple[_Stretch, int, int]
"""A stretch, and the shard and offset that it goes to."""


def physical_size(path: str) -> int:
    """Bytes of all shards."""
    return sum(os.path.getsize(shard_path(path, number)) for number in shard_numbers(path))


def find_gaps(archive: Archive) -> list[tuple[int, int, int]]:
    """Shard, offset and size of every stretch of bytes that no file has, to the end of the last file of its shard."""
    gaps = []
    shard, end = -1, 0
    for info in archive.files("address"):
        if info.shard != shard:
            shard, end = info.shard, 0
        if info.offset > end and info.size:
            gaps.append((shard, end, info.offset - end))
        end = max(end, info.end)
    return gaps


def defragment(
    archive: Archive, method: Method = "full", *, max_seconds: float | None = None, progress: Progress | None = None
) -> int:
    """Take the gaps out of the shards and cut them; gives the number of bytes freed.

    Args:
        archive: open for writing.
        method: ``"full"`` moves every file down to the next free place; ``"smart"`` does the same with stretches of
            files that lie together in one copy each; ``"quick"`` only moves files from the end into gaps that fit.
        max_seconds: stop after this time, between two files; what was done counts.
        progress: called as the work advances.
    """
    if method not in ("full", "smart", "quick"):
        raise ValueError(f"method must be 'full', 'smart' or 'quick', got {method!r}")
    archive.commit()
    path = archive.editor.full_path
    before = physical_size(path)
    _refuse_places(archive)
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    if method == "quick":
        _fill_gaps(archive, deadline, progress)
    else:
        _slide_down(archive, deadline, progress)
    cut_tails(archive)
    return before - physical_size(path)


def _refuse_places(archive: Archive) -> None:
    """FormatError when files lie where their shards have no bytes: what is moved must be there."""
    shards = archive.editor.shards
    there = set(shard_numbers(archive.editor.full_path))
    question = "SELECT shard, min(offset), max(offset + size), min(size) FROM files WHERE size <> 0 GROUP BY shard"
    for row in archive.index.rows(question):
        shard, first, end, least = row
        is_odd = not all(type(value) is int for value in row)
        if is_odd or shard not in there or first < 0 or least < 0 or end > shards.end(shard):
            raise FormatError(
                archive.path,
                problem=f"files lie where shard {shard} has no bytes",
                fix="Nothing was moved; see which files with: headrace verify",
            )


def cut_tails(archive: Archive) -> None:
    """End every shard after its last file, and delete the empty ones at the end."""
    editor = archive.editor
    with editor.lock:
        editor.commit()
        ends = {shard: 0 for shard in shard_numbers(editor.full_path)} | archive.index.shard_ends()
        used = max((shard for shard, end in ends.items() if end), default=0)
        with editor.whole:
            for shard, end in ends.items():
                if shard <= used and end < editor.shards.end(shard):
                    editor.shards.cut_now(shard, end)
            editor.shards.remove_after(used)


def _stretches(archive: Archive) -> Iterator[_Stretch]:
    """All files in the order of addresses, those that share bytes together."""
    stretch: _Stretch | None = None
    for info in list(archive.files("address")):
        end = -1 if stretch is None else stretch.offset + stretch.size
        if stretch is not None and info.shard == stretch.shard and info.offset < end:
            stretch.size = max(end, info.end) - stretch.offset
            stretch.files.append(info)
            continue
        if stretch is not None:
            yield stretch
        stretch = _Stretch(info.shard, info.offset, info.size, [info])
    if stretch is not None:
        yield stretch


def _plan(stretches: Iterable[_Stretch], limit: int, *, only_down: bool) -> Iterator[_Move]:
    """Every stretch, in order, with the place it has when there are no gaps.

    With ``only_down``, none goes to a higher address, whatever the limit: others may lie there.
    """
    shard = offset = 0
    for stretch in stretches:
        if offset + stretch.size > limit:
            shard, offset = shard + 1, 0
        if only_down and (shard, offset) > (stretch.shard, stretch.offset):
            shard, offset = stretch.shard, stretch.offset
        yield stretch, shard, offset
        offset += stretch.size


def _slide_down(archive: Archive, deadline: float | None, progress: Progress | None) -> None:
    editor = archive.editor
    total = len(archive)
    batch: list[_Move] = []
    size_bytes = done_bytes = 0
    done = 0
    for target in _plan(_stretches(archive), editor.limit, only_down=True):
        stretch, shard, offset = target
        done += len(stretch.files)
        if (stretch.shard, stretch.offset) == (shard, offset):
            continue
        batch.append(target)
        size_bytes += stretch.size
        done_bytes += stretch.size
        if size_bytes >= _BATCH_BYTES or len(batch) >= 10_000:
            _move(archive, batch)
            batch, size_bytes = [], 0
            if progress is not None:
                progress(done, total, done_bytes)
            if deadline is not None and time.monotonic() > deadline:
                return
    _move(archive, batch)
    if progress is not None:
        progress(total, total, done_bytes)


def _move(archive: Archive, batch: list[_Move]) -> None:
    """Move files to lower addresses, in order, and commit."""
    editor = archive.editor
    with editor.lock:
        with editor.whole:
            editor.save([(shard, offset, stretch.size) for stretch, shard, offset in batch])
            for source, target, size in _runs(batch):
                _copy(archive, source, target, size)
            editor.execute_many(_MOVE, [row for move in batch for row in _rows_of(*move)])
        editor.commit()


def _rows_of(stretch: _Stretch, shard: int, offset: int) -> list[tuple[object, ...]]:
    """Where the files of a stretch are when it has gone to a place."""
    return [(shard, offset + info.offset - stretch.offset, info.path) for info in stretch.files]


def _runs(batch: list[_Move]) -> Iterator[tuple[tuple[int, int], tuple[int, int], int]]:
    """Files that lie together before and after as one stretch: (from, to, size)."""
    source = target = (-1, 0)
    size = 0
    for stretch, shard, offset in batch:
        lies_behind = (stretch.shard, stretch.offset) == (source[0], source[1] + size)
        goes_behind = (shard, offset) == (target[0], target[1] + size)
        if size and lies_behind and goes_behind:
            size += stretch.size
            continue
        if size:
            yield source, target, size
        source, target, size = (stretch.shard, stretch.offset), (shard, offset), stretch.size
    if size:
        yield source, target, size


def _copy(archive: Archive, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
    """Copy bytes, also to a lower address that overlaps; what lies there must be saved."""
    shards = archive.editor.shards
    for start in range(0, size, _COPY_BYTES):
        count = min(_COPY_BYTES, size - start)
        data = shards.read(source[0], source[1] + start, count)
        if len(data) != count:
            raise FormatError(archive.path, problem=f"shard {source[0]} has become shorter while files were moved")
        shards.overwrite(target[0], target[1] + start, data)


def _fill_gaps(archive: Archive, deadline: float | None, progress: Progress | None) -> None:
    gaps = find_gaps(archive)
    files = [info for info in archive.files("address") if info.size]
    total, moved_bytes = len(files), 0
    batch: list[_Move] = []
    for done, info in enumerate(reversed(files), 1):
        if deadline is not None and time.monotonic() > deadline:
            break
        position = next(
            (i for i, (s, o, n) in enumerate(gaps) if n >= info.size and (s, o) < (info.shard, info.offset)), None
        )
        if position is None:
            continue
        shard, offset, size = gaps[position]
        batch.append((_alone(info), shard, offset))
        gaps[position] = (shard, offset + info.size, size - info.size)
        moved_bytes += info.size
        if len(batch) >= 10_000:
            _move(archive, batch)
            batch = []
        if progress is not None:
            progress(done, total, moved_bytes)
    _move(archive, batch)
    _move(archive, _empty_files_behind(archive))


def _empty_files_behind(archive: Archive) -> list[_Move]:
    """Empty files behind the last byte of their shard, which would keep it from being cut, and where they can go."""
    ends: dict[int, int] = dict(
        archive.index.rows("SELECT shard, max(offset + size) FROM files WHERE size > 0 GROUP BY shard")
    )
    last = max(ends, default=0)
    targets: list[_Move] = []
    for info in archive.files("address"):
        shard = min(info.shard, last)
        if not info.size and (info.shard, info.offset) > (shard, ends.get(shard, 0)):
            targets.append((_alone(info), shard, ends.get(shard, 0)))
    return targets


def _alone(info: FileInfo) -> _Stretch:
    """A file as a stretch of its own, even if others share its bytes: those stay."""
    return _Stretch(info.shard, info.offset, info.size, [info])


def reshard(archive: Archive, shard_size: int, *, progress: Progress | None = None) -> None:
    """Give the shards another size limit: the files are packed anew, in the order in which they lie.

    All files are copied to new shards, so that for a time the archive takes twice its space.
    """
    check_limit(shard_size)
    editor = archive.editor
    largest = archive.index.number("SELECT max(size) FROM files")
    if largest > shard_size:
        name = next(archive.index.rows("SELECT path FROM files WHERE size = ?", largest))[0]
        raise FileTooLargeError(archive.path, name=name, size_bytes=largest, limit=shard_size)
    with editor.lock:
        editor.commit()
        _refuse_places(archive)
        plan = list(_plan(_fitting(_stretches(archive), shard_size), shard_size, only_down=False))
        count = plan[-1][1] + 1 if plan else 1
        base = max(count, max(shard_numbers(editor.full_path)) + 1)
        if base + count > MAX_SHARDS:
            raise ValueError(
                f"shard_size {shard_size} would need {format_count(count, 'shard')}, {MAX_SHARDS - base} are possible"
            )
        editor.execute("INSERT OR REPLACE INTO config (key, value_int) VALUES (?, ?)", _RESHARD_FROM, base)
        editor.commit()
        with editor.whole:
            _copy_to(archive, plan, base, progress)
            editor.execute("UPDATE config SET value_int = ? WHERE key = 'shard_size_limit'", shard_size)
        editor.commit()
        with editor.whole:
            _renumber(editor, base, count)
        editor.set_limit(shard_size)  # only now all shards keep to it
        _forget_reshard(editor)


def finish_reshard(editor: Editor) -> bool:
    """Finish what a killed ``reshard`` has begun, or take it back; tells whether there was something.

    Its note says from which number on it writes shards. If all files are there, these shards get the numbers from 0 on,
    as it would have done. If none is, nobody needs them. If some are, another program has written meanwhile: then
    nothing is removed, and the bytes that no file has are a gap.
    """
    base = editor.index.config(_RESHARD_FROM)
    if base is None:
        return False
    numbers = shard_numbers(editor.full_path)
    new = [number for number in numbers if number >= base]
    first, last = next(editor.index.rows("SELECT min(shard), max(shard) FROM files"))
    with editor.lock:
        if base > 0 and new and (first is None or type(first) is type(last) is int):
            with editor.whole:
                if first is None or last < base:
                    editor.shards.remove_after(max(number for number in numbers if number < base))
                elif first >= base and new == list(range(base, base + len(new))):
                    _renumber(editor, base, len(new))
        _forget_reshard(editor)
    return True


def is_resharding(connection: sqlite3.Connection) -> bool:
    """A ``reshard`` has begun, and not ended."""
    return connection.execute("SELECT 1 FROM config WHERE key = ?", (_RESHARD_FROM,)).fetchone() is not None


def _forget_reshard(editor: Editor) -> None:
    editor.execute("DELETE FROM config WHERE key = ?", _RESHARD_FROM)
    editor.commit()


def _fitting(stretches: Iterable[_Stretch], limit: int) -> Iterator[_Stretch]:
    """The same, apart from those that do not fit into a shard: their files each get bytes of their own."""
    for stretch in stretches:
        yield from [stretch] if stretch.size <= limit else map(_alone, stretch.files)


def _copy_to(archive: Archive, plan: list[_Move], base: int, progress: Progress | None) -> None:
    """Copy all files to shards from ``base`` on, and name them there."""
    editor, done_bytes = archive.editor, 0
    editor.shards.end(base)  # even an archive without files has a shard
    total, done = sum(len(stretch.files) for stretch, _, _ in plan), 0
    rows: list[tuple[object, ...]] = []
    for stretch, shard, offset in plan:
        _copy(archive, (stretch.shard, stretch.offset), (base + shard, offset), stretch.size)
        rows += _rows_of(stretch, base + shard, offset)
        done += len(stretch.files)
        done_bytes += stretch.size
        if progress is not None:
            progress(done, total, done_bytes)
    editor.execute_many(_MOVE, rows)


def _renumber(editor: Editor, base: int, count: int) -> None:
    """Let shards ``base`` and following begin at 0; every step leaves a whole archive, and may be done twice."""
    path = editor.full_path
    is_done = os.path.samefile(shard_path(path, base), shard_path(path, 0))
    lock = None if is_done else lock_archive(path, base)  # this file will be shard 0, whose lock counts
    editor.shards.let_go()
    for number in range(count):
        _duplicate(shard_path(path, base + number), shard_path(path, number))
    for number in shard_numbers(path):
        if count <= number < base:
            os.unlink(shard_path(path, number))
    sync_directory(path)
    editor.execute("UPDATE files SET shard = shard - ?", base)
    editor.commit()
    for number in range(base, base + count):
        os.unlink(shard_path(path, number))
    editor.shards.take_up(lock)


def _duplicate(source: str, target: str) -> None:
    """Give a file a second name, or where the file system cannot, make a copy; replaces the target."""
    beside = duplicate_path(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    if os.path.lexists(target) and os.path.samefile(source, target):
        return  # to replace a name by another of the same file does nothing
    try:
        try:
            os.link(source, beside)
        except OSError:
            _copy_file(source, beside)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def _copy_file(source: str, target: str) -> None:
    with open(open_own(source, os.O_RDONLY), "rb", buffering=0) as old:
        like = os.fstat(old.fileno())
        with open(open_own(target, os.O_WRONLY, like=like, create=True), "wb", buffering=0) as new:
            shutil.copyfileobj(old, new, _COPY_BYTES)
            os.fsync(new.fileno())
