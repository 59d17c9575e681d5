"""``headrace extract``."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.helpers import picture

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


FILES = {"a.txt": b"hello", "sub/b.bin": bytes(range(256)), "sub/deep/c": b"", "index.jsonl": b"mine"}


def test_extract_gives_the_files_back(packed: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["extract", str(packed), "-C", str(out), "-q"]) == 0
    for name in ("cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg"):
        assert (out / name).read_bytes() == (folder / name).read_bytes()
    assert jpeg.is_jpeg((out / "dog/e.jpg").read_bytes()), "a PNG that was stored as JPEG gets its true ending"
    rows = [json.loads(line) for line in (out / "index.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == [0, 0, 1, 1, 1]
    assert rows[4] == {"index": 4, "name": "dog/e.png", "image": "dog/e.jpg", "label": 1}


def test_extract_some_fields_of_some_samples(packed: Path, tmp_path: Path) -> None:
    assert main(["extract", str(packed), "-C", str(tmp_path / "out"), "0:2", "-q", "--field", "label"]) == 0
    assert os.listdir(tmp_path / "out") == ["index.jsonl"]


def test_extract_never_leaves_the_folder(tmp_path: Path) -> None:
    names = ["../escape.jpg", "/absolute.jpg", "a/../../b.jpg", "", "fine.jpg", "fine.jpg", "x\0y.jpg", "index.jsonl"]
    data = jpeg.encode(picture(0, 8, 8))
    hr.write(tmp_path / "x.beton", [(data,)] * len(names), fields={"image": hr.Image()}, names=names)
    out = tmp_path / "deep" / "out"
    assert main(["extract", str(tmp_path / "x.beton"), "-C", str(out), "-q"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["deep", "x.beton"]
    assert os.listdir(tmp_path / "deep") == ["out"]
    pictures = [p for p in out.iterdir() if p.name != "index.jsonl"]
    assert len(pictures) == len(names), "no sample overwrites another"
    assert all(p.read_bytes() == data for p in pictures)
    assert len((out / "index.jsonl").read_text().splitlines()) == len(names)


def test_extract_does_not_follow_links(packed: Path, tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_text("precious")
    (out / "cat").mkdir(parents=True)
    (out / "cat" / "a.jpg").symlink_to(victim)
    assert main(["extract", str(packed), "-C", str(out), "--force", "-q"]) == 2
    assert victim.read_text() == "precious"


def test_extract_gives_packed_files_back(packed_files: Path, tmp_path: Path, said: Said) -> None:
    target = tmp_path / "out"
    said("extract", packed_files, "-C", target, "-q")
    found = {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert (target / "empty" / "deep").is_dir()
    rows = [json.loads(line) for line in found.pop("index.jsonl").splitlines()]
    assert {row["name"]: found[row["data"]] for row in rows} == FILES
    assert {row["name"]: row["data"] for row in rows if row["name"] != "index.jsonl"} == {
        name: name for name in FILES if name != "index.jsonl"
    }


def test_extract_of_an_archive(place: Path) -> None:
    assert main(["extract", "x.barecat", "-C", "out", "-q"]) == 0
    assert (place / "out" / "src" / "cat" / "2.bin").read_bytes() == bytes(3000)
    assert (place / "out" / "src" / "void").is_dir()
    assert main(["extract", "x.barecat", "-C", "out", "-q"]) == 2
    assert main(["extract", "x.barecat", "-C", "out", "-q", "--force"]) == 0
    assert main(["extract", "x.barecat", "-C", "part", "**/1.bin", "src/void"]) == 0
    assert sorted(p.name for p in (place / "part").rglob("*")) == ["1.bin", "cat", "src", "void"]


def test_what_is_damaged_is_left_out_and_named(place: Path, capsys: pytest.CaptureFixture[str], said: Said) -> None:
    with open("x.barecat-shard-00000", "r+b") as shard:
        shard.write(b"!")
    code = main(["extract", "x.barecat", "-C", "out"])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.count("left out:") == 1
    assert "1 file is damaged and not written; headrace verify x.barecat" in captured.err
    assert len([p for p in (place / "out").rglob("*") if p.is_file()]) == 3
    (place / "x.barecat-shard-00001").unlink()
    assert "files are damaged" in said("extract", "x.barecat", "-C", "out", "-f", code=2)


@pytest.mark.parametrize("verb", ["extract", "convert"])
@pytest.mark.parametrize("ending", ["beton", "ffr", "barecat"])
def test_a_full_disk_and_an_interrupt_leave_complete_files(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ending: str,
    verb: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["create", f"x.{ending}", "pictures", "-q"]) == 0
    words = {"extract": ["extract", f"x.{ending}", "-C", "out"], "convert": ["convert", f"x.{ending}", "out"]}[verb]
    if (verb, ending) == ("convert", "beton"):
        words += ["-j0"]
    write = os.write
    for failure in (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()):
        left = [2]

        def run_full(fd: int, data: bytes, failure: BaseException = failure, left: list[int] = left) -> int:
            if len(data) > 400 and not left[0]:
                write(fd, bytes(data)[:300])
                raise failure
            left[0] -= len(data) > 400
            return write(fd, data)

        monkeypatch.setattr("headrace.storage.folder_writer.os.write", run_full)
        code = main([*words, "--force"])
        monkeypatch.setattr("headrace.storage.folder_writer.os.write", write)
        said = capsys.readouterr().err
        if code == 2:
            assert "No space left on device; this file was not written, 2 files were written before it and" in said
            assert "make room and run it again with --force" in said
        else:
            assert code == 130
            assert "2 files were written to out and are complete; the rest is missing, run it again" in said
        found = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
        assert len(found) == 2
        for path in found:
            assert jpeg.is_jpeg(path.read_bytes())
            assert path.read_bytes().endswith(b"\xff\xd9")
    assert main([*words, "--force", "-q"]) == 0


def test_a_directory_that_cannot_be_made_is_named(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "cat")

    (tmp_path / "out").mkdir()
    monkeypatch.setattr("headrace.storage.folder_writer.os.mkdir", full)
    assert main(["extract", str(packed), "-C", str(tmp_path / "out")]) == 2
    problem = "No space left on device; this directory was not written, nothing was written; make room"
    assert f"{tmp_path}/out/cat: {problem}" in capsys.readouterr().err
