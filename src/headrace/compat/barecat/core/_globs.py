"""Paths and infos that match patterns.

Patterns of methods whose names begin with ``raw`` are SQLite's own, in which ``*`` crosses slashes; all others are
those of Python's ``glob``.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import Order
from headrace.compat.barecat.util.glob_to_regex import glob_to_regex
from headrace.formats.barecat.patterns import fixed_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.compat.barecat.core._rows import Rows
    from headrace.compat.barecat.core.types import BarecatEntryInfo

__all__ = ["Globs", "compile_rules", "matcher"]

_SPECIAL = re.compile(r"[*?[]")


def matcher(pattern: str, *, recursive: bool, include_hidden: bool) -> Callable[[str], object]:
    """A test of paths."""
    return re.compile(glob_to_regex(pattern, recursive=recursive, include_hidden=include_hidden)).match


def compile_rules(rules: Sequence[tuple[str, str]], default: bool = True) -> Callable[[str], bool]:
    """A test of paths: the first rule whose pattern matches decides, ``+`` for yes and ``-`` for no.

    Example:
        >>> keep = compile_rules([("+", "**/*.jpg"), ("-", "**")])
        >>> keep("a/b.jpg"), keep("a/b.txt")
        (True, False)
    """
    tests = [(sign == "+", matcher(glob, recursive="**" in glob, include_hidden=True)) for sign, glob in rules]
    return lambda path: next((is_taken for is_taken, match in tests if match(path)), default)


class Globs:
    """What of an index matches patterns."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def raw_glob_paths(self, pattern: str, order: Order = Order.ANY) -> list[str]:
        """Paths that match a GLOB of SQLite."""
        return list(self.raw_iterglob_paths(pattern, order))

    def raw_iterglob_paths(
        self, pattern: str, order: Order = Order.ANY, only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[str]:
        """Paths that match a GLOB of SQLite."""
        return self.raw_iterglob_paths_multi([pattern], order, only_files, bufsize)

    def raw_iterglob_paths_multi(
        self, patterns: Sequence[str], order: Order = Order.ANY, only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[str]:
        """Paths that match one of several GLOBs of SQLite."""
        where, params = _any_of(patterns)
        if only_files:
            return (info.path for info in self._rows.files(where, params, order, bufsize))
        return self._rows.paths(where, params, order, bufsize)

    def raw_iterglob_infos(
        self, pattern: str, only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a GLOB of SQLite, files first."""
        return self.raw_iterglob_infos_multi([pattern], only_files, bufsize)

    def raw_iterglob_infos_multi(
        self, patterns: Sequence[str], only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches one of several GLOBs of SQLite, files first."""
        return self._matching(*_any_of(patterns), only_files, bufsize)

    def raw_iterglob_infos_incl_excl(
        self, patterns: Sequence[tuple[bool, str]], only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a chain of GLOBs, each of which takes (True) or leaves out (False)."""
        where = ""
        for number, (is_taken, _) in enumerate(patterns):
            link = "" if number == 0 else (" OR " if is_taken else " AND ")
            where += f"{link}path {'GLOB' if is_taken else 'NOT GLOB'} :p{number}"
        return self._matching(where, _params([pattern for _, pattern in patterns]), only_files, bufsize)

    def _matching(
        self, where: str, params: Any, only_files: bool, bufsize: int | None, *, dirs_first: bool = False
    ) -> Iterator[BarecatEntryInfo]:
        files = self._rows.files(where, params, bufsize=bufsize)
        if only_files:
            return files
        dirs = self._rows.dirs(where, params, bufsize=bufsize)
        return itertools.chain(dirs, files) if dirs_first else itertools.chain(files, dirs)

    def glob_paths(
        self, pattern: str, recursive: bool = False, include_hidden: bool = False, only_files: bool = False
    ) -> list[str]:
        """Paths that match a pattern."""
        return list(self.iterglob_paths(pattern, recursive, include_hidden, only_files=only_files))

    def iterglob_paths(
        self,
        pattern: str,
        recursive: bool = False,
        include_hidden: bool = False,
        bufsize: int | None = None,
        only_files: bool = False,
    ) -> Iterator[str]:
        """Paths that match a pattern."""
        above = pattern[:-3]
        is_tree = recursive and pattern.endswith("/**") and not _SPECIAL.search(above)
        if is_tree and not only_files and self._rows.isdir(above):
            yield f"{above}/"  # as Python has it
        if pattern.endswith("/") and not only_files and not (recursive and "**" in pattern):
            match = matcher(pattern, recursive=recursive, include_hidden=include_hidden)
            yield from (f"{path}/" for path in self._rows.iter_all_dirpaths(Order.PATH) if path and match(f"{path}/"))
        for info in self.iterglob_infos(pattern, recursive, include_hidden, bufsize, only_files):
            yield info.path

    def iterglob_infos(
        self,
        pattern: str,
        recursive: bool = False,
        include_hidden: bool = False,
        bufsize: int | None = None,
        only_files: bool = False,
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a pattern."""
        match = matcher(pattern, recursive=recursive, include_hidden=include_hidden)
        where, params = _candidates(pattern, recursive)
        is_listing = where.startswith("parent") or pattern == "**"  # comes in the order of listings
        for info in self._matching(where, params, only_files, bufsize, dirs_first=is_listing):
            if match(info.path):
                yield info

    def iterglob_infos_incl_excl(
        self,
        rules: Sequence[tuple[str, str]],
        default_include: bool = True,
        only_files: bool = False,
        bufsize: int | None = None,
    ) -> Iterator[BarecatEntryInfo]:
        """What rules let through: the first pattern that matches decides, ``+`` for yes and ``-`` for no."""
        keep = compile_rules(rules, default_include)
        for info in self._matching("1", (), only_files, bufsize):
            if keep(info.path):
                yield info


def _any_of(patterns: Sequence[str]) -> tuple[str, dict[str, str]]:
    return f"({' OR '.join(f'path GLOB :p{number}' for number in range(len(patterns)))})", _params(patterns)


def _params(patterns: Sequence[str]) -> dict[str, str]:
    return {f"p{number}": normalize_path(pattern) for number, pattern in enumerate(patterns)}


def _candidates(pattern: str, recursive: bool) -> tuple[str, tuple[str, ...]]:
    """A condition that holds for all that may match: one directory where that is clear, else a range of paths."""
    prefix = fixed_prefix(pattern)
    if prefix == pattern:
        return "path = ?", (pattern,)
    parent, _, name = pattern.rpartition("/")
    if not _SPECIAL.search(parent) and not (recursive and name == "**") and "[" not in name:
        return "parent = ?", (parent,)
    if not prefix:
        return "1", ()
    return "path >= ? AND path < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
