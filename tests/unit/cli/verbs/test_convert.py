"""``headrace convert``: files between containers, samples between datasets, and what does not go."""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.helpers import picture

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def tree(root: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")}


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tar.zst", ".zip", "-folder"])
def test_files_there_and_back(photos: Path, said: Said, ending: str) -> None:
    if ending == ".tar.zst":
        pytest.importorskip("zstandard")
    assert "4 files" in said("convert", "photos.barecat", f"x{ending}")
    said("convert", f"x{ending}", "y.barecat", "-s", "2K")
    assert Archive("y.barecat").shard_size == 2048
    said("convert", "y.barecat", "back")
    assert tree(photos / "back") == tree(photos / "photos")
    if ending != "-folder":
        assert "exists" in said("convert", "photos.barecat", f"x{ending}", code=2)
        said("convert", "photos.barecat", f"x{ending}", "--force")


def test_a_folder_by_a_path_that_leads_up(photos: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    (photos / "sub").mkdir()
    monkeypatch.chdir(photos / "sub")
    said("convert", "../photos", "x.barecat")
    assert sorted(Archive("x.barecat")) == ["cat/1.jpg", "cat/2.jpg", "dog/3 b.jpg", "notes.txt"]


def test_samples_between_the_formats(photos: Path, said: Said) -> None:
    (photos / "photos" / "notes.txt").unlink()
    said("create", "a.beton", "photos")
    assert "3 samples" in said("convert", "a.beton", "b.barecat", "--shard-size", "1M")
    assert Archive("b.barecat").shard_size == 1 << 20
    facts = json.loads(said("convert", "b.barecat", "c.beton", "--json"))
    assert facts["samples"] == 3
    assert hr.open("c.beton").read_bytes([0], "image") == hr.open("a.beton").read_bytes([0], "image")
    said("convert", "photos.barecat", "d.ffr")
    said("convert", "d.ffr", "e.barecat")
    assert dict(Archive("e.barecat")) == dict(Archive("photos.barecat"))
    assert "notes.txt" in said("ls", "d.ffr")
    said("extract", "d.ffr", "-C", "out")
    assert (photos / "out" / "notes.txt").read_text() == "hello\n"
    assert "4 samples" in said("verify", "d.ffr")
    assert "4 samples" in said("info", "d.ffr")


def test_what_does_not_go_says_what_does(photos: Path, said: Said) -> None:
    said("convert", "photos.barecat", "x.tar")
    said("create", "a.beton", "photos")
    assert "--field is for samples" in said("convert", "x.tar", "y.zip", "--field", "image", code=2)
    assert "--shard-size is for" in said("convert", "x.tar", "y.zip", "-s", "1K", code=2)
    assert "--shard-size is for" in said("convert", "a.beton", "y.ffr", "-s", "1K", code=2)
    assert "--shard-size is for" in said("convert", "a.beton", "y.zip", "-s", "1K", code=2)
    assert "--shard-size is for" in said("convert", "x.tar", "y.beton", "-s", "1K", code=2)
    assert "--max-size is for" in said("convert", "a.beton", "y.ffr", "--max-size", "1K", code=2)
    assert "does not exist" in said("convert", "nope.zip", "y.barecat", code=2)
    assert "does not exist" in said("convert", "nope", "y.barecat", code=2)
    assert "a folder ends in /" in said("convert", "x.tar", "y.what", code=2)
    assert not [p for p in photos.iterdir() if p.name.startswith(("y.", ".y"))]


def test_bombs_and_names_that_lead_out(photos: Path, said: Said) -> None:
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(3 << 20))
    assert "--max-size" in said("convert", "bomb.zip", "x.barecat", "--max-size", "1M", code=2)
    said("convert", "bomb.zip", "x.barecat", "--max-size", "4M")
    with tarfile.open("evil.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../evil"))
    assert "leads out" in said("convert", "evil.tar", "y.barecat", code=2)
    assert "leads out" in said("convert", "evil.tar", "y", code=2)
    assert not [p for p in photos.iterdir() if p.name.startswith("y.")]
    assert not (photos.parent / "evil").exists()


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".zip", "-folder"])
def test_samples_from_and_to_files(photos: Path, said: Said, ending: str) -> None:
    (photos / "photos" / "notes.txt").unlink()
    said("convert", "photos", f"x{ending}")
    assert "3 samples" in said("convert", f"x{ending}", "x.beton")
    assert "3 samples" in said("convert", f"x{ending}", "x.ffr")
    said("create", "whole.beton", "photos")
    assert list(hr.open("x.beton").keys or ()) == list(hr.open("whole.beton").keys or ())
    assert hr.open("x.beton")[2].label == 1
    for path in ("x.beton", "x.ffr"):
        assert "3 files" in said("convert", path, f"back-{path[2:]}{ending}")
        said("convert", f"back-{path[2:]}{ending}", f"out-{path[2:]}")
        assert files(photos / f"out-{path[2:]}") == files(photos / "photos")
    assert not [p for p in photos.iterdir() if p.name.startswith(".")]


def files(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(root).items() if data is not None}


def test_all_files_of_a_folder_go_into_an_ffr(photos: Path, said: Said) -> None:
    assert "4 samples" in said("convert", "photos", "x.ffr")
    assert sorted(hr.open("x.ffr").keys or ()) == ["cat/1.jpg", "cat/2.jpg", "dog/3 b.jpg", "notes.txt"]


def test_what_stands_between_is_gone_when_it_fails(photos: Path, said: Said) -> None:
    with tarfile.open("texts.tar", "w") as tar:
        tar.add("photos/notes.txt")
        tar.addfile(tarfile.TarInfo("../evil"))
    before = sorted(photos.iterdir())
    assert "leads out" in said("convert", "texts.tar", "y.beton", code=2)
    assert "--max-size" in said("convert", "texts.tar", "y.beton", "--max-size", "1", code=2)
    hr.write("numbers.beton", range(3), fields={"n": hr.Int()})
    assert "number" in said("convert", "numbers.beton", "y", code=2)
    (photos / "numbers.beton").unlink()
    with tarfile.open("none.tar", "w"):
        pass
    problem = said("convert", "none.tar", "y.beton", code=2)
    assert "none.tar" in problem
    assert "incomplete" not in problem
    (photos / "none.tar").unlink()
    assert sorted(photos.iterdir()) == before


def test_samples_do_not_go_over_files_of_a_folder(photos: Path, said: Said) -> None:
    said("convert", "photos.barecat", "x.ffr")
    assert "exists" in said("convert", "x.ffr", "photos", code=2)
    said("convert", "x.ffr", "photos", "--force")
    assert "left out" not in said("convert", "x.ffr", "new/")


def test_links_of_a_tar_that_lead_elsewhere_are_named(
    photos: Path, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open("x.tar", "w") as tar:
        tar.add("photos/cat")
        link = tarfile.TarInfo("photos/away")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert main(["convert", "x.tar", "x.beton", "-q"]) == 0
    assert "left out: photos/away" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["a.beton", "a.ffr"])
def test_damaged_samples_are_left_out_and_named(
    photos: Path, said: Said, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    said("create", path, "photos")
    dataset = hr.open(path)
    (stored,) = dataset.read_bytes([0], next(iter(dataset.schema)))
    data = bytearray((photos / path).read_bytes())
    data[data.index(stored) + 200] ^= 1
    del dataset
    (photos / path).write_bytes(data)
    problem = said("extract", path, "-C", "out", code=2)
    assert "left out: a" in problem
    assert "1 sample is damaged and not written" in problem
    assert sorted(p.name for p in (photos / "out").rglob("*.jpg")) == ["2.jpg", "3 b.jpg"]
    assert len((photos / "out" / "index.jsonl").read_text().splitlines()) == (2 if path == "a.beton" else 3)


def test_an_ffr_of_pictures_there_and_back(tmp_path: Path, said: Said) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.jpg").write_bytes(jpeg.encode(picture(i, 20, 20)))
    first, middle, last = (tmp_path / name for name in ("a.ffr", "b.beton", "c.ffr"))
    said("create", first, folder, "-q")
    assert "3 samples" in said("convert", first, middle)
    assert json.loads(said("convert", middle, last, "--json"))["samples"] == 3
    assert last.read_bytes() == first.read_bytes()
    assert "exists; give --force" in said("convert", first, middle, code=2)
    said("convert", first, middle, "-f", "-q", "--decode", "bytes", "--no-names", "--shuffle", "1")
    assert hr.open(middle).keys is None
    assert sorted(s.data for s in hr.open(middle)) == sorted(p.read_bytes() for p in folder.iterdir())
    assert os.path.exists(middle)


@pytest.mark.parametrize("source", ["photos", "spoilt.barecat", "spoilt.tar"])
def test_all_broken_pictures_are_named(
    photos: Path, said: Said, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    (photos / "photos" / "cat" / "bad.jpg").write_bytes(b"\xff\xd8\xff nonsense")
    (photos / "photos" / "dog" / "page.png").write_bytes(b"<html>")
    if source != "photos":
        said("convert", "photos", source)
    message = said("convert", source, "x.beton", code=2)
    assert "headrace: broken: cat/bad.jpg: JPEG header: ends inside a segment\n" in message
    assert "headrace: broken: dog/page.png: not a picture" in message
    assert "error: 2 pictures cannot be stored, and x.beton was not written; repair" in message
    assert main(["convert", source, "x.beton", "--dry-run"]) == 0
    assert "headrace: broken: cat/bad.jpg" in capsys.readouterr().err
    assert not os.path.exists("x.beton")
    assert main(["convert", source, "x.beton", "--skip-broken"]) == 0
    assert "headrace: left out, broken: cat/bad.jpg: JPEG" in capsys.readouterr().err
    assert list(hr.open("x.beton").keys or ()) == ["cat/1.jpg", "cat/2.jpg", "dog/3 b.jpg"]
    done = hr.convert(source, "y.beton", skip_broken=True)
    assert (done.samples, len(done.broken)) == (3, 2)
    assert list(hr.open("y.beton").keys or ()) == list(hr.open("x.beton").keys or ())


def test_files_as_they_are_are_never_broken(photos: Path, said: Said) -> None:
    for target in ("x.ffr", "x.tar"):
        assert "skip_broken" in said("convert", "photos", target, "--skip-broken", code=2)
