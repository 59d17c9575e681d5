"""Charts that need no other package: bars, points and histograms, as SVG, HTML and PNG."""

from headrace.charts.charts import Bar, BarChart, Chart, Histogram, Point, PointChart, draw
from headrace.charts.files import CHART_STYLE, chart_file, chart_page
from headrace.charts.png import chart_png
from headrace.charts.words import format_value

__all__ = [
    "CHART_STYLE",
    "Bar",
    "BarChart",
    "Chart",
    "Histogram",
    "Point",
    "PointChart",
    "chart_file",
    "chart_page",
    "chart_png",
    "draw",
    "format_value",
]
