"""Rows, charts and what a suite is told."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headrace.bench.charts import bars_of
from headrace.bench.rows import Ratio, Row, compared_rows, median_row, rate_row
from headrace.bench.suite import Settings
from headrace.charts import Bar, BarChart, Point, PointChart, draw, format_value


def test_median_and_quartiles() -> None:
    row = median_row("reads", "beton", [4.0, 1.0, 3.0, 2.0, 100.0], unit="s", better="lower", cache="cold", calls=7)
    assert (row.value, row.low, row.high, row.repeats) == (3.0, 2.0, 4.0, 5)
    assert row.key == "reads: beton"
    assert row.as_json()["facts"] == {"calls": 7}
    assert row.as_json()["text"] == "3.00 s (2.00 s to 4.00 s)"


def test_rates() -> None:
    row = rate_row("reads", "beton", [0.5, 0.25, 1.0], samples=100)
    assert (row.value, row.low, row.high, row.better) == (200.0, 100.0, 400.0, "higher")


def test_a_row_is_compared_with_each_peer_of_the_same_rounds() -> None:
    seconds = {"ours": [1.0, 2.0, 1.0], "theirs": [3.0, 4.0, 2.0], "other": [1.0, 1.0, 1.0]}
    ours, theirs, other = compared_rows("reads", seconds, ["theirs", "other", "absent"], samples=10)
    assert ours.beside == {"theirs": Ratio(2.0, 2.0, 3.0), "other": Ratio(1.0, 0.5, 1.0)}
    assert ours.beside["theirs"].text == "2.00x (2.00 to 3.00)"
    assert theirs.beside == other.beside == {}
    (row,) = compared_rows("open", {"ours": [0.5]}, unit="s")
    assert (row.value, row.better, row.text) == (0.5, "lower", "500.00 ms")


def test_a_row_comes_back_from_a_file() -> None:
    row, _ = compared_rows(
        "a", {"ours": [1.0], "theirs": [2.0]}, ["theirs"], facts={"ours": {"calls": 3}}, cache="cold"
    )
    assert Row.from_json(json.loads(json.dumps(row.as_json()))) == row


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.25, "s", "250.00 ms"), (3e-6, "s", "3.0 µs"), (1 << 20, "bytes", "1.0 MiB"), (0.0123, "", "0.0123")],
)
def test_figures_in_words(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


def test_settings_take_what_the_user_says_first() -> None:
    assert Settings(work=Path()).count(quick=1, full=2) == 2
    assert Settings(work=Path(), quick=True).count(quick=1, full=2) == 1
    assert Settings(work=Path(), quick=True, samples=7, rounds=5).count(quick=1, full=2) == 7
    assert Settings(work=Path(), rounds=5).repeats(quick=1, full=2) == 5


def test_bars_have_labels_values_and_a_length_each() -> None:
    chart = BarChart(
        title="a <b>", unit="s", bars=[Bar("x & y", 1.0, 0.5, 1.5, "warm"), Bar("x & y", 4.0, 4.0, 4.0, "cold")]
    )
    svg = ET.fromstring(draw(chart))
    assert svg.get("aria-label") == "a <b>"
    lengths = [float(one.get("width", 0)) for one in svg.iter("rect") if one.find("title") is not None]
    assert lengths[1] == pytest.approx(4 * lengths[0], rel=0.01)
    texts = [one.text for one in svg.iter("text")]
    assert "x & y" in texts
    assert "1.00 s" in texts


@pytest.mark.parametrize("is_log", [False, True])
def test_points_stay_on_the_page_and_labels_apart(is_log: bool) -> None:
    points = [Point(10.0**i, 5.0, f"point {i}", "a") for i in range(4)] + [Point(1.0, 5.0, "the same place", "b")]
    chart = PointChart(
        title="t", x_label="x", y_label="y", points=points, is_joined=True, is_log_x=is_log, is_log_y=is_log
    )
    svg = ET.fromstring(draw(chart))
    width = float(svg.get("viewBox", "").split()[2])
    assert all(0 <= float(one.get("cx", -1)) <= width for one in svg.iter("circle"))
    assert len(list(svg.iter("polyline"))) == 2
    places = {(one.get("x"), one.get("y")) for one in svg.iter("text") if "p" in (one.text or "")}
    assert len(places) == len([one for one in svg.iter("text") if "p" in (one.text or "")])


@pytest.mark.parametrize("values", [[0.0, 0.0], [5.0], [-1.0, 1.0], [float("nan"), 2.0]])
def test_odd_values_are_drawn(values: list[float]) -> None:
    points = [Point(value, value, "", "") for value in values if value == value]
    for is_log in (False, True):
        chart = PointChart(title="", x_label="", y_label="", points=points, is_log_x=is_log, is_log_y=is_log)
        ET.fromstring(draw(chart))
    ET.fromstring(draw(BarChart(title="", unit="s", bars=[Bar("zero", 0.0, 0.0, 0.0)])))


def test_bars_of_rows_keep_the_order_of_the_first_section() -> None:
    rows = [median_row(section, name, [1.0], unit="s") for section in ("warm", "cold") for name in ("b", "a")]
    (chart,) = bars_of(rows, "t", ["warm", "cold"])
    assert [(bar.label, bar.series) for bar in chart.bars] == [
        ("b", "warm"),
        ("b", "cold"),
        ("a", "warm"),
        ("a", "cold"),
    ]
    assert bars_of(rows, "t", ["nothing"]) == []
