"""Archives whose index is damaged or hostile, disks that are full, and archives that change while they are read."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import sqlite3
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import ClosedError, CorruptFileError, FormatError, HeadraceError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.maintenance import defragment
from headrace.formats.barecat.pack import pack_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {f"d{i % 7}/e{i % 3}/{i}.txt": f"file {i} ".encode() * (1 + i % 20) for i in range(400)}
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        archive.update(FILES)
    return path


def spoil(path: Path, statement: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
        index.execute(statement, values)


def read_everything(path: Path) -> list[Exception]:
    """Only our own errors may come out; gives those."""
    found: list[Exception] = []
    try:
        archive = Archive(path)
    except HeadraceError as error:
        return [error]
    with archive:
        for read in READS.values():
            try:
                read(archive)
            except HeadraceError as error:
                found.append(error)
    return found


def test_garbage_in_the_index(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as index:
        pages = index.execute(
            "SELECT rootpage FROM sqlite_master WHERE tbl_name <> 'config' AND rootpage > 0"
        ).fetchall()
    with open(path, "r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * 4096)
            file.write(random.Random(1).randbytes(4096))
    assert all(isinstance(error, FormatError) for error in read_everything(path))
    with Archive(path) as archive, pytest.raises(FormatError, match=r"index cannot be read.*Restore it from a copy"):
        archive.listdir("")
    for verb in VERBS:
        assert main([*verb, str(path)]) == (1 if verb == ["verify"] else 2)
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_of_the_index(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 5, 50])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)
    read_everything(path)


@pytest.mark.parametrize("value", ["x", b"\xff\x00", -1, 2**62, 1.5])
@pytest.mark.parametrize("column", ["shard", "offset", "size", "crc32c", "mode", "mtime_ns", "path"])
def test_values_that_cannot_be(path: Path, column: str, value: object, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(path, f"UPDATE files SET {column} = ? WHERE path = 'd1/e1/1.txt'", value)
    read_everything(path)
    for verb in VERBS:
        assert main([*verb, str(path)]) in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("value", ["x", b"\xff", -1, 2**40, None])
def test_statistics_that_cannot_be(path: Path, value: object) -> None:
    spoil(path, "UPDATE dirs SET num_files_tree = ?, size_tree = ? WHERE path = ''", value, value)
    read_everything(path)
    assert not Archive(path).verify().ok


def test_the_error_names_the_row(path: Path) -> None:
    spoil(path, "UPDATE files SET offset = 'x' WHERE path = 'd1/e1/1.txt'")
    with Archive(path) as archive:
        with pytest.raises(FormatError, match=r"'d1/e1/1\.txt' is not made of numbers"):
            archive["d1/e1/1.txt"]
        with pytest.raises(FormatError, match=r"'d1/e1/1\.txt' is not made of numbers"):
            list(archive.files("path"))
        assert archive["d2/e2/2.txt"] == FILES["d2/e2/2.txt"]


def test_directories_that_go_in_a_circle(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as index:
        index.execute("PRAGMA writable_schema = 1")
        index.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'dirs'",
            ("CASE WHEN path = '' THEN NULL ELSE", "CASE WHEN path = '' THEN NULL WHEN path = 'd1' THEN 'd1' ELSE"),
        )
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as index:
        index.execute("REINDEX")
    with Archive(path) as archive, pytest.raises(FormatError, match=r"'d1' is listed in 'd1'"):
        list(archive.walk("d1"))
    assert main(["tree", str(path), "d1"]) == main(["du", str(path), "d1"]) == 2


def test_names_nested_deeply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, name = tmp_path / "x.barecat", "d/" * 1500 + "f"
    with Archive(path, "x") as archive:
        archive[name] = b"1"
    assert main(["tree", str(path)]) == 0
    assert "1,500 directories, 1 files" in capsys.readouterr().out
    assert main(["du", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1501
    with contextlib.chdir(tmp_path):
        assert main(["extract", "x.barecat", "-C", "o", "-q"]) == 0
        assert os.path.getsize(f"o/{name}") == 1
        os.unlink(f"o/{name}")
        os.removedirs(f"o/{name[:-2]}")  # rmtree would go too deep


def test_no_more_memory_than_an_index_can_name(path: Path) -> None:
    spoil(path, "UPDATE dirs SET num_files_tree = ? WHERE path = ''", 2**40)
    with Archive(path, preload=True) as archive:
        assert archive.read_many(list(FILES)) == list(FILES.values())


def test_archives_of_schema_0_2_open_by_their_name(path: Path, tmp_path: Path) -> None:
    spoil(path, "UPDATE config SET value_int = 2 WHERE key = 'schema_version_minor'")
    path.rename(f"{path}-sqlite-index")
    assert len(headrace.open(path)) == len(FILES)
    assert headrace.verify(path).ok
    assert main(["convert", str(path), str(tmp_path / "x.tar"), "-q"]) == 0
    with pytest.raises(FileNotFoundError, match="does not exist"):
        headrace.open(tmp_path / "y.barecat")


def test_names_that_no_index_can_have(path: Path) -> None:
    with Archive(path) as archive:
        assert "\udcff" not in archive
        assert archive.get("\udcff") is None
        assert not archive.exists("\udcff/x")


def test_no_space_for_the_index(path: Path) -> None:
    archive = Archive(path, "a")
    archive["more"] = b"1"
    archive.commit()
    archive.editor.execute("PRAGMA max_page_count = 1")  # the limit of the file stands for the end of the disk
    archive.commit()
    archive.update({f"long/name/{i:0100d}": b"" for i in range(3000)})
    with pytest.raises(OSError, match="full") as caught:
        archive.commit()
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="full"):  # the rows are gone, so it must not look as if all were well
        archive.commit()
    with pytest.raises(OSError, match="full"):
        archive["x"] = b""
    archive.close()
    with Archive(path) as again:
        assert len(again) == len(FILES) + 1
        assert again.verify().ok


def test_closed_is_closed(path: Path) -> None:
    archive = Archive(path)
    names, infos = iter(archive), archive.files("path")
    next(names), next(infos)
    assert archive["d1/e1/1.txt"]
    archive.close()
    calls: list[Callable[[], Any]] = [
        lambda: archive["d1/e1/1.txt"],
        lambda: archive.read_many(["d1/e1/1.txt"]),
        lambda: list(names),
        lambda: list(infos),
        lambda: archive.listdir(),
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            call()
    writer = Archive(path, "a")
    writer.close()
    for call in (writer.commit, writer.verify, writer.listdir):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize("preload", [False, True])
def test_files_that_were_moved_since(path: Path, preload: bool) -> None:
    with Archive(path, "a") as writer:
        writer.update({f"z{name}": bytes(2000) for name in FILES})
    names = [f"z{name}" for name in FILES]
    for read in (
        lambda archive: archive.read_many(names),
        lambda archive: [archive.read(name, 0, 2000) for name in names],
        lambda archive: [archive.open(name, "rb").read() for name in names],
        lambda archive: [archive[name] for name in names],
    ):
        with Archive(path, preload=preload) as archive:
            assert read(archive) == [bytes(2000)] * len(names)
            with Archive(path, "a") as writer:
                first = next(name for name in FILES if name in writer)
                writer.remove(first)
                defragment(writer)
            assert read(archive) == [bytes(2000)] * len(names)


def test_a_bad_checksum_stays_an_error_when_changes_are_followed(path: Path) -> None:
    with Archive(path) as archive:
        spoil(path, "UPDATE files SET crc32c = 1 WHERE path = 'd1/e1/1.txt'")
        assert archive.refresh()
        with pytest.raises(CorruptFileError, match="checksum"):
            archive["d1/e1/1.txt"]
        with pytest.raises(CorruptFileError, match="checksum"):
            archive.read_many(["d1/e1/1.txt"])


def test_names_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, name = tmp_path / "x.barecat", "red\x1b[31m\nü"
    with Archive(path, "x") as archive:
        archive[name] = b"123"
    spoil(path, "UPDATE files SET crc32c = 1")
    folder = tmp_path / "in"
    folder.mkdir()
    os.symlink("nowhere", folder / name)
    assert main(["verify", str(path)]) == 1
    assert main(["cat", str(path), name]) == 2
    assert main(["create", str(tmp_path / "y.barecat"), str(folder)]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert shown.out.count(r"red\x1b[31m\nü: checksum") == 1
    assert shown.err.count(r"red\x1b[31m\nü") == 2


def test_info_counts_what_is_missing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = f"{path}-shard-00000"
    os.truncate(shard, os.path.getsize(shard) - 7)
    assert main(["info", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "gaps 0 B MISSING 7 B" in shown
    os.unlink(shard)
    assert main(["info", str(path), "--json"]) == 0
    assert f'"missing_bytes": {sum(map(len, FILES.values()))}' in capsys.readouterr().out


def test_an_empty_index(path: Path) -> None:
    os.truncate(path, 0)
    with pytest.raises(FormatError, match="the index is an empty file"):
        Archive(path)


def test_nothing_is_made_for_names_that_do_not_exist(path: Path, tmp_path: Path) -> None:
    assert main(["extract", str(path), "nope", "-C", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_verify_of_what_is_no_dataset(tmp_path: Path) -> None:
    empty = tmp_path / "empty.barecat"
    Archive(empty, "x").close()
    assert headrace.verify(empty).ok
    damaged = tmp_path / "damaged.barecat"
    with Archive(damaged, "x") as archive:
        archive["a"] = b"1"
    with sqlite3.connect(damaged) as connection:
        connection.execute("UPDATE files SET size = 'many'")
    assert not headrace.verify(damaged).ok


def test_folders_deeper_than_calls_can_be(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    with Archive(tmp_path / "x.barecat", "x") as archive:
        pack_files(archive, ["deep"], folder=str(tmp_path))
        assert list(archive) == ["deep/" + "d/" * 1200 + "f"]
    subprocess.run(["rm", "-rf", root], check=True)  # too deep for shutil


def test_adding_to_what_is_not_whole_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x", shard_size=100) as archive:
        archive.update({"a": b"x" * 80, "b": b"y" * 80})
    shard = tmp_path / "x.barecat-shard-00000"
    shard.unlink()
    with pytest.raises(FormatError, match="shard 0 is missing"):
        Archive(path, "a")
    assert not shard.exists()
    other = tmp_path / "y.barecat"
    other.write_bytes(b"this is no archive")
    with pytest.raises(FormatError):
        Archive(other, "a")
    assert sorted(file.name for file in tmp_path.glob("y*")) == ["y.barecat"]
