"""Puts the committed results into the README, the documentation and a report, so that no figure is ever typed."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from benchmarks.committed import RESULTS, ROOT, all_results, machine_of
from benchmarks.headlines import front_charts, table
from headrace.bench.report import page_of
from headrace.charts import chart_file, format_value
from headrace.formats.open import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.bench.report import Result
    from headrace.bench.rows import Row

__all__ = ["FRONT", "FRONT_TITLE", "PICTURES", "README", "RESULTS_PAGE", "refresh", "shown_pages"]

README = ROOT / "README.md"
CHOOSING = ROOT / "docs" / "explanation" / "choosing-a-format.md"
LEARN = sorted((ROOT / "docs" / "learn").glob("*.md"))
RESULTS_PAGE = ROOT / "docs" / "results.md"
REPORT = RESULTS / "report.html"
FRONT = ROOT / "docs" / "assets" / "rates.svg"
FRONT_TITLE = "How many samples a second headrace loads, beside other packages"
PICTURES = ROOT / "docs" / "assets" / "results"
_FEW = 16  # rows that are shown at once


def refresh() -> None:
    """Write all of them anew; pictures of suites that are gone are removed, and so are pages of single suites."""
    shown = shown_pages()
    PICTURES.mkdir(parents=True, exist_ok=True)
    for path, text in shown.items():
        path.write_text(text)
    for path in {*PICTURES.glob("*.svg"), *RESULTS.glob("*.html")} - set(shown):
        path.unlink()


def shown_pages() -> dict[Path, str]:
    """Every file that shows results, as it has to be."""
    results = all_results()
    shown = {
        README: _with_block(README, "numbers", table()),
        CHOOSING: _with_block(CHOOSING, "figures", _formats_table()),
        FRONT: chart_file(front_charts(), title=FRONT_TITLE),
        RESULTS_PAGE: "\n\n".join([_HEAD, *(part for one in results.values() for part in _section(one))]) + "\n",
        REPORT: page_of(list(results.values()), title="Results of headrace bench"),
    }
    shown |= {path: _QUOTE.sub(_quoted, path.read_text()) for path in LEARN}
    for name, result in results.items():
        if charts := result.suite.charts(result.rows):
            shown[PICTURES / f"{name}.svg"] = chart_file(charts, title=result.suite.question)
    return shown


def _with_block(page: Path, name: str, text: str) -> str:
    """The page with another text between two marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


# The page of results

_HEAD = """# Results

All that was measured, by suite: a picture, all rows, the machine, the commit and the command. This page is written by
`python -m benchmarks` from [benchmarks/results](../benchmarks/results); nothing on it is typed. `make bench` measures
everything anew. The [README](../README.md#numbers) shows the most telling rows that have a peer,
[one page](../benchmarks/results/report.html) has everything with all facts, and
[compare formats and loaders](howto/compare-formats-and-loaders.md) says how to measure on your own machine.

Two machines never give the same figures, and a machine that others use gives others every day. Rows of one suite were
measured in one run; rows of different suites were not. The spread is from the lower to the upper quartile, unless the
suite says otherwise; in a picture it is the thin line across the end of a bar. *Beside* says how many times as good a
row is as the peer of the same rounds; below 1 the peer is better."""


def _section(result: Result) -> Iterator[str]:
    name, facts = result.suite.name, result.environment
    yield f"## {result.suite.question}"
    where = f"{machine_of(result)}, commit `{facts['commit'] or 'none'}`, {facts['date']}; files: {result.cache}"
    yield f"{where}. Made by `{result.command}`. [{name}.json](../benchmarks/results/{name}.json)."
    if result.note:
        yield result.note
    if result.suite.charts(result.rows):
        yield f"![{result.suite.question}](assets/results/{name}.svg)"
    yield _rows(result.rows)
    if result.missing:
        yield "Not measured: " + "; ".join(f"{one.name} ({escape(one.reason)})" for one in result.missing) + "."


def _rows(rows: list[Row]) -> str:
    """A table in HTML, which may be folded; Markdown's may not."""
    lines = [
        f"<details{' open' if len(rows) <= _FEW else ''}><summary>{len(rows)} rows</summary>",
        "<table>",
        "<tr><th>measured</th><th>result</th><th>spread</th><th>beside</th></tr>",
    ]
    for row in rows:
        beside = "; ".join(f"{peer} {ratio.text}" for peer, ratio in row.beside.items())
        cells = (row.key, format_value(row.value, row.unit), row.spread, beside)
        lines.append(f"<tr>{''.join(f'<td>{escape(cell, quote=False)}</td>' for cell in cells)}</tr>")
    return "\n".join([*lines, "</table>", "</details>"])


# Figures of all formats

_BATCHES = "arrays of 10 kB: random batches of 256, {}"
_COLUMNS = (
    "random batches, warm",
    "cold",
    "crops of photographs",
    "to `.beton`, beside `cp`",
    "size, beside the JPEGs",
)


def _formats_table() -> str:
    results = all_results()
    rows = {row.key: row for name in ("formats", "convert") if name in results for row in results[name].rows}
    lines = [f"| format | {' | '.join(_COLUMNS)} |", f"| --- |{' --- |' * len(_COLUMNS)}"]
    for name in sorted(FORMATS.names()):
        cells = list(_cells(name, rows))
        if any(cells):
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(name: str, rows: dict[str, Row]) -> Iterator[str]:
    for cache in ("warm", "cold"):
        section = _BATCHES.format(cache)
        own, base = rows.get(f"{section}: {name}"), rows.get(f"{section}: ffr")
        yield f"{own.value / base.value:.2f}" if own is not None and base is not None else ""
    crops = rows.get(f"photographs: random crops by the Loader: {name}")
    yield "" if crops is None else f"{crops.beside['beton'].value:.2f}" if crops.beside else "1.00"
    converted = rows.get(f"{name} to .beton: convert")
    yield f"{converted.beside['cp'].value:.2f}" if converted is not None else ""
    size = rows.get(f"photographs: size, with the annex: {name}")
    yield f"{size.facts['of what is in it']:.2f}" if size is not None else ""


# Rows that pages of docs/learn quote: the first column names them, the rest is written here

_QUOTE = re.compile(r"<!-- results: (?P<suite>\w+) -->\n(?P<table>.*?)\n<!-- results: end -->", re.DOTALL)


def _quoted(quote: re.Match[str]) -> str:
    """KeyError for a row that was not measured."""
    suite = quote["suite"]
    result = all_results()[suite]
    texts = {row.key: format_value(row.value, row.unit) for row in result.rows}
    lines = [line for line in quote["table"].splitlines() if line.startswith("|") and not line.startswith("| ---")]
    head, *names = [line.split("|")[1].strip() for line in lines]
    rows = [f"| {name} | {texts[name]} |" for name in names]
    origin = f"From [{suite}](../../benchmarks/results/{suite}.json): {machine_of(result)}."
    parts = [f"<!-- results: {suite} -->", f"| {head} | |", "| --- | --- |", *rows, "", origin, "<!-- results: end -->"]
    return "\n".join(parts)
