"""One archive takes the name of another.

An archive is several files, and no file system renames several at once. So the new archive is completed under a hidden
name. Then ``X-replace`` appears, in one step::

    {"by": ".X.1a2b3c4d.incomplete", "index": [size, mtime_ns], "shards": [[number, size, mtime_ns], ...]}

From then on the new archive is the one that counts. If the process is killed, the next process that writes to X, or
``headrace repair``, goes on: it deletes shards that the new archive does not have, renames the new shards, then the new
index, and deletes ``X-replace``. Every step may be done twice, and X is there all the time. Nothing is believed: the
note must be a regular file, all files must belong to one owner and look as the note says.

Contract: a process that makes an archive called X, or finishes a hand-over, holds the lock of the hidden file
``.X.incomplete``. So hidden archives that are there when the lock is taken belong to no process and are deleted. Until
``X-replace`` appears, an exception leaves everything as it was and nothing behind; after that, the next process that
writes does the rest. The files of a new archive have the permissions of the one that it replaces from the beginning.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import FormatError
from headrace.formats.barecat.edit.lock import lock_file, lock_shard, sync_directory
from headrace.formats.barecat.names import (
    archive_exists,
    archive_files,
    archive_path,
    archive_status,
    beside_path,
    incomplete_files,
    making_path,
    place_of,
    replace_path,
    shard_numbers,
    shard_path,
)
from headrace.storage import check_local
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.errors import PathLike

__all__ = ["finish_handover", "made_beside", "making", "remove_archive", "remove_hidden"]

_MAX_PLAN_BYTES = 8 << 20
_HANDOVER_S = 10.0  # renaming is quick; a process that takes longer has a problem
_MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)


class _Step(NamedTuple):
    """A file of the new archive, the name it gets, and what it looks like: size and time."""

    beside: str
    final: str
    look: tuple[int, int]

    def is_waiting(self) -> bool:
        """It has still its hidden name; FormatError when that is another file."""
        try:
            found = _look(self.beside)
        except FileNotFoundError:
            return False
        if found == self.look:
            return True
        fix = "If the archive was copied, copy it again with the times of its files; otherwise write the archive again."
        raise _interrupted(self.final, self.beside, "is not the one that was written", fix)

    def is_done(self) -> bool:
        """It has its name already."""
        try:
            return _look(self.final) == self.look
        except FileNotFoundError:
            return False


def remove_archive(path: PathLike) -> None:
    """Delete all files of an archive; does nothing when there is none."""
    for file in archive_files(os.fspath(path)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file)


@contextlib.contextmanager
def made_beside(path: PathLike) -> Iterator[str]:
    """A hidden name for a new archive; at the end of the block it takes the name ``path``, and what is there goes.

    Raises:
        ArchiveBusyError: somebody else makes an archive of this name, or writes to the one that is there.
    """
    check_local(path)
    final = place_of(archive_path(path), follow_links=False)
    if os.path.isdir(final):
        raise IsADirectoryError(f"{final} is a directory; name a file to write to")
    folder = os.path.dirname(final)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder} does not exist; make it with: mkdir -p {folder}")
    with making(final) as is_alone:
        _tidy_up(final, is_alone)
        with _claimed(final):
            pass  # an error now, not after hours
        beside = beside_path(final)
        try:
            _prepare(beside, final)
            yield beside
            with _claimed(final):
                _announce(beside, final)
                _finish(final)
        except BaseException as error:
            if not _is_announced(beside, final):
                remove_archive(beside)
            if isinstance(error, OSError) and str(error.filename).startswith(beside):
                raise _about(final, error) from error.__cause__
            raise


def _about(final: str, error: OSError) -> OSError:
    """The same error, about the archive that was to be made; nobody knows its hidden name."""
    kept = "the archive that was there is unchanged" if archive_exists(final) else "nothing was written under this name"
    return type(error)(error.errno, f"{error.strerror}; {kept}", final)


def _prepare(beside: str, final: str) -> None:
    """Make the first shard of a new archive, from which the others take their permissions over."""
    like = archive_status(final)
    if like is not None:
        os.close(open_own(shard_path(beside, 0), os.O_RDWR, like=like, create=True))


def finish_handover(path: str) -> bool:
    """Go on where a process was killed that put another archive under this name; tells whether there was anything."""
    if not os.path.lexists(replace_path(path)):
        return False
    try:
        with making(path, wait_s=_HANDOVER_S):
            return _finish(path)
    except OSError as error:
        if error.errno not in _MAY_NOT:
            raise
        raise FormatError(
            path,
            problem=f"a new archive was taking this name and was interrupted; that cannot be finished here ({error})",
            fix=f"Let somebody who may write to the folder do that, with: headrace repair {path}",
        ) from error


@contextlib.contextmanager
def making(path: str, wait_s: float | None = None) -> Iterator[bool]:
    """Keep other processes from making an archive of this name; gives whether that is certain."""
    file = making_path(path)
    busy = f"{path}: somebody else is making an archive of this name; wait until that is done"
    try:
        fd, is_locked = lock_file(file, busy, wait_s)
    except OSError as error:
        if error.errno is None:
            raise
        problem = f"cannot create a file in this directory ({error.strerror})"
        raise type(error)(error.errno, problem, os.path.dirname(file)) from error.__cause__
    try:
        yield is_locked
    finally:
        with contextlib.suppress(FileNotFoundError):  # without locks, somebody else may have had it
            os.unlink(file)
        os.close(fd)


@contextlib.contextmanager
def _claimed(path: str) -> Iterator[None]:
    """Keep writers away from an archive that is there; ArchiveBusyError when there is one."""
    first = shard_path(path, 0)
    if os.path.islink(first) or not os.path.exists(first):  # a link leads to the shard of somebody else
        yield
        return
    fd = lock_shard(path)
    try:
        yield
    finally:
        os.close(fd)


def remove_hidden(path: str) -> list[str]:
    """Delete hidden archives that were begun and belong to no process; the caller has the lock. Gives their paths."""
    files = incomplete_files(path)
    for file in files:
        os.unlink(file)
    return files


def _tidy_up(path: str, is_alone: bool) -> None:
    """Finish what processes that were killed have begun, and if nobody else can be using it, delete what they left."""
    try:
        _finish(path)
    except FormatError:
        return  # it will be replaced; until then nothing is lost that could still be of use
    if is_alone:
        remove_hidden(path)


def _look(file: str) -> tuple[int, int]:
    status = os.lstat(file)
    return status.st_size, status.st_mtime_ns


def _announce(beside: str, path: str) -> None:
    """Say that the archive beside, which is complete, takes the name."""
    shards = [(number, *_look(shard_path(beside, number))) for number in shard_numbers(beside)]
    plan = {"by": os.path.basename(beside), "index": _look(beside), "shards": shards}
    fd = open_own(replace_path(beside), os.O_WRONLY, like=archive_status(beside), create=True)
    with open(fd, "w") as file:
        json.dump(plan, file)
        file.flush()
        os.fsync(fd)
    os.replace(replace_path(beside), replace_path(path))
    sync_directory(path)


def _is_announced(beside: str, path: str) -> bool:
    try:
        plan = _read_plan(path)
    except FormatError:
        return False
    return plan is not None and plan[0].beside == beside


def _finish(path: str) -> bool:
    """Do what ``X-replace`` says, from the beginning or the rest of it; the caller has the lock."""
    plan = _read_plan(path)
    if plan is None:
        return False
    index, *shards = plan
    _refuse_strangers(path, plan)
    if index.is_waiting():
        _refuse_missing(path, shards)
        kept = {path, replace_path(path), *(step.final for step in shards)}
        for file in archive_files(path):
            if file not in kept:
                os.unlink(file)
        for step in shards:
            if step.is_waiting():
                os.replace(step.beside, step.final)
        sync_directory(path)
        os.replace(index.beside, index.final)
        sync_directory(path)
    else:
        _refuse_missing(path, [index])
    os.unlink(replace_path(path))
    return True


def _refuse_strangers(path: str, steps: list[_Step]) -> None:
    """FormatError unless the note and the new files belong to one owner, or to us, and are files, or links for shards.

    A link is renamed, not followed.
    """
    files = [file for step in steps for file in (step.final, step.beside) if os.path.lexists(file)]
    index = os.lstat(files[0]) if files else None
    for file in (replace_path(path), *files):
        status = os.lstat(file)
        is_index = file in (steps[0].beside, steps[0].final)
        is_kind = stat.S_ISREG(status.st_mode) or (stat.S_ISLNK(status.st_mode) and not is_index)
        if index is not None and (not is_kind or status.st_uid not in (index.st_uid, os.geteuid())):
            fix = "Nothing was changed; delete what does not belong to the archive."
            raise _interrupted(path, file, "is no regular file, or belongs to somebody else", fix)


def _refuse_missing(path: str, steps: list[_Step]) -> None:
    """FormatError when files of the new archive are nowhere, before those of the old one go."""
    for step in steps:
        if not step.is_waiting() and not step.is_done():
            fix = "If the archive was copied, copy this file and all others of this name; otherwise write it again."
            raise _interrupted(path, step.beside, "is not here", fix)


def _interrupted(path: str, file: str, problem: str, fix: str) -> FormatError:
    what = f"a new archive was taking this name and was interrupted, and its file {os.path.basename(file)} {problem}"
    return FormatError(path, problem=what, fix=fix)


def _read_plan(path: str) -> list[_Step] | None:
    """The index and the shards of the new archive."""
    try:
        with open(open_own(replace_path(path), os.O_RDONLY), "rb") as file:
            text = file.read(_MAX_PLAN_BYTES)
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        if not re.fullmatch(rf"\.{re.escape(os.path.basename(path))}\.[0-9a-f]{{8}}\.incomplete", found["by"]):
            raise ValueError(f"{found['by']} is no hidden name of this archive")
        beside = os.path.join(os.path.dirname(path), found["by"])
        size, mtime_ns = found["index"]
        steps = [_Step(beside, path, (size, mtime_ns))]
        for number, size, mtime_ns in found["shards"]:
            steps.append(_Step(shard_path(beside, number), shard_path(path, number), (size, mtime_ns)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FormatError(
            replace_path(path),
            problem=f"it should say which archive is taking the name, and cannot be understood ({error})",
            fix="Delete it, and see what the archive is worth with: headrace verify",
        ) from error
    return steps
