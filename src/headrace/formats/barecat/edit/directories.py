"""Changes to the index alone: directories, names, metadata. No bytes of a shard are touched."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from headrace.errors import (
    DirectoryNotEmptyError,
    EntryExistsError,
    EntryIsDirectoryError,
    EntryIsFileError,
    EntryNotFoundError,
)
from headrace.formats.barecat.index.connections import translated
from headrace.formats.barecat.index.row_queue import triggers_off
from headrace.formats.entry_names import check_new_name, parent_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.formats.barecat.edit.transactions import Transactions
    from headrace.formats.metadata import Metadata

__all__ = ["Directories", "delete_below", "move_tree", "named_error"]


def move_tree(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Give a directory another name in all rows below it."""
    connection.execute("PRAGMA defer_foreign_keys = 1")  # until the commit: children follow below
    connection.execute("UPDATE dirs SET path = ? WHERE path = ?", (new, old))
    with triggers_off(connection):
        for table in ("files", "dirs"):
            connection.execute(
                f"UPDATE {table} SET path = ? || substr(path, ?) WHERE path > ? AND path < ?",
                (new, len(old) + 1, f"{old}/", f"{old}0"),
            )


def delete_below(connection: sqlite3.Connection, name: str) -> None:
    """Delete all rows below a directory, without counting them."""
    bounds = (f"{name}/", f"{name}0") if name else ("", b"")  # every text comes before a blob
    found = connection.execute("SELECT path FROM dirs WHERE path > ? AND path < ?", bounds).fetchall()
    below = sorted((tuple(row) for row in found), key=lambda row: len(row[0]), reverse=True)  # the deepest first
    with triggers_off(connection):
        connection.execute("DELETE FROM files WHERE path >= ? AND path < ?", bounds)
        connection.executemany("DELETE FROM dirs WHERE path = ?", below)


def named_error(path: str, name: str, error: sqlite3.IntegrityError) -> Exception:
    """What the triggers and constraints of an index have against a row of this name."""
    text = str(error)
    if "as directory" in text:
        return EntryIsDirectoryError(path, name)
    if "as file" in text:
        return EntryIsFileError(path, name)
    return EntryExistsError(path, name) if "UNIQUE" in text else translated(path, error)


class Directories:
    """Changes directories, names and metadata of an archive that is open for writing."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._connection = transactions.connection
        self._queue = transactions.queue
        self._index = transactions.index

    def make_dir(self, name: str, about: Metadata, *, exist_ok: bool) -> None:
        """Make a directory, and those it lies in; with ``exist_ok`` one that exists takes the new metadata."""
        with self._transactions.lock:
            self._transactions.begin(is_addition=True)
            check_new_name(name)
            if self._index.is_dir(name):
                if not exist_ok:
                    raise EntryExistsError(self._index.path, name)
                if any(value is not None for value in about):
                    self.set_metadata(name, about)
                return
            if self._index.is_file(name):
                raise EntryIsFileError(self._index.path, name) if exist_ok else EntryExistsError(self._index.path, name)
            try:
                self._connection.execute(
                    "INSERT INTO dirs (path, mode, uid, gid, mtime_ns) VALUES (?, ?, ?, ?, ?)", (name, *about)
                )
            except sqlite3.IntegrityError as error:
                raise self._named(error, name) from error
            with self._transactions.whole:
                self._queue.note_new_dir(name)
            self._transactions.count(0)

    def remove_dir(self, name: str) -> None:
        """Remove an empty directory."""
        with self._transactions.lock:
            self._transactions.begin()
            self._index.check_dir(name)
            dirs, files = self._index.names_in(name)
            if dirs or files or name == "":
                raise DirectoryNotEmptyError(self._index.path, name)
            with self._changing(name) as connection:
                connection.execute("DELETE FROM dirs WHERE path = ?", (name,))

    def remove_tree(self, name: str) -> None:
        """Remove a directory and everything below; of the root, everything below."""
        with self._transactions.lock:
            self._transactions.begin()
            self._index.check_dir(name)  # also puts into the index what is still waiting
            with self._changing(name) as connection:
                delete_below(connection, name)
                if name:
                    connection.execute("DELETE FROM dirs WHERE path = ?", (name,))
                else:
                    connection.execute(
                        "UPDATE dirs SET num_subdirs = 0, num_files = 0, num_files_tree = 0, size_tree = 0"
                    )

    def rename(self, old: str, new: str) -> None:
        """Give a file or a directory another name; directories on the way are made."""
        with self._transactions.lock:
            self._transactions.begin()
            check_new_name(new)
            is_file = self._index.is_file(old)
            if not is_file and not self._index.is_dir(old):
                raise EntryNotFoundError(self._index.path, old)
            if old == new:
                return
            if not is_file and (old == "" or new.startswith(f"{old}/")):
                raise ValueError(
                    f"{self._index.path}: {old or 'the root'} cannot be moved to {new}, which lies inside it"
                )
            if self._index.is_file(new) or self._index.is_dir(new):
                raise EntryExistsError(self._index.path, new)
            self._refuse_below_file(new)
            makes_parent = parent_of(new) and not self._index.is_dir(parent_of(new))
            with self._changing(old) as connection:
                if makes_parent:
                    connection.execute("INSERT INTO dirs (path) VALUES (?)", (parent_of(new),))
                if is_file:
                    connection.execute("UPDATE files SET path = ? WHERE path = ?", (new, old))
                else:
                    move_tree(connection, old, new)

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[sqlite3.Connection]:
        """The connection, for changes to rows that happen all or not at all."""
        try:
            with self._transactions.changing() as connection:
                yield connection
        except sqlite3.IntegrityError as error:
            raise self._named(error, name) from error

    def _refuse_below_file(self, name: str) -> None:
        parent = parent_of(name)
        while parent and not self._index.is_dir(parent):
            if self._index.is_file(parent):
                raise EntryIsFileError(self._index.path, name)
            parent = parent_of(parent)

    def _named(self, error: sqlite3.IntegrityError, name: str) -> Exception:
        return named_error(self._index.path, name, error)

    def set_metadata(self, name: str, about: Metadata) -> None:
        """Set those of mode, owner and time that are not None."""
        with self._transactions.lock:
            self._transactions.begin(is_addition=True)
            table = "files" if self._index.is_file(name) else "dirs"
            try:
                changed = self._connection.execute(
                    f"UPDATE {table} SET mode = coalesce(?, mode), uid = coalesce(?, uid), gid = coalesce(?, gid), "
                    "mtime_ns = coalesce(?, mtime_ns) WHERE path = ?",
                    (*about, name),
                ).rowcount
            except sqlite3.IntegrityError as error:
                raise self._named(error, name) from error
            if not changed:
                raise EntryNotFoundError(self._index.path, name)
