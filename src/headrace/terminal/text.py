"""Text from files, for terminals and pages."""

from __future__ import annotations

import unicodedata

__all__ = ["cut", "printable", "width_of"]


def printable(text: str) -> str:
    r"""Text for a terminal: characters that would disturb it or mislead its reader are shown as escapes.

    These are control characters, those that change the direction of text or are not seen, line ends, and bytes of
    names that are not UTF-8.

    Example:
        >>> printable("a\nb\u202ec")
        'a\\nb\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def cut(text: str, most: int) -> str:
    """Printable text that takes at most so many columns.

    Example:
        >>> cut("a long name", 7), cut("short", 7)
        ('a long…', 'short')
    """
    shown = printable(text[: most + 1])
    if width_of(shown) <= most and len(text) <= most:
        return shown
    kept, width = [], 0
    for char in shown:
        width += width_of(char)
        if width >= most:
            break
        kept.append(char)
    return "".join(kept) + "…"


def width_of(text: str) -> int:
    """Columns that printable text takes: two for wide characters, none for accents that stand above others."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)
