"""The SQLite side of a .barecat: tables, indexes, triggers and versions.

::

    files   path, parent (computed), shard, offset, size, crc32c, mode, uid, gid, mtime_ns
    dirs    path ('' is the root), parent (computed), num_subdirs, num_files, num_files_tree, size_tree,
            mode, uid, gid, mtime_ns
    config  key, value_text, value_int: use_triggers, shard_size_limit, schema_version_major, schema_version_minor

Triggers keep the statistics of directories true: a row in ``files`` makes its directory, a new directory makes its
parent, and every change of a size or a count travels to the root. They act while ``use_triggers`` is 1 and need
``recursive_triggers``. The names of tables, columns, indexes and triggers are part of the format.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from headrace.errors import FormatError
from headrace.formats.barecat.index.known_schemas import KNOWN, digest_of

if TYPE_CHECKING:
    import sqlite3

__all__ = ["UNLIMITED", "VERSION", "check_schema", "check_version", "create_schema", "read_version"]

VERSION = (0, 3)
UNLIMITED = 2**63 - 1
"""The shard size limit of an archive that has none."""

_PARENT = "rtrim(rtrim(path, replace(path, '/', '')), '/')"
_ABOUT = """mode INTEGER DEFAULT NULL, uid INTEGER DEFAULT NULL, gid INTEGER DEFAULT NULL,
    mtime_ns INTEGER DEFAULT NULL"""
_TABLES = f"""
CREATE TABLE dirs (
    path TEXT NOT NULL,
    parent TEXT GENERATED ALWAYS AS (CASE WHEN path = '' THEN NULL ELSE {_PARENT} END) VIRTUAL
        REFERENCES dirs (path) ON DELETE RESTRICT,
    num_subdirs INTEGER DEFAULT 0, num_files INTEGER DEFAULT 0,
    num_files_tree INTEGER DEFAULT 0, size_tree INTEGER DEFAULT 0,
    {_ABOUT}
);
CREATE TABLE files (
    path TEXT NOT NULL,
    parent TEXT GENERATED ALWAYS AS ({_PARENT}) VIRTUAL NOT NULL REFERENCES dirs (path) ON DELETE RESTRICT,
    shard INTEGER NOT NULL, offset INTEGER NOT NULL, size INTEGER DEFAULT 0, crc32c INTEGER DEFAULT NULL,
    {_ABOUT}
);
CREATE TABLE config (
    key TEXT PRIMARY KEY, value_text TEXT DEFAULT NULL, value_int INTEGER DEFAULT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX idx_files_path ON files (path);
CREATE UNIQUE INDEX idx_dirs_path ON dirs (path);
CREATE INDEX idx_files_parent ON files (parent);
CREATE INDEX idx_dirs_parent ON dirs (parent);
CREATE INDEX idx_files_shard_offset ON files (shard, offset);
"""
_NOW = "CAST((julianday('now') - 2440587.5) * 86400 * 1e9 AS INTEGER)"
_ON = "(SELECT value_int FROM config WHERE key = 'use_triggers') = 1"


def _trigger(name: str, event: str, condition: str, *steps: str) -> str:
    body = "".join(f"    {step};\n" for step in steps)
    return f"CREATE TRIGGER {name} {event} FOR EACH ROW WHEN {condition} BEGIN\n{body}END;\n"


def _change(path: str, *, files: str = "", subdirs: str = "", tree: str = "", size: str = "", mtime: str = _NOW) -> str:
    """An UPDATE of one directory by differences such as ``+ 1``."""
    parts = {"num_files": files, "num_subdirs": subdirs, "num_files_tree": tree, "size_tree": size}
    changes = [f"{column} = {column} {difference}" for column, difference in parts.items() if difference]
    changes += [f"mtime_ns = {mtime}"] if mtime else []
    return f"UPDATE dirs SET {', '.join(changes)} WHERE path = {path}"


def _upsert(path: str, *, counter: str, tree: str, size: str) -> str:
    """Count one child more in a directory, which is made if it is missing."""
    return (
        f"INSERT INTO dirs (path, {counter}, num_files_tree, size_tree, mtime_ns)\n"
        f"        VALUES ({path}, 1, {tree}, {size}, {_NOW})\n"
        f"        ON CONFLICT (path) DO UPDATE SET {counter} = {counter} + 1,\n"
        "        num_files_tree = num_files_tree + excluded.num_files_tree,\n"
        "        size_tree = size_tree + excluded.size_tree, mtime_ns = excluded.mtime_ns"
    )


_MOVED = "NEW.parent IS NOT OLD.parent"
_MINUS_TREE = {"tree": "- OLD.num_files_tree", "size": "- OLD.size_tree"}
_PLUS_TREE = {"tree": "+ NEW.num_files_tree", "size": "+ NEW.size_tree"}


_TRIGGERS = "".join(
    [
        _trigger(
            "add_file",
            "AFTER INSERT ON files",
            _ON,
            _upsert("NEW.parent", counter="num_files", tree="1", size="NEW.size"),
        ),
        _trigger(
            "del_file",
            "AFTER DELETE ON files",
            _ON,
            _change("OLD.parent", files="- 1", tree="- 1", size="- OLD.size"),
        ),
        _trigger(
            "move_file",
            "AFTER UPDATE OF path ON files",
            f"{_MOVED} AND {_ON}",
            _change("NEW.parent", files="+ 1", tree="+ 1", size="+ NEW.size"),
            _change("OLD.parent", files="- 1", tree="- 1", size="- OLD.size"),
        ),
        _trigger(
            "resize_file",
            "AFTER UPDATE OF size ON files",
            f"NEW.size IS NOT OLD.size AND NEW.parent IS OLD.parent AND {_ON}",
            _change("NEW.parent", size="+ NEW.size - OLD.size", mtime=""),
        ),
        _trigger(
            "add_subdir",
            "AFTER INSERT ON dirs",
            f"NEW.path <> '' AND {_ON}",
            _upsert("NEW.parent", counter="num_subdirs", tree="NEW.num_files_tree", size="NEW.size_tree"),
        ),
        _trigger(
            "del_subdir",
            "AFTER DELETE ON dirs",
            f"OLD.path <> '' AND {_ON}",
            _change("OLD.parent", subdirs="- 1", **_MINUS_TREE),
        ),
        _trigger(
            "move_subdir",
            "AFTER UPDATE OF path ON dirs",
            f"{_MOVED} AND {_ON}",
            _change("OLD.parent", subdirs="- 1", **_MINUS_TREE),
            _change("NEW.parent", subdirs="+ 1", **_PLUS_TREE),
        ),
        _trigger(
            "resize_dir",
            "AFTER UPDATE OF size_tree, num_files_tree ON dirs",
            "NEW.parent IS OLD.parent AND NEW.path <> '' AND "
            f"(NEW.size_tree <> OLD.size_tree OR NEW.num_files_tree <> OLD.num_files_tree) AND {_ON}",
            _change(
                "OLD.parent",
                tree="+ NEW.num_files_tree - OLD.num_files_tree",
                size="+ NEW.size_tree - OLD.size_tree",
                mtime="",
            ),
        ),
        _trigger(
            "prevent_file_as_dir",
            "BEFORE INSERT ON files",
            f"{_ON} AND EXISTS (SELECT 1 FROM dirs WHERE path = NEW.path)",
            "SELECT RAISE(ABORT, 'Path already exists as directory')",
        ),
        _trigger(
            "prevent_dir_as_file",
            "BEFORE INSERT ON dirs",
            f"{_ON} AND EXISTS (SELECT 1 FROM files WHERE path = NEW.path)",
            "SELECT RAISE(ABORT, 'Path already exists as file')",
        ),
    ]
)


def create_schema(connection: sqlite3.Connection, *, shard_size_limit: int) -> None:
    """Make all tables and the root directory, in one transaction."""
    config = {
        "use_triggers": 1,
        "shard_size_limit": shard_size_limit,
        "schema_version_major": VERSION[0],
        "schema_version_minor": VERSION[1],
    }
    connection.executescript(f"BEGIN IMMEDIATE;\n{_TABLES}{_TRIGGERS}")
    connection.executemany("INSERT INTO config (key, value_int) VALUES (?, ?)", config.items())
    connection.execute(
        "INSERT INTO dirs (path, uid, gid, mtime_ns) VALUES ('', ?, ?, ?)", (os.getuid(), os.getgid(), time.time_ns())
    )
    connection.execute("COMMIT")


def read_version(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Major and minor version of the schema, or None for an index without one."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'config'").fetchone() is None:
        return None
    found = dict(
        connection.execute(
            "SELECT key, value_int FROM config WHERE key IN ('schema_version_major', 'schema_version_minor')"
        )
    )
    if not all(isinstance(value, int) for value in found.values()) or "schema_version_major" not in found:
        return None
    return found["schema_version_major"], found.get("schema_version_minor", 0)


def check_schema(path: str, connection: sqlite3.Connection) -> None:
    """Refuse an index whose tables, indexes and triggers are not, word for word, those of a known version.

    Views, computed columns and triggers are programs, which whoever made the file would run here. So this is asked
    before anything else.
    """
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if not any(kind == "table" and name == "config" for kind, name, _ in found):
        raise _no_version(path)
    for kind, name, text in found:
        if digest_of(text) in KNOWN.get(f"{kind} {name}", ()):
            continue
        known = f"{kind} {name}" in KNOWN
        raise FormatError(
            path,
            problem=f"the index has the {kind} {name!r}, "
            + ("which is not defined as in any known version" if known else "which no known version has"),
            fix="It may be made to do harm: do not use it unless you know who made it and why. "
            "An archive of a newer version needs a newer headrace.",
        )


def check_version(path: str, connection: sqlite3.Connection, *, is_writer: bool) -> tuple[int, int]:
    """Refuse an index that cannot be understood, or that writing would spoil.

    Another minor version is read as long as ``check_schema`` knows its tables; only the current one is written.
    """
    if is_writer:
        check_schema(path, connection)
    version = read_version(connection)
    if version is None:
        raise _no_version(path)
    current = ".".join(map(str, VERSION))
    found = ".".join(map(str, version))
    if version[0] != VERSION[0]:
        raise FormatError(
            path,
            problem=f"the index has schema version {found}, and {current} is the newest that is known",
            fix="Update headrace.",
        )
    if is_writer and version != VERSION:
        raise FormatError(
            path,
            problem=f"the index has schema version {found}; only {current} can be written",
            fix="Copy it into a new archive with: headrace merge OLD -o NEW"
            if version < VERSION
            else "Update headrace.",
        )
    return version


def _no_version(path: str) -> FormatError:
    return FormatError(
        path,
        problem=f"the index has no schema version; {'.'.join(map(str, VERSION))} is expected",
        fix="Is it an archive of barecat before 0.2? Then bring it up to date with: "
        "python -m headrace.compat barecat upgrade",
    )
