"""Files beside pictures become fields; what cannot be held is named, and asked for where it is more."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg, npy
from headrace.transfer.arrangement import LostFilesError, arrange

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = ["in", "x.tar", "x.tar.gz", "x.zip", "x.barecat"]


@pytest.fixture
def shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a WebDataset shard has it, and a file that belongs to no picture; it is the current one's ``in``."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.jpg").write_bytes(jpeg.encode(picture(i, 16, 24)))
        (folder / f"{i}.cls").write_text(f"{3 - i}\n")
        (folder / f"{i}.json").write_text(json.dumps({"i": i}))
        (folder / f"{i}.txt").write_text(f"picture {i}")
        (folder / f"{i}.box.npy").write_bytes(npy.encode(np.full(4, i, np.float32)))
    (folder / "LICENSE.md").write_text("free")
    return folder


def _pack(*names: str) -> None:
    for name in names:
        if name != "in":
            hr.convert("in", name)


@pytest.mark.parametrize("source", SOURCES)
def test_what_belongs_to_a_picture_becomes_fields(shard: Path, source: str) -> None:
    _pack(source)
    lines: list[str] = []
    result = hr.convert(source, "y.beton", on_left_out=lines.append)
    assert (result.samples, result.skipped, lines) == (4, ["1 file, .md: it belongs to no picture"], result.skipped)
    dataset: Any = hr.open("y.beton")
    assert list(dataset.schema) == ["image", "label", "box.npy", "json", "text"]
    assert list(dataset.keys) == [f"{i}.jpg" for i in range(4)]
    assert dataset.read_bytes([3], "image") == [(shard / "3.jpg").read_bytes()]
    sample = dataset[2]
    assert (sample.label, sample.json, sample.text) == (1, {"i": 2}, "picture 2")
    assert np.array_equal(sample["box.npy"], np.full(4, 2, np.float32))


@pytest.mark.parametrize("source", SOURCES)
def test_what_only_some_pictures_have_is_asked_for(
    shard: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (shard / "1.json").unlink()
    _pack(source)
    before = sorted(os.listdir())
    assert main(["convert", source, "y.beton"]) == 2
    message = capsys.readouterr().err
    assert "not all have .json (3 of 4 samples)" in message
    assert f"Leave out all but the pictures: headrace convert {source} y.beton --field image. " in message
    assert message.endswith(f"Or keep all files: headrace convert {source} y.barecat\n")
    assert sorted(os.listdir()) == before
    assert main(["convert", source, "y.beton", "--field", "image"]) == 0
    said = capsys.readouterr().err.splitlines()
    if source == "in":
        assert said == ["headrace: left out: not a picture by its ending: 16 (0.box.npy, 0.cls, 0.json, ...)"]
    else:
        reason = "they belong to a picture, and only the field image was asked for"
        left = {"box.npy": 4, "cls": 4, "json": 3, "txt": 4}
        lines = [f"headrace: left out: {count} files, .{ending}: {reason}" for ending, count in left.items()]
        assert said == ["headrace: left out: 1 file, .md: it belongs to no picture", *lines]
    assert list(hr.open("y.beton").schema) == ["image"]
    assert main(["convert", source, "y.barecat", "-q"]) == 0
    assert len(hr.Archive("y.barecat")) == 20


def test_what_is_left_out_is_said_before_anything_is_written(
    shard: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hr.convert("in", "x.beton")
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hr.convert("x.beton", "y.ffr", field="image", on_left_out=tell)
    assert said == ["field label (4 values): only image was asked for"]
    assert not os.path.exists("y.ffr")
    assert main(["convert", "x.beton", "y.ffr"]) == 2
    message = capsys.readouterr().err
    assert "y.ffr can hold one field, and x.beton has image, label, box.npy, json, text. " in message
    assert "Leave the others out: headrace convert x.beton y.ffr --field image. " in message
    assert message.endswith("Or keep all of them: headrace convert x.beton y.beton\n")
    assert main(["convert", "x.beton", "x.ffr"]) == 2
    assert capsys.readouterr().err.endswith("headrace convert x.beton x-all.beton\n")
    assert main(["convert", "x.beton", "y.tar", "--field", "json", "--field", "image", "-q"]) == 0
    assert "left out: field label (4 values): only image, json was asked for" in capsys.readouterr().err
    hr.convert("y.tar", "back.beton", field=["image", "json"])
    assert list(hr.open("back.beton").schema) == ["image", "json"]
    assert [sample.json for sample in hr.open("back.beton")] == [{"i": i} for i in range(4)]
    with pytest.raises(ValueError, match="field is an empty list"):
        hr.convert("y.tar", "z.beton", field=[])


def test_the_log_says_it_in_python(shard: Path, caplog: pytest.LogCaptureFixture) -> None:
    hr.convert("in", "x.beton", field="image")
    assert "left out: not a picture by its ending: 17 (0.box.npy" in caplog.text


def test_classes_and_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    samples = [(b"a", 0), (b"b", 1)]
    options: dict[str, Any] = {"class_names": {"label": ["cat", "dog"]}, "metadata": {"by": "me", "in": 2026}}
    hr.write("x.beton", samples, fields={"data": hr.Bytes(), "label": hr.Int()}, **options)
    assert hr.convert("x.beton", "y.beton").skipped == []
    assert hr.open("y.beton").metadata == options["metadata"]  # type: ignore[attr-defined]
    result = hr.convert("x.beton", "y.ffr", field="data")
    assert result.skipped == [
        "field label (2 values): only data was asked for",
        "metadata (by, in): y.ffr has no place for it",
    ]
    assert hr.convert("x.beton", "y.tar").skipped == ["metadata (by, in): y.tar has no place for it"]


def test_labels_that_are_no_numbers(shard: Path) -> None:
    for i in range(4):
        (shard / f"{i}.cls").write_text(["cat", "dog"][i % 2])
    hr.convert("in", "x.beton")
    assert [sample.label for sample in hr.open("x.beton")] == ["cat", "dog", "cat", "dog"]
    for i in range(3):
        (shard / f"{i}.cls").write_text(str(i))
    with pytest.raises(hr.errors.WriteError, match=r"3\.cls: b'dog' is not a number"):
        hr.convert("in", "y.beton")
    assert not os.path.exists("y.beton")


def test_names_of_fields() -> None:
    found = arrange(["a/1.jpg", "a/1.seg.PNG", "a/1.txt", "a/1.text", "b/2.jpg", "b/2.seg.png", "b/2.txt", "b/2.text"])
    assert found is not None
    assert list(found.files) == ["jpg", "seg.png", "text", "txt"]
    assert found.keys == ["a/1.jpg", "b/2.jpg"]
    assert found.kinds == {"jpg": "image", "seg.png": "image", "text": "bytes", "txt": "text"}
    found = arrange(["1.jpg", "1.png", "2.jpg", "3"])
    assert found is not None
    assert (found.keys, found.left_out) == (["1.jpg", "1.png", "2.jpg"], ["1 file, .data: it belongs to no picture"])
    assert arrange(["1.txt", "2.json"]) is None
    found = arrange(["1.jpg", *(f"2.{i}" for i in range(1000))])
    assert found is not None
    assert found.left_out == ["1,000 files of many endings: they belong to no picture"]
    with pytest.raises(LostFilesError, match="samples would have 1,001 fields, and 64 is the limit"):
        arrange(["1.jpg", *(f"1.{i}" for i in range(1000))])
    with pytest.raises(LostFilesError, match=r"\.0 \(1 of 2 samples\), .*, and others"):
        arrange(["1.jpg", *(f"1.{i}" for i in range(20)), "2.jpg"])
    for names in (["1.jpg", "1.JPG", "1.txt", "2.jpg", "2.txt"], ["1.jpg", "2.jpg", "2.txt"]):
        with pytest.raises(LostFilesError, match="not all have"):
            arrange(names)


@pytest.mark.parametrize("source", [*SOURCES, "x.beton", "x.ffr"])
@pytest.mark.parametrize("target", ["y.beton", "y.ffr", "y.barecat", "y.tar", "y.zip", "out/"])
def test_a_dry_run_writes_nothing(shard: Path, source: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    _pack(source)
    words = ["convert", source, target, *(["--field", "image"] if (source, target) == ("x.beton", "y.ffr") else [])]
    before = sorted(os.listdir())
    guess = hr.convert(source, target, dry_run=True, field="image" if "--field" in words else None)
    capsys.readouterr()
    assert main([*words, "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert sorted(os.listdir()) == before
    kind = {"y.": target[2:], "ou": "folder"}[target[:2]]
    assert captured.out.startswith(f"{target}: would be written as {kind}: ")
    assert captured.out.endswith(" of data\nnothing was written\n") == (not guess.fields)
    assert main([*words, "-q"]) == 0
    done = hr.convert(source, target, force=True, field="image" if "--field" in words else None)
    assert guess.skipped == done.skipped
    assert (guess.samples, guess.files) in ((done.samples, done.files), (None, done.samples), (done.samples, 0))
    assert main([*words, "--dry-run"]) == (0 if target == "out/" else 2)
    assert main([*words, "--dry-run", "--force"]) == 0
