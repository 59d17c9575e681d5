"""A result as JSON, and as one page that stands alone: no network, no script, light and dark."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Self

from headrace.bench.rows import Missing, Row
from headrace.charts import CHART_STYLE, draw, format_value
from headrace.progress import format_count
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from headrace.bench.rows import Finding
    from headrace.bench.suite import Suite

__all__ = ["VERSION", "Result", "page_of", "write_reports"]

VERSION = 2
"""Of the JSON."""


@dataclass(kw_only=True)
class Result:
    """What a suite has found so far.

    Args:
        suite: which.
        settings: what it was told, as in the file.
        command: what was typed.
        environment: machine and versions.
        source: which code was measured; empty where that is not known.
        warm_only: why nothing was read cold; empty where it was.
        findings: rows, and what is missing.
        is_complete: it was not interrupted, and nothing failed.
        seconds: how long it took.
        note: what else a reader has to know about this run.
    """

    suite: Suite
    settings: Mapping[str, Any]
    command: str
    environment: dict[str, Any]
    source: str = ""
    warm_only: str = ""
    findings: list[Finding] = field(default_factory=list)
    is_complete: bool = False
    seconds: float = 0.0
    note: str = ""

    @classmethod
    def from_json(cls, told: Mapping[str, Any], suite: Suite) -> Self:
        """The result that a file has."""
        same = ("settings", "command", "environment", "source", "is_complete", "seconds", "note")
        result = cls(suite=suite, **{name: told[name] for name in same})
        result.findings += [Row.from_json(row) for row in told["rows"]]
        result.findings += [Missing(one["name"], one["reason"]) for one in told["missing"]]
        result.warm_only = told["cache"] if told["cache"].startswith("warm only") else ""
        return result

    def add(self, finding: Finding) -> None:
        """Keep a row, or what is missing; ValueError for a row that there is already."""
        if isinstance(finding, Row) and any(row.key == finding.key for row in self.rows):
            raise ValueError(f"the suite {self.suite.name} has measured {finding.key!r} twice")
        self.findings.append(finding)

    @property
    def rows(self) -> list[Row]:
        """The figures."""
        return [finding for finding in self.findings if isinstance(finding, Row)]

    @property
    def missing(self) -> list[Missing]:
        """What was not measured."""
        return [finding for finding in self.findings if isinstance(finding, Missing)]

    @property
    def cache(self) -> str:
        """Whether files were in memory, and why they were not cold where they could not be."""
        return self.warm_only or ("cold and warm" if any(row.cache == "cold" for row in self.rows) else "warm")

    def as_json(self) -> dict[str, Any]:
        """What goes into a file."""
        return {
            "version": VERSION,
            "suite": self.suite.name,
            "question": self.suite.question,
            "command": self.command,
            "is_complete": self.is_complete,
            "seconds": self.seconds,
            "cache": self.cache,
            "settings": dict(self.settings),
            "environment": self.environment,
            "source": self.source,
            "note": self.note,
            "missing": [{"name": one.name, "reason": one.reason} for one in self.missing],
            "rows": [row.as_json() for row in self.rows],
        }


def write_reports(result: Result, folder: Path) -> tuple[Path, Path]:
    """Write the JSON and the page; each appears when it is complete."""
    json_path, page_path = folder / f"{result.suite.name}.json", folder / f"{result.suite.name}.html"
    for path, text in (
        (json_path, json.dumps(result.as_json(), indent=1) + "\n"),
        (page_path, page_of([result], title=f"headrace bench {result.suite.name}")),
    ):
        with AtomicFile(path) as file:
            file.write([text.encode("utf-8", "backslashreplace")])  # paths may not be UTF-8
    return json_path, page_path


def page_of(results: Sequence[Result], *, title: str) -> str:
    """One page of some results, with a list of them where there are several."""
    parts = ["<!DOCTYPE html>", _head(title), "<body>", "<main>"]
    if len(results) > 1:
        links = [f'<li><a href="#{one.suite.name}">{escape(one.suite.question)}</a></li>' for one in results]
        parts += [f"<h1>{escape(title)}</h1>", "<ul>", *links, "</ul>"]
    parts += [line for result in results for line in _body(result)]
    return "\n".join([*parts, f"<p>{escape(_SPREAD)}</p>", "</main>", "</body>", "</html>"]) + "\n"


def _head(title: str) -> str:
    return (
        f'<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f'<link rel="icon" href="data:,"/>\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>'
    )


def _body(result: Result) -> Iterator[str]:
    yield f'<h1 id="{result.suite.name}">{escape(result.suite.question)}</h1>'
    yield f'<p class="lead">{_paragraph(result)}</p>'
    if result.note:
        yield f'<p class="warning">{escape(result.note)}</p>'
    if not result.is_complete:
        yield '<p class="warning">This run was interrupted or failed: what follows is a part of the suite.</p>'
    for chart in result.suite.charts(result.rows):
        yield f"<h2>{escape(chart.title)}</h2>\n<figure>{draw(chart)}</figure>"
    yield "<h2>All figures</h2>"
    yield from _tables(result.rows)
    if result.missing:
        yield "<h2>Not measured</h2>\n<ul>"
        yield from (f"<li><b>{escape(one.name)}</b>: {escape(one.reason)}</li>" for one in result.missing)
        yield "</ul>"
    yield "<h2>How it was measured</h2>"
    yield from (f"<p>{escape(note)}</p>" for note in result.suite.notes)
    yield from _machine(result)


_SPREAD = (
    "Every figure is the median of its repetitions; the range beside it, and the line across a bar, is from the lower "
    "to the upper quartile. Contenders of one table take turns, one round after the other, each round in another "
    "order. A ratio is that of the same round, and more than 1 says that the row is better than the peer."
)


def _paragraph(result: Result) -> str:
    facts = result.environment
    cores = format_count(facts["cores"], "core")
    machine = f"{facts['cpu']}, {cores}, Python {facts['python']}, headrace {facts['headrace']}"
    made = f"Made by <code>{escape(result.command)}</code> on {escape(facts['date'])}"
    return f"{escape(machine)}. Files: {escape(result.cache)}. {made}."


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for section in dict.fromkeys(row.section for row in rows):
        chosen = [row for row in rows if row.section == section]
        peers = list(dict.fromkeys(peer for row in chosen for peer in row.beside))
        names = list(dict.fromkeys(name for row in chosen for name in row.facts))
        heads = ["", "median", "quartiles", "repeats", *(f"beside {peer}" for peer in peers), *names]
        yield f"<details open='open'><summary>{escape(section)}</summary>\n<table>"
        yield f"<tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>"
        yield from (_table_row(row, peers, names) for row in chosen)
        yield "</table></details>"


def _table_row(row: Row, peers: Sequence[str], names: Sequence[str]) -> str:
    cells = [format_value(row.value, row.unit), row.spread, str(row.repeats)]
    cells += [row.beside[peer].text if peer in row.beside else "" for peer in peers]
    cells += [_fact(row.facts.get(name)) for name in names]
    return f"<tr><th>{escape(row.name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _fact(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(one)}" for name, one in value.items())
    return f"{value:,.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _machine(result: Result) -> Iterator[str]:
    yield "<details><summary>Machine and versions</summary>\n<table>"
    facts = dict(result.environment)
    packages = facts.pop("packages", {}) | facts.pop("peers", {})
    with contextlib.suppress(KeyError):
        facts["memory"] = format_value(facts.pop("memory_bytes"), "bytes")
    for name, value in (facts | packages).items():
        yield f"<tr><th>{escape(name)}</th><td>{escape(_fact(value))}</td></tr>"
    yield "</table></details>"


_STYLE = (
    CHART_STYLE
    + """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; }
.lead, p { color: var(--soft); max-width: 76ch; }
.warning { color: var(--warn); font-weight: 600; }
code { font: .92em ui-monospace, monospace; color: var(--ink); overflow-wrap: anywhere; }
figure { margin: 0; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 640px; height: auto; }
details { margin: .5rem 0 1rem; } summary { cursor: pointer; font-weight: 600; }
table { border-collapse: collapse; font-size: .88rem; display: block; overflow-x: auto; margin-top: .4rem; }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid var(--grid);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th { font-weight: 500; } th:first-child { text-align: left; } tr:first-child th { color: var(--soft); }
"""
)
