"""Connections to the index."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.formats.barecat.tools import TEXTS

from headrace.errors import ArchiveBusyError, FormatError, UnfinishedError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit.maintenance import defragment
from headrace.formats.barecat.index import connections
from headrace.formats.barecat.index.connections import ReadConnections, translated
from headrace.formats.barecat.index.queries import Index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITER = """
import sys
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.maintenance import defragment
path, wal, work = sys.argv[1], sys.argv[2] == "wal", sys.argv[3]
archive = Archive(path, "r+", wal=wal, sync=False)
if work == "defrag":
    for name in sorted(archive)[:200]:
        del archive[name]
    archive.commit()
    defragment(archive)
else:
    for i in range(3000):
        archive[f"added/{i:05}"] = b"content"
    if wal:
        archive.commit()
    archive.mkdir("late")
print("ready", flush=True)
sys.stdin.readline()
archive.close()
"""


@contextlib.contextmanager
def writer(path: Path, *, wal: bool = False, work: str = "add") -> Iterator[subprocess.Popen[str]]:
    """A process that has changed an archive and still has it open."""
    command = [sys.executable, "-c", WRITER, str(path), "wal" if wal else "", work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            yield child
        finally:
            if child.poll() is None:
                child.communicate("go on\n")


def test_an_empty_index(texts: Path) -> None:
    os.truncate(texts, 0)
    with pytest.raises(FormatError, match="the index is an empty file"):
        Archive(texts)


def disk_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_SHORT_READ])
def test_an_index_that_is_cut_short_is_no_failure_of_the_disk(texts: Path, code: int) -> None:
    # SQLite from 3.45 on answers with the first while it reads the schema, and with the second elsewhere
    os.truncate(texts, texts.stat().st_size - 19)
    found = translated(str(texts), disk_error(code))
    assert isinstance(found, FormatError)
    assert "middle of a page" in found.problem
    os.truncate(texts, 20)
    with pytest.raises(FormatError):
        Archive(texts)


def test_what_looks_like_damage_may_be_a_writer_that_is_done_by_now(texts: Path) -> None:
    connections = ReadConnections(str(texts))
    error = sqlite3.DatabaseError("database disk image is malformed")
    assert isinstance(connections.failure(error), FormatError)
    with Archive(texts, "r+") as archive:
        archive["new"] = b"1"
    assert isinstance(connections.failure(error), ArchiveBusyError)
    connections.refresh()
    assert isinstance(connections.failure(error), FormatError)
    connections.close()


def test_failures_of_the_disk_stay_errors_of_the_system(texts: Path) -> None:
    assert isinstance(translated(str(texts), disk_error(sqlite3.SQLITE_IOERR)), OSError)
    os.truncate(texts, texts.stat().st_size - 19)
    for code in (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC):
        assert isinstance(translated(str(texts), disk_error(code)), OSError)
    texts.unlink()
    assert isinstance(translated(str(texts), disk_error(sqlite3.SQLITE_IOERR)), OSError)


@pytest.mark.parametrize("wal", [False, True])
def test_a_reader_notices_a_writer(texts: Path, wal: bool) -> None:
    Archive(texts, "r+", wal=wal).close()
    reader = Archive(texts)
    kept = sorted(TEXTS)[200:]
    assert reader[kept[0]] == TEXTS[kept[0]]
    with writer(texts, wal=wal, work="defrag"):
        assert [reader[name] for name in kept] == [TEXTS[name] for name in kept]
        assert reader.read_many(kept) == [TEXTS[name] for name in kept]
        assert Archive(texts).read_many(kept) == [TEXTS[name] for name in kept]
    assert reader.read_many(kept) == [TEXTS[name] for name in kept]
    assert Archive(texts).verify().ok


def test_a_connection_that_another_thread_overtakes_is_not_kept(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ReadConnections(str(texts))
    with Archive(texts, "r+") as archive:
        archive["first"] = b"1"
    assert reader.refresh()
    prepared = connections._prepared

    def overtaken(*args: Any) -> sqlite3.Connection:
        connection = prepared(*args)
        monkeypatch.undo()
        with new_archive(texts) as archive:
            archive["second"] = b"2"
        assert reader.refresh()  # by another thread, which is faster
        return connection

    monkeypatch.setattr(connections, "_prepared", overtaken)
    reader.cursor()
    assert reader.cursor().execute("SELECT path FROM files").fetchall() == [("second",)]


@pytest.mark.parametrize("wal", [False, True])
def test_a_change_that_cannot_be_seen_from_outside(texts: Path, wal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = sorted(TEXTS)[200:]
    with Archive(texts, "r+", wal=wal) as archive:
        archive["more"] = b"1"
        archive.commit()
        reader = Archive(texts, preload=not wal)
        listing = reader.index.rows("SELECT path FROM files")
        if wal:  # without a log, it would keep the writer from its commit
            next(listing)
        look = connections._look(os.fspath(texts))
        monkeypatch.setattr(connections, "_look", lambda place: look)  # all is done in one tick of the clock
        for name in sorted(TEXTS)[:200]:
            del archive[name]
        archive.commit()
        defragment(archive)
        assert [reader[name] for name in kept] == [TEXTS[name] for name in kept]
        assert reader.read_many(kept) == [TEXTS[name] for name in kept]


def test_a_log_that_nobody_has_put_into_the_index_is_read(texts: Path) -> None:
    with writer(texts, wal=True) as child:
        with Archive(texts) as archive:
            before = set(archive)
        child.send_signal(signal.SIGKILL)
        child.wait()
    names = sorted(os.listdir(texts.parent))
    assert "x.barecat-wal" in names
    with Archive(texts) as archive:
        assert set(archive) == before
        assert len(before) == len(TEXTS) + 3000
        assert archive.read_many(list(TEXTS)) == list(TEXTS.values())
    assert sorted(os.listdir(texts.parent)) == names
    texts.with_name("x.barecat-shm").unlink()
    with pytest.raises(UnfinishedError, match=r"x\.barecat-wal holds what it had begun.*headrace repair"):
        Archive(texts)


def test_a_reader_of_a_replaced_archive_leaves_the_new_journal_alone(texts: Path) -> None:
    reader = Archive(texts)
    with Archive(texts, "r+") as archive:
        archive["more"] = b"1"
    assert reader.refresh()  # it follows from now on
    assert reader["more"] == b"1"
    with new_archive(texts) as archive:
        archive.update({f"new/{i}": b"content" for i in range(2000)})
    with writer(texts):
        journal = texts.with_name("x.barecat-journal")
        assert journal.stat().st_size > 0
        before = journal.stat().st_ino
        assert len(reader.listdir("new")) == 2000
        assert not reader.exists("more")
        assert journal.stat().st_ino == before
    assert Archive(texts).verify().ok
    assert reader["added/00007"] == b"content"


def test_a_journal_belongs_to_its_writer_while_that_lives(texts: Path) -> None:
    with writer(texts) as child:
        with Archive(texts) as archive:
            assert archive.read_many(list(TEXTS)) == list(TEXTS.values())
            assert not archive.exists("late")
        child.send_signal(signal.SIGKILL)
        child.wait()
    with pytest.raises(UnfinishedError, match=r"x\.barecat-journal holds what it had begun.*headrace repair"):
        Archive(texts)
    Archive(texts, "r+").close()
    assert Archive(texts).read_many(list(TEXTS)) == list(TEXTS.values())


def test_a_reader_that_is_open_when_a_writer_dies(texts: Path) -> None:
    reader = Archive(texts)
    with writer(texts) as child:
        reader._reader._connections.follow()  # type: ignore[union-attr]
        assert reader.is_dir("d1")
        child.send_signal(signal.SIGKILL)
        child.wait()
    with pytest.raises(UnfinishedError, match="headrace repair"):
        reader.index.is_dir("d1")


def test_locks_that_got_lost_are_no_sign_of_death(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "headrace.formats.barecat.unfinished.is_locked"
    with writer(texts) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    monkeypatch.setattr(module, lambda file: True)
    with pytest.raises(ArchiveBusyError, match="somebody else is writing"):
        Archive(texts)


def test_a_question_without_end_is_ended(texts: Path) -> None:
    connections = ReadConnections(str(texts))
    index = Index(str(texts), connections.cursor, connections.new_cursor, failure=connections.failure)
    with pytest.raises(FormatError, match="takes longer than it could in any sound index"):
        index.number("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c")
    for name in TEXTS:
        assert index.is_file(name)


def test_nothing_can_be_written(texts: Path) -> None:
    cursor = ReadConnections(str(texts)).cursor()
    for statement in ("DELETE FROM files", "ATTACH 'other.db' AS other", "PRAGMA user_version = 7"):
        with pytest.raises(sqlite3.OperationalError):
            cursor.execute(statement)
    assert cursor.execute("PRAGMA mmap_size").fetchall() in ([(0,)], [])
