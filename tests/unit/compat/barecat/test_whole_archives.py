"""Merging, converting, defragmenting, resharding, upgrading."""

from __future__ import annotations

import contextlib
import io
import os
import sqlite3
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Literal

import pytest

import headrace.compat.barecat as barecat
from headrace.compat.barecat import Barecat, BarecatDirInfo, BarecatFileInfo, FileExistsBarecatError, Index
from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.maintenance.defrag import defragment, get_gap_stats, reshard
from headrace.compat.barecat.maintenance.upgrade_database import get_schema_version, upgrade
from headrace.errors import HeadraceError

from .conftest import CONTENT

pytestmark = pytest.mark.usefixtures("capsys")


@pytest.fixture
def other(tmp_path: Path) -> str:
    path = str(tmp_path / "other.barecat")
    with Barecat(path, readonly=False) as bc:
        bc.add(BarecatDirInfo("dir", mode=0o070, mtime_ns=5))
        bc.add(BarecatFileInfo("dir/new.txt", mode=0o600, mtime_ns=9), data=b"new one")
        bc["extra/x.jpg"] = b"picture"
        bc["extra/none"] = b""
    return path


def test_merging(writer: Barecat, other: str) -> None:
    writer.index.chmod("dir", 0o700)
    writer.merge_from_other_barecat(other)
    assert writer["dir/new.txt"] == b"new one"
    assert writer.index.lookup_dir("dir").mode == 0o770
    info = writer.index.lookup_file("dir/new.txt")
    assert (info.mode, info.mtime_ns) == (0o600, 9)
    assert writer.index.lookup_dir("").num_files_tree == 8
    assert writer.verify_integrity()


def test_duplicates(writer: Barecat, filled: str, other: str, tmp_path: Path) -> None:
    writer.merge_from_other_barecat(other)
    before = dict(writer.items())
    with pytest.raises(FileExistsBarecatError) as caught:
        writer.merge_from_other_barecat(other)
    assert isinstance(caught.value, sqlite3.IntegrityError)
    assert dict(writer.items()) == before
    writer.merge_from_other_barecat(other, ignore_duplicates=True)
    assert dict(writer.items()) == before
    assert writer.verify_integrity()
    with Barecat(tmp_path / "clash.barecat", readonly=False) as clash:
        clash["dir"] = b"a file here, a directory there"
    with pytest.raises(ValueError, match="conflicts with target directory"):
        writer.merge_from_other_barecat(str(tmp_path / "clash.barecat"))
    with Barecat(tmp_path / "clash2.barecat", readonly=False) as clash:
        clash["a.txt/below"] = b""
    with pytest.raises(ValueError, match="conflicts with target file"):
        writer.merge_from_other_barecat(str(tmp_path / "clash2.barecat"))
    with pytest.raises(FileNotFoundError):
        writer.merge_from_other_barecat(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"prefix": "p/q"}, {"p/q/dir/new.txt", "p/q/extra/x.jpg", "p/q/extra/none"}),
        ({"pattern": "**/*.txt"}, {"dir/new.txt"}),
        ({"filter_rules": [("+", "**/x.*"), ("-", "extra/**")]}, {"dir/new.txt", "extra/x.jpg"}),
        ({"filter_rules": [("-", "**")]}, set()),
        ({"pattern": "extra/**", "prefix": "p"}, {"p/extra/x.jpg", "p/extra/none"}),
    ],
)
def test_parts(path: str, other: str, arguments: dict[str, Any], expected: set[str]) -> None:
    with Barecat(path, readonly=False) as bc:
        bc.merge_from_other_barecat(other, **arguments)
        assert set(bc) == expected
        assert bc.verify_integrity()


def test_a_limit_that_is_too_low(tmp_path: Path, other: str) -> None:
    with (
        Barecat(tmp_path / "small", readonly=False, shard_size_limit=5) as bc,
        pytest.raises(ValueError, match="larger than the shard"),
    ):
        bc.merge_from_other_barecat(other)


def test_merge_of_many(filled: str, other: str, tmp_path: Path) -> None:
    tar = tmp_path / "t.tar"
    with tarfile.open(tar, "w") as file:
        info = tarfile.TarInfo("in/tar.txt")
        info.size = 3
        file.addfile(info, io.BytesIO(b"tar"))
    target = str(tmp_path / "m.barecat")
    barecat.merge([filled, other, str(tar)], target, shard_size_limit=11_000, as_subdirs=True, prefix="all")
    with Barecat(target) as bc:
        assert bc["all/x/a.txt"] == b"first"
        assert bc["all/other/dir/new.txt"] == b"new one"
        assert bc["all/t/in/tar.txt"] == b"tar"
        assert bc.verify_integrity()
    barecat.merge([filled, other], target, overwrite=True, pattern="**/*.txt")
    with Barecat(target) as bc:
        assert sorted(bc) == ["a.txt", "dir/b.txt", "dir/new.txt"]


def test_linked_shards(filled: str, other: str, tmp_path: Path) -> None:
    with Barecat(filled, readonly=False) as bc:
        bc.sharder.start_new_shard()  # an empty shard at the end must not shift the next archive
    target = str(tmp_path / "l.barecat")
    barecat.merge_symlink([filled, other], target)
    with Barecat(target) as bc:
        assert dict(bc.items()) == {**CONTENT, "dir/new.txt": b"new one", "extra/x.jpg": b"picture", "extra/none": b""}
        assert bc.verify_integrity()
    assert os.path.islink(f"{target}-shard-00000")
    with pytest.raises(FileExistsBarecatError):
        barecat.merge_symlink([filled, filled], target, overwrite=True)
    barecat.merge_symlink([filled, filled], target, overwrite=True, ignore_duplicates=True)
    barecat.merge_symlink([filled, other], target, overwrite=True, as_subdirs=True, prefix="p")
    with Barecat(target) as bc:
        assert bc["p/other/extra/x.jpg"] == b"picture"
    with pytest.raises(SystemExit):
        barecat.merge_symlink([filled], target, overwrite=True, pattern="*")


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz", "zip"])
def test_between_archives(filled: str, tmp_path: Path, ending: str) -> None:
    with Barecat(filled, readonly=False) as bc:
        bc.mkdir("empty/dir", mode=0o700)
        bc.index.update_mtime("a.txt", 1_600_000_000_000_000_000)
        bc.index.chmod("a.txt", 0o640)
    packed, back = str(tmp_path / f"x.{ending}"), str(tmp_path / "back.barecat")
    barecat.barecat2archive(filled, packed, root_dir="top")
    barecat.archive2barecat(packed, back, "1M")
    with Barecat(back) as bc:
        assert dict(bc.items()) == {f"top/{name}": data for name, data in CONTENT.items()}
        assert bc.index.lookup_dir("top/empty/dir").mode == 0o700
        info = bc.index.lookup_file("top/a.txt")
        assert (info.mode, info.mtime_ns) == (0o640, 1_600_000_000_000_000_000)
        assert bc.verify_integrity()
    assert not [name for name in os.listdir(tmp_path) if "incomplete" in name]


def test_an_index_over_a_tar(filled: str, tmp_path: Path) -> None:
    for ending in ("tar", "zip"):
        packed, wrapped = str(tmp_path / f"w.{ending}"), str(tmp_path / f"{ending}.barecat")
        barecat.barecat2archive(filled, packed)
        impl.wrap_archive(packed, wrapped)
        with Barecat(wrapped) as bc:
            assert dict(bc.items()) == CONTENT
            assert bc.index.lookup_file("a.txt").crc32c is None
            assert bc.verify_integrity()
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x", b"0" * 100)
    with pytest.raises(ValueError, match="compressed entries"):
        impl.wrap_archive(str(tmp_path / "c.zip"), str(tmp_path / "c.barecat"))
    with tarfile.open(tmp_path / "g.tar", "w:gz"):
        pass
    with pytest.raises(ValueError, match="gzip"):
        impl.wrap_archive(str(tmp_path / "g.tar"), str(tmp_path / "g.barecat"))


def test_hostile_tars(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "h.tar", "w") as file:
        info = tarfile.TarInfo("../out")
        file.addfile(info, io.BytesIO())
    with pytest.raises(ValueError, match="leads out"):
        barecat.archive2barecat(str(tmp_path / "h.tar"), str(tmp_path / "h.barecat"))
    with pytest.raises(ValueError, match="Unsupported"):
        barecat.archive2barecat(str(tmp_path / "h.rar"), str(tmp_path / "h.barecat"))


def test_extracting(filled: str, tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        barecat.extract(filled, tmp_path / "out")
    found = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == CONTENT


def test_nothing_is_extracted_outside(filled: str, tmp_path: Path) -> None:
    with Barecat(filled, readonly=False) as bc, bc.index.no_triggers():
        bc.index.cursor.execute("UPDATE files SET path = '../out.txt' WHERE path = 'a.txt'")
    with pytest.warns(DeprecationWarning, match="deprecated"), pytest.raises(ValueError, match="leads out"):
        barecat.extract(filled, tmp_path / "deep" / "er")
    assert not (tmp_path / "deep" / "out.txt").exists()


@pytest.mark.parametrize("method", ["full", "smart", "quick"])
def test_gaps_are_taken_out(path: str, method: Literal["full", "smart", "quick"]) -> None:
    with Barecat(path, readonly=False, shard_size_limit=1000) as bc:
        bc["none"] = b""
        for number in range(20):
            bc[f"{number:02}"] = bytes([number]) * 190
        with bc.open("empty", "wb"):
            pass
        kept = {name: data for name, data in bc.items() if name not in ("01", "06", "07", "12")}
        for name in ("01", "06", "07", "12"):
            del bc[name]
        stats = get_gap_stats(bc)
        assert (stats["num_gaps"], stats["total_gap_size"]) == (3, 760)
        assert stats["gaps_by_shard"] == {0: [(190, 190)], 1: [(190, 380)], 2: [(380, 190)]}
        assert defragment(bc, method) == 760
        assert (bc.total_physical_size_seek, bc.total_logical_size) == (16 * 190, 16 * 190)
        assert dict(bc.items()) == kept
        assert bc.verify_integrity()
    with Barecat(path, readonly=False) as bc:
        del bc["04"]
        assert bc.defrag(quick=True) + bc.defrag() in (0, 190)  # 0 where it was the last of its shard
        bc.truncate_all_to_logical_size()
        assert bc.total_physical_size_seek == bc.total_size


def test_other_shards(writer: Barecat, filled: str) -> None:
    reshard(writer, 10_300)
    assert writer.shard_size_limit == writer.sharder.shard_size_limit == 10_300
    with pytest.raises(barecat.FileTooLargeBarecatError):
        reshard(writer, 100)
    reshard(writer, 10_240)
    assert writer.sharder.num_shards == 3
    assert dict(writer.items()) == CONTENT
    assert writer.verify_integrity()
    writer["more"] = bytes(10_000)
    writer.close()
    with Barecat(filled) as bc, pytest.raises(ValueError, match="read-only"):
        reshard(bc, 5)


OLD = """
CREATE TABLE files (path TEXT PRIMARY KEY, parent TEXT, shard INTEGER, offset INTEGER, size INTEGER);
CREATE TABLE directories (path TEXT PRIMARY KEY, parent TEXT, total_size INTEGER, total_file_count INTEGER);
INSERT INTO files VALUES ('a/x', 'a', 0, 0, 3), ('y', '', 0, 3, 2);
INSERT INTO directories VALUES ('', NULL, 5, 2), ('a', '', 3, 1);
"""


def test_old_indexes(tmp_path: Path) -> None:
    path = str(tmp_path / "old.barecat")
    Path(f"{path}-shard-00000").write_bytes(b"abcde")
    connection = sqlite3.connect(f"{path}-sqlite-index")
    connection.executescript(OLD)
    connection.close()
    assert get_schema_version(f"{path}-sqlite-index") == (-1, 0)
    with pytest.raises(barecat.BarecatError, match="barecat upgrade"):
        Barecat(path)
    upgrade(path)
    with Barecat(path) as bc:
        assert dict(bc.items()) == {"a/x": b"abc", "y": b"de"}
        assert bc.index.lookup_file("y").crc32c is not None
        assert bc.verify_integrity()
    assert os.path.exists(f"{path}-sqlite-index.old")
    upgrade(path)
    with pytest.raises(FileNotFoundError):
        upgrade(tmp_path / "none")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "change",
    [
        f"ALTER TABLE files RENAME TO plain; CREATE VIEW files AS SELECT * FROM plain WHERE path IN ({ENDLESS});",
        f"CREATE VIEW more AS {ENDLESS};",
        "ALTER TABLE files ADD COLUMN crc32c GENERATED ALWAYS AS (length(hex(zeroblob(900000000)))) VIRTUAL;",
        "CREATE VIRTUAL TABLE extra USING fts5(words);",
        "DROP TABLE directories;",
        "CREATE TABLE config (key TEXT PRIMARY KEY, value_text TEXT, value_int INTEGER);",
        "UPDATE files SET shard = 'x';",
        "UPDATE files SET offset = -3;",
        "UPDATE files SET path = x'ff00' WHERE size = 2;",
    ],
)
def test_old_indexes_that_are_more_than_tables(change: str, tmp_path: Path) -> None:
    path = str(tmp_path / "old.barecat")
    Path(f"{path}-shard-00000").write_bytes(b"abcde")
    with contextlib.closing(sqlite3.connect(f"{path}-sqlite-index")) as connection:
        connection.executescript(OLD + change)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(barecat.BarecatError):
        upgrade(path)
    assert sorted(os.listdir(tmp_path)) == before


def test_an_old_index_with_changes_beside_it(tmp_path: Path) -> None:
    path = str(tmp_path / "old.barecat")
    with contextlib.closing(sqlite3.connect(f"{path}-sqlite-index")) as connection:
        connection.executescript(OLD)
    Path(f"{path}-sqlite-index-wal").write_bytes(b"7\x7f\x06\x82" + bytes(100))
    with pytest.raises((barecat.BarecatError, HeadraceError), match=r"repair|killed"):
        upgrade(path)
    assert not os.path.exists(f"{path}-sqlite-index.old")


def test_newer_and_older_minor_versions(filled: str) -> None:
    for minor in (2, 4):
        with Index(filled, readonly=False) as index:
            index.cursor.execute(f"UPDATE config SET value_int = {minor} WHERE key = 'schema_version_minor'")
        with pytest.warns(UserWarning, match="newer" if minor == 4 else "barecat upgrade"), Barecat(filled) as bc:
            assert bc["a.txt"] == b"first"
        with pytest.raises(barecat.BarecatError, match="schema version"):
            Barecat(filled, readonly=False)
        if minor == 2:
            upgrade(filled, preserve_backup=False)
            assert get_schema_version(filled) == (0, 3)
        else:
            with pytest.raises(ValueError, match="newer"):
                upgrade(filled)
