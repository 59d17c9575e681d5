"""Puts the figures of all formats into docs/explanation/choosing-a-format.md, so that none is ever typed."""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.harness import RESULTS, ROOT

__all__ = ["PAGE", "figures", "refresh_choosing", "shown_figures"]

PAGE = ROOT / "docs" / "explanation" / "choosing-a-format.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
HEADINGS = {
    "random batches, warm": ("format_reads", "warm: {name}", "ratio", "the rate of ffr"),
    "cold": ("format_reads", "cold: {name}", "ratio", "the rate of ffr"),
    "crops of photographs": ("format_photos", "crops: {name}", "ratio", "the rate of beton"),
    "to `.beton`, beside `cp`": ("format_convert", "{name}: convert", "ratio", "the rate of cp"),
    "size, beside the JPEG files": ("format_sizes", "{name}, with its annex", "share", ""),
}


def refresh_choosing() -> None:
    """Replace the block between the two marks."""
    if not PAGE.exists():
        return
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        PAGE.write_text(f"{before}{BEGIN}\n{figures()}\n{END}{after}")


def shown_figures() -> str:
    """The block as it stands on the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()


def figures() -> str:
    """A Markdown table, a line for each format that was measured."""
    results = {suite: _rows(suite) for suite, *_ in HEADINGS.values()}
    rows = [row["what"] for suite in ("format_sizes", "format_reads") for row in results[suite]]
    found = [re.fullmatch(r"(\w+), with its annex|warm: (\w+)", what) for what in rows]
    names = sorted({name[1] or name[2] for name in found if name})
    lines = [f"| format | {' | '.join(HEADINGS)} |", f"| --- |{' --- |' * len(HEADINGS)}"]
    for name in names:
        cells = [
            _cell(name, what.format(name=name), results[suite], key, text)
            for suite, what, key, text in HEADINGS.values()
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _rows(suite: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{suite}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def _cell(name: str, what: str, rows: list[dict[str, Any]], key: str, text: str) -> str:
    for row in rows:
        if row["what"] == what and key in row and text in row["text"]:
            return f"{row[key]:.2f}"
    return "1" if text.endswith(f" {name}") else ""
