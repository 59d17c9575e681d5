"""Shards rewritten: gaps taken out, or another size limit.

Contract: a crash at any point loses nothing. Files are moved in batches; what lies where a batch goes, and is still
named by committed rows, is saved first (see ``undo``). Shards whose numbers change exist under both names until the
rows that name them are committed.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.errors import FileTooLargeError
from headrace.formats.barecat.edit.lock import lock_archive, sync_directory
from headrace.formats.barecat.names import MAX_SHARDS, shard_numbers, shard_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat.archive import Archive
    from headrace.formats.barecat.index.rows import FileInfo
    from headrace.types import Progress

__all__ = ["Method", "defragment", "find_gaps", "reshard"]

Method: TypeAlias = Literal["full", "smart", "quick"]
_BATCH_BYTES = 64 << 20
_COPY_BYTES = 16 << 20
_MOVE = "UPDATE files SET shard = ?, offset = ? WHERE path = ?"
_Move = tuple["FileInfo", int, int]


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
    before = physical_size(archive.full_path)
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    if method == "quick":
        _fill_gaps(archive, deadline, progress)
    else:
        _slide_down(archive, deadline, progress)
    cut_tails(archive)
    return before - physical_size(archive.full_path)


def cut_tails(archive: Archive) -> None:
    """End every shard after its last file, and delete the empty ones at the end."""
    editor = archive.editor
    with editor.lock:
        editor.commit()
        ends = {shard: 0 for shard in shard_numbers(archive.full_path)} | archive.index.shard_ends()
        used = max((shard for shard, end in ends.items() if end), default=0)
        for shard, end in ends.items():
            if shard <= used and end < editor.shards.end(shard):
                editor.shards.cut_now(shard, end)
        editor.shards.remove_after(used)


def _plan(archive: Archive, limit: int) -> Iterator[_Move]:
    """Every file in the order of addresses, with the place it has when there are no gaps."""
    shard = offset = 0
    for info in list(archive.files("address")):
        if offset + info.size > limit:
            shard, offset = shard + 1, 0
        yield info, shard, offset
        offset += info.size


def _slide_down(archive: Archive, deadline: float | None, progress: Progress | None) -> None:
    editor = archive.editor
    total = len(archive)
    batch: list[_Move] = []
    size_bytes = done_bytes = 0
    for done, target in enumerate(_plan(archive, editor.limit), 1):
        info, shard, offset = target
        if (info.shard, info.offset) == (shard, offset):
            continue
        batch.append(target)
        size_bytes += info.size
        done_bytes += info.size
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
        editor.save([(shard, offset, info.size) for info, shard, offset in batch])
        for source, target, size in _runs(batch):
            _copy(archive, source, target, size)
        for info, shard, offset in batch:
            editor.execute(_MOVE, shard, offset, info.path)
        editor.commit()


def _runs(batch: list[_Move]) -> Iterator[tuple[tuple[int, int], tuple[int, int], int]]:
    """Files that lie together before and after as one stretch: (from, to, size)."""
    source = target = (-1, 0)
    size = 0
    for info, shard, offset in batch:
        lies_behind = (info.shard, info.offset) == (source[0], source[1] + size)
        goes_behind = (shard, offset) == (target[0], target[1] + size)
        if size and lies_behind and goes_behind:
            size += info.size
            continue
        if size:
            yield source, target, size
        source, target, size = (info.shard, info.offset), (shard, offset), info.size
    if size:
        yield source, target, size


def _copy(archive: Archive, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
    """Copy bytes, also to a lower address that overlaps; what lies there must be saved."""
    shards = archive.editor.shards
    for start in range(0, size, _COPY_BYTES):
        count = min(_COPY_BYTES, size - start)
        data = shards.read(source[0], source[1] + start, count)
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
        batch.append((info, shard, offset))
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
            targets.append((info, shard, ends.get(shard, 0)))
    return targets


def reshard(archive: Archive, shard_size: int, *, progress: Progress | None = None) -> None:
    """Give the shards another size limit: the files are packed anew, in the order in which they lie.

    All files are copied to new shards, so that for a time the archive takes twice its space.
    """
    editor = archive.editor
    largest = archive.index.number("SELECT max(size) FROM files")
    if largest > shard_size:
        name = next(archive.index.rows("SELECT path FROM files WHERE size = ?", largest))[0]
        raise FileTooLargeError(archive.path, name=name, size_bytes=largest, limit=shard_size)
    with editor.lock:
        editor.commit()
        plan = list(_plan(archive, shard_size))
        count = plan[-1][1] + 1 if plan else 1
        base = max(count, max(shard_numbers(archive.full_path)) + 1)
        if base + count > MAX_SHARDS:
            raise ValueError(f"shard_size {shard_size} would need {count} shards, {MAX_SHARDS - base} are possible")
        _copy_to(archive, plan, base, progress)
        editor.execute("UPDATE config SET value_int = ? WHERE key = 'shard_size_limit'", shard_size)
        editor.commit()
        _renumber(archive, base, count)
        editor.set_limit(shard_size)  # only now all shards keep to it
        editor.commit()


def _copy_to(archive: Archive, plan: list[_Move], base: int, progress: Progress | None) -> None:
    """Copy all files to shards from ``base`` on, and name them there."""
    editor, done_bytes = archive.editor, 0
    editor.shards.end(base)  # even an archive without files has a shard
    for done, (info, shard, offset) in enumerate(plan, 1):
        _copy(archive, (info.shard, info.offset), (base + shard, offset), info.size)
        editor.execute(_MOVE, base + shard, offset, info.path)
        done_bytes += info.size
        if progress is not None:
            progress(done, len(plan), done_bytes)


def _renumber(archive: Archive, base: int, count: int) -> None:
    """Let shards ``base`` and following begin at 0; every step leaves an archive that is whole."""
    editor, path = archive.editor, archive.full_path
    lock = lock_archive(path, base)  # this file will be shard 0, whose lock counts
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
    beside = f"{target}.new"
    if os.path.lexists(beside):
        os.unlink(beside)
    try:
        os.link(source, beside)
    except OSError:
        shutil.copyfile(source, beside)
        fd = os.open(beside, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    os.replace(beside, target)
