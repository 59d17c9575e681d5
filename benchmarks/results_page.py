"""Writes docs/results.md: every figure of benchmarks/results, with its machine, its commit and its command."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from benchmarks.harness import RESULTS, ROOT
from benchmarks.measured import names_of_results, read_result
from benchmarks.pictures import suite_picture

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PAGE", "page", "refresh_results"]

PAGE = ROOT / "docs" / "results.md"
_FEW = 16  # rows that are shown at once
_HEAD = """# Results

All that was measured, by suite: a picture where there is one, all rows, the machine, the commit and the command. This
page is written by `python -m benchmarks` from [benchmarks/results](../benchmarks/results); nothing on it is typed. The
[README](../README.md#numbers) shows the most telling rows that have a peer, and
[compare formats and loaders](howto/compare-formats-and-loaders.md) says how to measure on your own machine.

Two machines never give the same figures, and a machine that others use gives others every day. Rows of one suite were
measured in one run; rows of different suites were not. The spread of a rate is from the slowest to the fastest
repetition, or between the quartiles where the row says so. In a picture it is the thin line across the end of a bar."""


def refresh_results() -> None:
    """Write the page anew."""
    PAGE.write_text(page())


def page() -> str:
    """The page as the results say it now."""
    return "\n\n".join([_HEAD, *(part for suite in names_of_results() for part in _section(suite))]) + "\n"


def _section(suite: str) -> Iterator[str]:
    result = read_result(suite)
    yield f"## {result['question']}"
    yield _origin(suite, result)
    if (picture := suite_picture(suite)) is not None:
        yield f"![{result['question']}]({picture.relative_to(PAGE.parent).as_posix()})"
    yield _rows(result["rows"])
    if missing := result.get("missing"):
        yield "Not measured: " + "; ".join(f"{one['name']} ({escape(one['reason'])})" for one in missing) + "."


def _origin(suite: str, result: dict[str, Any]) -> str:
    facts = result["environment"]
    cache = result.get("cache") or facts.get("cache", "warm")
    commit = f"commit `{facts['commit']}`" if facts["commit"] else "no commit"
    command = result.get("command") or f"make bench ARGS={suite}"
    files = f"[{suite}.json](../benchmarks/results/{suite}.json)"
    if (RESULTS / f"{suite}.html").exists():
        files += f", [as a page](../benchmarks/results/{suite}.html)"
    machine = f"{facts['cpu']}, {facts['cores']} cores, {facts['simd']}, Python {facts['python']}"
    return f"{machine}, {commit}; files: {cache}. Made by `{command}`. {files}."


def _rows(rows: list[dict[str, Any]]) -> str:
    """A table in HTML, which may be folded; Markdown's may not."""
    lines = [
        f"<details{' open' if len(rows) <= _FEW else ''}><summary>{len(rows)} rows</summary>",
        "<table>",
        "<tr><th>measured</th><th>result</th><th>spread</th><th>repeats</th></tr>",
    ]
    for row in rows:
        name = f"{row['section']}: {row['name']}" if "section" in row else row["what"]
        cells = (name, _result(row), _spread(row), str(row.get("repeats", "")))
        lines.append(f"<tr>{''.join(f'<td>{escape(cell, quote=False)}</td>' for cell in cells)}</tr>")
    return "\n".join([*lines, "</table>", "</details>"])


def _result(row: dict[str, Any]) -> str:
    text = str(row["text"]).strip()
    text = re.sub(r" \([^()]* to [^()]*\)$", "", text) if "section" in row else text
    return text if row.get("is_quiet", True) else f"{text} (the machine was busy)"


def _spread(row: dict[str, Any]) -> str:
    if "quartiles" in row:
        low, high = row["quartiles"]
        return f"{low:.2f} to {high:.2f} (quartiles)"
    if "section" in row:
        found = re.search(r" \(([^()]* to [^()]*)\)$", str(row["text"]))
        return f"{found[1]} (quartiles)" if found else ""
    if "min_per_s" in row:
        return _percent(row["min_per_s"] / row["samples_per_s"], row["max_per_s"] / row["samples_per_s"])
    if "median_s" in row and row["min_s"] < row["max_s"]:
        return _percent(row["median_s"] / row["max_s"], row["median_s"] / row["min_s"])
    return ""


def _percent(low: float, high: float) -> str:
    """How far the slowest and the fastest repetition are from the median, as rates."""
    return f"{(low - 1) * 100:+.0f} % to {(high - 1) * 100:+.0f} %"
