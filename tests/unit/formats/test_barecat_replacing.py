"""Archives in the making: what lies beside them, who else may write, where they go."""

from __future__ import annotations

import errno
import os
import pickle
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.errors import ArchiveBusyError, EntryExistsError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit.maintenance import defragment, reshard
from headrace.formats.barecat.pack import pack_files

if TYPE_CHECKING:
    from pathlib import Path


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


def test_leftovers_are_kept_where_nobody_can_tell_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [tmp_path / f".x.barecat.0123abcd.incomplete{end}" for end in ("", "-shard-00000", "-journal", "-replace")]
    other = [tmp_path / name for name in (".x.barecat.0123abcd.incomplete.txt", ".y.barecat.0123abcd.incomplete")]
    for file in left + other:
        file.write_bytes(b"x")

    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", flock)
        hr.write(tmp_path / "x.barecat", [b"1"], fields={"data": hr.Bytes()})
    assert all(file.exists() for file in left + other)
    hr.write(tmp_path / "x.barecat", [b"2"], fields={"data": hr.Bytes()})
    assert sorted(os.listdir(tmp_path)) == sorted(
        [*(file.name for file in other), "x.barecat", "x.barecat-shard-00000"]
    )


def test_an_archive_does_not_pack_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"1")
    for _ in range(2):
        with new_archive("x.barecat") as archive:
            pack_files(archive, ["."], itself="x.barecat")
    assert dict(Archive("x.barecat")) == {"a": b"1"}


def test_an_archive_that_somebody_writes_to_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.barecat.edit.lock.WAIT_S", 0)
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as writer:
        writer["a"] = b"1"
        with pytest.raises(ArchiveBusyError), new_archive(path):
            pytest.fail("it must be noticed at the beginning")
        writer["b"] = b"2"
    with pytest.raises(ArchiveBusyError), new_archive(path):
        late = Archive(path, "r+")
    late["d"] = b"4"
    late.close()
    assert dict(Archive(path)) == {"a": b"1", "b": b"2", "d": b"4"}
    assert len(list(tmp_path.iterdir())) == 2
