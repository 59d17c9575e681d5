"""Paths and infos that match patterns."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core._reading import DIRS, FILES, Reading, dir_row, file_row
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatEntryInfo, Order
from headrace.compat.barecat.util.glob_to_regex import glob_to_regex
from headrace.formats.barecat.patterns import fixed_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Globbing"]

_SPECIAL = re.compile(r"[*?[]")


class Globbing(Reading):
    """The part of an index that knows patterns.

    Those of methods whose names begin with ``raw`` are SQLite's own, in which ``*`` crosses slashes; all others are
    those of Python's ``glob``.
    """

    # SQLite's patterns

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
            query = f"SELECT path FROM files WHERE {where}{order.as_query_text()}"
            return (row[0] for row in self.fetch_iter(query, params, bufsize=bufsize))
        return (path for path, _ in self._both(where, params, order, bufsize))

    def raw_iterglob_infos(
        self, pattern: str, only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a GLOB of SQLite, files first."""
        return self.raw_iterglob_infos_multi([pattern], only_files, bufsize)

    def raw_iterglob_infos_multi(
        self, patterns: Sequence[str], only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches one of several GLOBs of SQLite, files first."""
        where, params = _any_of(patterns)
        return self._matching(where, params, only_files, bufsize)

    def raw_iterglob_infos_incl_excl(
        self, patterns: Sequence[tuple[bool, str]], only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a chain of GLOBs, each of which takes (True) or leaves out (False)."""
        where = ""
        for number, (is_taken, _) in enumerate(patterns):
            word = "GLOB" if is_taken else "NOT GLOB"
            link = "" if number == 0 else (" OR " if is_taken else " AND ")
            where += f"{link}path {word} :p{number}"
        params = {f"p{number}": normalize_path(pattern) for number, (_, pattern) in enumerate(patterns)}
        return self._matching(where, params, only_files, bufsize)

    def _matching(
        self, where: str, params: Any, only_files: bool, bufsize: int | None = None, *, dirs_first: bool = False
    ) -> Iterator[BarecatEntryInfo]:
        files = self.fetch_iter(f"{FILES} WHERE {where}", params, bufsize=bufsize, rowcls=file_row)
        if only_files:
            return files
        dirs = self.fetch_iter(f"{DIRS} WHERE {where}", params, bufsize=bufsize, rowcls=dir_row)
        return itertools.chain(dirs, files) if dirs_first else itertools.chain(files, dirs)

    # Python's patterns

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
        if is_tree and not only_files and self.isdir(above):
            yield f"{above}/"  # as Python has it
        if pattern.endswith("/") and not only_files and not (recursive and "**" in pattern):
            match = re.compile(glob_to_regex(pattern, recursive=recursive, include_hidden=include_hidden)).match
            yield from (f"{path}/" for path in self.iter_all_dirpaths(Order.PATH) if path and match(f"{path}/"))
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
        match = re.compile(glob_to_regex(pattern, recursive=recursive, include_hidden=include_hidden)).match
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


def compile_rules(rules: Sequence[tuple[str, str]], default: bool = True) -> Any:
    """A test of paths: the first rule whose pattern matches decides.

    Example:
        >>> keep = compile_rules([("+", "**/*.jpg"), ("-", "**")])
        >>> keep("a/b.jpg"), keep("a/b.txt")
        (True, False)
    """
    compiled = [
        (sign == "+", re.compile(glob_to_regex(pattern, recursive="**" in pattern, include_hidden=True)).match)
        for sign, pattern in rules
    ]
    return lambda path: next((is_taken for is_taken, match in compiled if match(path)), default)


def _any_of(patterns: Sequence[str]) -> tuple[str, dict[str, str]]:
    where = " OR ".join(f"path GLOB :p{number}" for number in range(len(patterns)))
    return f"({where})", {f"p{number}": normalize_path(pattern) for number, pattern in enumerate(patterns)}


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
