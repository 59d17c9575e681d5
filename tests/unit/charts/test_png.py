"""Charts as PNG, and histograms."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import numpy as np
import PIL.Image
import pytest

from headrace.charts import Bar, BarChart, Chart, Histogram, Point, PointChart, chart_page, chart_png, draw

BARS = BarChart(title="Bars", unit="s", bars=[Bar("a", 3, 2, 4, "x"), Bar("b", 1, 1, 1, "y")])
POINTS = PointChart(
    title="Points", x_label="n", y_label="s", points=[Point(1, 2, "a"), Point(2, 3, "b")], is_joined=True
)
COUNTS = Histogram(title="Counts", x_label="pixels", y_label="samples", edges=[10, 20, 30, 40], counts=[1, 4, 2])


def pixels(*charts: Chart) -> np.ndarray:
    with PIL.Image.open(io.BytesIO(chart_png(charts, title="All", facts="some"))) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def count(picture: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((np.abs(picture - colour).max(axis=2) == 0).sum())


BLUE, ORANGE, PAPER = (0x2F, 0x6F, 0xB3), (0xD9, 0x82, 0x2B), (0xFC, 0xFC, 0xFA)


def test_every_kind_of_chart_is_drawn() -> None:
    bars = pixels(BARS)
    assert count(bars, BLUE) > 2 * count(bars, ORANGE) > 1000
    assert count(pixels(POINTS), BLUE) > 200
    assert count(pixels(COUNTS), BLUE) > 10_000
    together = pixels(BARS, POINTS, COUNTS)
    assert together.shape[0] > bars.shape[0] + 500
    assert together.shape[1] == bars.shape[1]
    assert (together[:10] == PAPER).all()


def test_a_histogram_has_a_bar_for_each_count_on_whole_numbers() -> None:
    svg = ElementTree.fromstring(draw(COUNTS))
    heights = [float(one.get("height", 0)) for one in svg.iter("rect")]
    assert heights[1] == pytest.approx(4 * heights[0], abs=1)
    assert [one.findtext("title") for one in svg.iter("rect")] == ["10 to 20: 1", "20 to 30: 4", "30 to 40: 2"]
    texts = [one.text for one in svg.iter("text")]
    assert "samples" in texts
    assert not any("." in (text or "") for text in texts)


@pytest.mark.parametrize("edges", [[1.0, 10.0, 100.0], [5.0, 5.0, 5.0], [1.0, 1e12, 1e13]])
@pytest.mark.parametrize("is_log", [False, True])
def test_odd_histograms_are_drawn(edges: list[float], is_log: bool) -> None:
    chart = Histogram(title="", x_label="", y_label="", edges=edges, counts=[0, 3], is_log=is_log)
    ElementTree.fromstring(draw(chart))
    assert pixels(chart).size


def test_a_page_escapes_what_it_is_told() -> None:
    page = chart_page([COUNTS], title="<script>", facts="a & b")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 1
    assert "http" not in page


def test_no_chart_is_an_empty_picture() -> None:
    assert pixels().shape[2] == 3
