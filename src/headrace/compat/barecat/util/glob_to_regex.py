"""Patterns of paths as regular expressions, as patterns of SQLite's GLOB, and as tests of paths."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from headrace.formats.barecat.patterns import end_of_set, fixed_prefix, translate
from headrace.transfer.merge import rule_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "candidates",
    "compile_rules",
    "expand_doublestar",
    "glob_to_regex",
    "glob_to_sqlite",
    "make_filter",
    "matcher",
]

_DEEP = "**"
_MAX_EXPANDED = 2


def glob_to_regex(pat: str, *, recursive: bool = False, include_hidden: bool = False) -> str:
    r"""A regular expression for whole paths, with the rules of Python's ``glob``.

    Example:
        >>> bool(re.match(glob_to_regex("a/**/*.txt", recursive=True), "a/b/c/x.txt"))
        True
    """
    found = translate(pat, recursive=recursive, include_hidden=include_hidden, sets_hide=False)
    return rf"(?s:{found.pattern})\Z"


def expand_doublestar(pattern: str, recursive: bool = True) -> list[str]:
    """Patterns for SQLite, whose ``*`` crosses slashes, that together match at least what ``**`` matches.

    Example:
        >>> expand_doublestar("a/**/b")
        ['a/b', 'a/*/b']
    """
    parts = pattern.split("/")
    count = parts.count(_DEEP)
    if not recursive or not count:
        return [pattern]
    if pattern == _DEEP:
        return ["*"]
    if count > _MAX_EXPANDED:
        return [re.sub(r"(?:^|/)\*\*(?:/|$)", "*", pattern)]
    choices = [("", "*/") if part == _DEEP else (f"{part}/",) for part in parts]
    variants = dict.fromkeys("".join(chosen)[:-1] for chosen in itertools.product(*choices))
    return [one for one in variants if not any(_covers(other, one) for other in variants if other != one)]


def _covers(wide: str, narrow: str) -> bool:
    return wide.endswith("*") and narrow.startswith(f"{wide}/")


def glob_to_sqlite(pat: str) -> str:
    """The pattern as SQLite's GLOB writes it: sets are negated with ``^``, and a literal ``^`` may not come first.

    Example:
        >>> glob_to_sqlite("[!a]*"), glob_to_sqlite("[^a]"), glob_to_sqlite("a[b")
        ('[^a]*', '[a^]', 'a[[]b')
    """
    out, at = "", 0
    while at < len(pat):
        if pat[at] != "[":
            out += pat[at]
            at += 1
            continue
        end = end_of_set(pat, at + 1)
        if end < 0:
            out += "[[]"
            at += 1
            continue
        out += _set_to_sqlite(pat[at + 1 : end])
        at = end + 1
    return out


def _set_to_sqlite(body: str) -> str:
    if body.startswith("!"):
        return f"[^{body[1:]}]"
    rest = body.lstrip("^")
    if not rest:
        return "^"
    return f"[{rest}{'^' * (len(body) - len(rest))}]"


def matcher(pattern: str, recursive: bool, include_hidden: bool) -> Callable[[str], object]:
    """A test of whole paths."""
    return translate(pattern, recursive=recursive, include_hidden=include_hidden, sets_hide=False).fullmatch


def compile_rules(rules: Sequence[tuple[str, str]], default: bool = True) -> Callable[[str], bool]:
    """A test of paths: the first rule whose pattern matches decides, ``+`` for yes and ``-`` for no.

    Example:
        >>> keep = compile_rules([("+", "**/*.jpg"), ("-", "**")])
        >>> keep("a/b.jpg"), keep("a/b.txt")
        (True, False)
    """
    return rule_filter([*((sign == "+", pattern) for sign, pattern in rules), (default, "**")])


def make_filter(pattern: str | None, rules: Sequence[tuple[str, str]] | None) -> Callable[[str], object]:
    """A test of paths from a pattern or from rules; without both, everything passes."""
    return compile_rules(rules or ()) if pattern is None else matcher(pattern, True, True)


def candidates(pattern: str, recursive: bool) -> tuple[str, tuple[str, ...]]:
    """A condition for SQLite that holds for all that may match: one directory if that is clear, else a range."""
    prefix = fixed_prefix(pattern)
    if prefix == pattern:
        return "path = ?", (pattern,)
    parent, _, name = pattern.rpartition("/")
    if fixed_prefix(parent) == parent and not (recursive and name == "**") and "[" not in name:
        return "parent = ?", (parent,)
    if not prefix:
        return "1", ()
    return "path >= ? AND path < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
