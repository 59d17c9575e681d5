"""What is below a folder of the disk.

Only regular files count: pipes, sockets and devices are never opened. A link to a file is followed if it leads to a
regular file. A link to a directory is followed where the caller wants that, but never into a directory that it lies in,
and inside a directory that was itself reached by a link only where no other link has led: so the walk ends, however the
links go. What the kernel shows as files (/proc, /sys and so on) is left out, and the root of the machine is refused.
"""

from __future__ import annotations

import contextlib
import os
import stat
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Found", "check_folder", "group_left_out", "note_left_out", "summarize_left_out", "walk_folder"]

_KERNEL_FILES = frozenset(
    {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "pstore", "bpf"}
    | {"configfs", "fusectl", "mqueue", "nsfs", "binfmt_misc", "efivarfs", "selinuxfs", "rpc_pipefs", "autofs"}
)
_SHOWN = 3


class Found(NamedTuple):
    """A file or directory below a folder: its path, its name from the folder on, and what ``os.stat`` says.

    ``status`` is None for a file that is no link: then it is a regular file, and nobody has asked yet.
    """

    path: str
    name: str
    is_dir: bool
    status: os.stat_result | None


class _Level(NamedTuple):
    """A directory that is being walked through."""

    prefix: str
    entries: Iterator[os.DirEntry[str]]
    identity: tuple[int, int]
    is_by_link: bool


def check_folder(path: str) -> os.stat_result:
    """What a folder is; ValueError for the root of the machine and for what the kernel shows as files."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{path} is not a folder")
    if os.path.samestat(status, os.stat("/")):
        raise ValueError(f"{path} is the whole machine, with devices and all disks; name the folders that you want")
    if status.st_dev in _kernel_devices():
        raise ValueError(f"{path} is no folder of a disk: what is in it is made by the kernel and cannot be packed")
    return status


def walk_folder(
    folder: str,
    *,
    follow_links: bool,
    on_problem: Callable[[str, str], None],
    is_wanted: Callable[[str, bool], bool] = lambda name, is_dir: True,
    dirs_last: bool = False,
) -> Iterator[Found]:
    """Everything below a folder, a directory before what is in it, sorted by name.

    Args:
        folder: where to begin; a link is followed.
        follow_links: go into directories that links lead to.
        on_problem: called with the path and a reason for each thing that is left out; it may raise.
        is_wanted: asked with the name and whether it is a directory before anything is looked at.
        dirs_last: in each directory, the files before the directories.
    """
    top = check_folder(folder)
    levels = [_Level("", _entries(folder, dirs_last), (top.st_dev, top.st_ino), False)]
    linked: set[tuple[int, int]] = set()
    while levels:  # not by calls: folders may be deeper than calls can be
        level = levels[-1]
        entry = next(level.entries, None)
        if entry is None:
            levels.pop()
            continue
        name = level.prefix + entry.name
        is_link = entry.is_symlink()
        try:
            is_dir = entry.is_dir()
            if not is_wanted(name, is_dir):
                continue
            if not is_dir and not is_link and entry.is_file():
                yield Found(entry.path, name, False, None)
                continue
            status = entry.stat()
        except OSError as error:
            reason = f"a link that leads nowhere ({error.strerror})" if is_link else str(error.strerror)
            on_problem(entry.path, reason)
            continue
        identity = status.st_dev, status.st_ino
        problem = _problem_with(status, is_link, follow_links)
        if problem is None and is_dir and is_link:
            if any(above.identity == identity for above in levels):
                problem = "a link to a folder that it lies in; to follow it would never end"
            elif level.is_by_link and identity in linked:
                problem = "a link to a folder that another link has led to already"
            linked.add(identity)
        if problem is not None:
            on_problem(entry.path, problem)
            continue
        yield Found(entry.path, name, is_dir, status)
        if is_dir:
            try:
                entries = _entries(entry.path, dirs_last)
            except OSError as error:
                on_problem(entry.path, str(error.strerror))
                continue
            levels.append(_Level(f"{name}/", entries, identity, is_link or level.is_by_link))


def _problem_with(status: os.stat_result, is_link: bool, follow_links: bool) -> str | None:
    if stat.S_ISDIR(status.st_mode):
        if is_link and not follow_links:
            return "a link to a directory"
        return "made by the kernel, no folder of a disk" if status.st_dev in _kernel_devices() else None
    return None if stat.S_ISREG(status.st_mode) else "not a regular file"


def _entries(folder: str, dirs_last: bool) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        if dirs_last:
            return iter(sorted(entries, key=lambda entry: (entry.is_dir(follow_symlinks=False), entry.name)))
        return iter(sorted(entries, key=lambda entry: entry.name))


@cache
def _kernel_devices() -> frozenset[int]:
    """Device numbers of the file systems that hold no files of anybody."""
    found = set()
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            about, _, system = line.partition(" - ")
            if system.split(" ", 1)[0] in _KERNEL_FILES:
                major, _, minor = about.split(" ")[2].partition(":")
                found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def note_left_out(skipped: list[str]) -> str:
    """How many things were left out, and the first of them with the reasons; fit for a terminal.

    Example:
        >>> note_left_out(["a/pipe: not a regular file"])
        '1 left out: a/pipe: not a regular file'
    """
    first = "; ".join("".join(map(_shown, line)) for line in skipped[:_SHOWN])
    more = f"; and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
    return f"{len(skipped)} left out: {first}{more}"


def group_left_out(skipped: list[str]) -> dict[str, list[str]]:
    """Paths by the reason for which they were left out.

    Example:
        >>> group_left_out(["a/pipe: not a regular file", "x.txt: not a picture", "y.txt: not a picture"])
        {'not a regular file': ['a/pipe'], 'not a picture': ['x.txt', 'y.txt']}
    """
    groups: dict[str, list[str]] = {}
    for line in skipped:
        path, _, reason = line.rpartition(": ")
        groups.setdefault(reason, []).append(path)
    return groups


def summarize_left_out(skipped: list[str]) -> list[str]:
    """A line for each reason for which things were left out, with the first of them.

    Example:
        >>> summarize_left_out(["a/pipe: not a regular file", "x.txt: not a picture", "y.txt: not a picture"])
        ['a/pipe: not a regular file', 'not a picture: 2 (x.txt, y.txt)']
    """
    lines = []
    for reason, paths in group_left_out(skipped).items():
        first = ", ".join(paths[:_SHOWN]) + (", ..." if len(paths) > _SHOWN else "")
        lines.append(f"{paths[0]}: {reason}" if len(paths) == 1 else f"{reason}: {len(paths):,} ({first})")
    return lines


def _shown(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
