"""Patterns of paths, as Python's ``glob`` has them."""

from __future__ import annotations

import functools
import re

__all__ = ["fixed_prefix", "translate"]

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
        out += _translate_part(part) + ("" if is_last else "/")
    return re.compile(out, re.DOTALL)


def _translate_part(part: str) -> str:
    out, i = "", 0
    while i < len(part):
        char = part[i]
        i += 1
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "[":
            end = part.find("]", i + 1 + (part[i : i + 1] == "!"))
            if end < 0:
                out += r"\["
                continue
            out += _translate_set(part[i:end])
            i = end + 1
        else:
            out += re.escape(char)
    return out


def _translate_set(body: str) -> str:
    negated = body.startswith("!")
    body = body[1:] if negated else body
    pieces = re.sub(r"([\\\[\]^&~|])", r"\\\1", body)
    if body.count("-") == 1 and 0 < body.index("-") < len(body) - 1 and body[0] > body[-1]:
        return "(?!)" if not negated else "[^/]"
    return f"(?!/)[{'^' if negated else ''}{pieces}]"


def fixed_prefix(pattern: str) -> str:
    """The part of a pattern before anything special.

    Example:
        >>> fixed_prefix("train/cat*/x.jpg")
        'train/cat'
    """
    match = _SPECIAL.search(pattern)
    return pattern[: match.start()] if match else pattern
