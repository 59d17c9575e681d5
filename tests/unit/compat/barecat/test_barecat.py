"""``Barecat``: the mapping, the file system, the errors."""

from __future__ import annotations

import io
import os
import pickle
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import headrace.compat.barecat as barecat
from headrace.compat.barecat import (
    Barecat,
    BarecatDirInfo,
    BarecatError,
    BarecatFileInfo,
    BarecatIntegrityError,
    DirectoryNotEmptyBarecatError,
    FileExistsBarecatError,
    FileNotFoundBarecatError,
    FileTooLargeBarecatError,
    IsADirectoryBarecatError,
    NotADirectoryBarecatError,
)

from .conftest import CONTENT

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_a_mapping(reader: Barecat) -> None:
    assert dict(reader.items()) == CONTENT
    assert sorted(reader) == sorted(reader.keys()) == sorted(CONTENT)
    assert sorted(reader.values()) == sorted(CONTENT.values())
    assert len(reader) == reader.num_files == 5
    assert reader["/dir//b.txt"] == b"second file"
    assert "dir/b.txt" in reader
    assert "dir" not in reader
    assert reader.get("nope") is None
    assert reader.get("nope", 3) == 3
    for name in ("nope", "dir"):
        with pytest.raises(KeyError):
            reader[name]


def test_changes_through_the_mapping(writer: Barecat) -> None:
    assert writer.setdefault("a.txt", b"new") == b"first"
    assert writer.setdefault("new", b"new") == b"new"
    assert writer.pop("new") == b"new"
    with pytest.raises(FileExistsBarecatError):
        writer["a.txt"] = b"again"
    with pytest.raises(KeyError):
        del writer["dir"]
    with pytest.raises(KeyError):
        del writer["nope"]
    writer.clear()
    assert len(writer) == 0


def test_what_there_is(reader: Barecat) -> None:
    assert sorted(reader.listdir("")) == ["a.txt", "dir", "other"]
    assert sorted(reader.listdir("dir")) == [".hidden", "b.txt", "sub"]
    assert sorted(reader.dirs()) == ["", "dir", "dir/sub", "other"]
    assert reader.num_dirs == 4
    assert reader.isfile("a.txt")
    assert reader.isdir("dir")
    assert reader.exists("dir/sub")
    assert not reader.exists("no")
    walked = {d: (sorted(dirs), sorted(files)) for d, dirs, files in reader.walk("")}
    assert walked["."] == (["dir", "other"], ["a.txt"])
    assert next(iter(walked)) == "."
    assert next(info.path for info in reader.scandir("dir")) == "dir/sub"
    assert reader.total_size == reader.total_logical_size == sum(map(len, CONTENT.values()))
    assert reader.total_physical_size_stat == reader.total_physical_size_seek == reader.total_size
    assert reader.physical_shard_end(0) == reader.logical_shard_end(0) == reader.total_size
    for call in (reader.listdir, lambda p: list(reader.walk(p)), reader.scandir):
        with pytest.raises(FileNotFoundBarecatError):
            call("a.txt")


def test_patterns(reader: Barecat) -> None:
    assert sorted(reader.glob("*")) == ["a.txt", "dir", "other"]
    assert sorted(reader.glob("dir/*")) == ["dir/b.txt", "dir/sub"]
    assert sorted(reader.glob("dir/*", include_hidden=True)) == ["dir/.hidden", "dir/b.txt", "dir/sub"]
    assert sorted(reader.iglob("**/*.txt", recursive=True)) == ["a.txt", "dir/b.txt"]
    assert sorted(reader.globfiles("dir/**", recursive=True)) == ["dir/b.txt", "dir/sub/c.bin"]
    assert sorted(reader.iglobfiles("*")) == ["a.txt"]
    assert "dir/" in reader.glob("dir/**", recursive=True)
    assert reader.glob("no/*") == []


def test_parts_of_files(reader: Barecat) -> None:
    info = reader.index.lookup_file("dir/b.txt")
    assert reader.read("dir/b.txt") == reader.read(info) == b"second file"
    assert reader.read("dir/b.txt", 7) == b"file"
    assert reader.read(info, 2, 3) == b"con"
    assert reader.read("dir/b.txt", 100) == b""
    buffer = bytearray(6)
    assert reader.readinto("dir/b.txt", buffer) == 6
    assert bytes(buffer) == b"second"
    assert reader.readinto(info, buffer, 7) == 4
    with pytest.raises(FileNotFoundBarecatError):
        reader.readinto("nope", buffer)
    with pytest.raises(FileNotFoundBarecatError):
        reader.read("dir")


@pytest.mark.parametrize(
    ("call", "error", "builtin"),
    [
        (lambda bc: bc.add("dir", data=b""), IsADirectoryBarecatError, IsADirectoryError),
        (lambda bc: bc.add("a.txt/x", data=b""), NotADirectoryBarecatError, NotADirectoryError),
        (lambda bc: bc.add("a.txt", data=b""), FileExistsBarecatError, FileExistsError),
        (lambda bc: bc.mkdir("a.txt"), NotADirectoryBarecatError, NotADirectoryError),
        (lambda bc: bc.mkdir("dir"), FileExistsBarecatError, FileExistsError),
        (lambda bc: bc.remove("no"), FileNotFoundBarecatError, FileNotFoundError),
        (lambda bc: bc.remove("dir"), IsADirectoryBarecatError, IsADirectoryError),
        (lambda bc: bc.rmdir("dir"), DirectoryNotEmptyBarecatError, OSError),
        (lambda bc: bc.rmtree(""), BarecatError, Exception),
        (lambda bc: bc.rename("no", "x"), FileNotFoundBarecatError, FileNotFoundError),
        (lambda bc: bc.rename("a.txt", "dir"), IsADirectoryBarecatError, IsADirectoryError),
        (lambda bc: bc.rename("dir", "a.txt"), NotADirectoryBarecatError, NotADirectoryError),
        (lambda bc: bc.rename("dir", "other"), FileExistsBarecatError, FileExistsError),
        (lambda bc: bc.rename("dir", "dir/x"), BarecatError, Exception),
        (lambda bc: bc.rename("", "x"), BarecatError, Exception),
        (lambda bc: bc.update_file("no", data=b""), FileNotFoundBarecatError, FileNotFoundError),
        (lambda bc: bc.open("no", "r+b"), FileNotFoundBarecatError, FileNotFoundError),
        (lambda bc: bc.open("a.txt", "x"), FileExistsBarecatError, FileExistsError),
        (lambda bc: bc.open("dir", "w"), IsADirectoryBarecatError, IsADirectoryError),
    ],
)
def test_errors_are_also_the_builtin_ones(
    writer: Barecat, call: Any, error: type[Exception], builtin: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        call(writer)
    assert isinstance(caught.value, builtin)
    assert isinstance(caught.value, BarecatError)
    assert dict(writer.items()) == CONTENT
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value)
    assert str(copy) == str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Either data or fileobj"),
        ({"data": b"", "fileobj": io.BytesIO()}, "Both data and fileobj"),
        ({"data": "text"}, "Data must be bytes"),
    ],
)
def test_contradicting_contents_are_refused(writer: Barecat, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        writer.add("new", **arguments)
    with pytest.raises(ValueError, match="size does not match"):
        writer.add(BarecatFileInfo("new", size=3), data=b"12")
    with pytest.raises(ValueError, match="Size mismatch"):
        writer.add(BarecatFileInfo("new", size=3), fileobj=io.BytesIO(b"12"))
    assert "new" not in writer
    assert writer.verify_integrity()


@pytest.mark.parametrize("size", [None, 5, 3_000_000])
def test_files_from_streams(writer: Barecat, size: int | None) -> None:
    data = os.urandom(size or 70_000)
    info = BarecatFileInfo("s", mode=0o600, uid=1, gid=2, mtime_ns=3, size=size)
    writer.add(info, fileobj=io.BytesIO(data))
    assert writer["s"] == data
    assert info.size == len(data)
    assert info.crc32c == writer.index.lookup_file("s").crc32c
    read, write = os.pipe()
    with os.fdopen(write, "wb") as out:
        out.write(b"through a pipe")
    with os.fdopen(read, "rb") as pipe:
        writer.add("p", fileobj=pipe)
    assert writer["p"] == b"through a pipe"


def test_existing_ones_that_are_fine(writer: Barecat) -> None:
    writer.add("a.txt", data=b"other", file_exist_ok=True)
    assert writer["a.txt"] == b"first"
    writer.add(BarecatDirInfo("dir", mode=0o700), dir_exist_ok=True)
    assert writer.index.lookup_dir("dir").mode == 0o700
    assert writer.index.lookup_dir("dir").num_files == 2
    writer.add(BarecatDirInfo("", mode=0o711), dir_exist_ok=True)
    assert writer.index.lookup_dir("").mode == 0o711


def test_from_the_disk(writer: Barecat, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"on disk")
    file.chmod(0o640)
    os.utime(file, ns=(5, 7))
    (tmp_path / "d").mkdir()
    writer.add_by_path(str(file), "x/f")
    writer.add_by_path(tmp_path / "d", "x/d")
    with pytest.raises(FileExistsBarecatError):
        writer.add_by_path(tmp_path / "d", "x/d")
    writer.add_by_path(tmp_path / "d", "x/d", dir_exist_ok=True)
    info = writer.index.lookup_file("x/f")
    assert (info.mode, info.mtime_ns, info.size) == (0o100640, 7, 7)
    assert writer.isdir("x/d")


def test_updates(writer: Barecat) -> None:
    before = writer.index.lookup_file("dir/b.txt")
    writer.update_file("dir/b.txt", data=b"short")
    after = writer.index.lookup_file("dir/b.txt")
    assert (after.shard, after.offset, after.size) == (before.shard, before.offset, 5)
    writer.update_file(after, BarecatFileInfo("dir/b.txt", mode=0o644), data=b"much longer than it was")
    assert writer["dir/b.txt"] == b"much longer than it was"
    assert writer.index.lookup_file("dir/b.txt").mode == 0o644
    writer.update_file("dir/b.txt", "moved.txt", fileobj=io.BytesIO(b"12345"), size=2)
    assert writer["moved.txt"] == b"12"
    assert "dir/b.txt" not in writer
    assert writer.verify_integrity()


def test_directories(writer: Barecat) -> None:
    writer.mkdir("new/deep", mode=0o700)
    assert writer.index.lookup_dir("new/deep").mode == 0o700
    writer.rmdir("new/deep")
    writer.rename("dir", "moved/here")
    assert writer["moved/here/sub/c.bin"] == CONTENT["dir/sub/c.bin"]
    assert writer.index.lookup_dir("moved").num_files_tree == 3
    writer.rmtree("moved")
    assert sorted(writer) == ["a.txt", "other/empty"]
    assert writer.verify_integrity()


def test_only_read(reader: Barecat) -> None:
    calls: list[Any] = [
        lambda: reader.__setitem__("x", b""),
        lambda: reader.mkdir("x"),
        lambda: reader.remove("a.txt"),
        lambda: reader.rename("a.txt", "x"),
        lambda: reader.update_file("a.txt", data=b""),
        lambda: reader.merge_from_other_barecat("x"),
        lambda: reader.sharder.add(data=b""),
        lambda: reader.index.add_file(BarecatFileInfo("x", shard=0, offset=0, size=0)),
    ]
    for call in calls:
        with pytest.raises(PermissionError):
            call()
    for fails in (lambda: reader.open("x", "w"), reader.defrag, lambda: setattr(reader, "shard_size_limit", 5)):
        with pytest.raises(ValueError, match="read-only"):
            fails()


def test_only_appended(filled: str) -> None:
    with Barecat(filled, readonly=False, append_only=True, shard_size_limit=12_000) as bc:
        bc["new"] = bytes(11_000)  # goes to a second shard
        with pytest.raises(PermissionError):
            bc.remove("a.txt")
        with pytest.raises(PermissionError):
            bc.open("a.txt", "wb")
    with Barecat(filled) as bc:
        assert bc.index.lookup_file("new").shard == 1
        assert bc.verify_integrity()


def test_opening(filled: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Barecat(tmp_path / "no.barecat")
    with pytest.raises(FileExistsError):
        Barecat(filled, readonly=False, exist_ok=False)
    with pytest.raises(ValueError, match="Threadsafe"):
        Barecat(filled, readonly=False, threadsafe=True)
    with Barecat(filled, readonly=False, overwrite=True) as bc:
        assert len(bc) == 0
    assert barecat.exists(filled)
    barecat.remove(filled)
    assert not barecat.exists(filled)
    assert os.listdir(tmp_path) == []


def test_limits_of_shards(path: str) -> None:
    with Barecat(path, shard_size_limit="1K", readonly=False) as bc:
        assert bc.shard_size_limit == bc.sharder.shard_size_limit == 1024
        for number in range(5):
            bc[str(number)] = bytes(400)
        assert bc.sharder.num_shards == 3
        with pytest.raises(FileTooLargeBarecatError) as caught:
            bc["large"] = bytes(2000)
        assert isinstance(caught.value, ValueError)
        with pytest.raises(ValueError, match="smaller than the largest"):
            bc.shard_size_limit = 100
        bc.shard_size_limit = "2K"
        bc["large"] = bytes(2000)
        assert bc.verify_integrity()


def test_it_can_be_pickled_and_shared_by_threads(filled: str) -> None:
    with Barecat(filled) as bc:
        found: list[dict[str, bytes]] = []
        with pickle.loads(pickle.dumps(bc)) as copy:
            threads = [threading.Thread(target=lambda: found.append(dict(copy.items()))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert found == [CONTENT] * 4
    with Barecat(filled, readonly=False) as bc, pytest.raises(ValueError, match="pickle"):
        pickle.dumps(bc)


def test_a_reader_sees_what_was_written_since(filled: str) -> None:
    with Barecat(filled) as reader:
        assert len(reader) == 5
        with Barecat(filled, readonly=False) as writer:
            writer["late"] = b"late"
        assert reader["late"] == b"late"
        assert len(reader) == 6
        assert "late" in reader.listdir("")


def test_damage_is_noticed(filled: str) -> None:
    with open(f"{filled}-shard-00000", "r+b") as shard:
        shard.write(b"F")
    with Barecat(filled) as bc:
        with pytest.raises(ValueError, match="CRC32C mismatch") as caught:
            bc["a.txt"]
        assert isinstance(caught.value, BarecatIntegrityError)
        with pytest.raises(ValueError, match="CRC32C mismatch"):
            list(bc.items())
        assert not bc.check_crc32c("a.txt")
        assert bc.check_crc32c("dir/b.txt")
        assert not bc.verify_integrity()
        assert bc.verify_integrity(quick=True)
    os.unlink(f"{filled}-shard-00000")
    with Barecat(filled) as bc:
        assert not bc.verify_integrity()
        with pytest.raises(BarecatError):
            bc["a.txt"]
        assert not bc.check_crc32c("a.txt")


def test_functions_that_open(filled: str, tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        bc = barecat.open(filled)
    assert len(bc) == 5
    with pytest.warns(DeprecationWarning, match="deprecated"), pytest.raises(ValueError, match="Invalid mode"):
        barecat.open(filled, "q")
    for mode in ("w+", "a+", "r+"):
        with pytest.warns(DeprecationWarning, match="deprecated"), barecat.open(tmp_path / "new", mode) as bc:
            bc[mode] = b""
    for mode in ("x+", "ax+"):
        with pytest.warns(DeprecationWarning, match="deprecated"), pytest.raises(FileExistsError):
            barecat.open(tmp_path / "new", mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert barecat.get_cached_reader(filled, auto_codec=False) is barecat.get_cached_reader(filled, False)
    with pytest.warns(FutureWarning):
        assert barecat.get_cached_reader(filled).auto_codec


def test_words_for_people(reader: Barecat, filled: str) -> None:
    assert repr(reader) == f"Barecat('{filled}', readonly, 5 files)"
    assert repr(BarecatFileInfo("a", size=3, shard=0)) == "BarecatFileInfo('a', 3 bytes, shard=0)"
    assert repr(BarecatDirInfo("d", num_files_tree=2, size_tree=2048)) == "BarecatDirInfo('d', 2 files, 2.0 KB)"
    reader.close()
    assert repr(reader) == f"Barecat('{filled}', readonly)"


def test_links_are_not_written_to(filled: str, tmp_path: Path) -> None:
    linked = str(tmp_path / "linked.barecat")
    barecat.merge_symlink([filled], linked)
    with pytest.raises(BarecatError, match="symbolic link") as caught:
        Barecat(linked, readonly=False)
    assert isinstance(caught.value, ValueError)
    with Barecat(linked, readonly=False, allow_writing_symlinked_shard=True) as bc:
        assert bc["a.txt"] == b"first"
