"""Names that lead out of the folder: of fields, of samples, of files in archives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.cli.main import main
from headrace.errors import FormatError
from headrace.fields import problem_with_name
from headrace.formats.beton import BetonDataset
from headrace.storage import FolderWriter

if TYPE_CHECKING:
    from pathlib import Path

BAD = ["/../../../PWNED", "..", ".", "a/../b", "a/", "x\n", "\x1b[31m", "a\x7f"]


@pytest.mark.parametrize("bad", BAD)
def test_a_field_whose_name_leads_out_or_drives_a_terminal_is_refused_on_opening(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: str
) -> None:
    path, out = tmp_path / "evil.beton", tmp_path / "a" / "b" / "out"
    fields = {"a": hr.Bytes(), "PLACEHOLDER_NAME": hr.Bytes()}
    hr.write(path, [(b"one", b"#!/bin/sh\n")], fields=fields, annex=False, page_size=2 << 20)
    path.write_bytes(path.read_bytes().replace(b"PLACEHOLDER_NAME", bad.encode().ljust(16, b"\0")))
    out.mkdir(parents=True)
    assert main(["extract", str(path), "-C", str(out)]) == 2
    assert "no field can be called that" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["a", "evil.beton"]
    assert os.listdir(tmp_path / "a") == ["b"]
    for opened in (hr.open, BetonDataset):
        with pytest.raises(FormatError, match="no field can be called that"):
            opened(path)
    with pytest.raises(ValueError, match="no field can be called that"):
        hr.write(tmp_path / "new.beton", [b"1"], fields={bad: hr.Bytes()})


def test_names_of_fields() -> None:
    assert [name for name in ("label", "image 2", "größe", ".x", "a\\b", "target/box") if problem_with_name(name)] == []
    assert all(problem_with_name(name) for name in (*BAD, "", 7, None, "a\u202eb", "\udc80"))


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a//x", "a/./x", "", ".", "..", "a/", "a\0b"])
def test_nothing_is_written_outside_of_a_folder(tmp_path: Path, name: str) -> None:
    with FolderWriter(tmp_path / "out") as writer:
        for call in (lambda: writer.write(name, [b"1"]), lambda: writer.remove(name), lambda: writer.exists(name)):
            with pytest.raises(ValueError, match="leads elsewhere"):
                call()
    assert os.listdir(tmp_path) == ["out"]


def test_links_are_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "file").write_bytes(b"precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "dir").symlink_to(tmp_path / "elsewhere")
    (out / "file").symlink_to(tmp_path / "elsewhere" / "file")
    (out / "inner").symlink_to("real")
    (out / "real").mkdir()
    with FolderWriter(out) as writer:
        for name in ("dir/x", "dir/deep/x", "file", "inner/x"):
            with pytest.raises(ValueError, match="nothing is written through links"):
                writer.write(name, [b"1"], replace=True)
        with pytest.raises(ValueError, match="nothing is written through links"):
            writer.remove("dir/file")
        with pytest.raises(ValueError, match="nothing is written through links"):
            writer.set_dir("dir", mode=0o777, mtime_ns=0)
        writer.remove("dir")
        writer.write("dir/x", [b"1"])
    assert os.listdir(tmp_path / "elsewhere" / "deep") == os.listdir(out / "real") == []
    assert (tmp_path / "elsewhere" / "file").read_bytes() == b"precious"
    assert not (out / "dir").is_symlink()


def test_a_directory_that_becomes_a_link_while_files_are_written_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with FolderWriter(tmp_path / "out") as writer:
        writer.write("d/1", [b"1"])
        os.rename(tmp_path / "out" / "d", tmp_path / "out" / "moved")
        (tmp_path / "out" / "d").symlink_to(tmp_path / "elsewhere")
        writer.write("d/2", [b"2"])
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("blocked", ["a pipe", "a directory", "a file"])
def test_what_is_in_the_way_is_named(tmp_path: Path, blocked: str) -> None:
    if blocked == "a pipe":
        os.mkfifo(tmp_path / "x")
    elif blocked == "a directory":
        (tmp_path / "x").mkdir()
    else:
        (tmp_path / "x").write_bytes(b"old")
    with FolderWriter(tmp_path) as writer:
        if blocked != "a file":
            with pytest.raises(OSError, match=f"is {blocked}.*and a file is needed"):
                writer.write("x", [b"1"], replace=True)
        else:
            with pytest.raises(FileExistsError, match="give --force"):
                writer.write("x", [b"1"])
        if blocked != "a directory":
            with pytest.raises(NotADirectoryError, match="and a directory is needed"):
                writer.write("x/y", [b"1"])
    assert os.listdir(tmp_path) == ["x"]


def test_many_deep_directories_need_few_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with FolderWriter(tmp_path) as writer:
        for i in range(200):
            writer.write(f"{i}/a/b", [b"1"])
        writer.write("/".join(["d"] * 600) + "/x", [b"1"])
        assert len(os.listdir("/proc/self/fd")) < before + 140
        writer.write("7/a/c", [b"1"])
    assert len(os.listdir("/proc/self/fd")) == before
    assert sorted(os.listdir(tmp_path / "7" / "a")) == ["b", "c"]


def test_a_slash_in_the_name_of_a_field_makes_no_folder(tmp_path: Path) -> None:
    path, out = tmp_path / "x.beton", tmp_path / "out"
    hr.write(path, [(b"one", b"two")], fields={"a": hr.Bytes(), "b/c": hr.Bytes()})
    assert main(["extract", str(path), "-C", str(out)]) == 0
    assert sorted(name.partition(".")[2] for name in os.listdir(out)) == ["a.bin", "b.c.bin", "jsonl"]
    with pytest.raises(ValueError, match=r"b/c and b\.c would be files of the same name"):
        hr.write(tmp_path / "x.barecat", [(b"1", b"2")], fields={"b/c": hr.Bytes(), "b.c": hr.Bytes()})
