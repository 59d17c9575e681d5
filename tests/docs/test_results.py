"""Every page, picture and report that shows results shows those of benchmarks/results, with where they come from."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from benchmarks import committed
from benchmarks.__main__ import main
from benchmarks.committed import RESULTS, ROOT, all_results, old_suites
from benchmarks.headlines import HEADLINES, PANELS, front_charts, table
from benchmarks.pages import FRONT, FRONT_TITLE, PICTURES, README, RESULTS_PAGE, shown_pages

from headrace.bench import SUITES, find_suite
from headrace.bench.report import Result
from headrace.bench.rows import compared_rows
from headrace.bench.source import fingerprint
from headrace.charts import chart_file

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "write them anew with: python -m benchmarks"


def test_pages_and_pictures_are_those_of_the_results() -> None:
    shown = shown_pages()
    assert {path for path, text in shown.items() if not path.exists() or path.read_text() != text} == set(), AGAIN
    assert set(PICTURES.glob("*")) == {path for path in shown if path.parent == PICTURES}, AGAIN
    assert {path.name for path in RESULTS.iterdir()} == {"report.html", *(f"{name}.json" for name in all_results())}


def test_the_readme_shows_the_picture() -> None:
    assert f"![{FRONT_TITLE}]({FRONT.relative_to(ROOT)})" in README.read_text()
    words = [element.text or "" for element in ElementTree.parse(FRONT).iter() if element.tag.endswith("text")]
    for name in ("headrace", "FFCV", "WebDataset", "LitData", "MosaicML Streaming", "Barecat"):
        assert name in words


def test_a_result_says_where_it_comes_from() -> None:
    for name, result in all_results().items():
        facts = result.environment
        assert name in SUITES
        assert {"cpu", "cores", "simd", "python", "headrace", "commit", "packages", "peers"} <= set(facts)
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", facts["date"])
        assert result.command
        assert result.source or result.note, f"{name}: neither which code was measured, nor why that is not known"
        assert all(row.low <= row.value <= row.high for row in result.rows)
        assert all(ratio.low <= ratio.value <= ratio.high for row in result.rows for ratio in row.beside.values())


def test_the_page_has_every_suite_with_its_origin() -> None:
    sections = re.split(r"^## ", RESULTS_PAGE.read_text(), flags=re.MULTILINE)[1:]
    for result, section in zip(all_results().values(), sections, strict=True):
        assert section.startswith(result.suite.question)
        assert f"Made by `{result.command}`" in section
        assert f"commit `{result.environment['commit']}`" in section
        assert result.note in section
        assert section.count("<tr>") == 1 + len(result.rows)


def test_no_headline_stands_twice() -> None:
    assert len({(one.words, one.peer) for one in HEADLINES}) == len(HEADLINES)
    assert len({one[1:5] for one in HEADLINES}) == len(HEADLINES)


def test_every_headline_of_a_suite_that_was_measured_is_there() -> None:
    shown = table()
    for one in HEADLINES:
        if one.suite in all_results() and one.suite != "loader":  # of loaders, those that were installed
            assert f"| {one.words} | {one.called or one.peer} |" in shown


def test_headlines_and_panels_are_about_suites_that_there_are() -> None:
    assert {one.suite for one in (*HEADLINES, *PANELS)} <= set(SUITES)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result of the loader alone, of the code of now."""
    monkeypatch.setattr(committed, "RESULTS", tmp_path)
    suite, seconds = find_suite("loader"), {"headrace": [1.0, 1.1, 1.2], "SPDL": [4.0, 4.0, 4.0]}
    environment = {"cpu": "x", "cores": 2, "simd": "avx2", "python": "3.11", "commit": "abc", "date": "2026-01-02"}
    settings = {"images": None, "quick": False, "samples": None, "rounds": None}
    result = Result(suite=suite, settings=settings, command="headrace bench loader", environment=environment)
    facts = {name: {"workers": 1} for name in seconds}
    result.findings += compared_rows("1 worker", seconds, ["SPDL"], samples=100, unit="images/s", facts=facts)
    result.source = fingerprint(suite)
    (tmp_path / "loader.json").write_text(json.dumps(result.as_json()))
    return tmp_path


@pytest.mark.usefixtures("measured")
def test_a_suite_is_shown_once_it_was_measured() -> None:
    assert list(all_results()) == ["loader"]
    assert "| a training pipeline, one worker on one core | SPDL | **3.64x** | 3.33 to 4.00 |" in table()
    assert ">SPDL</text>" in chart_file(front_charts(), title="")
    assert old_suites() == []


def test_a_result_that_is_older_than_the_code_is_named(
    measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--check"])
    assert main() == 0
    told = json.loads((measured / "loader.json").read_text())
    (measured / "loader.json").write_text(json.dumps(told | {"source": "of another day"}))
    committed._read.cache_clear()
    assert main() == 1
    assert "make bench ARGS='loader'" in capsys.readouterr().out


def test_a_fingerprint_is_of_what_a_suite_measures(tmp_path: Path) -> None:
    suite = find_suite("archives")
    assert fingerprint(suite, tmp_path) == ""  # no source tree
    files = ("native/core/x.cpp", "src/headrace/formats/barecat/x.py", "src/headrace/bench/suites/archives.py")
    others = ("src/headrace/loader/x.py", "native/tests/x.cpp", "native/core/README.md")
    for name in (*files, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("then")
    before = fingerprint(suite, tmp_path)
    for name in others:
        (tmp_path / name).write_text("now")
        assert fingerprint(suite, tmp_path) == before
    for name in files:
        (tmp_path / name).write_text("now")
        assert fingerprint(suite, tmp_path) != before
        (tmp_path / name).write_text("then")


@pytest.mark.parametrize("path", sorted(path for path in shown_pages() if path.suffix == ".svg"), ids=lambda p: p.stem)
def test_pictures_stand_alone(path: Path) -> None:
    text = path.read_text()
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    assert "<script" not in text
    assert "href" not in text
