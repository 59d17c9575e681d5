"""``headrace info --plot``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import PIL.Image
import pytest
from tests.helpers import picture

import headrace as hr
from headrace.charts import BarChart, Histogram
from headrace.cli import plots
from headrace.cli.plots import charts_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]

EVIL = "<script>alert(1)</script>\x1b]0;x\x07"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [(picture(i, 20 + i % 3, 30), min(i % 4, 2), i) for i in range(40)]
    fields = {"image": hr.Image(), "label": hr.Int(), "id": hr.Int()}
    hr.write(tmp_path / "x.beton", rows, fields=fields, class_names={"label": ["cat", "dog", EVIL]}, page_size=2 << 20)
    return tmp_path / "x.beton"


def test_what_is_drawn(path: Path) -> None:
    with hr.open(path) as dataset:
        sizes, widths, heights, classes, pages = charts_of(dataset)
        assert dataset.page_fill().shape == (1,)  # type: ignore[attr-defined]
        spans = dataset.image_spans(np.arange(40), "image")
    assert isinstance(sizes, Histogram)
    assert sum(sizes.counts) == 40
    assert (sizes.edges[0], sizes.edges[-1]) == (spans.sizes.min(), spans.sizes.max())
    assert isinstance(widths, Histogram)
    assert (list(widths.edges), list(widths.counts)) == ([29.5, 30.5], [40])
    assert isinstance(heights, Histogram)
    assert list(heights.counts) == [14, 13, 13]
    assert isinstance(classes, BarChart)
    assert [(bar.label, bar.value) for bar in classes.bars][:2] == [("cat", 10), ("dog", 10)]
    assert [bar.value for bar in classes.bars] == [10, 10, 20]
    assert isinstance(pages, Histogram)
    assert sum(pages.counts) == 1
    share = spans.sizes.sum() / (2 << 20)
    assert pages.title == f"Use of 1 page, {share:.1%} on average"


@pytest.mark.parametrize("suffix", ["png", "svg", "html", "PNG"])
def test_every_kind_of_file(path: Path, tmp_path: Path, said: Said, suffix: str) -> None:
    out = tmp_path / f"plot.{suffix}"
    assert "40 samples" in said("info", path, "--plot", out)
    if suffix.lower() == "png":
        with PIL.Image.open(out) as image:
            assert (image.format, image.width) == ("PNG", 1800)
    else:
        text = out.read_text()
        assert "Classes of label" in text
        assert "<script" not in text
        assert "\x1b" not in text
        if suffix == "svg":
            ElementTree.fromstring(text)
    before = out.stat().st_mtime_ns
    said("info", path, "--plot", out)  # a plot is replaced
    assert out.stat().st_mtime_ns > before
    assert sorted(os.listdir(tmp_path)) == sorted(["x.beton", out.name])


def test_json_stays_json(path: Path, tmp_path: Path, json_said: Callable[..., Any]) -> None:
    assert json_said("info", path, "--plot", tmp_path / "p.svg")["samples"] == 40


def test_nothing_else_is_replaced(path: Path, tmp_path: Path, said: Said) -> None:
    photo = tmp_path / "photo.png"
    PIL.Image.fromarray(picture(1, 20, 20)).save(photo)
    kept = photo.read_bytes()
    (tmp_path / "folder.svg").mkdir()
    assert "is not a plot of headrace" in said("info", path, "--plot", photo, code=2)
    assert "is no file" in said("info", path, "--plot", tmp_path / "folder.svg", code=2)
    for name in ("x.beton", "plot", "plot.jpg", "plot.pdf"):
        assert "a plot is a .png, .svg or .html" in said("info", path, "--plot", tmp_path / name, code=2)
    assert "is in a store" in said("info", path, "--plot", "s3://bucket/x.png", code=2)
    assert photo.read_bytes() == kept
    assert sorted(os.listdir(tmp_path)) == ["folder.svg", "photo.png", "x.beton"]


def test_other_formats_and_nothing_to_draw(tmp_path: Path, said: Said) -> None:
    hr.write(
        tmp_path / "x.tar", [(picture(i, 20, 30), i % 2) for i in range(8)], fields={"jpg": hr.Image(), "cls": hr.Int()}
    )
    said("info", tmp_path / "x.tar", "--plot", tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "Size of a sample" in text
    assert "Width of pictures" in text
    hr.write(tmp_path / "f.beton", [(0.5,)], fields={"f": hr.Float()})
    assert "there is nothing to draw" in said("info", tmp_path / "f.beton", "--plot", tmp_path / "f.svg", code=2)
    assert not (tmp_path / "f.svg").exists()


def test_very_many_classes_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "_MOST_SAMPLES", 100)
    rows = [(b"x" * (i % 7 + 1), int(i**0.5) * 2) for i in range(3000)]
    hr.write(tmp_path / "x.beton", rows, fields={"data": hr.Bytes(), "label": hr.Int()})
    with hr.open(tmp_path / "x.beton") as dataset:
        sizes, ends, spread, _ = charts_of(dataset)
    assert sizes.title == "Size of a sample (100 of 3,000 samples)"
    assert ends.title == "Largest and smallest 10 of 109 classes of label"
    assert isinstance(ends, BarChart)
    assert len(ends.bars) == 20
    assert isinstance(spread, Histogram)
    assert sum(spread.counts) == 109


def test_damaged_samples_are_left_out(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with hr.open(path) as dataset:
        facts = dataset.image_facts("image").dtype  # type: ignore[attr-defined]
        record = dataset.file.layout.metadata_start  # type: ignore[attr-defined]
        size = (dataset.file.layout.metadata_end - record) // 40  # type: ignore[attr-defined]
    assert facts is not None
    data[record + 3 * size : record + 4 * size] = b"\xff" * size
    path.write_bytes(data)
    with hr.open(path, annex=False) as damaged:
        sizes = charts_of(damaged)[0]
    assert isinstance(sizes, Histogram)
    assert sum(sizes.counts) == 39
