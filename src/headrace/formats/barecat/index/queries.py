"""Questions to the index.

An index is hostile input: whatever SQLite finds wrong with it, and values that are no names or numbers, come out as
``FormatError``.
"""

from __future__ import annotations

import sqlite3
from functools import partial, wraps
from itertools import chain, islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from headrace._native import FileRows, NativeError
from headrace.errors import EntryIsDirectoryError, EntryIsFileError, EntryNotFoundError, FormatError, HeadraceError
from headrace.formats.barecat.index.connections import translated
from headrace.formats.barecat.index.rows import (
    DIR_COLUMNS,
    FILE_COLUMNS,
    DirInfo,
    FileInfo,
    Place,
    check_place,
    make_dir_info,
    make_file_info,
)
from headrace.formats.barecat.index.schema import UNLIMITED
from headrace.formats.entry_names import check_names
from headrace.formats.patterns import fixed_prefix, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace._native import FileTable

__all__ = ["Index", "ListOrder"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

ListOrder = Literal["any", "path", "address", "random"]
_ORDERS: dict[str, str] = {
    "any": "",
    "path": " ORDER BY path",
    "address": " ORDER BY shard, offset",
    "random": " ORDER BY random()",
}
_CHUNK = 500  # names in one question
_BLOCK = 1024  # rows made at once
_PLACE = "SELECT shard, offset, size, crc32c FROM files WHERE path = ?"
_PLACES_BY_PATH = "SELECT path, shard, offset, size, crc32c FROM files ORDER BY path"
_FILE = f"SELECT {FILE_COLUMNS} FROM files"
_DIR = f"SELECT {DIR_COLUMNS} FROM dirs"
_INDEX_BYTES = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
_MANY = 1 << 20  # up to here it does no harm to believe the statistics, by which callers may reserve memory
_LEAST_ROW_BYTES = 16  # a row and its entries in the indexes of the table
_ODD_PARTS = ("/", "\n\n", "\n.\n", "\n..\n", "\0")  # in names with newlines between them
_BAD = (sqlite3.DatabaseError, TypeError, ValueError)  # the last two: text where a number should be, and the like


def _answered(method: Callable[Concatenate[Index, _P], _R]) -> Callable[Concatenate[Index, _P], _R]:
    """Turns what SQLite says into our errors; if the index was changed meanwhile, the question is asked again."""

    @wraps(method)
    def ask(self: Index, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        while True:
            changes = self._changes()  # before the question: another thread may notice a change right after it
            try:
                return method(self, *args, **kwargs)
            except HeadraceError:
                raise
            except _BAD as error:
                if not self._is_changed(changes):
                    raise self._failed(error) from error

    return ask


class Index:
    """Look-ups, listings and totals; names must be clean.

    Args:
        path: of the archive, for errors.
        cursor: gives a cursor to use at once.
        new_cursor: gives one for results that are fetched little by little.
        table: the files without SQLite, while nobody writes.
        refresh: tells whether the index was changed since it was opened, and if so follows the changes.
        failure: makes one of our errors from what SQLite says.
        changes: gives another number after each change of the index, whichever thread noticed it.
    """

    def __init__(
        self,
        path: str,
        cursor: Callable[[], sqlite3.Cursor],
        new_cursor: Callable[[], sqlite3.Cursor],
        *,
        table: FileTable | None = None,
        refresh: Callable[[], bool] = lambda: False,
        failure: Callable[[Exception], Exception] | None = None,
        changes: Callable[[], int] = lambda: 0,
    ) -> None:
        self.path = path
        self._cursor = cursor
        self._new_cursor = new_cursor
        self.table = table
        self._refresh = refresh
        self._failure = failure
        self._changes = changes

    def _listed(self, make: Callable[[Iterator[Any]], Iterator[_T]], question: str, *arguments: object) -> Iterator[_T]:
        """Rows of a question that are fetched little by little, with our errors."""
        changes = self._changes()  # before the question: another thread may notice a change right after it
        return self._guarded(make(self._ask(question, *arguments)), changes)

    def _guarded(self, rows: Iterator[_T], changes: int) -> Iterator[_T]:
        try:
            yield from rows
        except HeadraceError:
            raise
        except _BAD as error:
            if self._is_changed(changes):
                problem, fix = "the index was changed by somebody else while it was listed", "List it again."
                raise FormatError(self.path, problem=problem, fix=fix) from error
            raise self._failed(error) from error

    def _is_changed(self, changes: int) -> bool:
        """The index is not the same any more as when there were so many changes."""
        is_changed = self._refresh() or self._changes() != changes
        if is_changed:
            self.table = None
        return is_changed

    def _failed(self, error: Exception) -> Exception:
        return translated(self.path, error) if self._failure is None else self._failure(error)

    @_answered
    def _ask(self, question: str, *arguments: object) -> Iterator[Any]:
        return self._new_cursor().execute(question, arguments)

    def _row(self, question: str, name: str) -> Any:
        try:
            return self._cursor().execute(question, (name,)).fetchone()
        except UnicodeEncodeError:
            return None  # a name that no index can have

    @_answered
    def place(self, name: str) -> tuple[int, int, int, int | None] | None:
        """Shard, offset, size and CRC-32C of a file, or None."""
        found: tuple[int, int, int, int | None] | None = self._row(_PLACE, name)
        if found is not None:
            check_place(name, found)
        return found

    @_answered
    def places(self, names: Sequence[str]) -> dict[str, Place]:
        """Places of those names that are files."""
        found: dict[str, Place] = {}
        cursor = self._cursor()
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            marks = ",".join("?" * len(part))
            rows = cursor.execute(
                f"SELECT path, shard, offset, size, crc32c FROM files WHERE path IN ({marks})", tuple(part)
            )
            for path, *place in rows:
                check_place(path, place)
                found[path] = Place._make(place)
        return found

    @_answered
    def file(self, name: str) -> FileInfo | None:
        """All about a file, or None."""
        row = self._row(f"{_FILE} WHERE path = ?", name)
        return None if row is None else make_file_info(row)

    @_answered
    def directory(self, name: str) -> DirInfo | None:
        """All about a directory, or None."""
        row = self._row(f"{_DIR} WHERE path = ?", name)
        return None if row is None else make_dir_info(row)

    def entry(self, name: str) -> FileInfo | DirInfo:
        """All about a file or directory, which must exist."""
        found = self.file(name) or self.directory(name)
        if found is None:
            raise EntryNotFoundError(self.path, name)
        return found

    def missing_file(self, name: str) -> EntryIsDirectoryError | EntryNotFoundError:
        """The error for a name that is no file."""
        return (EntryIsDirectoryError if self.is_dir(name) else EntryNotFoundError)(self.path, name)

    def check_dir(self, name: str) -> None:
        """Raise unless there is such a directory."""
        if not self.is_dir(name):
            raise (EntryIsFileError if self.is_file(name) else EntryNotFoundError)(self.path, name)

    @_answered
    def is_file(self, name: str) -> bool:
        """There is such a file."""
        return self._row("SELECT 1 FROM files WHERE path = ?", name) is not None

    @_answered
    def is_dir(self, name: str) -> bool:
        """There is such a directory."""
        return self._row("SELECT 1 FROM dirs WHERE path = ?", name) is not None

    def cursor(self) -> sqlite3.Cursor:
        """A cursor of its own, for questions that this class does not know."""
        return self._new_cursor()

    @_answered
    def number(self, question: str, *arguments: object) -> int:
        """The one number that a question gives; 0 for nothing."""
        return int(self._cursor().execute(question, arguments).fetchone()[0] or 0)

    def rows(self, question: str, *arguments: object) -> Iterator[Any]:
        """All rows of a question."""
        return self._listed(iter, question, *arguments)

    @_answered
    def count_files(self) -> int:
        """How many files there are; the root's statistics know."""
        row = self._cursor().execute("SELECT num_files_tree FROM dirs WHERE path = ''").fetchone()
        count = -1 if row is None else _count_in(row)
        is_doubtful = count > _MANY and count > self.number(_INDEX_BYTES) // _LEAST_ROW_BYTES
        return self.number("SELECT count(*) FROM files") if row is None or is_doubtful else count

    @_answered
    def count_dirs(self) -> int:
        """How many directories there are, the root included."""
        return self.number("SELECT count(*) FROM dirs")

    @_answered
    def total_size(self) -> int:
        """Bytes of all files."""
        row = self._cursor().execute("SELECT size_tree FROM dirs WHERE path = ''").fetchone()
        return self.number("SELECT sum(size) FROM files") if row is None else _count_in(row)

    def files(self, order: ListOrder = "any", below: str = "") -> Iterator[FileInfo]:
        """All files, or those below a directory."""
        if order == "any" and not below and self.table is not None:
            return chain.from_iterable(self._blocks(self.table))
        where, arguments = _below(below)
        question = f"{_FILE}{where}{_ORDERS[order]}"
        return self._listed(partial(_made, make_file_info), question, *arguments)

    def _blocks(self, table: FileTable) -> Iterator[Iterable[FileInfo]]:
        rows, count = FileRows(table, FileInfo), 0
        try:
            while block := rows.block(_BLOCK):
                count += len(block)
                yield block
        except (NativeError, UnicodeError):  # SQLite says what is wrong
            yield islice(self._listed(partial(_made, make_file_info), _FILE), count, None)

    def dirs(self, order: ListOrder = "any", below: str = "") -> Iterator[DirInfo]:
        """All directories with the root, or those below a directory, which does not count."""
        where, arguments = _below(below)
        question = f"{_DIR}{where}{_ORDERS[order]}"
        return self._listed(partial(_made, make_dir_info), question, *arguments)

    def places_by_path(self) -> Iterator[tuple[str, int, int, int, int | None]]:
        """Path, shard, offset, size and CRC-32C of all files, sorted by path."""
        return self._listed(partial(_made, _checked_place), _PLACES_BY_PATH)

    def file_names(self, order: ListOrder = "any") -> Iterator[str]:
        """Paths of all files."""
        return self._listed(_names, f"SELECT path FROM files{_ORDERS[order]}")

    def dir_names(self, order: ListOrder = "any") -> Iterator[str]:
        """Paths of all directories."""
        return self._listed(_names, f"SELECT path FROM dirs{_ORDERS[order]}")

    @_answered
    def files_in(self, name: str) -> list[FileInfo]:
        """The files directly in a directory."""
        found = list(_made(make_file_info, self._cursor().execute(f"{_FILE} WHERE parent = ?", (name,))))
        _check_inside(name, [info.path for info in found])
        return found

    @_answered
    def dirs_in(self, name: str) -> list[DirInfo]:
        """The directories directly in a directory."""
        found = list(_made(make_dir_info, self._cursor().execute(f"{_DIR} WHERE parent = ?", (name,))))
        _check_inside(name, [info.path for info in found])
        return found

    @_answered
    def names_in(self, name: str) -> tuple[list[str], list[str]]:
        """Names (last parts) of the directories and files directly in a directory."""
        cursor = self._cursor()
        dirs = cursor.execute("SELECT path FROM dirs WHERE parent = ?", (name,)).fetchall()
        files = cursor.execute("SELECT path FROM files WHERE parent = ?", (name,)).fetchall()
        return _last_parts(name, dirs), _last_parts(name, files)

    def walk(self, name: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``, from the top down; see ``Archive.walk``."""
        self.check_dir(name)
        waiting = [name]
        while waiting:
            directory = waiting.pop()
            dirs, files = self.names_in(directory)
            yield directory, dirs, files
            prefix = f"{directory}/" if directory else ""
            waiting.extend(prefix + child for child in reversed(dirs))

    def matching(self, pattern: str, *, recursive: bool, include_hidden: bool) -> Iterator[str]:
        """Paths that match a pattern of Python's ``glob``, files first."""
        match = translate(pattern, recursive=recursive, include_hidden=include_hidden).fullmatch
        # Text that a GLOB of SQLite takes literally.
        prefix = "".join(f"[{char}]" if char in "*?[" else char for char in fixed_prefix(pattern))
        for table in ("files", "dirs"):
            question = f"SELECT path FROM {table} WHERE path GLOB ?"
            for path in self._listed(_names, question, f"{prefix}*"):
                if path and match(path):
                    yield path
        if pattern.endswith("/") or (recursive and pattern.endswith("/**")):
            yield from (f"{path}/" for path in self.dir_names() if path and match(f"{path}/"))

    @_answered
    def last_file(self) -> FileInfo | None:
        """The file with the highest address."""
        row = self._cursor().execute(f"{_FILE} ORDER BY shard DESC, offset DESC LIMIT 1").fetchone()
        return None if row is None else make_file_info(row)

    @_answered
    def shard_ends(self) -> dict[int, int]:
        """For every shard that has files, the byte after the last one."""
        rows = self._cursor().execute("SELECT shard, max(offset + size) FROM files GROUP BY shard").fetchall()
        return dict(rows)

    @_answered
    def shard_end(self, shard: int) -> int:
        """The byte after the last file of one shard, quickly."""
        # Files do not overlap: the one with the highest offset that has bytes ends last.
        row = (
            self._cursor()
            .execute(
                "SELECT offset + size FROM files WHERE shard = ? AND size > 0 ORDER BY offset DESC LIMIT 1", (shard,)
            )
            .fetchone()
        )
        return 0 if row is None else int(row[0])

    @_answered
    def config(self, key: str) -> int | None:
        """A number from the table of settings."""
        row = self._row("SELECT value_int FROM config WHERE key = ?", key)
        if row is not None and type(row[0]) not in (int, NoneType):
            raise TypeError(f"the setting {key} is {row[0]!r}, not a number")
        return None if row is None else row[0]

    def shard_size(self) -> int | None:
        """The limit of a shard, or None when there is none."""
        limit = self.config("shard_size_limit")
        return None if limit is None or limit >= UNLIMITED else limit


def _count_in(row: tuple[int]) -> int:
    if type(row[0]) is not int or row[0] < 0:
        raise TypeError(f"the statistics of the root say {row[0]!r}")
    return row[0]


def _checked_place(row: tuple[str, int, int, int, int | None]) -> tuple[str, int, int, int, int | None]:
    check_place(row[0], row[1:])
    return row


def _check_inside(name: str, paths: list[str]) -> None:
    """Raise where the index of parents is damaged, so that a walk down comes to an end."""
    prefix = f"{name}/" if name else ""
    cut = len(prefix)
    for path in paths:
        if not path.startswith(prefix) or "/" in path[cut:] or path == name:
            raise ValueError(f"{path!r} is listed in the directory {name!r}")
    if len(set(paths)) < len(paths):
        raise ValueError(f"the directory {name!r} lists a name twice")


def _last_parts(name: str, rows: list[tuple[str]]) -> list[str]:
    """What paths have after the directory that they lie in; raises where they are not of it, or odd.

    A few looks at all of them together tell that nothing is wrong; else one by one says what it is.
    """
    prefix = f"{name}/" if name else ""
    cut = len(prefix)
    paths = [path for (path,) in rows]
    parts = [path[cut:] for path in paths]
    whole, rest = "\n".join(("", *paths)), "\n".join(("", *parts, ""))
    if (
        whole.count("\n") != len(paths)
        or whole.count(f"\n{prefix}") != len(paths)
        or len(set(parts)) < len(parts)
        or any(odd in rest for odd in _ODD_PARTS)
    ):
        check_names(paths)
        _check_inside(name, paths)
    return parts


def _made(make: Callable[[Any], _T], rows: Iterator[Any]) -> Iterator[_T]:
    """Rows that begin with a path, made into something; their names are ones that files and directories can have."""
    while block := list(islice(rows, _BLOCK)):
        made = list(map(make, block))
        check_names([row[0] for row in block])
        yield from made


def _names(rows: Iterator[tuple[str]]) -> Iterator[str]:
    while block := [path for (path,) in islice(rows, _BLOCK)]:
        check_names(block)
        yield from block


def _below(name: str) -> tuple[str, tuple[str, ...]]:
    """A condition for everything below a directory: a range of the path index ('0' follows '/')."""
    return (" WHERE path > ? AND path < ?", (f"{name}/", f"{name}0")) if name else ("", ())
