"""Archives: the mapping, directories, file objects, threads, processes, errors."""

from __future__ import annotations

import array
import errno
import io
import os
import pickle
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.errors import (
    ArchiveBusyError,
    ClosedError,
    CorruptFileError,
    DirectoryNotEmptyError,
    EntryExistsError,
    EntryIsDirectoryError,
    EntryIsFileError,
    EntryNotFoundError,
    FileTooLargeError,
    FormatError,
)
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.edit import shard_writer
from headrace.formats.barecat.edit.maintenance import defragment, find_gaps, reshard
from headrace.transfer.merge import link_archives, merge_archives

if TYPE_CHECKING:
    from pathlib import Path

FILES = {f"d{i % 5}/e{i % 3}/{i}.bin": bytes([i % 256]) * (i * 37 % 900) for i in range(200)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.barecat"


@pytest.fixture
def full(path: Path) -> Path:
    with Archive(path, "x", shard_size=20_000) as archive:
        archive.update(FILES)
    return path


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


def test_file_objects(path: Path) -> None:
    with Archive(path, "x") as archive:
        with archive.open("t.txt", "w") as file:
            file.write("héllo\nworld\n")
        with archive.open("t.txt", "a") as file:
            file.write("more")
        with archive.open("t.txt", "r+b") as file:
            assert file.read(1) == b"h"
            file.seek(0)
            file.write(b"H")
        with archive.open("t.txt") as file:
            assert file.readlines() == ["Héllo\n", "world\n", "more"]
        with pytest.raises(EntryExistsError):
            archive.open("t.txt", "x")
        with archive.open("gone", "wb") as file:
            file.write(b"12345")
        with archive.open("gone", "wb"):
            pass  # opened for writing and closed: empty
        assert archive["gone"] == b""
    archive = Archive(path)
    with archive.open("t.txt", "rb") as file:
        assert (file.seek(-4, 2), file.read(), file.read()) == (13, b"more", b"")
        file.seek(3)
        buffer = bytearray(3)
        assert (file.readinto(buffer), bytes(buffer)) == (3, b"llo")
    with pytest.raises(ValueError, match="mode must be"):
        archive.open("t.txt", "rw")
    with pytest.raises(PermissionError):
        archive.open("t.txt", "w")


def test_damage_is_an_error_that_names_the_file(full: Path) -> None:
    info = Archive(full).stat("d1/e1/1.bin")
    with open(f"{full}-shard-{info.shard:05d}", "r+b") as shard:
        shard.seek(info.offset)
        shard.write(b"\xff")
    for preload in (False, True):
        archive = Archive(full, preload=preload)
        for read in (lambda: archive["d1/e1/1.bin"], lambda: archive.read_many(["d1/e1/1.bin"])):  # noqa: B023
            with pytest.raises(CorruptFileError, match=r"d1/e1/1\.bin: checksum"):
                read()
        with archive.open("d1/e1/1.bin", "rb") as file, pytest.raises(CorruptFileError):
            file.read()
    assert Archive(full, checksums=False)["d1/e1/1.bin"][:1] == b"\xff"
    assert [p.message.split(":")[0] for p in Archive(full).verify().problems] == ["d1/e1/1.bin"]
    assert Archive(full).verify(quick=True).ok


def test_many_threads_share_one_archive(full: Path) -> None:
    archive = Archive(full)
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for name, data in FILES.items():
                assert archive[name] == data
            assert archive.read_many(list(FILES)) == list(FILES.values())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_many_threads_write(path: Path) -> None:
    with Archive(path, "x", shard_size=5000) as archive:
        names = [list(FILES)[i::4] for i in range(4)]
        threads = [
            threading.Thread(target=lambda part=part: archive.update({n: FILES[n] for n in part})) for part in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert dict(Archive(path).items()) == FILES
    assert Archive(path).verify().ok


def test_forked_children_read_and_may_not_write(full: Path) -> None:
    reader, writer = Archive(full), Archive(full, "r+")
    assert reader["d1/e1/1.bin"]
    child = os.fork()
    if child == 0:
        is_fine = all(reader[name] == data for name, data in FILES.items())
        try:
            writer["new"] = b""
            is_fine = False
        except RuntimeError:
            pass
        os._exit(0 if is_fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(reader[name] == data for name, data in FILES.items())
    writer["new"] = b"parent"
    writer.close()


def test_pickling_reopens(full: Path) -> None:
    again = pickle.loads(pickle.dumps(Archive(full, preload=True)))
    assert again["d1/e1/1.bin"] == FILES["d1/e1/1.bin"]
    with Archive(full, "r+") as writer, pytest.raises(TypeError, match="open for writing"):
        pickle.dumps(writer)


def test_two_writers(full: Path) -> None:
    with Archive(full, "r+") as archive:
        archive["mine"] = b"1"
        with pytest.raises(ArchiveBusyError, match="somebody else is writing"):
            Archive(full, "r+")
        archive["more"] = b"2"
    with Archive(full, "a") as archive:
        assert (archive["mine"], archive["more"]) == (b"1", b"2")


@pytest.mark.parametrize("preload", [False, True])
def test_a_reader_finds_what_was_written_later(full: Path, preload: bool) -> None:
    reader = Archive(full, preload=preload)
    assert "later" not in reader
    with Archive(full, "r+") as writer:
        writer["later"] = b"x" * 30_000 if writer.shard_size is None else b"x" * 10_000
    assert reader["later"] == b"x" * 10_000
    assert reader["d1/e1/1.bin"] == FILES["d1/e1/1.bin"]


def test_a_reader_beside_a_writer_sees_what_is_committed(path: Path) -> None:
    with Archive(path, "x") as writer:
        writer["a"] = b"1"
        writer.commit()
        writer["b"] = b"2"
        reader = Archive(path)
        assert list(reader) == ["a"]
        writer.commit()
        assert reader["b"] == b"2"


def test_wal(path: Path) -> None:
    with Archive(path, "x", wal=True) as archive:
        archive["a"] = b"1"
        archive.commit()
        assert Archive(path)["a"] == b"1"
    assert Archive(path)["a"] == b"1"


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


def test_a_writer_refuses_an_archive_with_parts_missing(full: Path) -> None:
    os.rename(f"{full}-shard-00001", f"{full}-hidden")
    with pytest.raises(FormatError, match="shard 1 is missing"):
        Archive(full, "r+")
    os.rename(f"{full}-hidden", f"{full}-shard-00001")
    full.unlink()
    with pytest.raises(FormatError, match="there is no index"):
        Archive(full, "a")


def test_symlinked_shards_are_not_written(full: Path, tmp_path: Path) -> None:
    link_archives([full], tmp_path / "link.barecat")
    linked = Archive(tmp_path / "link.barecat")
    assert dict(linked.items()) == FILES
    assert linked.verify().ok
    with pytest.raises(FormatError, match="symbolic link"):
        Archive(tmp_path / "link.barecat", "r+")
    Archive(tmp_path / "link.barecat", "r+", allow_links=True).close()


def test_linking_archives_with_an_empty_last_shard(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.barecat", "x", shard_size=10) as archive:
        archive["a1"], archive["a2"] = b"x" * 10, b"y" * 10
        archive.commit()
        del archive["a2"]
    with Archive(tmp_path / "b.barecat", "x") as archive:
        archive["b"] = b"z"
    link_archives([tmp_path / "a.barecat", tmp_path / "b.barecat"], tmp_path / "all.barecat")
    assert dict(Archive(tmp_path / "all.barecat").items()) == {"a1": b"x" * 10, "b": b"z"}


def test_merging(full: Path, tmp_path: Path) -> None:
    with Archive(tmp_path / "m.barecat", "x") as target:
        merge_archives([full], target, as_subdirs=True, prefix="p", rules=[(False, "d0/**"), (True, "**")])
        again = merge_archives([full], target, as_subdirs=True, prefix="p", ignore_duplicates=True)
        with pytest.raises(EntryExistsError):
            merge_archives([full], target, as_subdirs=True, prefix="p")
    assert again.files == sum(name.startswith("d0/") for name in FILES)
    merged = dict(Archive(tmp_path / "m.barecat").items())
    assert merged == {f"p/x/{name}": data for name, data in FILES.items()}


@pytest.mark.parametrize("method", ["full", "smart", "quick"])
def test_defragmenting(full: Path, method: str) -> None:
    left = dict(FILES)
    with Archive(full, "r+") as archive:
        with archive.open("made-by-open", "w"):
            pass  # an empty file at the beginning of a shard is no gap
        left["made-by-open"] = b""
        for name in list(FILES)[::3]:
            del archive[name]
            del left[name]
        gaps = sum(size for _, _, size in find_gaps(archive))
        assert gaps > 0
        freed = defragment(archive, method)  # type: ignore[arg-type]
        assert freed > 0
        if method != "quick":
            assert find_gaps(archive) == []
        archive["after"] = b"still works"
        left["after"] = b"still works"
    assert dict(Archive(full).items()) == left
    assert Archive(full).verify().ok


@pytest.mark.parametrize("method", ["full", "smart", "quick"])
def test_defragmenting_with_empty_files_at_the_end(path: Path, method: str) -> None:
    with Archive(path, "x", shard_size=300) as archive:
        for name in "abcd":
            archive[name] = name.encode() * 150
        archive["empty"] = b""  # at byte 300 of shard 1
        archive["e"] = b"e" * 150
        archive["last"] = b""
        for name in "ae":
            del archive[name]
        assert archive.stat("last").shard == 2
        assert defragment(archive, method) == 150  # type: ignore[arg-type]
        assert find_gaps(archive) == []
        archive["more"] = b"m" * 100
    with Archive(path) as archive:
        assert archive.verify().ok
        assert dict(archive) == {n: n.encode() * 150 for n in "bcd"} | {"empty": b"", "last": b"", "more": b"m" * 100}
        assert all(info.shard < 2 for info in archive.files())
    assert [os.path.getsize(f"{path}-shard-0000{i}") for i in range(2)] == [300, 250]


@pytest.mark.parametrize("shard_size", [None, 50])
def test_nothing_but_empty_files(path: Path, shard_size: int | None) -> None:
    with Archive(path, "x", shard_size=shard_size) as archive:
        archive.update({"a": b"a" * 50, "b": b"b" * 50, "empty": b""})
        archive.commit()
        del archive["a"]
        del archive["b"]
        defragment(archive, "quick")
        assert archive.stat("empty").size == 0
    assert os.path.getsize(f"{path}-shard-00000") == 0
    assert not os.path.exists(f"{path}-shard-00001")
    assert Archive(path).verify().ok


def test_resharding(full: Path) -> None:
    with Archive(full, "r+") as archive:
        with pytest.raises(FileTooLargeError):
            reshard(archive, 100)
        for size in (1000, 50_000, 3000):
            reshard(archive, size)
            assert archive.shard_size == size
            assert dict(archive.items()) == FILES
        archive["after"] = bytes(3000)
        with pytest.raises(ArchiveBusyError):
            Archive(full, "r+")
    assert dict(Archive(full).items()) == FILES | {"after": bytes(3000)}
    assert Archive(full).verify().ok
    assert not [name for name in os.listdir(full.parent) if name.endswith(".new")]


def test_statistics_are_those_of_the_triggers(tmp_path: Path) -> None:
    """Rows put in many at once and rows put in one by one, by SQL alone, give the same tables."""
    with Archive(tmp_path / "a.barecat", "x") as archive:
        archive.update(FILES)
    with Archive(tmp_path / "b.barecat", "x") as other:
        pass
    connection = sqlite3.connect(tmp_path / "b.barecat")
    connection.execute("PRAGMA recursive_triggers = 1")
    for info in archive_rows(tmp_path / "a.barecat", "SELECT path, shard, offset, size, crc32c FROM files"):
        connection.execute("INSERT INTO files (path, shard, offset, size, crc32c) VALUES (?, ?, ?, ?, ?)", info)
    connection.commit()
    connection.close()
    question = "SELECT path, num_subdirs, num_files, num_files_tree, size_tree FROM dirs ORDER BY path"
    assert archive_rows(tmp_path / "a.barecat", question) == archive_rows(tmp_path / "b.barecat", question)
    assert not other.is_writable or other.path


def archive_rows(path: Path, question: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def test_a_full_disk_loses_nothing_that_was_committed(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shard_writer.write_all
    left = [150_000]

    def write_all(fd: int, buffers: list[bytes], position: int) -> None:
        size = sum(map(len, buffers))
        if size > left[0]:
            real(fd, [b"".join(buffers)[: left[0]]], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= size
        real(fd, buffers, position)

    monkeypatch.setattr(shard_writer, "write_all", write_all)
    archive = Archive(full, "r+")
    archive.update_file("d1/e1/1.bin", b"new")  # in place: must be put back
    archive["first"] = bytes(20_000)
    with pytest.raises(OSError, match="No space left") as caught:
        archive.update({f"more/{i}": bytes(20_000) for i in range(100)})
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="not committed is lost"):
        archive["again"] = b""
    with pytest.raises(OSError, match="not committed is lost"):
        archive.commit()
    archive.close()
    assert dict(Archive(full).items()) == FILES
    assert Archive(full).verify().ok
    assert not os.path.exists(f"{full}-undo")
    assert sum(p.stat().st_size for p in full.parent.glob("*-shard-*")) == sum(map(len, FILES.values()))


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


def test_file_objects_that_are_written_seek_as_others(path: Path) -> None:
    with Archive(path, "x") as archive, archive.open("a", "w+b") as file:
        for offset, whence in ((-1, 0), (-1, 1), (-1, 2)):
            with pytest.raises(ValueError, match="before the beginning"):
                file.seek(offset, whence)
        assert file.seek(5) == 5
        assert file.write(b"") == 0
        file.write(b"ab")
        file.seek(0)
        numbers = array.array("H", [9, 9, 9])
        assert file.readinto(numbers) == 6
        assert numbers.tobytes() == b"\0\0\0\0\0a"
    assert Archive(path)["a"] == b"\0\0\0\0\0ab"


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


def test_file_objects_of_an_archive_that_only_grows(path: Path) -> None:
    with Archive(path, "x", append_only=True) as archive:
        with archive.open("a/b", "w") as file:
            file.write("new")
            assert "a/b" not in archive
        assert archive["a/b"] == b"new"
        with archive.open("empty", "xb"):
            pass
        for mode in ("r+", "w", "a"):
            with pytest.raises(PermissionError, match="appending only"):
                archive.open("a/b", mode)
        with pytest.raises(EntryIsDirectoryError):
            archive.open("a", "w")
    assert dict(Archive(path)) == {"a/b": b"new", "empty": b""}


@pytest.mark.parametrize("sync", [True, False])
def test_sync_decides_whether_the_disk_is_waited_for(path: Path, sync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    monkeypatch.setattr(os, "fsync", waits.append)
    with Archive(path, "x", sync=sync) as archive:
        archive["a"] = b"123"
        archive.commit()
        archive.update_file("a", b"45")
        archive["b"] = b"6"
    assert bool(waits) is sync
    assert dict(Archive(path)) == {"a": b"45", "b": b"6"}
