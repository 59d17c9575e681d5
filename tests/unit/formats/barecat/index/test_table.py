"""The table of files read without SQLite is the one that SQLite reads."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from headrace.formats.barecat import Archive
from headrace.formats.barecat.index.queries import Index
from headrace.formats.barecat.index.table import indexes_agree, open_table, pages_are_sound
from headrace.formats.barecat.names import index_path

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["a", "b/c", "ü/日本", "x" * 900, "y" * 5000, *(f"{i % 13}/{i:05}.bin" for i in range(3000))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        for i, name in enumerate(NAMES):
            archive[name] = b"%d" % i
        for name in NAMES[10:2000:3]:
            del archive[name]
    return path


def repacked(path: Path, *pragmas: str) -> Path:
    """The same archive, its index written anew."""
    copy = path.with_name("copy.barecat")
    with sqlite3.connect(path) as connection:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(f"VACUUM INTO '{copy}'")
    shutil.copy(f"{path}-shard-00000", f"{copy}-shard-00000")
    return copy


@pytest.mark.parametrize("size", [512, 1024, 4096, 65536])
def test_all_sizes_of_pages(path: Path, size: int) -> None:
    archive = Archive(repacked(path, f"page_size = {size}"))
    assert archive.index.table is not None
    slow = Index(archive.path, archive.index._cursor, archive.index._new_cursor)
    assert list(archive.files()) == list(slow.files())
    for name in NAMES:
        assert archive.index.table.find(name) == slow.place(name)
    assert archive.index.table.find("no such file") is None
    there = [name for name in NAMES if name in archive]
    assert archive.read_many(there) == [b"%d" % NAMES.index(name) for name in there]
    assert archive.index.table.find_many(["nothing", there[0]])[0, 0] == -1
    ready = Archive(archive.path, preload=True)
    assert ready.read_many(there) == archive.read_many(there)


def test_other_layouts_are_left_to_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP INDEX idx_files_path")
    archive = Archive(path)
    assert archive.index.table is None
    assert archive["b/c"] == b"1"
    assert len(list(archive.files())) == len(archive)


def test_text_in_utf16_is_left_to_sqlite(path: Path) -> None:
    other = path.with_name("wide.barecat")
    with sqlite3.connect(other) as connection, sqlite3.connect(path) as source:
        connection.execute("PRAGMA encoding = 'UTF-16le'")
        connection.executescript("\n".join(source.iterdump()).replace("CREATE TABLE sqlite_stat1", "--"))
    shutil.copy(f"{path}-shard-00000", f"{other}-shard-00000")
    archive = Archive(other)
    assert archive.index.table is None
    assert archive["ü/日本"] == b"2"


def test_a_column_added_later_has_no_value_in_old_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE files ADD COLUMN note TEXT DEFAULT 'x'")
        connection.execute("ALTER TABLE files RENAME COLUMN mtime_ns TO old")
        connection.execute("ALTER TABLE files ADD COLUMN mtime_ns INTEGER DEFAULT 7")
    cursor = sqlite3.connect(path).cursor()
    table = open_table(index_path(str(path)), lambda: cursor)
    assert table is not None
    assert table.find("b/c") is None
    index = Index("x", lambda: cursor, cursor.connection.cursor, table=table)
    assert {info.mtime_ns for info in index.files()} == {7}


def test_changes_are_followed_and_pickles_open_again(path: Path) -> None:
    archive = Archive(path)
    assert archive["a"] == b"0"
    with Archive(path, "a") as writer:
        writer["new"] = b"!"
        del writer["b/c"]
        assert writer.index.table is None
    assert archive["new"] == b"!"
    with pytest.raises(KeyError):
        archive["b/c"]
    assert archive.index.table is None  # what was missed made it look again
    assert pickle.loads(pickle.dumps(archive))["new"] == b"!"


def test_while_somebody_writes_sqlite_is_asked(path: Path) -> None:
    with Archive(path, "r+", wal=True) as writer:
        writer["new"] = b"!"
        writer.commit()
        archive = Archive(path)
        assert archive.index.table is None
        assert archive["new"] == b"!"


@pytest.mark.parametrize("size", [512, 4096, 65536])
def test_indexes_that_agree(path: Path, size: int) -> None:
    archive = Archive(repacked(path, f"page_size = {size}"))
    assert archive.index.table is not None
    assert indexes_agree(archive.index.table, archive.index.cursor)


DAMAGES = {
    "an entry says something else": "UPDATE twin SET path = 'aa/' || path, offset = offset + 1 WHERE rowid = 777",
    "an entry is missing": "DELETE FROM twin WHERE rowid = 777",
    "an entry too many": "INSERT INTO twin (path, shard, offset) VALUES ('zz/zz', 7, 7)",
}


def exchange_index(path: Path, index: str, damage: str) -> None:
    """Put an index of another table in the place of one of the files': SQLite believes what the schema says."""
    with sqlite3.connect(path) as connection:
        (kept, text) = connection.execute("SELECT rootpage, sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
        connection.execute(
            "CREATE TABLE twin (path TEXT, shard INTEGER, offset INTEGER,"
            " parent TEXT AS (rtrim(rtrim(path, replace(path, '/', '')), '/')))"
        )
        connection.execute("INSERT INTO twin (rowid, path, shard, offset) SELECT rowid, path, shard, offset FROM files")
        connection.execute(damage)
        connection.execute(text.replace(index, "twin_index").replace("ON files", "ON twin"))
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'twin_index'").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        for name, page in ((index, root), ("twin_index", kept)):
            connection.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (page, name))
        connection.execute("DELETE FROM sqlite_master WHERE name IN ('twin', 'twin_index')")


INDEXES = ["idx_files_path", "idx_files_parent", "idx_files_shard_offset"]


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_verify_finds_an_index_that_does_not_agree(path: Path, index: str, damage: str) -> None:
    exchange_index(path, index, damage)
    archive = Archive(path)
    assert archive.index.table is not None
    assert not indexes_agree(archive.index.table, archive.index.cursor)
    assert any(problem.message.startswith("index: ") for problem in archive.verify(quick=True).problems)


@pytest.mark.parametrize("index", INDEXES)
def test_an_index_that_says_the_same_agrees(path: Path, index: str) -> None:
    exchange_index(path, index, "SELECT 1")
    archive = Archive(path)
    assert archive.index.table is not None
    assert indexes_agree(archive.index.table, archive.index.cursor)


def test_entries_out_of_order_do_not_agree(path: Path) -> None:
    """Two neighbours of a page are exchanged: all entries are there, and none is found any more."""
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'idx_files_path'").fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    begin = (root - 1) * page_size
    assert data[begin] == 2  # an inner page, whose list of entries begins 12 bytes later
    data[begin + 12 : begin + 16] = data[begin + 14 : begin + 16] + data[begin + 12 : begin + 14]
    path.write_bytes(data)
    archive = Archive(path)
    assert archive.index.table is not None
    assert not indexes_agree(archive.index.table, archive.index.cursor)


@pytest.mark.parametrize("size", [512, 4096, 65536])
def test_pages_that_are_sound(path: Path, size: int) -> None:
    archive = Archive(repacked(path, f"page_size = {size}"))
    assert archive.index.table is not None
    assert pages_are_sound(archive.index.table, archive.index.cursor())


def test_free_pages_are_known(path: Path) -> None:
    with Archive(path, "a") as archive:
        archive.rmtree("3")
        for name in NAMES[2000:]:
            archive.pop(name, b"")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] > 5
    found = Archive(path)
    assert found.index.table is not None
    assert pages_are_sound(found.index.table, found.index.cursor())
    data = bytearray(path.read_bytes())
    data[36:40] = (int.from_bytes(data[36:40], "big") - 1).to_bytes(4, "big")  # one page fewer is said to be free
    path.write_bytes(data)
    cursor = sqlite3.connect(path).cursor()
    table = open_table(index_path(str(path)), lambda: cursor)
    assert table is not None
    assert not pages_are_sound(table, cursor)


def test_what_is_found_sound_sqlite_finds_sound(tmp_path: Path) -> None:
    """A byte of the file is changed, mostly where pages say what is in them."""
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        archive.update({name: b"" for name in (*NAMES[:5], *(f"{i % 3}/{i}" for i in range(300)))})
    whole, chance, damaged = path.read_bytes(), random.Random(3), tmp_path / "damaged.barecat"
    (page_size,) = sqlite3.connect(path).execute("PRAGMA page_size").fetchone()
    unsound = 0
    for _ in range(int(os.environ.get("HEADRACE_DAMAGES", "400"))):
        data = bytearray(whole)
        page = chance.randrange(len(data) // page_size) * page_size
        at = page + (chance.randrange(40) if chance.random() < 0.6 else chance.randrange(page_size))
        data[at] ^= 1 << chance.randrange(8)
        damaged.write_bytes(data)
        connection = sqlite3.connect(f"file:{damaged}?mode=ro", uri=True)
        with contextlib.closing(connection):
            try:
                answers = connection.execute("PRAGMA integrity_check").fetchall()
                table = open_table(str(damaged), connection.cursor)
                is_sound = (
                    table is not None
                    and pages_are_sound(table, connection.cursor())
                    and indexes_agree(table, connection.cursor)
                )
            except (sqlite3.DatabaseError, UnicodeError):
                continue
        unsound += not is_sound
        problems = [text for (text,) in answers if (text != "ok" and "files" in text) or "page" in text.lower()]
        assert not (is_sound and problems), (at // page_size, at % page_size, problems)
    assert unsound > 10
