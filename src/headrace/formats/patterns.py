"""Patterns of paths, as Python's ``glob`` has them."""

from __future__ import annotations

import functools
import re

__all__ = ["end_of_set", "fixed_prefix", "translate", "translate_part"]

_SPECIAL = re.compile(r"[*?[]")


@functools.lru_cache(256)
def translate(pattern: str, *, recursive: bool, include_hidden: bool) -> re.Pattern[str]:
    """A regular expression for whole paths.

    ``*`` and ``?`` do not cross a slash and, without ``include_hidden``, match no leading dot; ``**`` as a whole part
    matches any number of directories if ``recursive``, and is a ``*`` otherwise.

    Example:
        >>> bool(translate("a/**/*.txt", recursive=True, include_hidden=False).fullmatch("a/b/c/x.txt"))
        True
    """
    visible = "" if include_hidden else r"(?!\.)"
    parts = pattern.split("/")
    out = ""
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        if part == "**" and recursive:
            step = rf"{visible}[^/]+"
            out += rf"(?:{step}(?:/{step})*)?" if is_last else rf"(?:{step}/)*"
            continue
        if _SPECIAL.match(part):
            out += visible
        out += translate_part(part, "[^/]", "(?!/)") + ("" if is_last else "/")
    return re.compile(out, re.DOTALL)


def translate_part(part: str, inside: str, before_set: str = "") -> str:
    """One part of a path as a regular expression; ``before_set`` goes before every set in brackets."""
    out, at = "", 0
    while at < len(part):
        char = part[at]
        if char == "*":
            out += f"{inside}*"
            at += len(part[at:]) - len(part[at:].lstrip("*"))
            continue
        if char == "[" and (end := end_of_set(part, at + 1)) > 0:
            out += before_set + _translate_set(part[at + 1 : end])
            at = end + 1
            continue
        out += inside if char == "?" else re.escape(char)
        at += 1
    return out


def end_of_set(pattern: str, start: int) -> int:
    """Where a set in brackets ends; -1 if it does not. A bracket at its beginning is part of it."""
    start += pattern[start : start + 1] == "!"
    start += pattern[start : start + 1] == "]"
    return pattern.find("]", start)


def _translate_set(body: str) -> str:
    is_negated = body.startswith("!")
    chars = body[1:] if is_negated else body
    items, at = "", 0
    while at < len(chars):
        if chars[at + 1 : at + 2] == "-" and at + 2 < len(chars):
            low, high = chars[at], chars[at + 2]
            items += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
            at += 3
        else:
            items += re.escape(chars[at])
            at += 1
    if not items:
        return "." if is_negated else "(?!)"
    return f"[{'^' if is_negated else ''}{items}]"


def fixed_prefix(pattern: str) -> str:
    """The part of a pattern before anything special.

    Example:
        >>> fixed_prefix("train/cat*/x.jpg")
        'train/cat'
    """
    match = _SPECIAL.search(pattern)
    return pattern[: match.start()] if match else pattern
