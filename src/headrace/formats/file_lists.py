"""Many files by one name: brace lists such as ``{0000..0009}`` and ``{a,b}``, and patterns such as ``*``.

Names may be URLs. What a pattern matches in a store is found by one list of what lies below the part of the URL before
the pattern; objects of a brace list are not looked for at all, because opening one that is missing says so.

Braces are those of the shell: a list, or a range with an optional step, nested and several in one name; zeros in front
are kept. Braces that are neither stay as they are.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from headrace.formats.patterns import fixed_prefix, translate
from headrace.progress import format_count
from headrace.storage import RemotePath, as_path, is_remote, list_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_FILES", "expand_braces", "find_files", "is_pattern", "natural_key"]

MAX_FILES = 100_000
MAX_LISTED = 1_000_000
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?|([A-Za-z])\.\.([A-Za-z])")
_MAX_DEPTH = 50
_NAMED = 3
_SLASHES_OF_BUCKET = 3  # scheme://bucket/

FolderCheck: TypeAlias = Callable[[str, Sequence[str], Sequence[str]], None]
"""Looks at a folder, with its slash: all names in it, and those that are used."""


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """What names are sorted by so that numbers in them count as numbers.

    Example:
        >>> sorted(["x10", "x9", "x1"], key=natural_key)
        ['x1', 'x9', 'x10']
    """
    parts = re.split(r"([0-9]{1,4000})", name)
    return [(1, int(part), part) if i % 2 else (0, 0, part) for i, part in enumerate(parts)]


def expand_braces(text: str) -> list[str]:
    """All names that a brace list stands for, in its order.

    Raises:
        ValueError: there are more than ``MAX_FILES``.

    Example:
        >>> expand_braces("x-{08..10}.{a,b}")
        ['x-08.a', 'x-08.b', 'x-09.a', 'x-09.b', 'x-10.a', 'x-10.b']
    """
    names = list(islice(_expanded(text, 0), MAX_FILES + 1))
    if len(names) > MAX_FILES:
        raise ValueError(f"{text[:200]} stands for more than {format_count(MAX_FILES, 'file')}")
    return names


def _expanded(text: str, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"braces are nested too deeply, more than {_MAX_DEPTH} times")
    for start in _openings(text):
        end = _end_of(text, start)
        choices = None if end < 0 else _choices(text[start + 1 : end])
        if choices is not None:
            for choice in choices:
                for middle in _expanded(choice, depth + 1):
                    for rest in _expanded(text[end + 1 :], depth + 1):
                        yield text[:start] + middle + rest
            return
    yield text


def _openings(text: str) -> Iterator[int]:
    return (i for i, char in enumerate(text) if char == "{")


def _end_of(text: str, start: int) -> int:
    """The brace that closes the one at ``start``; -1 when there is none."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return -1


def _choices(inside: str) -> Iterator[str] | None:
    """What a pair of braces stands for; None when it stands for itself."""
    if match := _RANGE.fullmatch(inside):
        return _range_of(match)
    parts, depth, start = [], 0, 0
    for i, char in enumerate(inside):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(inside[start:i])
            start = i + 1
    return iter([*parts, inside[start:]]) if parts else None


def _range_of(match: re.Match[str]) -> Iterator[str]:
    first, last, step, first_letter, last_letter = match.groups()
    if first_letter is not None:
        return map(chr, _steps(ord(first_letter), ord(last_letter), 1))
    has_zeros = any(len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in (first, last))
    width = max(len(first), len(last)) if has_zeros else 0
    return (f"{number:0{width}d}" for number in _steps(int(first), int(last), int(step or 1)))


def _steps(first: int, last: int, step: int) -> range:
    size = abs(step) or 1
    return range(first, last + 1, size) if first <= last else range(first, last - 1, -size)


def is_pattern(path: str) -> bool:
    """A path may stand for many.

    Example:
        >>> is_pattern("s3://bucket/train-*.tar"), is_pattern("https://host/x.tar?part=1")
        (True, False)
    """
    return _has_magic(path) or "{" in path


def _has_magic(path: str) -> bool:
    if path.lower().startswith(("http://", "https://")):  # there, a question mark begins a query
        return any(char in path for char in "*[")
    return glob.has_magic(path)


def find_files(
    pattern: str,
    exists: Callable[[str], bool] = os.path.lexists,
    check: FolderCheck | None = None,
) -> list[str]:
    """The files that a pattern stands for: lists in their order, and what ``*``, ``?`` and ``[]`` match by name.

    Args:
        pattern: brace lists, ``*``, ``?``, ``[]``, and ``**`` for folders at any depth; also of URLs.
        exists: tells whether there is something under a name; of URLs it is not asked.
        check: is told of each folder that a pattern was looked up in, of all names in it, and of those that match.

    Raises:
        FileNotFoundError: nothing matches, or files of a list are missing; they are named.
    """
    names = expand_braces(pattern)
    found: list[str] = []
    missing: list[str] = []
    listed: dict[tuple[str, bool], list[str]] = {}
    for name in names:
        if is_remote(name):
            matches = _remote_matches(_like(name, pattern), listed, check)
        elif exists(name):
            matches = [name]
        else:
            some = islice(glob.iglob(name, recursive=True) if glob.has_magic(name) else (), MAX_FILES + 1)
            matches = sorted(some, key=natural_key)
            _check_folders(matches, check)
        missing += [] if matches else [name]
        found += matches or [name]
        if len(found) > MAX_FILES:
            raise ValueError(f"{pattern[:200]} stands for more than {format_count(MAX_FILES, 'file')}")
    if missing:
        raise FileNotFoundError(_missing(pattern, missing, len(names)))
    return list(dict.fromkeys(found))


def _like(name: str, pattern: str) -> RemotePath:
    """A URL that is reached as another one is."""
    return pattern.with_url(name) if isinstance(pattern, RemotePath) else RemotePath(as_path(name))


def _check_folders(matches: list[str], check: FolderCheck | None) -> None:
    """Let somebody look at the folders of what a pattern has matched on this machine."""
    used: dict[str, list[str]] = {}
    for match in matches if check is not None else ():
        folder, name = os.path.split(match)
        used.setdefault(folder, []).append(name)
    for folder, names in used.items():
        if check is not None:
            check(os.path.join(folder, ""), os.listdir(folder or os.curdir), names)


def _remote_matches(
    name: RemotePath, listed: dict[tuple[str, bool], list[str]], check: FolderCheck | None
) -> list[str]:
    """Objects whose URLs match, or the URL itself where nothing in it is special."""
    if not _has_magic(name):
        return [name]
    folder = fixed_prefix(name).rpartition("/")[0] + "/"
    if folder.count("/") < _SLASHES_OF_BUCKET:
        raise ValueError(f"{name}: the name of the bucket must be written out; a pattern is for what lies in it")
    pattern = name[len(folder) :]
    key = folder, "/" in pattern or "**" in pattern
    if key not in listed:
        listed[key] = list(islice(list_stored(name.with_url(folder), recursive=key[1]), MAX_LISTED + 1))
        if len(listed[key]) > MAX_LISTED:
            most = format_count(MAX_LISTED, "object")
            raise ValueError(f"{name}: there are more than {most} below {folder}; write more of the name out")
    if name in listed[key]:
        return [name]  # an object with such a name is meant itself
    rule, names = translate(pattern, recursive=True, include_hidden=False), [one[len(folder) :] for one in listed[key]]
    used = [one for one in names if rule.fullmatch(one)]
    if check is not None:
        _check_listed(folder, names, used, check)
    return sorted((one for one in listed[key] if rule.fullmatch(one[len(folder) :])), key=natural_key)


def _check_listed(folder: str, names: list[str], used: list[str], check: FolderCheck) -> None:
    below: dict[str, list[str]] = {}
    for one in names:
        home, _, last = one.rpartition("/")
        if last.startswith("."):
            below.setdefault(home, []).append(last)
    for home, hidden in below.items():
        inside = f"{home}/" if home else ""
        check(folder + inside, hidden, [one[len(inside) :] for one in used if one.startswith(inside)])


def _missing(pattern: str, missing: list[str], count: int) -> str:
    if count == 1:
        return f"{pattern}: no file matches this pattern"
    named = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else "")
    return f"{pattern}: of {format_count(count, 'file')} there is no {named}"
