"""Listings: ls, find, tree and du."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import functools
import grp
import json
import pwd
import stat
import sys
from typing import TYPE_CHECKING, Any

from headrace.cli.common import say
from headrace.cli.verbs.du import du_rows
from headrace.cli.verbs.tree import tree_lines
from headrace.compat.barecat.cli.parsing import normalize_pattern
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo
from headrace.progress import parse_bytes

if TYPE_CHECKING:
    from headrace.compat.barecat.core.index import Index
    from headrace.formats.barecat import Archive

__all__ = ["du_entries", "find_entries", "format_size", "list_entries", "tree_entries"]

_DEPTH = "length(path) - length(replace(path, '/', '')) + (path <> '')"


def list_entries(
    index: Index, paths: list[str], long_format: bool = False, recursive: bool = False, jsonl: bool = False
) -> None:
    """Print what is in directories, or what matches patterns."""
    show = functools.partial(_show, is_long=long_format, is_json=jsonl)
    for given in paths or [""]:
        path = normalize_pattern(given)
        if any(char in path for char in "*?["):
            for info in index.iterglob_infos(path, recursive="**" in path):
                show(info, info.path)
        elif index.isfile(path):
            show(index.lookup_file(path), index.lookup_file(path).path)
        elif not index.isdir(path):
            if not recursive:
                print(f"ls: {path}: No such file or directory")
        elif recursive:
            for _, _, files in index.walk_infos(path):
                for info in files:
                    show(info, info.path)
        else:
            entries = sorted(index.listdir_infos(path), key=lambda info: info.path)
            if long_format and not jsonl:
                print(f"total {sum(_size_of(info) for info in entries)}")
            for entry in entries:
                show(entry, entry.path.rpartition("/")[2])


def _size_of(info: BarecatEntryInfo) -> int:
    return (info.size_tree if isinstance(info, BarecatDirInfo) else getattr(info, "size", 0)) or 0


def _show(info: BarecatEntryInfo, name: str, *, is_long: bool, is_json: bool) -> None:
    if is_json:
        print(json.dumps(_as_json(info)))
    elif is_long:
        links = 1 if isinstance(info, BarecatFileInfo) else (getattr(info, "num_subdirs", 0) or 0) + 2
        user, group = _get_user_group(info.uid, info.gid)
        times = _format_time(info.mtime_ns)
        print(f"{_format_mode(info.mode)} {links:>4} {user:<8} {group:<8} {_size_of(info):>8} {times} {name}")
    else:
        print(f"{name}/" if info.isdir() and name else name)


def _as_json(info: BarecatEntryInfo) -> dict[str, Any]:
    if isinstance(info, BarecatFileInfo):
        names = ("path", "size", "mtime_ns", "crc32c", "mode", "uid", "gid")
        return {"type": "file", **{name: getattr(info, name) for name in names}}
    names = ("path", "size_tree", "num_files_tree", "mtime_ns", "mode", "uid", "gid")
    return {"type": "dir", **{name: getattr(info, name) for name in names}}


def find_entries(
    index: Index,
    path: str = "",
    name: str | None = None,
    pathpattern: str | None = None,
    ftype: str | None = None,
    size: str | None = None,
    maxdepth: int | None = None,
    print0: bool = False,
) -> None:
    """Print the paths of files and directories that fulfil all conditions, as ``find`` does."""
    root = path.strip("/")
    where, params = _in_tree(root, maxdepth)
    if pathpattern:
        where += " AND path GLOB ?"
        params.append(normalize_pattern(pathpattern))
    if size:
        sign = {"+": ">", "-": "<"}.get(size[0], "=")
        where += f" AND bytes {sign} ?"
        params.append(parse_bytes(size.lstrip("+-")))
    for table, column, kind in (("files", "size", "f"), ("dirs", "size_tree", "d")):
        if ftype not in (None, kind):
            continue
        for row in index.fetch_iter(f"SELECT path, {column} AS bytes FROM {table} WHERE {where}", params):
            found = row[0] or "."
            if name is None or fnmatch.fnmatch(found.rpartition("/")[2], name):
                sys.stdout.write(f"{found}\0") if print0 else print(found)


def _in_tree(root: str, max_depth: int | None) -> tuple[str, list[Any]]:
    """A condition for a directory and what is below, down to a depth."""
    where, params = ("(path = ? OR (path > ? AND path < ?))", [root, f"{root}/", f"{root}0"]) if root else ("1", [])
    depth = root.count("/") + 1 if root else 0
    return (where, params) if max_depth is None else (f"{where} AND {_DEPTH} <= {depth + max_depth}", params)


def tree_entries(archive: Archive, path: str = "", level: int | None = None, dirs_only: bool = False) -> None:
    """Print a directory with everything below, as ``tree`` does."""
    root = path.strip("/")
    print(root or ".")
    num_dirs, num_files = 1, 0
    if archive.is_dir(root):
        for branches, entry in tree_lines(archive, root, level, dirs_only, dirs_first=True):
            print(f"{branches}{entry.name}")
            num_dirs += entry.is_dir()
            num_files += entry.is_file()
    print(f"\n{num_dirs} directories" + ("" if dirs_only else f", {num_files} files"))


def du_entries(
    archive: Archive,
    path: str = "",
    all_files: bool = False,
    summarize: bool = False,
    human_readable: bool = False,
    max_depth: int | None = None,
) -> None:
    """Print sizes of directories, the deepest first, as ``du`` does."""
    root = path.strip("/")
    if not summarize and not archive.exists(root):
        say(f"du: {path}: No such file or directory", file=sys.stderr)
        return
    show = format_size if human_readable else str
    found = du_rows(archive, root, 0 if summarize else max_depth, all_files)
    for name, size in sorted(found, key=lambda row: (-row[0].count("/"), row[0] or ".")):
        print(f"{show(size)}\t{name or '.'}")


def _format_mode(mode: int | None) -> str:
    if mode is None:
        return "----------"
    kind = stat.filemode(mode)[0] if stat.S_IFMT(mode) in (stat.S_IFDIR, stat.S_IFLNK) else "-"
    return kind + stat.filemode(mode & 0o777)[1:]


def _format_time(mtime_ns: int | None) -> str:
    if mtime_ns is None:
        return " " * 12
    moment = datetime.datetime.fromtimestamp(mtime_ns / 1e9)
    is_recent = moment.year == datetime.datetime.now().year
    return moment.strftime("%b %d %H:%M" if is_recent else "%b %d  %Y")


@functools.lru_cache(1024)
def _get_user_group(uid: int | None, gid: int | None) -> tuple[str, str]:
    user, group = ("-" if one is None else str(one) for one in (uid, gid))
    with contextlib.suppress(KeyError, TypeError, OverflowError):
        user = pwd.getpwuid(uid).pw_name  # type: ignore[arg-type]
    with contextlib.suppress(KeyError, TypeError, OverflowError):
        group = grp.getgrgid(gid).gr_name  # type: ignore[arg-type]
    return user, group


def format_size(size: float) -> str:
    """Bytes for people.

    Example:
        >>> format_size(1536)
        '1.5K'
    """
    if abs(size) < 1024:
        return str(round(size))
    for unit in "KMGT":
        size /= 1024
        if abs(size) < 1024:
            return f"{size:.1f}{unit}"
    return f"{size / 1024:.1f}P"
