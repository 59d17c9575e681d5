"""Puts measured rows into the pages of docs/learn, so that none is ever typed.

A page has a table between ``<!-- results: SUITE -->`` and ``<!-- results: end -->``. Its first column names rows of
that suite; the second, and the line about the machine, are written here (``python -m benchmarks.quotes``).
"""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.harness import RESULTS, ROOT

__all__ = ["PAGES", "refresh_quotes", "refreshed"]

PAGES = sorted((ROOT / "docs" / "learn").glob("*.md"))
_QUOTE = re.compile(r"<!-- results: (?P<suite>\w+) -->\n(?P<table>.*?)\n<!-- results: end -->", re.DOTALL)


def refresh_quotes() -> None:
    """Write the quoted rows of all pages anew."""
    for page in PAGES:
        page.write_text(refreshed(page.read_text()))


def refreshed(text: str) -> str:
    """A page with what the results say now.

    Raises:
        KeyError: a page names a row that was not measured.
    """
    return _QUOTE.sub(_table, text)


def _table(quote: re.Match[str]) -> str:
    result = json.loads((RESULTS / f"{quote['suite']}.json").read_text())
    texts = {row["what"]: row["text"] for row in result["rows"] if "ratio" not in row}
    head, *names = [line.split("|")[1].strip() for line in quote["table"].splitlines() if _is_row(line)]
    rows = [f"| {name} | {texts[name]} |" for name in names]
    table = "\n".join([f"| {head} | |", "| --- | --- |", *rows, "", _machine(quote["suite"], result["environment"])])
    return f"<!-- results: {quote['suite']} -->\n{table}\n<!-- results: end -->"


def _is_row(line: str) -> bool:
    return line.startswith("|") and not line.startswith("| ---")


def _machine(suite: str, environment: dict[str, Any]) -> str:
    link = f"[{suite}](../../benchmarks/results/{suite}.json)"
    machine = f"{environment['cpu']}, {environment['cores']} cores, {environment['simd']}"
    return f"From {link}: {machine}, Python {environment['python']}."


if __name__ == "__main__":
    refresh_quotes()
