"""What a field may be called: names of files are made of it, and tables on terminals.

Slashes part a name as groups do in an HDF5 file (``target/box``). Where files are named after fields they become dots.
"""

from __future__ import annotations

import unicodedata

__all__ = ["problem_with_name"]


def problem_with_name(name: object) -> str | None:
    """Why something cannot be the name of a field, in words; None when it can.

    Example:
        >>> problem_with_name("label"), problem_with_name("target/box"), problem_with_name("../x")
        (None, None, "'../x' has a slash with no name beside it")
    """
    if not isinstance(name, str):
        return f"{name!r} is not text"
    if not name or name in (".", ".."):
        return f"{name!r} is no name"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return f"{name!r} has a slash with no name beside it"
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in name):
        return f"{name!r} has a control character in it"
    return None
