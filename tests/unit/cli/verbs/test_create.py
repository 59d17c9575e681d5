"""``headrace create``."""

from __future__ import annotations

import os
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow

import headrace as hr
from headrace.cli.main import main
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Said = Callable[..., str]
    JsonSaid = Callable[..., Any]


def test_create_keeps_bytes_names_and_classes(packed: Path, folder: Path) -> None:
    dataset = hr.open(packed)
    assert list(dataset.keys) == ["cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg", "dog/e.png"]
    assert dataset.class_names == {"label": ["cat", "dog"]}
    assert dataset.column("label").tolist() == [0, 0, 1, 1, 1]
    assert dataset.read_bytes([1], "image") == [(folder / "cat/b.JPEG").read_bytes()]


def test_create_options_reach_the_file(folder: Path, tmp_path: Path, json_said: JsonSaid) -> None:
    path = tmp_path / "raw.beton"
    options = ["--mode", "raw", "--max-side", "16", "--page-size", "2M", "--shuffle", "3", "-j", "2"]
    summary = json_said("create", path, folder, *options)
    assert summary["samples"] == 5
    dataset = hr.open(path)
    assert dataset.layout.page_size == 2 << 20
    assert dataset.image_facts("image")["mode"].tolist() == [1] * 5
    assert max(dataset.image_facts("image")["width"].max(), dataset.image_facts("image")["height"].max()) == 16
    assert sorted(dataset.keys) != list(dataset.keys)
    assert dataset.column("label").tolist() == [int(name.startswith("dog")) for name in dataset.keys]


def test_create_without_annex(folder: Path, tmp_path: Path) -> None:
    assert main(["create", str(tmp_path / "x.beton"), str(folder), "--no-annex", "-q"]) == 0
    assert hr.open(tmp_path / "x.beton").annex is None


def test_create_does_not_replace_unasked(packed: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = packed.read_bytes()
    assert main(["create", str(packed), str(folder)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["create", str(packed), str(folder), "--force", "-q"]) == 0
    assert packed.read_bytes() == before, "same pictures, same bytes"


def test_create_names_the_bad_file_and_leaves_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cat" / "bad.jpg").write_bytes(b"\xff\xd8\xff nonsense")
    assert main(["create", str(tmp_path / "x.beton"), str(folder)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("headrace: broken: cat/bad.jpg: JPEG header: ends inside a segment\nheadrace: error: ")
    assert os.listdir(tmp_path) == ["pictures"]


def _spoil(folder: Path) -> None:
    """Three broken pictures, and files of all kinds that are none."""
    (folder / "cat" / "bad.jpg").write_bytes(b"\xff\xd8\xff nonsense")
    (folder / "dog" / "none.jpg").write_bytes(b"")
    (folder / "dog" / "page.png").write_bytes(b"<html>")
    for name in ("notes.txt", "cat/list.csv", ".DS_Store", ".git/a.jpg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / "cat" / "away.jpg").symlink_to("nowhere")


BROKEN = ["cat/bad.jpg: JPEG header: ends inside a segment", "dog/none.jpg: it is empty"]
LEFT_OUT = """\
headrace: left out, hidden: 2 (.DS_Store, .git)
headrace: left out, a link that leads nowhere (No such file or directory): 1 (cat/away.jpg)
headrace: left out, not a picture by its ending: 2 (cat/list.csv, notes.txt)
"""


def test_create_names_all_broken_pictures(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], json_said: JsonSaid
) -> None:
    target = str(tmp_path / "x.beton")
    _spoil(folder)
    for workers in ("1", "3"):
        assert main(["create", target, str(folder), "-j", workers]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[:2] == [f"headrace: broken: {line}" for line in BROKEN]
        assert lines[2].startswith("headrace: broken: dog/page.png: not a picture")
        assert lines[3].startswith("headrace: error: 3 pictures cannot be stored, and ")
        assert lines[3].endswith("or give --skip-broken")
        assert os.listdir(tmp_path) == ["pictures"]


def test_create_leaves_broken_pictures_out(
    packed: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], json_said: JsonSaid
) -> None:
    _spoil(folder)
    target = str(tmp_path / "y.beton")
    assert main(["create", target, str(folder), "--skip-broken"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(LEFT_OUT)
    assert [f"headrace: left out, broken: {line}" for line in BROKEN] == captured.err.splitlines()[3:5]
    assert captured.out.startswith(f"{target}: 5 samples, ")
    assert Path(target).read_bytes() == packed.read_bytes(), "as if they had never been there"
    said = json_said("create", target, folder, "--skip-broken", "--force", "--mode", "raw", "-j", "3")
    assert (said["samples"], said["format"], len(said["broken"])) == (5, "beton", 3)
    assert said["left_out"]["hidden"] == [".DS_Store", ".git"]
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_bytes(b"spoilt")
    assert main(["create", target, str(folder), "--skip-broken", "--force", "-q"]) == 2
    assert "8 pictures cannot be stored, and no other is left; " in capsys.readouterr().err
    assert list(hr.open(target).keys) == list(hr.open(packed).keys)


@pytest.mark.parametrize("ending", ["beton", "ffr", "barecat"])
def test_a_dry_run_writes_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "notes.txt").write_text("hello")
    (folder / "pipe.jpg").symlink_to("nowhere")
    if ending == "ffr":
        (folder / "pipe.jpg").unlink()
    before = sorted(tmp_path.rglob("*"))
    assert main(["create", f"x.{ending}", "pictures", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert sorted(tmp_path.rglob("*")) == before
    count = {"beton": "5 samples", "ffr": "6 files", "barecat": "6 files"}[ending]
    assert captured.out.startswith(f"x.{ending}: would be written as {ending}: {count}, about ")
    assert captured.out.endswith("nothing was written\n")
    assert ("  image: image\n  label: int, 2 classes\n" in captured.out) == (ending == "beton")
    assert ("left out, not a picture by its ending: 1 (notes.txt)" in captured.err) == (ending == "beton")
    assert ("left out, a link that leads nowhere" in captured.err) == (ending != "ffr")
    assert main(["create", f"x.{ending}", "pictures", "-q"]) == 0
    assert main(["create", f"x.{ending}", "pictures", "--dry-run"]) == 2
    assert "exists; give --force" in capsys.readouterr().err


def test_a_dry_run_estimates_the_size(folder: Path, tmp_path: Path, json_said: JsonSaid) -> None:
    path = tmp_path / "x.beton"
    options = ("--mode", "raw", "--max-side", "20")
    guess = json_said("create", path, folder, "--dry-run", *options)
    assert guess["dry_run"] is True
    hr.pack(path, folder, image=hr.Image(mode="raw", max_side=20))
    assert guess["size_bytes"] == sum(map(len, hr.open(path).read_bytes(range(5), "image")))


def test_create_with_a_background(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clear = np.zeros((8, 8, 4), np.uint8)
    Pillow.fromarray(clear).save(folder / "cat" / "clear.png")
    target = str(tmp_path / "x.beton")
    assert main(["create", target, str(folder), "-q"]) == 2
    assert "background" in capsys.readouterr().err
    assert main(["create", target, str(folder), "--background", "white", "--mode", "raw", "-q"]) == 0
    dataset = hr.open(target)
    assert (dataset[dataset.keys.index("cat/clear.png")].image == 255).all()


def test_create_refuses_what_does_not_apply(files_folder: Path, tmp_path: Path, capfdbinary: Any) -> None:
    assert main(["create", str(tmp_path / "y.ffr"), str(files_folder), "--max-side", "10"]) == 2
    assert b"--max-side is for .beton" in capfdbinary.readouterr().err
    assert main(["create", str(tmp_path / "y.ffr"), str(files_folder), "--shuffle", "1"]) == 2
    assert not (tmp_path / "y.ffr").exists()


def test_create_from_a_list(place: Path, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"src/cat/1.bin\0src/note\n.txt\0")))
    said("create", "y.barecat", "-0", "-T", "-", "-j", "2")
    assert sorted(Archive("y.barecat")) == ["src/cat/1.bin", "src/note\n.txt"]
    (place / "list").write_text("src/cat/0.bin\nsrc/cat/2.bin\n")
    said("create", "z.barecat", "-T", "list", "--exclude", "2.*")
    assert list(Archive("z.barecat")) == ["src/cat/0.bin"]
    assert "exists" in said("create", "z.barecat", "src", code=2)
    assert "nothing to pack" in said("create", "n.barecat", code=2)
    assert not (place / "n.barecat").exists()
    assert "for archives" in said("create", "n.beton", "src", "-s", "1K", code=2)
    assert "--max-side is for .beton" in said("create", "n.barecat", "src", "--max-side", "9", code=2)


def test_create_names_the_verb_for_a_tar(place: Path, said: Said) -> None:
    assert "headrace convert src x.tar.gz" in said("create", "x.tar.gz", "src", code=2)


def test_create_in_the_folder_that_is_packed(place: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    said("create", "y.barecat", "-C", "src", "cat", "void")
    names = [f"cat/{i}.bin" for i in range(3)]
    assert sorted(Archive("y.barecat")) == names
    monkeypatch.chdir(place / "src")
    for _ in range(2):
        said("create", "here.barecat", ".", "--force")
        assert sorted(Archive("here.barecat")) == [*names, "note\n.txt"]
    said("add", "here.barecat", ".", "--replace")
    assert sorted(Archive("here.barecat")) == [*names, "note\n.txt"]
    for _ in range(2):
        said("sync", "./", "here.barecat")
        assert sorted(Archive("here.barecat")) == [*names, "note\n.txt"]
    assert "lies in" in said("convert", ".", "there.barecat", code=2)


def test_paths_that_lead_up_are_stored_without_it(place: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "work" / "deep").mkdir(parents=True)
    monkeypatch.chdir(place / "work" / "deep")
    names = [f"cat/{i}.bin" for i in range(3)]
    for path, above in (("../../src/cat", "src/"), (str(place / "src" / "cat"), f"{place}/src/"[1:])):
        said("create", "y.barecat", path, "--force")
        assert sorted(Archive("y.barecat")) == [above + name for name in names]
    monkeypatch.chdir(place / "src" / "cat")
    said("create", "../../work/z.barecat", "..", "--exclude", "note*")
    assert sorted(Archive(place / "work" / "z.barecat")) == names
    said("add", "../../work/z.barecat", "../cat/../cat/0.bin", "--replace")
    assert sorted(Archive(place / "work" / "z.barecat")) == names
