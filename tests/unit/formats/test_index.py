"""``headrace.index`` asks the format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.errors import UnknownFormatError
from headrace.formats.open import all_formats

if TYPE_CHECKING:
    from pathlib import Path


def test_a_format_with_an_annex_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [1, 2], fields={"n": hr.Int()}, annex=False)
    assert hr.index(path, names=["a", "b"]) == f"{path}.annex"
    assert list(hr.open(path).keys or ()) == ["a", "b"]
    assert hr.verify(path).checksums_checked == 2


def test_what_is_of_no_format_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "x.data").write_bytes(b"nothing of the kind")
    with pytest.raises(UnknownFormatError, match="no format is known"):
        hr.index(tmp_path / "x.data")
    with pytest.raises(FileNotFoundError):
        hr.index(tmp_path / "none.beton")


def test_formats_say_whether_they_have_an_annex() -> None:
    found = {one.name for one in all_formats() if one.index is not None}
    assert found >= {"arrow", "barecat", "beton", "ffr", "parquet", "tar", "zip"}
    assert "folder" not in found
