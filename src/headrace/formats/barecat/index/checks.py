"""Checking the index of an archive: the SQLite file, and whether its tables agree with each other."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from headrace.errors import FormatError
from headrace.formats.barecat.index.table import indexes_agree, pages_are_sound
from headrace.progress import format_count
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat.index.queries import Index

__all__ = ["file_problems", "table_problems"]

_COUNTED = (
    ("directory", ""),
    ("file", ""),
    ("file", " in the whole tree"),
    ("byte", " in the whole tree"),
)


def _problem(message: str) -> Problem:
    return Problem(sample=None, field=None, message=message)


def table_problems(index: Index) -> list[Problem]:
    """What is wrong with what the tables say."""
    found: list[Problem] = []
    try:
        found += map(_problem, chain(_clashes(index), _directory_problems(index)))
    except (FormatError, OSError) as error:
        found.append(_problem(getattr(error, "problem", None) or str(error)))
    return found


def file_problems(index: Index) -> list[Problem]:
    """What is wrong with the SQLite file.

    Its own check takes longest where it goes through all pages and looks up every row in every index. That is done
    natively for all pages, and for the files, which are most rows; the other tables are left to SQLite. Where this
    finds anything, or cannot tell, SQLite looks at everything and says what it is.
    """
    try:
        checks = ["integrity_check"]
        table = index.table
        if table is not None and pages_are_sound(table, index.cursor()) and indexes_agree(table, index.cursor):
            others = index.rows("SELECT quote(name) FROM sqlite_master WHERE type = 'table' AND name <> 'files'")
            checks = [f"integrity_check({name})" for (name,) in others]
        found = chain.from_iterable(index.rows(f"PRAGMA {check}") for check in checks)
        return [_problem(f"index: {text}") for (text,) in found if text != "ok"]
    except (FormatError, OSError, UnicodeError) as error:
        return [_problem(getattr(error, "problem", None) or str(error))]


def _clashes(index: Index) -> Iterator[str]:
    for (path,) in index.rows("SELECT path FROM dirs WHERE EXISTS (SELECT 1 FROM files WHERE files.path = dirs.path)"):
        yield f"{path}: is both a file and a directory"


def _directory_problems(index: Index) -> Iterator[str]:
    """Directories that are missing, and those whose statistics are not those of what is in them."""
    files = _sums(index, "SELECT parent, count(*), sum(size), 0 FROM files GROUP BY parent")
    below = _sums(
        index,
        "SELECT parent, count(*), sum(num_files_tree), sum(size_tree) FROM dirs WHERE path <> '' GROUP BY parent",
    )
    paths = set()
    question = "SELECT path, num_subdirs, num_files, num_files_tree, size_tree FROM dirs"
    for path, *counted in index.rows(question):
        paths.add(path)
        num_files, size, _ = files.get(path, (0, 0, 0))
        num_dirs, files_below, size_below = below.get(path, (0, 0, 0))
        there = (num_dirs, num_files, num_files + files_below, size + size_below)
        for (noun, where), stored, true in zip(_COUNTED, counted, there, strict=True):
            if stored != true:
                yield f"{path or 'the root'}: has {format_count(true, noun)}{where}, the index says {stored}"
    if "" not in paths:
        yield "the root directory is not in the index"
    for table, parents in (("files", files), ("dirs", below)):
        for parent in parents.keys() - paths:
            for (path,) in index.rows(f"SELECT path FROM {table} WHERE parent IS ? AND path <> ''", parent):
                yield f"{path}: its directory {parent or 'the root'} is not in the index"


def _sums(index: Index, question: str) -> dict[str, tuple[int, int, int]]:
    return {path: (first or 0, second or 0, third or 0) for path, first, second, third in index.rows(question)}
