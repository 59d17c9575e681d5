"""Patterns of paths as regular expressions, as patterns of SQLite's GLOB, and as tests of paths."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from headrace.formats.patterns import end_of_set, fixed_prefix, translate_part

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


def glob_to_regex(
    pat: str, *, recursive: bool = False, include_hidden: bool = False, seps: str | Sequence[str] | None = None
) -> str:
    r"""A regular expression for whole paths, with the rules of Python's ``glob``.

    Example:
        >>> bool(re.match(glob_to_regex("a/**/*.txt", recursive=True), "a/b/c/x.txt"))
        True
    """
    separators = seps or (os.sep + (os.altsep or ""))
    quoted = "".join(map(re.escape, separators))
    step = f"[{quoted}]" if len(separators) > 1 else quoted
    inside = f"[^{quoted}]"
    name = f"{inside}+" if include_hidden else f"[^{quoted}.]{inside}*"
    below = f"(?:.+{step})?" if include_hidden else f"(?:{name}{step})*"
    all_below = ".*" if include_hidden else f"{below}(?:{name})?"
    parts = re.split(step, pat)
    out = ""
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        is_last = following is None
        if recursive and part == _DEEP:
            if is_last:
                out += all_below
            elif following != _DEEP:
                out += below
            continue
        if part == "*":
            out += name
        else:
            hides = not include_hidden and part[:1] in ("*", "?")
            out += (r"(?!\.)" if hides else "") + translate_part(part, inside)
        out += "" if is_last else step
    return rf"(?s:{out})\Z"


def expand_doublestar(pattern: str, recursive: bool = True) -> list[str]:
    """Patterns for SQLite, whose ``*`` crosses slashes, that together match at least what ``**`` matches.

    Example:
        >>> expand_doublestar("a/**/b")
        ['a/b', 'a/*/b']
    """
    count = pattern.startswith("**/") + pattern.endswith("/**") + pattern.count("/**/") + (pattern == _DEEP)
    if not recursive or not count:
        return [pattern]
    if count > _MAX_EXPANDED:
        return [_flatten(pattern)]
    variants = _replace([pattern], lambda v: [v[3:], f"*/{v[3:]}"] if v.startswith("**/") else None)
    variants = _replace(
        variants, lambda v: [v.replace("/**/", new, 1) for new in ("/", "/*/")] if "/**/" in v else None
    )
    variants = _replace(variants, lambda v: [v[:-3], f"{v[:-3]}/*"] if v.endswith("/**") else None)
    variants = list(dict.fromkeys("*" if v == _DEEP else v for v in variants))
    if "*" in variants:
        return ["*"]
    return [v for v in variants if not any(_covers(other, v) for other in variants if other != v)]


def _replace(variants: list[str], alternatives: Callable[[str], list[str] | None]) -> list[str]:
    """Put alternatives in the place of every pattern that has some, until none has."""
    done: list[str] = []
    waiting = list(reversed(variants))
    while waiting:
        one = waiting.pop()
        found = alternatives(one)
        if found is None:
            done.append(one)
        else:
            waiting.extend(reversed(found))
    return done


def _flatten(pattern: str) -> str:
    flat = pattern.replace("/**/", "*")
    flat = f"*{flat[3:]}" if flat.startswith("**/") else flat
    flat = f"{flat[:-3]}*" if flat.endswith("/**") else flat
    return "*" if flat == _DEEP else flat


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
    return re.compile(glob_to_regex(pattern, recursive=recursive, include_hidden=include_hidden)).match


def compile_rules(rules: Sequence[tuple[str, str]], default: bool = True) -> Callable[[str], bool]:
    """A test of paths: the first rule whose pattern matches decides, ``+`` for yes and ``-`` for no.

    Example:
        >>> keep = compile_rules([("+", "**/*.jpg"), ("-", "**")])
        >>> keep("a/b.jpg"), keep("a/b.txt")
        (True, False)
    """
    tests = [(sign == "+", matcher(glob, "**" in glob, True)) for sign, glob in rules]
    return lambda path: next((is_taken for is_taken, match in tests if match(path)), default)


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
