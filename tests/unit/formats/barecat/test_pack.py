"""Files from the disk into an archive."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import picture
from tests.unit.transfer.tools import make_folder

import headrace as hr
from headrace.codecs import jpeg
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.pack import pack_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "in")


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


def test_packing_from_the_disk(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    bytes_of = []
    for workers in (1, 4):
        with Archive(tmp_path / f"{workers}.barecat", "x") as archive:
            result = pack_files(archive, ["in"], exclude=["deep"], workers=workers)
        assert sorted(line.partition(":")[0] for line in result.skipped) == ["in/broken", "in/loop", "in/pipe"]
        bytes_of.append((tmp_path / f"{workers}.barecat-shard-00000").read_bytes())
    assert bytes_of[0] == bytes_of[1]
    archive = Archive(tmp_path / "1.barecat")
    assert sorted(archive) == ["in/a/1.txt", "in/empty"]
    assert archive.stat("in/a/1.txt").metadata == Metadata.of((folder / "a" / "1.txt").stat())
    assert archive.stat("in/void").mtime_ns == 10**18
    with Archive(tmp_path / "1.barecat", "r+") as writer:
        with pytest.raises(FileExistsError):
            pack_files(writer, ["in"])
        assert pack_files(writer, ["in"], replace=True).files == 3
    os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT))
    with Archive(tmp_path / "bad.barecat", "x") as writer, pytest.raises(ValueError, match="UTF-8"):
        pack_files(writer, ["in"])


def test_a_list_of_names_may_have_what_cannot_be_packed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"1")
    os.symlink("nowhere", tmp_path / "broken")
    os.symlink("d", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    names = ["d", "d/a", "broken", "link", "pipe"]
    with Archive(tmp_path / "x.barecat", "x") as archive:
        result = pack_files(archive, names, folder=str(tmp_path), recurse=False)
        assert list(archive) == ["d/a"]
        assert archive.listdir() == ["d"]
        assert [line.partition(": ")[2][:14] for line in result.skipped] == [
            "a link that le",
            "a link to a di",
            "not a regular ",
        ]
        with pytest.raises(FileNotFoundError):
            pack_files(archive, ["no such file"], folder=str(tmp_path))


def test_an_archive_does_not_pack_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"1")
    for _ in range(2):
        with new_archive("x.barecat") as archive:
            pack_files(archive, ["."], itself="x.barecat")
    assert dict(Archive("x.barecat")) == {"a": b"1"}


def photo(seed: int) -> bytes:
    return jpeg.encode(picture(seed, 40, 48).astype(np.uint8))


def test_packing_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in" / "cat").mkdir(parents=True)
    (tmp_path / "in" / "cat" / "1.jpg").write_bytes(photo(1))
    hr.pack(tmp_path / "x.barecat", tmp_path / "in", shard_size=1 << 20)
    assert hr.open(tmp_path / "x.barecat").keys == ["cat/1.jpg"]
    with pytest.raises(ValueError, match="as they are"):
        hr.pack(tmp_path / "y.barecat", tmp_path / "in", shuffle_seed=1)
