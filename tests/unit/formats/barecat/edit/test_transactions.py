"""Opening for writing, commits, and what a failure leaves."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import FILES, TEXTS

from headrace.errors import ArchiveBusyError, FormatError
from headrace.formats.barecat.archive import Archive, new_archive
from headrace.formats.barecat.edit.maintenance import reshard
from headrace.formats.barecat.pack import pack_files
from headrace.transfer.sync import sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_two_writers(full: Path) -> None:
    with Archive(full, "r+") as archive:
        archive["mine"] = b"1"
        with pytest.raises(ArchiveBusyError, match="somebody else is writing"):
            Archive(full, "r+")
        archive["more"] = b"2"
    with Archive(full, "a") as archive:
        assert (archive["mine"], archive["more"]) == (b"1", b"2")


def test_wal(path: Path) -> None:
    with Archive(path, "x", wal=True) as archive:
        archive["a"] = b"1"
        archive.commit()
        assert Archive(path)["a"] == b"1"
    assert Archive(path)["a"] == b"1"


def test_a_writer_refuses_an_archive_with_parts_missing(full: Path) -> None:
    os.rename(f"{full}-shard-00001", f"{full}-hidden")
    with pytest.raises(FormatError, match="shard 1 is missing"):
        Archive(full, "r+")
    os.rename(f"{full}-hidden", f"{full}-shard-00001")
    full.unlink()
    with pytest.raises(FormatError, match="there is no index"):
        Archive(full, "a")


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


def test_no_space_for_the_index(texts: Path) -> None:
    archive = Archive(texts, "a")
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
    with Archive(texts) as again:
        assert len(again) == len(TEXTS) + 1
        assert again.verify().ok


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


def test_a_new_index_is_there_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*unused: object, **options: object) -> None:
        assert not path.exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("headrace.formats.barecat.edit.index_file.create_schema", fail)
        with pytest.raises(KeyboardInterrupt):
            Archive(path, "x")
    assert os.listdir(path.parent) == []
    path.write_bytes(b"")  # what other programs leave
    with Archive(path, "a") as archive:
        archive["a"] = b"1"
    assert Archive(path).verify().ok


def test_shards_that_were_made_go_when_their_change_fails(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(os.listdir(full.parent))

    def fail(*unused: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Archive(full, "r+") as archive, monkeypatch.context() as patch:
        patch.setattr("headrace.formats.barecat.edit.shard_writer.write_all", fail)
        with pytest.raises(OSError, match="No space"):
            reshard(archive, 1 << 20)
    assert sorted(os.listdir(full.parent)) == before
    assert Archive(full).verify().ok


def _add(path: Path, folder: Path) -> None:
    with Archive(path, "r+") as archive:
        pack_files(archive, ["big"], folder=str(folder))


def _sync(path: Path, folder: Path) -> None:
    sync([f"{folder}/"], str(path))


def _reshard(path: Path, folder: Path) -> None:
    with Archive(path, "r+") as archive:
        reshard(archive, 1 << 20)


@pytest.mark.parametrize("change", [_add, _sync, _reshard])
def test_a_full_disk_is_told_about_the_archive(
    full: Path, tmp_path: Path, change: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "big").write_bytes(bytes(10_000))

    def fail(*unused: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headrace.formats.barecat.edit.shard_writer.write_all", fail)
        with pytest.raises(OSError, match=r"No space left on device; the archive is as it was.*make room") as caught:
            change(full, folder)
    assert caught.value.filename == str(full)
    assert dict(Archive(full)) == FILES
    assert Archive(full).verify().ok


def test_a_full_disk_leaves_nothing_of_a_new_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new.barecat"

    def fail(*unused: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headrace.formats.barecat.edit.shard_writer.write_all", fail)
    with (
        pytest.raises(OSError, match="No space left on device; nothing was written under this name") as caught,
        new_archive(path) as archive,
    ):
        archive["a"] = bytes(2 << 20)
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []
