"""Files on the disk, and the names that they get in an archive, a tar or a zip."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import TYPE_CHECKING, NamedTuple

from headrace.formats.entry_names import check_new_name, clean_name
from headrace.formats.patterns import translate
from headrace.storage import check_folder, walk_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.formats.report import Transfer
    from headrace.types import Progress

__all__ = [
    "DiskEntry",
    "count_ahead",
    "count_found",
    "find_below",
    "find_files",
    "is_excluded",
    "lies_in",
    "stored_name",
]


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
        name = stored_name(path)
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


def stored_name(path: str) -> str:
    """The name that a path on the disk gets: as tar does it, without what leads up in front.

    Example:
        >>> stored_name("../../a/./b"), stored_name("/etc/x"), stored_name("..")
        ('a/b', 'etc/x', '')
    """
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


def lies_in(path: str, folder: str) -> bool:
    """A path on the disk is below a folder, also by way of links."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), ""))


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


def count_found(found: Iterable[DiskEntry], result: Transfer) -> Transfer:
    """Count what would be packed."""
    for one in found:
        is_dir = stat.S_ISDIR(one.status.st_mode)
        result.dirs += is_dir
        result.files += not is_dir
        result.size_bytes += 0 if is_dir else one.status.st_size
    return result
