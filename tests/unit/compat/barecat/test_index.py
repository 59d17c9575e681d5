"""``Index``, with an archive around it and without."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from headrace.compat.barecat import (
    Barecat,
    BarecatDirInfo,
    BarecatError,
    BarecatFileInfo,
    DirectoryNotEmptyBarecatError,
    FileExistsBarecatError,
    FileNotFoundBarecatError,
    Index,
    IsADirectoryBarecatError,
    NotADirectoryBarecatError,
    Order,
    read_index,
    write_index,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["archive", "file"])
def index(request: pytest.FixtureRequest, path: str) -> Iterator[Index]:
    if request.param == "archive":
        with Barecat(path, readonly=False) as bc:
            _fill(bc.index)
            yield bc.index
    else:
        with Index(path, readonly=False) as index:
            _fill(index)
            yield index


def _fill(index: Index) -> None:
    offset = 0
    for number, name in enumerate(["z", "d/a", "d/b", "d/e/f", "q/r"]):
        index.add(BarecatFileInfo(name, shard=0, offset=offset, size=10 * number, crc32c=number, mode=0o644))
        offset += 10 * number


def test_look_ups(index: Index) -> None:
    info = index.lookup_file("/d//b")
    assert info.asdict() == {
        "path": "d/b",
        "shard": 0,
        "offset": 10,
        "size": 20,
        "crc32c": 2,
        "mode": 0o644,
        "uid": None,
        "gid": None,
        "mtime_ns": None,
    }
    assert (info.end, info.isfile(), info.isdir()) == (30, True, False)
    assert [i.path for i in index.lookup_files(["q/r", "z", "q/r"])] == ["q/r", "z", "q/r"]
    assert index.lookup_files([]) == []
    directory = index.lookup("d")
    assert isinstance(directory, BarecatDirInfo)
    assert (directory.num_files, directory.num_subdirs, directory.num_entries) == (2, 1, 3)
    assert (directory.num_files_tree, directory.size_tree, directory.isdir()) == (3, 60, True)
    assert isinstance(index.lookup("z"), BarecatFileInfo)
    for call in (index.lookup, index.lookup_file, index.lookup_dir, lambda p: index.lookup_files(["z", p])):
        with pytest.raises(FileNotFoundBarecatError):
            call("no")
    assert "z" in index
    assert "d" not in index
    assert (len(index), index.num_dirs, index.total_size, index.num_used_shards) == (5, 4, 100, 1)


def test_everything_in_an_order(index: Index) -> None:
    def paths(order: Order) -> list[str]:
        return [info.path for info in index.iter_all_fileinfos(order)]

    assert paths(Order.PATH) == ["d/a", "d/b", "d/e/f", "q/r", "z"]
    assert paths(Order.PATH | Order.DESC) == ["z", "q/r", "d/e/f", "d/b", "d/a"]
    assert paths(Order.ADDRESS)[2:] == ["d/b", "d/e/f", "q/r"]  # an empty file has the address of its neighbour
    assert paths(Order.ADDRESS | Order.DESC)[0] == "q/r"
    assert sorted(paths(Order.RANDOM)) == sorted(paths(Order.ANY)) == sorted(info.path for info in index)
    assert list(index.iter_all_filepaths(Order.PATH)) == paths(Order.PATH)
    assert list(index.iter_all_dirpaths(Order.PATH)) == ["", "d", "d/e", "q"]
    assert [d.path for d in index.iter_all_dirinfos(Order.ADDRESS)] == ["", "d", "d/e", "q"]
    both = ["", "d", "d/a", "d/b", "d/e", "d/e/f", "q", "q/r", "z"]
    assert [info.path for info in index.iter_all_infos(Order.PATH)] == both
    assert list(index.iter_all_paths(Order.PATH)) == both
    assert sorted(index.iter_all_paths(Order.ADDRESS)) == both
    assert sorted(info.path for info in index.iter_all_infos()) == both


def test_one_directory(index: Index) -> None:
    assert index.listdir_names("d", Order.PATH) == ["a", "b", "e"]
    assert sorted(index.iterdir_names("d")) == ["a", "b", "e"]
    assert [i.path for i in index.listdir_infos("d", Order.PATH)] == ["d/e", "d/a", "d/b"]
    assert [i.path for i in index.iterdir_infos(index.lookup_dir("d"), Order.PATH)] == ["d/e", "d/a", "d/b"]
    assert [i.path for i in index.list_direct_fileinfos("d", Order.PATH)] == ["d/a", "d/b"]
    assert [i.path for i in index.iter_subdir_dirinfos("d")] == ["d/e"]
    assert [i.path for i in index.list_subdir_dirinfos("", Order.PATH)] == ["d", "q"]
    walked = [(d.path, [s.path for s in dirs], [f.path for f in files]) for d, dirs, files in index.walk_infos("d")]
    assert walked == [("d", ["d/e"], ["d/a", "d/b"]), ("d/e", [], ["d/e/f"])]
    with pytest.raises(FileNotFoundBarecatError):
        index.listdir_names("no")


def test_patterns(index: Index) -> None:
    assert sorted(index.raw_glob_paths("d*")) == ["d", "d/a", "d/b", "d/e", "d/e/f"]
    assert sorted(index.raw_iterglob_paths("d*", only_files=True)) == ["d/a", "d/b", "d/e/f"]
    assert sorted(index.raw_iterglob_paths_multi(["z", "q*"])) == ["q", "q/r", "z"]
    assert sorted(i.path for i in index.raw_iterglob_infos("d/?")) == ["d/a", "d/b", "d/e"]
    chained = index.raw_iterglob_infos_incl_excl([(True, "d*"), (False, "d/e*")], only_files=True)
    assert sorted(i.path for i in chained) == ["d/a", "d/b"]
    assert sorted(index.glob_paths("d/[!b]")) == ["d/a", "d/e"]
    assert sorted(i.path for i in index.iterglob_infos("**/f", recursive=True)) == ["d/e/f"]
    rules = [("-", "d/e/**"), ("+", "d/**"), ("-", "**")]
    assert sorted(i.path for i in index.iterglob_infos_incl_excl(rules, only_files=True)) == ["d/a", "d/b"]
    assert list(index.iterglob_infos_incl_excl([], default_include=False)) == []


def test_adding(index: Index) -> None:
    with pytest.raises(FileExistsBarecatError):
        index.add_file(BarecatFileInfo("z", shard=0, offset=0, size=0))
    with pytest.raises(IsADirectoryBarecatError):
        index.add_file(BarecatFileInfo("d", shard=0, offset=0, size=0))
    with pytest.raises(NotADirectoryBarecatError):
        index.add_file(BarecatFileInfo("z/x", shard=0, offset=0, size=0))
    new = [BarecatFileInfo(f"n/{i}", shard=0, offset=0, size=1) for i in range(3)]
    with pytest.raises(FileExistsBarecatError):
        index.add_files([*new, new[0]])
    assert not index.isfile("n/0")
    index.add_files(new)
    assert index.lookup_dir("n").size_tree == 3
    with pytest.raises(NotADirectoryBarecatError):
        index.add_dir(BarecatDirInfo("z/below"))
    with pytest.raises(ValueError, match="leads out"):
        index.add_file(BarecatFileInfo("../x", shard=0, offset=0, size=0))
    with pytest.raises(TypeError):
        index.add("z")  # type: ignore[arg-type]
    assert index.verify_integrity()


def test_changing(index: Index) -> None:
    index.update_file("z", new_size=7, new_mode=0o600, new_crc32c=9)
    assert (index.lookup_file("z").size, index.lookup_file("z").mode, index.total_size) == (7, 0o600, 107)
    index.update_file("z")
    index.chmod("d", 0o700)
    index.chown("d", 5, 6)
    index.update_mtime("z", 77)
    assert (index.lookup_dir("d").mode, index.lookup_dir("d").uid, index.lookup_file("z").mtime_ns) == (0o700, 5, 77)
    for call in (lambda: index.chmod("no", 1), lambda: index.chown("no", 1, 1), lambda: index.update_mtime("no", 1)):
        with pytest.raises(FileNotFoundBarecatError):
            call()
    assert index.verify_integrity()


def test_names(index: Index) -> None:
    index.rename("z", "new/z")
    index.rename(index.lookup_dir("d"), "moved")
    assert sorted(index.iter_all_filepaths()) == ["moved/a", "moved/b", "moved/e/f", "new/z", "q/r"]
    with pytest.raises(FileExistsBarecatError):
        index.rename("new/z", "q/r")
    index.rename("new/z", "q/r", allow_overwrite=True)
    assert index.lookup_file("q/r").crc32c == 0
    index.add_dir(BarecatDirInfo("empty"))
    index.rename_dir("moved", "empty", allow_overwrite=True)
    with pytest.raises(DirectoryNotEmptyBarecatError):
        index.rename_dir("q", "empty", allow_overwrite=True)
    with pytest.raises(BarecatError):
        index.rename_dir("", "x")
    assert index.verify_integrity()


def test_removing(index: Index) -> None:
    index.remove_file("z")
    index.remove_files(["d/a", index.lookup_file("d/b")])
    with pytest.raises(FileNotFoundBarecatError):
        index.remove_file("z")
    with pytest.raises(DirectoryNotEmptyBarecatError):
        index.remove_empty_dir("d")
    index.remove_recursively("d")
    with pytest.raises(BarecatError):
        index.remove_recursively("")
    assert list(index.iter_all_paths(Order.PATH)) == ["", "q", "q/r"]
    assert index.verify_integrity()


def test_statistics_made_at_the_end(index: Index) -> None:
    with index.bulk_mode(drop_indexes=True):
        for number in range(10):
            index.add_file(BarecatFileInfo(f"bulk/{number % 3}/{number}", shard=1, offset=0, size=2))
    assert index.lookup_dir("bulk").num_files_tree == 10
    with index.no_triggers():
        index.add_file(BarecatFileInfo("quiet/x", shard=1, offset=0, size=2))
    assert not index.isdir("quiet")
    assert not index.verify_integrity()
    index.update_dirs()
    index.update_treestats()
    assert index.lookup_dir("quiet").size_tree == 2
    assert index.verify_integrity()
    with index.no_foreign_keys():
        assert not index._foreign_keys_enabled
    assert index._foreign_keys_enabled


@pytest.mark.parametrize("kind", [Barecat, Index])
def test_triggers_come_back_after_a_crash(filled: str, kind: type[Barecat] | type[Index]) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
    connection.commit()
    connection.close()
    with kind(filled, readonly=False) as opened:
        index = opened.index if isinstance(opened, Barecat) else opened
        index.add_file(BarecatFileInfo("late/x", shard=0, offset=0, size=2))
        assert index.lookup_dir("late").num_files == 1
        assert index.verify_integrity()


def test_places(index: Index) -> None:
    assert index.logical_shard_end(0) == 100
    assert index.get_last_file().path == "q/r"
    index.shard_size_limit = 120
    assert index.find_space("d/a", 5).path == "d/a"
    found = index.find_space("d/a", 20)
    assert (found.shard, found.offset) == (0, 100)
    found = index.find_space("d/a", 100)
    assert (found.shard, found.offset) == (1, 0)
    index.remove_file("d/b")
    found = index.find_space("z", 15)
    assert (found.shard, found.offset) == (0, 10)
    with pytest.raises(ValueError, match="smaller than the largest"):
        index.shard_size_limit = 50


def test_sql_of_ones_own(index: Index) -> None:
    assert index.fetch_one("SELECT count(*) AS n FROM files")["n"] == 5
    assert index.fetch_one("SELECT 1 FROM files WHERE path = 'no'") is None
    with pytest.raises(LookupError):
        index.fetch_one_or_raise("SELECT 1 FROM files WHERE path = 'no'")
    assert len(index.fetch_all("SELECT path FROM files")) == len(list(index.fetch_iter("SELECT path FROM files"))) == 5
    assert len(index.fetch_many("SELECT path FROM files", bufsize=2)) == 2
    rows = index.fetch_all("SELECT path, size FROM files WHERE path = ?", ("d/b",), rowcls=BarecatFileInfo)
    assert (rows[0].path, rows[0].size) == ("d/b", 20)
    index.cursor.execute("UPDATE files SET mode = 1 WHERE path = 'z'")
    assert index.lookup_file("z").mode == 1
    assert isinstance(index.conn, sqlite3.Connection)
    index.optimize()


def test_an_index_file(path: str, tmp_path: object) -> None:
    with pytest.raises(FileNotFoundError):
        Index(path)
    with Index(path, readonly=False, shard_size_limit="1K") as index:
        index.add_file(BarecatFileInfo("a", shard=0, offset=0, size=1, mtime_ns=datetime(2020, 1, 1)))
    index.close()
    with Index(path) as index:
        assert index.shard_size_limit == 1024
        info = index.lookup_file("a")
        assert info.mtime_dt == datetime(2020, 1, 1)
        with pytest.raises(PermissionError):
            index.remove_file("a")
        with pytest.raises(ValueError, match="read-only"):
            index.shard_size_limit = 5
    with pytest.warns(DeprecationWarning, match="deprecated"):
        assert read_index(path) == {"a": (0, 0, 1)}
    with pytest.warns(DeprecationWarning, match="deprecated"):
        write_index({"x/y": (0, 5, 2)}, f"{path}2")
    with Index(f"{path}2") as index:
        assert index.lookup_dir("x").size_tree == 2


def test_another_index_merged(index: Index, path: str) -> None:
    other = f"{path}-other"
    with Index(other, readonly=False) as source:
        source.add_dir(BarecatDirInfo("d", mode=0o070))
        source.add_file(BarecatFileInfo("d/new", shard=2, offset=3, size=4))
    index.merge_from_other_barecat(other)
    index.merge_from_other_barecat(other, prefix="pre/fix")
    assert index.lookup_file("d/new").shard == 3
    assert index.lookup_file("pre/fix/d/new").shard == 6
    assert index.lookup_dir("d").mode == 0o070
    with pytest.raises(FileExistsBarecatError):
        index.merge_from_other_barecat(other)
    index.merge_from_other_barecat(other, ignore_duplicates=True)
    with pytest.raises(ValueError, match="exists as a file"):
        index.merge_from_other_barecat(other, prefix="z/x")
    with index.attached_database(other):
        assert index.check_merge_conflicts("") == "path"
        with pytest.raises(ValueError, match="exists as a file"):
            index.check_merge_conflicts("z")
    assert index.verify_integrity()


def test_infos() -> None:
    info = BarecatFileInfo("x")
    info.path = "/a/../b/"
    assert info.path == "b"
    info.update_mtime()
    assert info.mtime_dt is not None
    info.mtime_dt = datetime(2021, 5, 5)
    assert info.mtime_ns == int(datetime(2021, 5, 5).timestamp() * 1e9)
    with pytest.raises(TypeError):
        BarecatFileInfo()
    with pytest.raises(AttributeError):
        info.other = 1  # type: ignore[attr-defined]
    assert BarecatDirInfo("d", num_subdirs=1, num_files=2).num_entries == 3
    assert (Order.ADDRESS | Order.DESC).as_query_text() == " ORDER BY shard DESC, offset DESC"
