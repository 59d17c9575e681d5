"""Folders, tars and zips from anywhere: links that go round, devices, pipes, headers without end."""

from __future__ import annotations

import bz2
import contextlib
import io
import os
import struct
import tarfile
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from tests.attacks.limited import run_limited

import headrace as hr
from headrace.errors import FormatError
from headrace.storage import walk, walk_folder
from headrace.transfer import tar as tar_module
from headrace.transfer import zip as zip_module
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from pathlib import Path

_MAIN = """
import shlex, sys
from headrace.cli.main import main
print("codes", *(main(shlex.split(line)) for line in sys.argv[1:]))
"""


def _run(*lines: str) -> list[int]:
    """Exit codes of commands, in a process that has little memory and little time."""
    printed, _ = run_limited(_MAIN, *lines, seconds=40)
    return [int(code) for code in printed.rpartition("codes ")[2].split()]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "in" / "a"
    folder.mkdir(parents=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "1.jpg")
    return folder


def _spoil(folder: Path, how: str) -> None:
    if how == "loop":
        for name, target in (("l1", ".."), ("l2", ".."), ("l3", "."), ("l4", "l4")):
            (folder / name).symlink_to(target)
    elif how == "zero":
        (folder / "2.jpg").symlink_to("/dev/zero")
    else:
        os.mkfifo(folder / "2.jpg")


@pytest.mark.parametrize("how", ["loop", "zero", "pipe"])
def test_links_that_go_round_and_what_is_no_file(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _spoil(pictures, how)
    made = ["create x.beton in -q", "create x.barecat in -q", "create x.ffr in -q", "convert in x.tar -q"]
    assert _run(*made, "info in", "verify in --decode", "sync in y.barecat -q") == [0, 0, 2, 0, 0, 0, 0]
    assert not (tmp_path / "x.ffr").exists()  # a packed folder has all files or is not made
    assert list(hr.open("x.beton").keys or ()) == ["a/1.jpg"]
    assert hr.open("x.barecat").keys == ["in/a/1.jpg"]


def test_the_log_says_what_was_left_out(pictures: Path, caplog: pytest.LogCaptureFixture) -> None:
    _spoil(pictures, "loop")
    _spoil(pictures, "zero")
    assert hr.open(pictures.parent).keys == ["a/1.jpg"]
    (record,) = caplog.records
    assert "4 left out" in record.getMessage() or "5 left out" in record.getMessage()
    assert "a link to a folder that it lies in" in record.getMessage()


def test_links_to_folders_are_followed_where_the_walk_ends(tmp_path: Path) -> None:
    """Each of twenty folders has two links to the next: a million paths, if all were followed."""
    root = tmp_path / "in"
    for i in range(21):
        (root / f"d{i:02d}").mkdir(parents=True)
        (root / f"d{i:02d}" / "x.jpg").write_bytes(b"")
        if i:
            (root / f"d{i - 1:02d}" / "p").symlink_to(f"../d{i:02d}")
            (root / f"d{i - 1:02d}" / "q").symlink_to(f"../d{i:02d}")
    problems: list[str] = []
    found = list(walk_folder(str(root), follow_links=True, on_problem=lambda path, reason: problems.append(reason)))
    names = {one.name for one in found if not one.is_dir}
    assert {f"d{i:02d}/x.jpg" for i in range(21)} <= names
    assert {f"d{i:02d}/{link}/x.jpg" for i in range(20) for link in "pq"} <= names
    assert len(found) < 2000
    assert set(problems) == {"a link to a folder that another link has led to already"}


def test_the_whole_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    verbs = ["create y.beton /", "create y.ffr /", "create y.barecat /", "info /", "verify /", "convert / y.tar"]
    verbs += ["sync / y.barecat", "convert / y.ffr", "info /proc", "create y.barecat /proc", "merge -o y.barecat /"]
    verbs += ["add x.barecat /", "add x.barecat /proc", "add x.barecat -C / .", "sync /sys/ x.barecat"]
    (tmp_path / "in").mkdir()
    convert("in", "x.barecat")
    before = sorted(os.listdir(tmp_path))
    assert _run(*verbs) == [2] * len(verbs)
    assert [name for name in sorted(os.listdir(tmp_path)) if not name.startswith("y.barecat")] == before


def test_what_the_kernel_makes_is_left_out_below_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "a").write_bytes(b"1")
    monkeypatch.setattr(walk, "check_folder", os.stat)
    monkeypatch.setattr(walk, "_kernel_devices", lambda: {os.stat(tmp_path).st_dev})
    problems: list[tuple[str, str]] = []
    found = walk_folder(str(tmp_path), follow_links=False, on_problem=lambda *problem: problems.append(problem))
    assert [one.name for one in found] == ["a"]
    assert problems == [(str(tmp_path / "proc"), "made by the kernel, no folder of a disk")]


def _long_header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def _sparse_header() -> bytes:
    """An old GNU header of a sparse file, whose map goes on in the next block, as each of them says."""
    block = bytearray(_long_header(tarfile.GNUTYPE_SPARSE, 0))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("kind", ["longname", "longlink", "pax", "global", "sparse", "nested"])
@pytest.mark.parametrize("as_stream", [False, True])
def test_a_header_of_a_tar_does_not_take_all_memory(tmp_path: Path, kind: str, as_stream: bool) -> None:
    mib = bz2.compress(b"a" * (1 << 20))
    head = {
        "longname": _long_header(tarfile.GNUTYPE_LONGNAME, 4 << 30),
        "longlink": _long_header(tarfile.GNUTYPE_LONGLINK, 4 << 30),
        "pax": _long_header(tarfile.XHDTYPE, 4 << 30),
        "global": _long_header(tarfile.XGLTYPE, 4 << 30),
        "sparse": _sparse_header(),
        "nested": (_long_header(tarfile.GNUTYPE_LONGNAME, 1) + b"a".ljust(512, b"\0")) * 2000,
    }[kind]
    body = bz2.compress((b"00000000001\0" * 42 + b"\1" + bytes(7)) * 2048) if kind == "sparse" else mib
    path = tmp_path / "evil.tar.bz2"
    path.write_bytes(bz2.compress(head) + body * 64 + bz2.compress(tarfile.TarInfo("a").tobuf() + bytes(1024)))
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open(path, "rb")) if as_stream else path
        stack.enter_context(pytest.raises(FormatError, match=r"takes more than 1048576 bytes|a header follows"))
        convert(source, tmp_path / "out.barecat", source_kind="tar.bz2")
    assert os.listdir(tmp_path) == ["evil.tar.bz2"]


def test_headers_count_as_contents_do_and_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "many.tar.bz2"
    with tarfile.open(path, "w:bz2") as tar:
        for i in range(300):
            tar.addfile(tarfile.TarInfo(f"f{i:06d}"))
    with tar_module._Tar.open(path, "r:*") as tar:
        assert [member.name for member in tar][::299] == ["f000000", "f000299"]
        assert tar.members == []  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match="the limit for it"):
        convert(path, tmp_path / "out.barecat", max_bytes=100_000)
    assert convert(path, tmp_path / "out.barecat", max_bytes=200_000).files == 300


def test_the_list_of_files_in_a_zip_must_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(100):
            archive.writestr(f"{i:03d}", b"")
        archive.comment = b"a comment"
    with open(path, "rb") as file:
        size = zip_module._directory_bytes(file)
    assert size == 100 * (46 + 3)
    monkeypatch.setattr(zip_module, "_SMALL_DIRECTORY", 0)
    monkeypatch.setattr(zip_module, "available_bytes", lambda: size * 16)
    assert convert(path, tmp_path / "y.tar").files == 100
    monkeypatch.setattr(zip_module, "available_bytes", lambda: size * 16 - 1)
    with pytest.raises(FormatError, match="its list of files has 4900 bytes"):
        convert(path, tmp_path / "z.tar")


def test_the_size_of_a_large_zips_list_is_found() -> None:
    wide = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 500, 0)
    place = struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)
    for small, expected in ((0xFFFFFFFF, 500), (7, 500), (600, 600)):
        end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, small, 0xFFFFFFFF, 0)
        assert zip_module._directory_bytes(io.BytesIO(bytes(1000) + wide + place + end)) == expected
    assert zip_module._directory_bytes(io.BytesIO(b"no zip")) == 0


def test_pipes_in_place_of_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["x.beton", "x.ffr", "x.tar", "x.tar.gz", "x.tar.zst", "x.zip", "x.unknown"]
    for name in names:
        os.mkfifo(name)
    hr.write("y.beton", [b"1", b"2"], fields={"data": hr.Bytes()}, annex=False)
    os.mkfifo("y.beton.annex")
    os.mkdir("parts")
    hr.write("parts/PART_00000.ffr", [b"1", b"2"], fields={"data": hr.Bytes()})
    os.mkfifo("parts/PART_00001.ffr")
    lines = [f"convert {name} out.barecat" for name in names] + [f"info {name}" for name in names]
    lines += ["info y.beton", "ls y.beton", "info parts", "verify y.beton", "verify parts"]
    assert _run(*lines) == [2] * len(lines)
    assert not os.path.exists("out.barecat")
