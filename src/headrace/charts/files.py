"""Charts as one file that stands alone: SVG or HTML, with its own colours on its own paper, for light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from headrace.charts.charts import lay_out
from headrace.charts.shapes import to_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.charts.charts import Chart

__all__ = ["CHART_STYLE", "chart_file", "chart_page"]

_MARGIN, _TITLE = 20, 30

CHART_STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --ink: #1d2126; --soft: #5d6672; --grid: #e3e5e8; --axis: #9aa2ac;
  --warn: #a33a12; --s0: #2f6fb3; --s1: #d9822b; --s2: #3b8f5a; --s3: #b8475f; --s4: #7a5fb5; --s5: #8a7a2c;
  --s6: #2a9aa3; --s7: #7d8590; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --soft: #a2abb6; --grid: #2b3138;
  --axis: #66707c; --warn: #f0916b; --s0: #6aa5e3; --s1: #eca659; --s2: #6cc08c; --s3: #e0809a; --s4: #ab95e0;
  --s5: #c4b25a; --s6: #5cc6cf; --s7: #98a1ad; } }
svg { font: 13px system-ui, sans-serif; }
text { fill: var(--ink); } text.small { fill: var(--soft); font-size: 12px; }
line.grid { stroke: var(--grid); } line.axis { stroke: var(--axis); }
line.spread { stroke: var(--ink); stroke-width: 1.5; opacity: .75; }
polyline { fill: none; stroke-width: 2; }
""" + "\n".join(
    f".s{number} {{ fill: var(--s{number}); }} .l{number} {{ stroke: var(--s{number}); }}" for number in range(8)
)
"""The colours of a chart, and what has them."""


def chart_file(charts: Sequence[Chart], *, title: str) -> str:
    """All charts below each other, each under its title."""
    parts, y, width = [], float(_MARGIN), 0.0
    for chart in charts:
        drawing = lay_out(chart)
        wide, high = drawing.width, drawing.height
        parts.append(f'<text x="{_MARGIN}" y="{y + 12:.0f}" class="title">{escape(chart.title)}</text>')
        place = f'<svg x="{_MARGIN}" y="{y + _TITLE:.0f}" width="{wide}" height="{high}" viewBox'
        parts.append(to_svg(drawing).replace("<svg viewBox", place, 1))
        y, width = y + _TITLE + high + _MARGIN, max(width, wide + 2 * _MARGIN)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" role="img" '
        f'aria-label="{escape(title)}">\n<style>{CHART_STYLE}\ntext.title {{ font-weight: 600; }}\n</style>'
    )
    paper = '<rect width="100%" height="100%" rx="6" style="fill: var(--paper)"/>'
    return "\n".join([head, paper, *parts, "</svg>"]) + "\n"


_PAGE_STYLE = """
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
figure { margin: 0; overflow-x: auto; } p { color: var(--soft); }
svg { display: block; width: 100%; min-width: 560px; height: auto; }
"""


def chart_page(charts: Sequence[Chart], *, title: str, facts: str = "") -> str:
    """All charts as a page that needs nothing else."""
    parts = [f"<h2>{escape(chart.title)}</h2>\n<figure>{to_svg(lay_out(chart))}</figure>" for chart in charts]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = f"<main>\n<h1>{escape(title)}</h1>\n<p>{escape(facts)}</p>\n" + "\n".join(parts) + "\n</main>"
    style = f"<style>{CHART_STYLE}{_PAGE_STYLE}</style>"
    return f'<!doctype html>\n<html lang="en">\n<head>{head}\n{style}</head>\n<body>\n{body}\n</body>\n</html>\n'
