"""Rows as charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.charts import Bar, BarChart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.bench.rows import Row

__all__ = ["bars_of"]


def bars_of(rows: Sequence[Row], title: str, sections: Sequence[str]) -> list[BarChart]:
    """A chart of the rows of some sections, a colour for each; none where there are no such rows."""
    chosen = [row for row in rows if row.section in sections]
    if not chosen:
        return []
    labels = {row.name: None for row in chosen}  # in the order of the first section
    bars = [
        Bar(row.name, row.value, row.low, row.high, row.section.rpartition(": ")[2] if len(sections) > 1 else "")
        for label in labels
        for row in chosen
        if row.name == label
    ]
    return [BarChart(title=title, unit=chosen[0].unit, bars=bars)]
