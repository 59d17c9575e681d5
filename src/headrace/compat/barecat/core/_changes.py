"""Changes to the rows of an index: files, directories, names, metadata."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo, path_of
from headrace.compat.barecat.exceptions import (
    BarecatError,
    DirectoryNotEmptyBarecatError,
    FileExistsBarecatError,
    FileNotFoundBarecatError,
    IsADirectoryBarecatError,
    NotADirectoryBarecatError,
    translated,
)
from headrace.formats.barecat.edit.directories import delete_below, move_tree, named_error
from headrace.formats.entry_names import check_new_name, parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from headrace.compat.barecat.core._rows import Rows
    from headrace.formats.barecat import Archive
    from headrace.formats.barecat.edit.index_file import IndexFile

__all__ = ["Changes"]

_INSERT = """INSERT INTO files (path, shard, offset, size, crc32c, mode, uid, gid, mtime_ns)
    VALUES (:path, :shard, :offset, :size, :crc32c, :mode, :uid, :gid, :mtime_ns)"""


class Changes:
    """Changes an index, inside the running transaction."""

    def __init__(self, rows: Rows, archive: Archive | IndexFile) -> None:
        self._rows, self._archive = rows, archive

    def changing(self) -> AbstractContextManager[sqlite3.Connection]:
        """The connection inside a transaction."""
        return self._archive.editor.changing(is_addition=True)

    def change(self, statement: str, *params: object) -> int:
        """Run a statement inside the transaction; gives how many rows it has changed."""
        with self.changing() as connection:
            return connection.execute(statement, params).rowcount

    def _set_columns(self, table: str, path: str, columns: dict[str, int]) -> int:
        settings = ", ".join(f"{column} = ?" for column in columns)
        return self.change(f"UPDATE {table} SET {settings} WHERE path = ?", *columns.values(), path)

    def add(self, info: BarecatEntryInfo) -> None:
        """Add a file or directory."""
        if isinstance(info, BarecatFileInfo):
            self.add_file(info)
        elif isinstance(info, BarecatDirInfo):
            self.add_dir(info)
        else:
            raise TypeError(f"a BarecatFileInfo or BarecatDirInfo is needed, got {type(info).__name__}")

    def add_file(self, finfo: BarecatFileInfo) -> None:
        """Add the row of a file."""
        self.add_files([finfo])

    def add_files(self, finfos: Sequence[BarecatFileInfo]) -> None:
        """Add the rows of many files: all, or none if one of them cannot be."""
        for finfo in finfos:
            check_new_name(finfo.path)
        with self.changing() as connection:
            connection.execute("SAVEPOINT files")
            try:
                connection.executemany(_INSERT, [finfo.asdict() for finfo in finfos])
            except sqlite3.IntegrityError as error:
                connection.execute("ROLLBACK TO files")
                with translated():
                    raise named_error(
                        self._archive.index.path, ", ".join(info.path for info in finfos), error
                    ) from error
            finally:
                connection.execute("RELEASE files")

    def update_file(
        self,
        path: str,
        new_shard: int | None = None,
        new_offset: int | None = None,
        new_size: int | None = None,
        new_crc32c: int | None = None,
        new_mtime_ns: int | None = None,
        new_mode: int | None = None,
        new_uid: int | None = None,
        new_gid: int | None = None,
    ) -> None:
        """Change those columns of a file that are not None."""
        names = ("shard", "offset", "size", "crc32c", "mtime_ns", "mode", "uid", "gid")
        values = (new_shard, new_offset, new_size, new_crc32c, new_mtime_ns, new_mode, new_uid, new_gid)
        changes = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        if changes:
            self._set_columns("files", normalize_path(path), changes)

    def add_dir(self, dinfo: BarecatDirInfo, exist_ok: bool = False) -> None:
        """Add a directory and those it lies in; with ``exist_ok`` one that is there takes the new metadata."""
        path = check_new_name(dinfo.path)
        is_dir = self._rows.has("dirs", path)
        if is_dir and not exist_ok:
            raise FileExistsBarecatError(path)
        if is_dir and path and not self._rows.dir(path).num_entries:
            self.change("DELETE FROM dirs WHERE path = ?", path)  # an empty one is made again, as the last
        self.put_dir(dinfo)

    def put_dir(self, dinfo: BarecatDirInfo) -> None:
        """Add a directory, or let the one that is there take the new metadata."""
        path, about = dinfo.path, dinfo.metadata
        if self._rows.has("dirs", path):
            if known := {name: value for name, value in about._asdict().items() if value is not None}:
                self._set_columns("dirs", path, known)
            return
        try:
            self.change("INSERT INTO dirs (path, mode, uid, gid, mtime_ns) VALUES (?, ?, ?, ?, ?)", path, *about)
        except sqlite3.IntegrityError as error:
            raise NotADirectoryBarecatError(f"{path!r} or a parent exists as a file") from error

    def rename(self, old: BarecatEntryInfo | str, new: str, allow_overwrite: bool = False) -> None:
        """Give a file or directory another name; directories on the way are made, everything in one follows."""
        (self.rename_file if self._rows.has("files", path_of(old)) else self.rename_dir)(
            path_of(old), new, allow_overwrite
        )

    def rename_file(self, old: BarecatFileInfo | str, new: str, allow_overwrite: bool = False) -> None:
        """Give a file another name."""
        old_path, new_path = path_of(old), check_new_name(normalize_path(new))
        if not self._rows.has("files", old_path):
            raise FileNotFoundBarecatError(old_path)
        if self._rows.has("files", new_path):
            if not allow_overwrite:
                raise FileExistsBarecatError(new_path)
            if new_path == old_path:
                return
            self.remove_file(new_path)
        if self._rows.has("dirs", new_path):
            raise IsADirectoryBarecatError(new_path)
        self._make_parent(new_path)
        self.change("UPDATE files SET path = ? WHERE path = ?", new_path, old_path)

    def rename_dir(self, old: BarecatDirInfo | str, new: str, allow_overwrite: bool = False) -> None:
        """Give a directory another name; everything in it follows."""
        old_path, new_path = path_of(old), check_new_name(normalize_path(new))
        if not self._rows.has("dirs", old_path):
            raise FileNotFoundBarecatError(old_path)
        if old_path == new_path:
            return
        if old_path == "" or new_path.startswith(f"{old_path}/"):
            raise BarecatError(f"{old_path or 'the root'} cannot be moved to {new_path}, which lies inside it")
        if self._rows.has("files", new_path):
            raise NotADirectoryBarecatError(new_path)
        if self._rows.has("dirs", new_path):
            if not allow_overwrite:
                raise FileExistsBarecatError(new_path)
            self.remove_empty_dir(new_path)
        self._make_parent(new_path)
        with self.changing() as connection:
            move_tree(connection, old_path, new_path)

    def _make_parent(self, path: str) -> None:
        if not self._rows.has("dirs", parent_of(path)):
            self.add_dir(BarecatDirInfo(path=parent_of(path)))

    def remove_file(self, item: BarecatFileInfo | str) -> None:
        """Remove the row of a file."""
        if not self.change("DELETE FROM files WHERE path = ?", path_of(item)):
            raise FileNotFoundBarecatError(path_of(item))

    def remove_files(self, items: Iterable[BarecatFileInfo | str]) -> None:
        """Remove the rows of those files that are there."""
        with self.changing() as connection:
            connection.executemany("DELETE FROM files WHERE path = ?", [(path_of(item),) for item in items])

    def remove_empty_dir(self, item: BarecatDirInfo | str) -> None:
        """Remove a directory that has nothing in it."""
        info = self._rows.dir(path_of(item))
        if info.num_entries or info.path == "":
            raise DirectoryNotEmptyBarecatError(info.path)
        self.change("DELETE FROM dirs WHERE path = ?", info.path)

    def remove_recursively(self, item: BarecatDirInfo | str) -> None:
        """Remove a directory and everything below."""
        path = self._rows.dir(path_of(item)).path
        if path == "":
            raise BarecatError("Cannot remove the root directory")
        with self.changing() as connection:
            delete_below(connection, path)
            connection.execute("DELETE FROM dirs WHERE path = ?", (path,))

    def chmod(self, path: str, mode: int) -> None:
        """Set the mode of a file or directory."""
        self._set(path, mode=mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Set the owner of a file or directory."""
        self._set(path, uid=uid, gid=gid)

    def update_mtime(self, path: str, mtime_ns: int) -> None:
        """Set the time of the last change of a file or directory."""
        self._set(path, mtime_ns=mtime_ns)

    def _set(self, path: str, **columns: int) -> None:
        name = normalize_path(path)
        if not any(self._set_columns(table, name, columns) for table in ("files", "dirs")):
            raise FileNotFoundBarecatError(f"Path {name} not found in index")
