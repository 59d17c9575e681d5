"""Names of files and directories inside an archive, a tar, a zip or a folder."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["check_names", "check_new_name", "clean_name", "parent_of", "safe_name", "safe_names"]

_PERHAPS_ODD = ("/.", "//", "\n.", "\n/", "/\n", "\0")
_ODD = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|\0")  # an empty part, . or .. as a part, a NUL


def clean_name(name: PathLike) -> str:
    """The name as the index has it: no leading or doubled slashes, no ``.``; the root is the empty string.

    Example:
        >>> clean_name("./p//q/../r.txt"), clean_name("/abs/file/"), clean_name(".")
        ('p/r.txt', 'abs/file', '')
    """
    cleaned = posixpath.normpath(os.fspath(name)).lstrip("/")
    return "" if cleaned == "." else cleaned


def check_names(names: list[str]) -> None:
    """ValueError when one of these is a name that no file or directory can have; a hostile index may have it.

    It would lead out of a folder, or make a walk through directories go round for ever. The root has no name.
    """
    joined = "\n".join(("", *names, ""))
    if any(odd in joined for odd in _PERHAPS_ODD):  # a few quick looks, and for most lists that is all
        for name in names:
            _check_name(name)


def _check_name(name: str) -> None:
    if name and _ODD.search(name):
        leads_out = name.startswith("/") or ".." in name.split("/")
        problem = "leads out of the archive" if leads_out else "is not one that a file or directory can have"
        raise ValueError(f"the name {name!r} {problem}")


def check_new_name(name: str) -> str:
    """Refuse names that could not be extracted safely or stored at all; gives the name back."""
    if "\0" in name:
        raise ValueError(f"{name!r} has a NUL in it, which no file name can have")
    if name == ".." or name.startswith("../"):
        raise ValueError(f"{name!r} leads out of the archive; name it without '..'")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name!r} is not valid UTF-8, and the index holds only that; rename the file") from None
    return name


def parent_of(name: str) -> str:
    """The directory that a name is in.

    Example:
        >>> parent_of("a/b/c"), parent_of("a")
        ('a/b', '')
    """
    return name.rpartition("/")[0]


def safe_names(names: list[str]) -> list[str]:
    """Many names at once; see ``safe_name``.

    Example:
        >>> safe_names(["a/b", "./c"])
        ['a/b', 'c']
    """
    joined = "\n".join(("", *names, ""))
    is_plain = joined.isascii() and "\n\n" not in joined and not any(odd in joined for odd in _PERHAPS_ODD)
    return names if is_plain else [safe_name(name) for name in names]


def safe_name(name: str) -> str:
    """A name from an archive that stays inside the target; ValueError for one that does not.

    Example:
        >>> safe_name("./a//b")
        'a/b'
    """
    if name.startswith("/"):
        raise ValueError(f"{name!r} is an absolute path; names in an archive must be relative")
    if ".." in name.split("/"):
        raise ValueError(f"{name!r} leads out of the archive; it is refused")
    return check_new_name(clean_name(name))
