"""Archives that were made to do harm, or that a killed writer has left: each function makes one in an empty folder."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
from typing import TYPE_CHECKING

from headrace._native import crc32c
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Maker = Callable[[Path], None]

NAME = "x.barecat"
COLUMNS = "0 AS shard, 0 AS offset, 1 AS size, NULL AS crc32c, NULL AS mode, NULL AS uid, NULL AS gid, NULL AS mtime_ns"
COUNTS = "0 AS num_subdirs, 0 AS num_files, 0 AS num_files_tree, 0 AS size_tree"
ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "


def plain(folder: Path) -> Path:
    """A sound archive of two files."""
    path = folder / NAME
    with Archive(path, "x") as archive:
        archive["d/cat.txt"] = b"meow"
        archive["d/dog.json"] = b"[1]"
    return path


def beside(path: Path, ending: str) -> Path:
    """A file of the same archive."""
    return path.with_name(path.name + ending)


def _undo(path: Path, shard: int, payload: bytes = b"touch OWNED # ") -> None:
    with contextlib.closing(sqlite3.connect(path)) as index:
        (version,) = index.execute("PRAGMA user_version").fetchone()
    head = struct.pack("<8sII", b"HDRUNDO1", version, crc32c(struct.pack("<I", version)))
    record = struct.pack("<IIQQ", shard, crc32c(payload), 0, len(payload))
    beside(path, "-undo").write_bytes(head + record + payload)


def undo_into_a_linked_shard(folder: Path) -> None:
    """Old bytes are to be put back into a shard that is a link to a file of the user."""
    path = plain(folder)
    (folder.parent / "victim.txt").write_bytes(b"# my settings, and nothing else than that\n")
    beside(path, "-shard-00001").symlink_to(folder.parent / "victim.txt")
    _undo(path, 1)


def undo_into_a_new_file(folder: Path) -> None:
    """The first shard, which writers lock, is a link to a file that does not exist."""
    path = plain(folder)
    beside(path, "-shard-00000").unlink()
    beside(path, "-shard-00000").symlink_to(folder.parent / "new.desktop")
    _undo(path, 0)


def _journal(path: Path, tail: bytes = b"") -> None:
    page = path.read_bytes()[:4096]
    pages = path.stat().st_size // 4096
    magic, nonce = bytes.fromhex("d9d505f920a163d7"), 1
    total = (nonce + sum(page[i] for i in range(4096 - 200, 0, -200))) & 0xFFFFFFFF
    head = (magic + struct.pack(">IIIII", 1, nonce, pages, 512, 4096)).ljust(512, b"\0")
    record = struct.pack(">I", 1) + page + struct.pack(">I", total)
    end = struct.pack(">I", 0x40000000 // 4096 + 1) + tail + struct.pack(">II", len(tail), sum(tail)) + magic
    beside(path, "-journal").write_bytes(head + record + (end if tail else b""))


def hot_journal(folder: Path) -> None:
    """A journal that SQLite would roll back, and then delete the file that its last bytes name."""
    path = plain(folder)
    victim = folder.parent / "victim.txt"
    victim.write_bytes(b"three years of work\n")
    _journal(path, os.fsencode(victim))


def journal_beside_an_empty_index(folder: Path) -> None:
    """SQLite deletes such a journal, whatever the mode."""
    path = plain(folder)
    _journal(path)
    os.truncate(path, 0)


def log_beside_an_empty_index(folder: Path) -> None:
    """The same for a write-ahead log."""
    path = plain(folder)
    beside(path, "-wal").write_bytes(bytes(4096))
    beside(path, "-shm").write_bytes(bytes(32768))
    os.truncate(path, 0)


def log_without_shared_memory(folder: Path) -> None:
    """SQLite would create what is missing."""
    beside(plain(folder), "-wal").write_bytes(os.urandom(4096))


def log_of_noise(folder: Path) -> None:
    """A write-ahead log in which nothing was committed."""
    path = plain(folder)
    beside(path, "-wal").write_bytes(os.urandom(4096))
    beside(path, "-shm").write_bytes(os.urandom(32768))


def note_of_a_replacement(folder: Path) -> None:
    """A note says that another archive takes the name, and nobody is at it."""
    path = plain(folder)
    beside(path, "-replace").write_bytes(b'{"by": ".x.barecat.01234567.incomplete", "index": [1, 1], "shards": []}')


def pipe(ending: str) -> Maker:
    """A pipe where a file is expected."""

    def make(folder: Path) -> None:
        file = beside(plain(folder), ending)
        file.unlink(missing_ok=True)
        os.mkfifo(file)

    return make


def link(ending: str) -> Maker:
    """A link where a file is expected."""

    def make(folder: Path) -> None:
        file = beside(plain(folder), ending)
        target = folder.parent / "elsewhere"
        target.write_bytes(file.read_bytes() if file.exists() else os.urandom(600))
        file.unlink(missing_ok=True)
        file.symlink_to(target)

    return make


def schema(*statements: str, drop: str = "") -> Maker:
    """An index with other tables, views and triggers than it should have."""

    def make(folder: Path) -> None:
        with contextlib.closing(sqlite3.connect(plain(folder), isolation_level=None)) as index:
            index.execute("PRAGMA foreign_keys = 0")
            if drop:
                index.execute(f"DROP TABLE {drop}")
            for statement in statements:
                index.execute(statement)

    return make


def rewritten(table: str, old: str, new: str) -> Maker:
    """An index in which a table is defined otherwise."""

    def make(folder: Path) -> None:
        with contextlib.closing(sqlite3.connect(plain(folder), isolation_level=None)) as index:
            index.execute("PRAGMA writable_schema = 1")
            index.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ?", (old, new, table))

    return make


def rows(statement: str) -> Maker:
    """An index with rows that no writer makes."""

    def make(folder: Path) -> None:
        with contextlib.closing(sqlite3.connect(plain(folder), isolation_level=None)) as index:
            index.execute("PRAGMA foreign_keys = 0")
            index.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
            index.execute(statement)

    return make


def pages_that_come_again(folder: Path) -> None:
    """The pages of the files lead to the same pages again and again: some hundred KiB have endless rows."""
    path = folder / NAME
    with Archive(path, "x") as archive:
        archive.update({f"d/{i:06}": b"" for i in range(1500)})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as index:
        index.execute("PRAGMA page_size = 512")
        index.execute("VACUUM")
        (root,) = index.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()
    data = bytearray(path.read_bytes())

    def children(number: int) -> list[int]:
        """Places of the numbers of the pages below an inner page."""
        at = (number - 1) * 512
        assert data[at] == 5
        count = int.from_bytes(data[at + 3 : at + 5], "big")
        cells = [at + int.from_bytes(data[at + 12 + 2 * i : at + 14 + 2 * i], "big") for i in range(count)]
        return [at + 8, *cells]

    inner = [int.from_bytes(data[at : at + 4], "big") for at in children(root)]
    chain = [page for page in inner if data[(page - 1) * 512] == 5] or inner
    for number, below in zip([root, *chain], chain, strict=False):
        for at in children(number):
            data[at : at + 4] = below.to_bytes(4, "big")
    path.write_bytes(data)


UNFINISHED: dict[str, Maker] = {
    "an undo file and a linked shard": undo_into_a_linked_shard,
    "an undo file and a link to nothing": undo_into_a_new_file,
    "a hot journal": hot_journal,
    "a log without shared memory": log_without_shared_memory,
    "a note of a replacement": note_of_a_replacement,
    "an undo file that is a pipe": pipe("-undo"),
    "a note that is a pipe": pipe("-replace"),
}
REFUSED: dict[str, Maker] = {
    "a journal beside nothing": journal_beside_an_empty_index,
    "a log beside nothing": log_beside_an_empty_index,
    "a journal that is a pipe": pipe("-journal"),
    "a log that is a pipe": pipe("-wal"),
    "an index that is a pipe": pipe(""),
    "a journal that is a link": link("-journal"),
    "a log that is a link": link("-wal"),
    "files without end": schema(
        f"CREATE VIEW files AS {ENDLESS} SELECT 'd/f' || i AS path, 'd' AS parent, {COLUMNS} FROM c", drop="files"
    ),
    "directories without end": schema(
        f"CREATE VIEW dirs AS {ENDLESS} SELECT 'd' || i AS path, '' AS parent, {COUNTS},"
        " NULL AS mode, NULL AS uid, NULL AS gid, NULL AS mtime_ns FROM c",
        drop="dirs",
    ),
    "settings that never come": schema(
        f"CREATE VIEW config AS {ENDLESS} SELECT 'use_triggers' AS key, NULL AS value_text, 0 AS value_int"
        " FROM c WHERE i < 0",
        drop="config",
    ),
    "a path of 900 MB": schema(
        f"CREATE VIEW files AS SELECT CAST(zeroblob(900000000) AS TEXT) AS path, '' AS parent, {COLUMNS}", drop="files"
    ),
    "a heavy computed column": rewritten(
        "files", "size INTEGER DEFAULT 0", "size INTEGER AS (length(hex(zeroblob(499999999)))) VIRTUAL"
    ),
    "another trigger": schema("CREATE TRIGGER evil AFTER INSERT ON files BEGIN DELETE FROM files; END"),
    "another index": schema("CREATE INDEX evil ON files (hex(path))"),
    "another table": schema("CREATE TABLE evil (a)"),
}
ODD: dict[str, Maker] = {
    "a log of noise": log_of_noise,
    "a shard that is a pipe": pipe("-shard-00000"),
    "a second shard that is a pipe": pipe("-shard-00001"),
    "shared memory that is a pipe": pipe("-shm"),
    "an annex that is a pipe": pipe(".annex"),
    "a shard that is a link": link("-shard-00000"),
    "an annex that is a link": link(".annex"),
    **{
        f"a directory called {name}": rows(f"INSERT INTO dirs (path) VALUES ('{name}')")
        for name in (".", "..", "d/..", "d/.", "/", "d//", "d//e", "/abs")
    },
    **{
        f"a file called {name}": rows(f"UPDATE files SET path = '{name}' WHERE path = 'd/cat.txt'")
        for name in ("..", "../out", "d/../../out", "/abs", "d/", "")
    },
    "a NUL in a name": rows("UPDATE files SET path = 'd/a' || char(0) || 'b' WHERE path = 'd/cat.txt'"),
    "a name of 2 MB": rows("UPDATE files SET path = printf('%.*c', 2000000, 'x') WHERE path = 'd/cat.txt'"),
    "a name that is not text": rows("UPDATE files SET path = x'ff00' WHERE path = 'd/cat.txt'"),
    "a mode of 63 bits": rows("UPDATE files SET mode = 9223372036854775807, mtime_ns = 9223372036854775807"),
    "a negative mode": rows("UPDATE files SET mode = -9223372036854775808, mtime_ns = -9223372036854775808"),
    "an owner of 63 bits": rows("UPDATE files SET uid = 9223372036854775807, gid = -5"),
    "a size of 63 bits": rows("UPDATE files SET size = 9223372036854775807"),
    "an offset of 63 bits": rows("UPDATE files SET offset = 9223372036854775807"),
    "a negative place": rows("UPDATE files SET size = -5, offset = -9"),
    "a shard that cannot be": rows("UPDATE files SET shard = 99999999999"),
    "text for a size": rows("UPDATE files SET size = 'x'"),
    "no directories": rows("DELETE FROM dirs"),
    "a name twice": rows("INSERT INTO dirs (path) VALUES ('d/cat.txt')"),
    "statistics that lie": rows(
        "UPDATE dirs SET num_files_tree = 9223372036854775807, size_tree = 9223372036854775807, num_files = 1 << 62"
    ),
    "pages that come again": pages_that_come_again,
}
