"""Listings: ls, find, tree and du."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import functools
import json
import stat
import sys
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.compat.barecat.core.index import Index

__all__ = ["du_entries", "find_entries", "list_entries", "tree_entries"]

_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DEPTH = "length(path) - length(replace(path, '/', '')) + (path <> '')"


def list_entries(
    index: Index, paths: list[str], long_format: bool = False, recursive: bool = False, jsonl: bool = False
) -> None:
    """Print what is in directories, or what matches patterns."""
    show = functools.partial(_show, is_long=long_format, is_json=jsonl)
    for given in paths or [""]:
        path = _normalize_pattern(given)
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
        params.append(_normalize_pattern(pathpattern))
    if size:
        sign = {"+": ">", "-": "<"}.get(size[0], "=")
        where += f" AND bytes {sign} ?"
        params.append(_parse_size(size.lstrip("+-")))
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


def tree_entries(index: Index, path: str = "", level: int | None = None, dirs_only: bool = False) -> None:
    """Print a directory with everything below, as ``tree`` does."""
    root = path.strip("/")
    print(root or ".")
    counts = [1, 0]
    if index.isdir(root):
        for line in _tree_lines(index, root, "", 1, level, dirs_only, counts):
            print(line)
    print(f"\n{counts[0]} directories" + ("" if dirs_only else f", {counts[1]} files"))


def _tree_lines(
    index: Index, path: str, before: str, depth: int, level: int | None, dirs_only: bool, counts: list[int]
) -> Iterator[str]:
    if level is not None and depth > level:
        return
    children: list[BarecatEntryInfo] = sorted(index.list_subdir_dirinfos(path), key=lambda info: info.path)
    if not dirs_only:
        children += sorted(index.list_direct_fileinfos(path), key=lambda info: info.path)
    for position, info in enumerate(children):
        is_last = position == len(children) - 1
        counts[info.isfile()] += 1
        yield f"{before}{'└── ' if is_last else '├── '}{info.path.rpartition('/')[2]}"
        if info.isdir():
            below = before + ("    " if is_last else "│   ")
            yield from _tree_lines(index, info.path, below, depth + 1, level, dirs_only, counts)


def du_entries(
    index: Index,
    path: str = "",
    all_files: bool = False,
    summarize: bool = False,
    human_readable: bool = False,
    max_depth: int | None = None,
) -> None:
    """Print sizes of directories, the deepest first, as ``du`` does."""
    root = path.strip("/")
    if not summarize and not index.exists(root):
        print(f"du: {path}: No such file or directory", file=sys.stderr)
        return
    if summarize or index.isfile(root):
        print(f"{_format_size(_size_of(index.lookup(root)), human_readable)}\t{root or '.'}")
        return
    where, params = _in_tree(root, max_depth)
    rows: Iterable[Any] = index.fetch_all(f"SELECT path, size_tree FROM dirs WHERE {where}", params)
    found = [(row[0] or ".", row[1] or 0) for row in rows]
    if all_files:
        rows = index.fetch_all(f"SELECT path, size FROM files WHERE {where}", params)
        found += [(row[0], row[1] or 0) for row in rows]
    for name, size in sorted(found, key=lambda pair: (-pair[0].count("/"), pair[0])):
        print(f"{_format_size(size, human_readable)}\t{name}")


def _format_mode(mode: int | None) -> str:
    if mode is None:
        return "----------"
    return (stat.filemode(mode)[0] if stat.S_IFMT(mode) in (stat.S_IFDIR, stat.S_IFLNK) else "-") + stat.filemode(
        stat.S_IMODE(mode) & 0o777
    )[1:]


def _format_time(mtime_ns: int | None) -> str:
    if mtime_ns is None:
        return " " * 12
    moment = datetime.datetime.fromtimestamp(mtime_ns / 1e9)
    is_recent = moment.year == datetime.datetime.now().year
    return moment.strftime("%b %d %H:%M" if is_recent else "%b %d  %Y")


@functools.lru_cache(1024)
def _get_user_group(uid: int | None, gid: int | None) -> tuple[str, str]:
    import grp
    import pwd

    names = ["-" if one is None else str(one) for one in (uid, gid)]
    with contextlib.suppress(KeyError, TypeError, OverflowError):
        names[0] = pwd.getpwuid(uid).pw_name  # type: ignore[arg-type]
    with contextlib.suppress(KeyError, TypeError, OverflowError):
        names[1] = grp.getgrgid(gid).gr_name  # type: ignore[arg-type]
    return names[0], names[1]


def _format_size(size: float, human_readable: bool = False) -> str:
    if not human_readable or abs(size) < 1024:
        return str(round(size))
    for unit in "KMGT":
        size /= 1024
        if abs(size) < 1024:
            return f"{size:.1f}{unit}"
    return f"{size / 1024:.1f}P"


def _normalize_pattern(pattern: str) -> str:
    """A slash at the end stands for everything below."""
    return f"{pattern}**" if pattern.endswith("/") and not pattern.endswith("**/") else pattern


def _parse_size(text: str) -> int:
    number, unit = text.strip().upper(), 1
    if number and number[-1] in _FACTORS:
        number, unit = number[:-1], _FACTORS[number[-1]]
    try:
        return int(float(number) * unit)
    except ValueError:
        raise ValueError(f"{text!r} is not a size; write for example 10k or 2M") from None
