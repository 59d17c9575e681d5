"""Files and directories whose paths match patterns.

Patterns of methods whose names begin with ``raw`` are SQLite's own, in which ``*`` crosses slashes; all others are
those of Python's ``glob``. What lies in one directory comes in the order of creation, all other paths are sorted;
directories come before files, but infos of what a pattern matches anywhere come after them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatEntryInfo, Order
from headrace.compat.barecat.util.glob_to_regex import candidates, compile_rules, matcher
from headrace.formats.patterns import fixed_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.compat.barecat.core._rows import Rows

__all__ = ["Patterns"]


class Patterns:
    """Looks for patterns in the rows of an index."""

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
        where, params = _chain([(True, pattern) for pattern in patterns])
        return self._rows.paths(where, params, order, bufsize, _tables(only_files))

    def raw_iterglob_infos(
        self, pattern: str, only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a GLOB of SQLite, files first."""
        return self.raw_iterglob_infos_multi([pattern], only_files, bufsize)

    def raw_iterglob_infos_multi(
        self, patterns: Sequence[str], only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches one of several GLOBs of SQLite, files first."""
        return self.raw_iterglob_infos_incl_excl([(True, pattern) for pattern in patterns], only_files, bufsize)

    def raw_iterglob_infos_incl_excl(
        self, patterns: Sequence[tuple[bool, str]], only_files: bool = False, bufsize: int | None = None
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a chain of GLOBs, each of which takes (True) or leaves out (False); files first."""
        return self._matching(*_chain(patterns), only_files, bufsize)

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
        match = matcher(pattern, recursive, include_hidden)
        return filter(match, self._candidates(pattern, recursive, only_files, bufsize))

    def _candidates(self, pattern: str, recursive: bool, only_files: bool, bufsize: int | None) -> Iterator[str]:
        tables, is_deep = _tables(only_files), recursive and "**" in pattern
        if not is_deep and (steps := _one_step(pattern)):
            for path in self._rows.paths("parent = ?", (steps[0],), bufsize=bufsize, tables=("dirs",)):
                if any(self._rows.has(table, f"{path}/{steps[1]}".rstrip("/")) for table in tables):
                    yield f"{path}/{steps[1]}"
            return
        if pattern.endswith("/") and not is_deep:
            if not only_files:
                yield from (f"{path}/" for path in self._rows.paths("path <> ''", order=Order.PATH, tables=("dirs",)))
            return
        above = pattern[:-3]
        if is_deep and pattern.endswith("/**") and fixed_prefix(above) == above and not only_files:
            yield from (f"{path}/" for path in self._rows.paths("path = ?", (above,), tables=("dirs",)))
        where, params = candidates(pattern, recursive)
        order = Order.ANY if _is_listing(where) else Order.PATH
        for table in tables:
            yield from self._rows.paths(where, params, order, bufsize, (table,))

    def iterglob_infos(
        self,
        pattern: str,
        recursive: bool = False,
        include_hidden: bool = False,
        bufsize: int | None = None,
        only_files: bool = False,
    ) -> Iterator[BarecatEntryInfo]:
        """What matches a pattern."""
        if not (recursive and "**" in pattern) and _one_step(pattern):
            paths = self.iterglob_paths(pattern, recursive, include_hidden, bufsize, only_files)
            return (info for path in paths for info in self._matching("path = ?", (path,), only_files, bufsize))
        match = matcher(pattern, recursive, include_hidden)
        where, params = candidates(pattern, recursive)
        is_dirs_first = _is_listing(where) or pattern == "**"
        found = self._matching(where, params, only_files, bufsize, dirs_first=is_dirs_first)
        return (info for info in found if match(info.path))

    def iterglob_infos_incl_excl(
        self,
        rules: Sequence[tuple[str, str]],
        default_include: bool = True,
        only_files: bool = False,
        bufsize: int | None = None,
    ) -> Iterator[BarecatEntryInfo]:
        """What rules let through: the first pattern that matches decides, ``+`` for yes and ``-`` for no."""
        keep = compile_rules(rules, default_include)
        return (info for info in self._matching("1", (), only_files, bufsize) if keep(info.path))


def _tables(only_files: bool) -> tuple[str, ...]:
    return ("files",) if only_files else ("dirs", "files")


def _is_listing(where: str) -> bool:
    return where.startswith("parent")


def _one_step(pattern: str) -> tuple[str, str] | None:
    """What is before and after the one directory that a pattern leaves open; None for patterns of other shapes."""
    parts = pattern.split("/")
    is_open = [fixed_prefix(part) != part for part in parts]
    if sum(is_open) != 1 or is_open[-1] or "[" in pattern:
        return None
    position = is_open.index(True)
    return "/".join(parts[:position]), "/".join(parts[position + 1 :])


def _chain(patterns: Sequence[tuple[bool, str]]) -> tuple[str, dict[str, str]]:
    """A condition from GLOBs that take (True) or leave out (False), and the values in it."""
    where = ""
    for number, (is_taken, _) in enumerate(patterns):
        link = "" if number == 0 else (" OR " if is_taken else " AND ")
        where += f"{link}path {'GLOB' if is_taken else 'NOT GLOB'} :p{number}"
    return where, {f"p{number}": normalize_path(pattern) for number, (_, pattern) in enumerate(patterns)}
