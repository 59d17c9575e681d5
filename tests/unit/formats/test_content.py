"""Files whose names say something else than their content: the error says what they are."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.helpers import picture, write_folder

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg
from headrace.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    hr.write("x.beton", range(5), fields={"n": hr.Int()})
    write_folder(tmp_path / "files", {"a.txt": b"a"})
    for out in ("x.barecat", "x.zip", "x.tar", "x.tar.gz"):
        assert main(["convert", "files", out, "-q"]) == 0
    (tmp_path / "x.jpg").write_bytes(jpeg.encode(picture(0, 8, 8)))
    (tmp_path / "x.lfs").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    (tmp_path / "x.html").write_bytes(b"<!DOCTYPE html><html>404")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("x.beton", "a.ffr", "this is a .beton file, though its name ends in .ffr. Give it the ending .beton."),
        ("x.beton", "a.barecat", "this is a .beton file, though its name ends in .barecat"),
        ("x.barecat", "a.beton", "this is a .barecat file, though its name ends in .beton"),
        ("x.zip", "a.beton", "this is a .zip file, though its name ends in .beton. Give it the ending .zip."),
        ("x.zip", "a.ffr", "this is a .zip file"),
        ("x.tar", "a.barecat", "this is a .tar file"),
        ("x.tar.gz", "a.ffr", "this is compressed by gzip"),
        ("x.jpg", "a.beton", "this is a JPEG picture"),
        ("x.lfs", "a.beton", "this is a pointer of Git LFS.*git lfs pull"),
        ("x.html", "a.barecat", "this is a web page.*download it again"),
    ],
)
def test_the_error_says_what_it_is(
    place: Path, source: str, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(source, name)
    if source == "x.barecat":
        shutil.copy(f"{source}-shard-00000", f"{name}-shard-00000")
    with pytest.raises(FormatError, match=message):
        hr.open(name)
    with pytest.raises(FormatError, match=message):
        hr.verify(name)
    for words in (["info", name], ["verify", name], ["ls", name], ["convert", name, "out.barecat"]):
        assert main(words) == 2
        assert message.partition(".*")[0] in capsys.readouterr().err


def test_a_beton_that_is_called_zip(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("x.beton", "y.zip")
    assert main(["convert", "y.zip", "out.barecat"]) == 2
    assert "y.zip: this is a .beton file, though its name ends in .zip" in capsys.readouterr().err


def test_what_is_only_damaged_keeps_its_error(place: Path) -> None:
    data = bytearray((place / "x.beton").read_bytes())
    (place / "cut.beton").write_bytes(data[:100])
    with pytest.raises(FormatError, match="descriptors need"):
        hr.open("cut.beton")
    (place / "odd.beton").write_bytes(b"nobody knows this" * 10)
    with pytest.raises(FormatError, match="version 2 expected"):
        hr.open("odd.beton")
