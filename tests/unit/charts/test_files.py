"""Charts as one SVG file."""

from __future__ import annotations

from xml.etree import ElementTree

from headrace.charts import Bar, BarChart, Point, PointChart, chart_file

SVG = "{http://www.w3.org/2000/svg}"
BARS = BarChart(title="Rates & more", unit="images/s", bars=[Bar("a", 3, 2, 4, "x"), Bar("b", 1, 1, 1, "y")])
POINTS = PointChart(title="Over <n>", x_label="n", y_label="s", points=[Point(1, 2, "a"), Point(2, 3, "b")])


def test_charts_stand_below_each_other_under_their_titles() -> None:
    root = ElementTree.fromstring(chart_file([BARS, POINTS], title="All"))
    inner = root.findall(f"{SVG}svg")
    assert [element.text for element in root.findall(f"{SVG}text")] == ["Rates & more", "Over <n>"]
    assert int(inner[0].get("y", "")) + int(inner[0].get("height", "")) < int(inner[1].get("y", ""))
    width, height = (int(number) for number in root.get("viewBox", "").split()[2:])
    assert width > int(inner[0].get("width", ""))
    assert height > int(inner[1].get("y", "")) + int(inner[1].get("height", ""))


def test_the_legend_may_be_left_out() -> None:
    plain = BarChart(title=BARS.title, unit=BARS.unit, bars=BARS.bars, has_legend=False)
    with_legend, without = (chart_file([chart], title="") for chart in (BARS, plain))
    assert ">y</text>" in with_legend
    assert ">y</text>" not in without


def test_no_chart_is_an_empty_picture() -> None:
    assert ElementTree.fromstring(chart_file([], title="none")).findall(f"{SVG}svg") == []
