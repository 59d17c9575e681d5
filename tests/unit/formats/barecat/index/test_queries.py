"""Questions to an index that is damaged or hostile."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import TEXTS, spoil

import headrace
from headrace.cli.main import main
from headrace.errors import FormatError, HeadraceError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.index.queries import Index, _check_inside, _last_parts
from headrace.formats.entry_names import check_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


READS: dict[str, Callable[[Archive], object]] = {
    "iterate": list,
    "length": len,
    "items": lambda archive: list(archive.items()),
    "files": lambda archive: list(archive.files()),
    "files by path": lambda archive: list(archive.files("path")),
    "files by address": lambda archive: list(archive.files("address")),
    "dirs": lambda archive: list(archive.dirs()),
    "walk": lambda archive: list(archive.walk()),
    "listdir": lambda archive: archive.listdir("d1"),
    "scandir": lambda archive: list(archive.scandir("d1/e1")),
    "glob": lambda archive: archive.glob("**", recursive=True),
    "read": lambda archive: archive["d1/e1/1.txt"],
    "read a part": lambda archive: archive.read("d1/e1/1.txt", 2, 3),
    "read many": lambda archive: archive.read_many(["d1/e1/1.txt", "d2/e2/2.txt"]),
    "open": lambda archive: archive.open("d1/e1/1.txt").read(),
    "stat": lambda archive: archive.stat("d1/e1/1.txt"),
    "size": lambda archive: (archive.total_size, archive.num_dirs, archive.shard_size),
    "verify": lambda archive: archive.verify(),
    "preload": lambda archive: Archive(archive.path, preload=True).read_many(["d1/e1/1.txt"]),
    "dataset": lambda archive: headrace.open(archive.path)[0],
}


VERBS = (["ls", "-lR"], ["info"], ["tree"], ["du"], ["find"], ["verify"])


def read_everything(texts: Path) -> list[Exception]:
    """Only our own errors may come out; gives those."""
    found: list[Exception] = []
    try:
        archive = Archive(texts)
    except HeadraceError as error:
        return [error]
    with archive:
        for read in READS.values():
            try:
                read(archive)
            except HeadraceError as error:
                found.append(error)
    return found


def test_garbage_in_the_index(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(sqlite3.connect(texts)) as index:
        pages = index.execute(
            "SELECT rootpage FROM sqlite_master WHERE tbl_name <> 'config' AND rootpage > 0"
        ).fetchall()
    with open(texts, "r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * 4096)
            file.write(random.Random(1).randbytes(4096))
    assert all(isinstance(error, FormatError) for error in read_everything(texts))
    with Archive(texts) as archive, pytest.raises(FormatError, match=r"index cannot be read.*Restore it from a copy"):
        archive.listdir("")
    for verb in VERBS:
        assert main([*verb, str(texts)]) == (1 if verb == ["verify"] else 2)
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_of_the_index(texts: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(texts.read_bytes())
    for _ in range(chance.choice([1, 5, 50])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    texts.write_bytes(data)
    read_everything(texts)


@pytest.mark.parametrize("value", ["x", b"\xff\x00", -1, 2**62, 1.5])
@pytest.mark.parametrize("column", ["shard", "offset", "size", "crc32c", "mode", "mtime_ns", "path"])
def test_values_that_cannot_be(texts: Path, column: str, value: object, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(texts, f"UPDATE files SET {column} = ? WHERE path = 'd1/e1/1.txt'", value)
    read_everything(texts)
    for verb in VERBS:
        assert main([*verb, str(texts)]) in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("value", ["x", b"\xff", -1, 2**40, None])
def test_statistics_that_cannot_be(texts: Path, value: object) -> None:
    spoil(texts, "UPDATE dirs SET num_files_tree = ?, size_tree = ? WHERE path = ''", value, value)
    read_everything(texts)
    assert not Archive(texts).verify().ok


def test_the_error_names_the_row(texts: Path) -> None:
    spoil(texts, "UPDATE files SET offset = 'x' WHERE path = 'd1/e1/1.txt'")
    with Archive(texts) as archive:
        with pytest.raises(FormatError, match=r"'d1/e1/1\.txt' is not made of numbers"):
            archive["d1/e1/1.txt"]
        with pytest.raises(FormatError, match=r"'d1/e1/1\.txt' is not made of numbers"):
            list(archive.files("path"))
        assert archive["d2/e2/2.txt"] == TEXTS["d2/e2/2.txt"]


def test_directories_that_go_in_a_circle(texts: Path) -> None:
    with contextlib.closing(sqlite3.connect(texts, isolation_level=None)) as index:
        index.execute("PRAGMA writable_schema = 1")
        index.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'dirs'",
            ("CASE WHEN path = '' THEN NULL ELSE", "CASE WHEN path = '' THEN NULL WHEN path = 'd1' THEN 'd1' ELSE"),
        )
    with contextlib.closing(sqlite3.connect(texts, isolation_level=None)) as index:
        index.execute("REINDEX")
    with contextlib.closing(sqlite3.connect(texts)) as connection:
        index = Index("x", connection.cursor, connection.cursor)
        with pytest.raises(FormatError, match=r"'d1' is listed in the directory 'd1'"):
            list(index.walk("d1"))
    with pytest.raises(FormatError, match="the table 'dirs', which is not defined as in any known version"):
        Archive(texts)
    assert main(["tree", str(texts), "d1"]) == main(["du", str(texts), "d1"]) == 2


@pytest.mark.parametrize("name", ["", "d1"])
def test_directories_that_lie_in_themselves(texts: Path, name: str) -> None:
    known, odd = "CASE WHEN path = '' THEN NULL", f"CASE WHEN path = '{name}' THEN '{name}' WHEN path = '' THEN NULL"
    for before, after in ((known, odd), (odd, known)):  # only the index of parents stays as it was in between
        with contextlib.closing(sqlite3.connect(texts, isolation_level=None)) as index:
            index.execute("PRAGMA writable_schema = 1")
            index.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'dirs'", (before, after))
        if after == odd:
            with contextlib.closing(sqlite3.connect(texts, isolation_level=None)) as index:
                index.execute("REINDEX")
    with Archive(texts) as archive, pytest.raises(FormatError, match=f"'{name}' is listed in the directory '{name}'"):
        list(archive.walk(name))


def test_names_that_no_index_can_have(texts: Path) -> None:
    with Archive(texts) as archive:
        assert "\udcff" not in archive
        assert archive.get("\udcff") is None
        assert not archive.exists("\udcff/x")


@pytest.mark.parametrize("name", ["", "d", "d/e", "d\ne"])
def test_names_looked_at_together_are_refused_as_one_by_one(name: str) -> None:
    chance = random.Random(0)
    parts = ["a", "b.c", ".", "..", ".h", "", "\n", "a\nd/b", "\nd", "x\0", "a/b", "d", "é"]
    for _ in range(3000):
        paths = [f"{name}/{part}" if name else part for part in chance.choices(parts, k=chance.randrange(3))]
        if paths and chance.random() < 0.2:
            paths[0] = chance.choice(["other", "d", "d/", "d\ne/x"])
        try:
            check_names(paths)
            _check_inside(name, paths)
        except ValueError:
            with pytest.raises(ValueError, match=r"."):
                _last_parts(name, [(path,) for path in paths])
        else:
            found = _last_parts(name, [(path,) for path in paths])
            assert found == [path[len(name) + 1 if name else 0 :] for path in paths]


def test_a_change_that_another_thread_notices_before_the_first_row() -> None:
    """The listing was asked for before the change: what goes wrong in it is no damage."""
    number = 0

    class Broken(sqlite3.Cursor):
        def __next__(self) -> object:
            raise sqlite3.DatabaseError("database disk image is malformed")

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE files (path TEXT)")
    index = Index("x.barecat", connection.cursor, lambda: Broken(connection), changes=lambda: number)
    names = index.file_names()
    number += 1
    with pytest.raises(FormatError, match="List it again"):
        next(names)
    with pytest.raises(FormatError, match="cannot be read"):
        next(index.file_names())
    connection.close()
