"""New files on their way into the index: many rows at once, and the statistics of directories by sums.

Row by row, the triggers would change every directory up to the root for each file. Here the files of a batch are
counted first, and each directory is changed once; the outcome is the same.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from headrace.errors import EntryExistsError, EntryIsDirectoryError, EntryIsFileError
from headrace.formats.entry_names import parent_of

if TYPE_CHECKING:
    import sqlite3

    from headrace.formats.barecat.index.connections import WriteConnection
    from headrace.formats.metadata import Metadata

__all__ = ["FileQueue", "triggers_off"]

_INSERT = "INSERT INTO files (path, shard, offset, size, crc32c, mode, uid, gid, mtime_ns) VALUES (?,?,?,?,?,?,?,?,?)"
_KNOWN = "SELECT EXISTS (SELECT 1 FROM files WHERE path = ?) + 2 * EXISTS (SELECT 1 FROM dirs WHERE path = ?)"
_COUNT = """UPDATE dirs SET num_files = num_files + ?, num_subdirs = num_subdirs + ?,
    num_files_tree = num_files_tree + ?, size_tree = size_tree + ?, mtime_ns = coalesce(?, mtime_ns) WHERE path = ?"""

_MAX_CONTENTS = 64
_MAX_NAMES = 50_000


class triggers_off:  # reads like a word
    """Switches the triggers off, inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")

    def __exit__(self, *exc_info: object) -> None:
        self._connection.execute("UPDATE config SET value_int = 1 WHERE key = 'use_triggers'")


class FileQueue:
    """Rows that are checked and not yet in the index; the owner flushes before anything else looks at it.

    Args:
        path: of the archive, for errors.
        connection: of the writer.
    """

    def __init__(self, path: str, connection: WriteConnection) -> None:
        self.path = path
        self._connection = connection
        self._waiting: dict[str, tuple[int | str | None, ...]] = {}
        self._known_dirs: set[str] = {""}
        self._new_dirs: set[str] = set()
        self._contents: dict[str, set[str]] = {}  # of directories that were made here: nothing else is in them

    def __len__(self) -> int:
        return len(self._waiting)

    def put_checked(self, name: str, place: tuple[int, int, int, int | None], about: Metadata) -> None:
        """Take a row whose name was checked, and nothing has changed since."""
        self._waiting[name] = (name, *place, *about)
        self._note(name)

    def check(self, name: str) -> None:
        """Raise if there can be no new file of this name."""
        if name in self._waiting:
            raise EntryExistsError(self.path, name)
        if name in self._known_dirs or name in self._new_dirs:
            raise EntryIsDirectoryError(self.path, name)
        parent = parent_of(name)
        contents = self._contents.get(parent)
        if contents is None or name in contents:
            state = self._state(name)
            if state:
                raise (EntryExistsError if state == 1 else EntryIsDirectoryError)(self.path, name)
        if parent not in self._known_dirs and parent not in self._new_dirs:
            self._check_dir(name, parent)

    def _state(self, name: str) -> int:
        """0 for nothing, 1 for a file, 2 for a directory in the index."""
        return int(self._connection.execute(_KNOWN, (name, name)).fetchone()[0])

    def _check_dir(self, name: str, directory: str) -> None:
        """Note a directory and all it lies in, those that have to be made apart."""
        found = []
        while directory not in self._known_dirs and directory not in self._new_dirs:
            state = self._state(directory)
            if state == 1 or directory in self._waiting:
                raise EntryIsFileError(self.path, name)
            if state == 2:
                self._known_dirs.add(directory)
                break
            found.append(directory)
            directory = parent_of(directory)
        self._new_dirs.update(found)
        for made in found:
            self.note_new_dir(made)

    def note_new_dir(self, name: str) -> None:
        """A directory has just been made, or will be: what is in it from now on is known without looking."""
        if len(self._contents) == _MAX_CONTENTS:
            del self._contents[next(iter(self._contents))]  # packing a tree does not come back to a directory
        self._contents[name] = set()
        self._note(name)

    def _note(self, name: str) -> None:
        parent = parent_of(name)
        contents = self._contents.get(parent)
        if contents is not None:
            contents.add(name)
            if len(contents) > _MAX_NAMES:
                del self._contents[parent]

    def forget_dirs(self) -> None:
        """Names were removed or moved: look them up again."""
        self._known_dirs = {""}
        self._contents.clear()

    def clear(self) -> None:
        """Forget the rows: the transaction is undone."""
        self._waiting.clear()

    def flush(self) -> None:
        """Put all rows into the index, inside the transaction of the owner; after an error a part may be there."""
        if not self._waiting:
            self._new_dirs.clear()  # they were noted for a name that was refused
            return
        made = self._needed_dirs()
        with triggers_off(self._connection):
            self._connection.executemany("INSERT INTO dirs (rowid, path) VALUES (?, ?)", self._numbered(made))
            self._connection.executemany(_COUNT, self._changes(made))
            self._connection.executemany(_INSERT, self._waiting.values())
        self._known_dirs.update(made)
        self._new_dirs.clear()
        self._waiting.clear()

    def _needed_dirs(self) -> list[str]:
        """Directories to make, in the order in which the triggers would make them: from each file upwards."""
        needed: dict[str, None] = {}
        for name in self._waiting:
            directory = parent_of(name)
            while directory in self._new_dirs and directory not in needed:
                needed[directory] = None
                directory = parent_of(directory)
        return list(needed)

    def _numbered(self, made: list[str]) -> list[tuple[int, str]]:
        """The rows of new directories: numbers tell the order of creation; a row must come after its parent's."""
        if not made:
            return []
        start = self._connection.execute("SELECT max(rowid) + 1 FROM dirs").fetchone()[0]
        return sorted(enumerate(made, start), key=lambda row: row[1])

    def _changes(self, made: list[str]) -> list[tuple[int | str | None, ...]]:
        files: defaultdict[str, int] = defaultdict(int)
        subdirs: defaultdict[str, int] = defaultdict(int)
        sizes: defaultdict[str, int] = defaultdict(int)
        for name, row in self._waiting.items():
            parent = parent_of(name)
            files[parent] += 1
            sizes[parent] += row[3]  # type: ignore[operator]
        for directory in made:
            subdirs[parent_of(directory)] += 1
        trees: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for directory, count in files.items():
            above = directory
            while True:
                trees[above][0] += count
                trees[above][1] += sizes[directory]
                if not above:
                    break
                above = parent_of(above)
        now = time.time_ns()
        return [
            (files[d], subdirs[d], *trees[d], now if files[d] or subdirs[d] else None, d)
            for d in set(trees) | set(subdirs)
        ]
