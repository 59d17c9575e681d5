"""What is in a dataset, without decoding it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helpers import picture

import headrace as hr
from headrace.formats.summary import field_words, summarize

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_as_values_and_in_words(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    values = [(picture(i, 20, 30), i) for i in range(3)]
    hr.write(path, values, fields={"image": hr.Image(), "n": hr.Int()}, page_size=2 << 20)
    summary = summarize(path)
    assert (summary.values["format"], summary.values["samples"]) == ("beton", 3)
    assert summary.headline.startswith("3 samples, ")
    assert list(summary.fields) == ["image", "n"]
    assert "3 jpg; width 30 to 30, mean 30; height 20 to 20, mean 20" in summary.fields["image"]
    assert dict(summary.details)["pages"].startswith("1 of 2.0 MiB, ")


def test_files_have_no_fields(tmp_path: Path) -> None:
    with hr.Archive(tmp_path / "x.barecat", "x") as archive:
        archive["a/b"] = b"12345"
    summary = summarize(tmp_path / "x.barecat")
    assert (summary.headline, summary.fields) == ("1 file, 5 B", {})
    assert ("directories", "2") in summary.details


def test_a_field_in_words() -> None:
    assert field_words({"kind": "ndarray", "dtype": "int16", "shape": [2, 3]}) == "ndarray; int16 2x3"
