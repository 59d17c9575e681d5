"""Pictures and the page of results are those of benchmarks/results, and figures are compared as the README says."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from benchmarks import measured, results_page
from benchmarks.harness import ROOT
from benchmarks.measured import Comparison, compare, figures, names_of_results, read_result
from benchmarks.pictures import FOLDER, FRONT, FRONT_TITLE, pictures
from benchmarks.readme import HEADLINES, README, table
from benchmarks.results_page import PAGE, page

from headrace.bench.machine import environment
from headrace.bench.rows import rate_row

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "write it anew with: python -m benchmarks.refresh"


def test_pictures_are_drawn_from_the_results() -> None:
    drawn = pictures()
    assert {path for path, text in drawn.items() if not path.exists() or path.read_text() != text} == set(), AGAIN
    assert set(FOLDER.glob("*")) == set(drawn) - {FRONT}, AGAIN


def test_the_readme_shows_the_picture() -> None:
    assert f"![{FRONT_TITLE}]({FRONT.relative_to(ROOT)})" in README.read_text()
    words = [element.text or "" for element in ElementTree.parse(FRONT).iter() if element.tag.endswith("text")]
    for name in ("headrace", "FFCV", "WebDataset", "LitData", "MosaicML Streaming", "Barecat 0.3.1"):
        assert name in words


def test_the_page_of_results_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), AGAIN


def test_the_page_has_every_suite_with_its_origin() -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) == len(names_of_results())
    for suite, section in zip(names_of_results(), sections, strict=True):
        result = read_result(suite)
        assert section.startswith(result["question"])
        assert "Made by `" in section
        assert f"commit `{result['environment']['commit']}`" in section
        assert section.count("<tr>") == 1 + len(result["rows"])


def test_no_headline_stands_twice() -> None:
    assert len({(one.words, one.peer) for one in HEADLINES}) == len(HEADLINES)
    assert len({(one.suite, one.ours, one.theirs) for one in HEADLINES}) == len(HEADLINES)


def test_every_headline_of_a_suite_that_was_measured_is_there() -> None:
    shown = table()
    for one in HEADLINES:
        if one.suite in names_of_results() and one.suite != "loader":  # of loaders, those that were installed
            assert f"| {one.words} | {one.peer} |" in shown


def test_a_ratio_lies_within_its_spread() -> None:
    for ratio, low, high in re.findall(r"\*\*([\d.]+)x\*\* \| ([\d.]+) to ([\d.]+)", table()):
        assert float(low) <= float(ratio) <= float(high)


RATES: list[dict[str, Any]] = [
    {"what": "a", "median_s": 1.0, "min_s": 0.5, "max_s": 2.0, "samples_per_s": 100.0, "text": "100 images/s"},
    {"what": "b", "median_s": 4.0, "min_s": 4.0, "max_s": 5.0, "samples_per_s": 25.0, "text": "25 images/s"},
]


def test_rates_are_compared_by_their_extremes() -> None:
    assert compare(RATES, ours="a", theirs="b") == Comparison(4.0, 50 / 25, 200 / 20)


def test_a_row_that_compares_round_by_round_comes_first() -> None:
    rows = [*RATES, {"what": "a", "ratio": 3.5, "quartiles": [3.0, 3.75], "text": "3.50x the speed of b"}]
    assert compare(rows, ours="a", theirs="b", ratio="a", words="of b") == Comparison(3.5, 3.0, 3.75)
    assert compare(rows, ours="a", theirs="b", ratio="a", words="of c") == Comparison(4.0, 2.0, 10.0)


def test_less_time_is_more_speed() -> None:
    rows = [
        {"what": "a", "median_s": 2.0, "min_s": 1.0, "max_s": 4.0, "text": "2 s"},
        {"what": "b", "median_s": 1.0, "min_s": 0.5, "max_s": 1.0, "text": "1 s"},
    ]
    assert compare(rows, ours="a", theirs="b") == Comparison(0.5, 0.125, 1.0)


def test_rows_of_the_command_have_their_quartiles() -> None:
    rows = [
        {"section": "1 worker", "name": name, "value": value, "low": value - 1, "high": value + 1, "unit": "images/s"}
        for name, value in (("headrace", 9.0), ("other", 3.0))
    ]
    assert compare(rows, ours="1 worker: headrace", theirs="1 worker: other") == Comparison(3.0, 8 / 4, 10 / 2)


def test_what_was_disturbed_or_not_measured_is_left_out() -> None:
    assert figures([RATES[0] | {"is_quiet": False}, {"what": "left out", "text": "no torch"}]) == []
    assert compare(RATES, ours="a", theirs="c") is None


def test_a_suite_of_the_command_is_shown_once_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (measured, results_page):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    rows = [
        rate_row("1 worker", name, seconds, samples=100, unit="images/s", workers=1)
        for name, seconds in (("headrace", [1.0, 1.1, 1.2]), ("SPDL", [4.0, 4.0, 4.0]))
    ]
    result = {
        "question": "How many?",
        "command": "headrace bench loader",
        "environment": environment() | {"commit": "abc"},
        "cache": "warm",
        "missing": [{"name": "FFCV", "reason": "not installed"}],
        "rows": [row.as_json() for row in rows],
    }
    (tmp_path / "loader.json").write_text(json.dumps(result))
    assert "| a training pipeline, one worker on one core | SPDL | **3.64x** | 3.33 to 4.00 |" in table()
    assert ">SPDL</text>" in pictures()[FRONT]
    assert ">25 images/s</text>" in pictures()[FOLDER / "loader.svg"]
    text = page()
    assert "Made by `headrace bench loader`." in text
    assert "<tr><td>1 worker: headrace</td><td>90.9 images/s</td><td>83.3 to 100 images/s (quartiles)</td>" in text
    assert "Not measured: FFCV (not installed)." in text


@pytest.mark.parametrize("path", sorted(pictures()), ids=lambda path: path.stem)
def test_pictures_stand_alone(path: Path) -> None:
    text = pictures()[path]
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    assert "<script" not in text
    assert "href" not in text
