"""The archive as a mapping: names, directories, changes, modes, limits."""

from __future__ import annotations

import array
import io
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.formats.barecat.tools import FILES

from headrace.errors import (
    ClosedError,
    DirectoryNotEmptyError,
    EntryExistsError,
    EntryIsDirectoryError,
    EntryIsFileError,
    EntryNotFoundError,
    FileTooLargeError,
)
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit.maintenance import defragment, reshard

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("preload", [False, True])
def test_what_was_stored_comes_back(full: Path, preload: bool) -> None:
    archive = Archive(full, preload=preload)
    assert dict(archive) == dict(archive.items()) == FILES
    assert sorted(archive.values()) == sorted(FILES.values())
    names = list(FILES)[::-1] * 2
    assert archive.read_many(names) == [FILES[name] for name in names]
    assert archive.read_many([]) == []
    assert len(archive) == len(FILES)
    assert archive["./d0//e0/0.bin"] == FILES["d0/e0/0.bin"]
    assert archive.read_many(["/d1/e1/1.bin"]) == [FILES["d1/e1/1.bin"]]
    assert archive.read("d1/e1/1.bin", 5, 10) == FILES["d1/e1/1.bin"][5:15]
    assert archive.read("d1/e1/1.bin", 5000) == b""
    buffer = bytearray(10)
    assert archive.readinto("d1/e1/1.bin", buffer, 30) == 7
    assert "d1/e1/1.bin" in archive
    assert "d1/e1" not in archive
    for wrong in ("nope", "d1/e1/\udcff"):
        with pytest.raises(EntryNotFoundError):
            archive[wrong]
    with pytest.raises(EntryIsDirectoryError):
        archive["d1"]
    with pytest.raises(EntryNotFoundError):
        archive.read_many(["d1/e1/1.bin", "nope"])


def test_errors_are_the_builtins_they_mirror(full: Path) -> None:
    archive = Archive(full)
    for builtin in (KeyError, FileNotFoundError):
        with pytest.raises(builtin, match=r"x\.barecat: nope does not exist"):
            archive["nope"]
    assert archive.get("nope") is None
    with pytest.raises(PermissionError, match="reading only"):
        archive["new"] = b""
    archive.close()
    with pytest.raises(ClosedError):
        archive["nope"]


def test_directories_and_statistics(full: Path) -> None:
    archive = Archive(full)
    root = archive.stat("")
    assert (root.num_subdirs, root.num_files, root.num_files_tree) == (5, 0, 200)
    assert root.size_tree == archive.total_size == sum(map(len, FILES.values()))
    assert sorted(archive.listdir()) == ["d0", "d1", "d2", "d3", "d4"]
    assert sorted(archive.listdir("d0")) == ["e0", "e1", "e2"]
    with pytest.raises(EntryIsFileError):
        archive.listdir("d0/e0/0.bin")
    walked = [name for directory, _, files in archive.walk() for name in (f"{directory}/{f}" for f in files)]
    assert sorted(walked) == sorted(FILES)
    pruned = []
    for directory, dirs, _ in archive.walk():
        dirs[:] = [name for name in dirs if name != "e0"]
        pruned.append(directory)
    assert "d0/e0" not in pruned
    assert "d0/e1" in pruned


def test_changes(path: Path) -> None:
    about = Metadata(0o640, 1, 2, 3)
    with Archive(path, "x") as archive:
        archive.add("a/b", b"one", metadata=about)
        archive.add("a/c", io.BytesIO(b"two"), size=3)
        archive.add("a/b", b"ONE", replace=True)
        with pytest.raises(EntryExistsError):
            archive["a/b"] = b""
        with pytest.raises(EntryIsDirectoryError):
            archive["a"] = b""
        with pytest.raises(EntryIsFileError):
            archive["a/b/c"] = b""
        with pytest.raises(OSError, match="ended after 2 bytes"):
            archive.add("short", io.BytesIO(b"ab"), size=10)
        archive.rename("a", "deep/er")
        assert archive.stat("deep").num_files_tree == 2
        with pytest.raises(ValueError, match="lies inside"):
            archive.rename("deep", "deep/inside")
        with pytest.raises(EntryExistsError):
            archive.rename("deep/er/b", "deep/er/c")
        with pytest.raises(DirectoryNotEmptyError):
            archive.rmdir("deep/er")
        archive.mkdir("void")
        with pytest.raises(EntryExistsError):
            archive.mkdir("void")
        archive.mkdir("void", exist_ok=True)
        archive.rmdir("void")
        archive.remove("deep/er/c")
        assert archive.stat("deep/er/b").metadata == about
        archive.rmtree("deep")
        assert (len(archive), archive.num_dirs) == (0, 1)
        archive["again"] = b"x"
        archive.clear()
        assert list(archive) == []
    assert Archive(path).verify().ok


@pytest.mark.parametrize("name", ["../up", "..", "nul\0", "\udcff"])
def test_hostile_names_are_refused(path: Path, name: str) -> None:
    with Archive(path, "x") as archive, pytest.raises(ValueError, match=r"leads out|NUL|UTF-8"):
        archive[name] = b""


@pytest.mark.parametrize("name", ["what? #1 100% [a].barecat", "new\nline.barecat"])
def test_archives_with_awkward_names(tmp_path: Path, name: str) -> None:
    with Archive(tmp_path / name, "x", shard_size=10) as archive:
        archive.update({f"[{i}]?*": bytes(8) for i in range(5)})
    assert len(dict(Archive(tmp_path / name).items())) == 5


def test_pickling_reopens(full: Path) -> None:
    again = pickle.loads(pickle.dumps(Archive(full, preload=True)))
    assert again["d1/e1/1.bin"] == FILES["d1/e1/1.bin"]
    with Archive(full, "r+") as writer, pytest.raises(TypeError, match="open for writing"):
        pickle.dumps(writer)


def test_limits(path: Path) -> None:
    with Archive(path, "x", shard_size=100) as archive:
        with pytest.raises(FileTooLargeError, match="101 bytes"):
            archive["big"] = bytes(101)
        archive["exact"] = bytes(100)
        archive["next"] = b"1"
        assert archive.stat("next").shard == 1
        assert archive.shard_size == 100
    with pytest.raises(ValueError, match="at least 100"):
        Archive(path, "r+", shard_size=50)
    with Archive(path, "r+", append_only=True) as archive:
        archive["appended"] = bytes(100)
        archive["rolled"] = bytes(100)
        with pytest.raises(PermissionError, match="appending only"):
            del archive["exact"]
    assert len(Archive(path)) == 4


def test_modes(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Archive(path)
    with pytest.raises(FileNotFoundError):
        Archive(path, "r+")
    Archive(path, "a").close()
    with pytest.raises(FileExistsError):
        Archive(path, "x")
    with Archive(path, "w") as archive:
        archive["a"] = b""
    assert list(Archive(path)) == ["a"]
    with pytest.raises(IsADirectoryError):
        Archive(tmp_path, "a")
    with pytest.raises(FileNotFoundError, match="mkdir"):
        Archive(tmp_path / "no" / "x.barecat", "x")
    with pytest.raises(ValueError, match="mode"):
        Archive(path, "rw")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [array.array("i", [1, 2]), memoryview(array.array("d", [1.5])), np.arange(6.0).reshape(2, 3)[:, ::2]]
)
def test_numbers_are_stored_as_all_their_bytes(path: Path, value: Any) -> None:
    with Archive(path, "x") as archive:
        archive["a"] = value
        archive.add("b", b"")
        archive.update_file("b", value)
    with Archive(path) as archive:
        assert archive["a"] == archive["b"] == memoryview(value).tobytes()
        assert archive.verify().ok


@pytest.mark.parametrize("value", ["text", 5, None, [1], io.StringIO("text")])
def test_what_has_no_bytes_is_refused(path: Path, value: Any) -> None:
    with Archive(path, "x") as archive:
        with pytest.raises(TypeError, match="bytes are needed"):
            archive["a"] = value
        archive["a"] = b"1"
        with pytest.raises(TypeError, match="bytes are needed"):
            archive.update_file("a", value)
        assert archive["a"] == b"1"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "x", np.int64(5)])
def test_metadata_that_no_index_can_hold(path: Path, value: Any) -> None:
    about = Metadata(mtime_ns=value)
    with Archive(path, "x") as archive:
        archive["there"] = b""
        for change in (
            lambda: archive.add("a", b"", metadata=about),
            lambda: archive.mkdir("d", metadata=about),
            lambda: archive.set_metadata("there", about),
            lambda: archive.update_file("there", b"", metadata=about),
        ):
            with pytest.raises((TypeError, ValueError), match="mtime_ns must"):
                change()
    assert list(Archive(path)) == ["there"]


def test_get_gives_the_default_for_directories(path: Path) -> None:
    with Archive(path, "x") as archive:
        archive["a/b"] = b"1"
        assert [archive.get(name, b"no") for name in ("a/b", "a", "", "c")] == [b"1", b"no", b"no", b"no"]


def test_clear_removes_every_name(path: Path) -> None:
    with Archive(path, "x") as archive:
        archive["\U0010ffff/x"] = archive["a"] = b"1"
        archive.clear()
        assert (len(archive), list(archive), archive.listdir()) == (0, [], [])
        assert archive.verify().ok


def test_errors_say_the_final_name(tmp_path: Path) -> None:
    with new_archive(tmp_path / "x.barecat") as archive:
        archive["a/b"] = b"1"
        for _ in range(2):  # waiting to be put into the index, and in it
            with pytest.raises(EntryExistsError) as caught:
                archive["a/b"] = b"2"
            assert caught.value.path == str(tmp_path / "x.barecat")
            with pytest.raises(EntryExistsError) as caught:
                archive.mkdir("a")
            assert caught.value.path == str(tmp_path / "x.barecat")
            archive.commit()
        assert "incomplete" not in repr(archive)
    assert dict(Archive(tmp_path / "x.barecat")) == {"a/b": b"1"}


def test_writing_outlives_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    files = {f"d/{i}": bytes([i]) * 60 for i in range(20)}
    with Archive("x.barecat", "x", shard_size=100) as archive:
        archive["d/0"] = files["d/0"]
        monkeypatch.chdir(tmp_path / "sub")
        archive.update({name: data for name, data in files.items() if name != "d/0"})
        archive.commit()
        archive.update_file("d/3", b"in place")
        archive.commit()
        archive.update_file("d/3", files["d/3"])
        defragment(archive)
        reshard(archive, 200)
        assert archive.verify().ok
        assert dict(archive) == files
    monkeypatch.chdir(tmp_path)
    with new_archive("y.barecat", shard_size=100) as archive:
        monkeypatch.chdir(tmp_path / "sub")
        archive.update(files)
    monkeypatch.chdir(tmp_path)
    reader = Archive("y.barecat")
    monkeypatch.chdir(tmp_path / "sub")
    assert dict(pickle.loads(pickle.dumps(reader))) == files
    assert os.listdir() == []
    assert dict(Archive(tmp_path / "x.barecat")) == files
