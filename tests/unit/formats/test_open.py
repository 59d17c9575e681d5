from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.errors import FormatError, UnknownFormatError
from headrace.formats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.beton does not exist"):
        hr.open(tmp_path / "none.beton")


@pytest.mark.parametrize("data", [b"", b"hello world", bytes(5000), b"\2\0\0\0" + bytes(30)])
def test_no_format_fits(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.data"
    path.write_bytes(data)
    with pytest.raises(UnknownFormatError, match=r"x\.data: no format is known.*\.beton"):
        hr.open(path)


def test_the_ending_decides_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "X.BETON"
    path.write_bytes(b"hello")
    with pytest.raises(FormatError, match="a beton header needs 24 bytes, the file has 5"):
        hr.open(path)


def test_an_unknown_format_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="no format is called 'rar'"):
        hr.open(tmp_path, format="rar")


def test_unknown_options_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [1], fields={"n": hr.Int()})
    with pytest.raises(TypeError, match="shards"):
        hr.open(path, shards=3)


def test_paths_may_be_text(tmp_path: Path) -> None:
    path = str(tmp_path / "x.beton")
    hr.write(path, [1, 2], fields={"n": hr.Int()})
    assert hr.open(path).path == path
    assert len(hr.open(path)) == 2


def test_follow_links_may_be_given_for_every_format(tmp_path: Path) -> None:
    pictures = tmp_path / "in"
    pictures.mkdir()
    (pictures / "real.png").write_bytes(image_file(picture(1, 5, 4), "PNG"))
    (pictures / "link.png").symlink_to("real.png")
    for kind in ("beton", "ffr", "barecat"):
        hr.pack(tmp_path / f"x.{kind}", pictures, workers=1, progress=False)
    for name in ("in", "x.beton", "x.ffr", "x.barecat"):
        for follow_links in (True, False):
            with hr.open(tmp_path / name, follow_links=follow_links) as dataset:
                assert len(dataset) == 2
        assert hr.verify(tmp_path / name, follow_links=True).ok
        assert summarize(tmp_path / name, follow_links=True).headline
