"""The figures of benchmarks/results as numbers, whichever kind of suite has made them.

A suite of ``headrace bench`` has rows with a section, a name, a median and quartiles. A suite of ours alone has rows
with a name, seconds and rates, and rows that compare two of them.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from benchmarks.harness import RESULTS

__all__ = ["Comparison", "Figure", "compare", "figures", "names_of_results", "read_result"]


class Figure(NamedTuple):
    """A figure, and its lowest and highest value; for ``headrace bench`` these are the quartiles."""

    name: str
    value: float
    low: float
    high: float
    unit: str


class Comparison(NamedTuple):
    """How many times as fast as a peer, and the spread of that."""

    ratio: float
    low: float
    high: float


def names_of_results() -> list[str]:
    """The suites that were measured, in order of their names."""
    return sorted(path.stem for path in RESULTS.glob("*.json"))


def read_result(suite: str) -> dict[str, Any]:
    """What a suite has found; no rows where it was never measured."""
    path = RESULTS / f"{suite}.json"
    result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": []}
    return result


def figures(rows: list[dict[str, Any]]) -> list[Figure]:
    """The rows that are a time or a rate, of runs that nothing disturbed."""
    found = [_figure(row) for row in rows if row.get("is_quiet", True)]
    return [figure for figure in found if figure is not None]


def _figure(row: dict[str, Any]) -> Figure | None:
    if "section" in row:
        return Figure(f"{row['section']}: {row['name']}", row["value"], row["low"], row["high"], row["unit"])
    if "min_per_s" in row:
        return Figure(row["what"], row["samples_per_s"], row["min_per_s"], row["max_per_s"], _unit(row))
    if "median_s" not in row:
        return None
    if "samples_per_s" in row or "bytes_per_s" in row:
        value = row.get("samples_per_s") or row["bytes_per_s"]
        median_s = row["median_s"]
        return Figure(row["what"], value, value * median_s / row["max_s"], value * median_s / row["min_s"], _unit(row))
    return Figure(row["what"], row["median_s"], row["min_s"], row["max_s"], "s")


def _unit(row: dict[str, Any]) -> str:
    found = re.match(r"[\d,.]+ (\w+/s)", row["text"]) if "samples_per_s" in row else None
    return found[1] if found else "bytes/s"


def compare(
    rows: list[dict[str, Any]], *, ours: str, theirs: str, ratio: str = "", words: str = ""
) -> Comparison | None:
    """Our figure beside a peer's, both named by patterns; None where one of them was not measured.

    Args:
        rows: of one result.
        ours: pattern of the name of our figure.
        theirs: pattern of the name of the peer's.
        ratio: pattern of the name of a row that compares them round by round; without one the medians are compared.
        words: what that row's text contains.
    """
    ours_found, theirs_found = _find(rows, ours), _find(rows, theirs)
    if ours_found is None or theirs_found is None:
        return None
    medians, *extremes = _ratios(ours_found, theirs_found)
    for row in rows:
        if ratio and "ratio" in row and re.fullmatch(ratio, row["what"]) and words in row["text"]:
            low, high = row.get("quartiles") or extremes
            return Comparison(row["ratio"], low, high)
    return Comparison(medians, extremes[0], extremes[1])


def _find(rows: list[dict[str, Any]], pattern: str) -> Figure | None:
    return next((figure for figure in figures(rows) if re.fullmatch(pattern, figure.name)), None)


def _ratios(ours: Figure, theirs: Figure) -> tuple[float, float, float]:
    """Of the medians, of our worst to their best, of our best to their worst: more is better for us."""
    if ours.unit == "s":
        return theirs.value / ours.value, theirs.low / ours.high, theirs.high / ours.low
    return ours.value / theirs.value, ours.low / theirs.high, ours.high / theirs.low
