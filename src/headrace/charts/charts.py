"""Charts: bars with their spread, points that may be joined, and histograms; laid out here, drawn by others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.charts.shapes import Curve, Dot, Drawing, Line, Rectangle, Shape, Words, to_svg
from headrace.charts.words import format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bar", "BarChart", "Chart", "Histogram", "Point", "PointChart", "draw", "lay_out"]

_WIDTH, _LABEL, _RIGHT = 860, 210, 150
_BAR, _GAP, _LEFT = 15, 9, 74
_PLOT_HEIGHT, _HISTOGRAM_HEIGHT, _BOTTOM = 360, 180, 52
_COLORS = 8
_LINE = 15  # between two labels


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: whose it is, how long, its spread, and which colour it has."""

    label: str
    value: float
    low: float
    high: float
    series: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BarChart:
    """Bars below each other; those of one label stand together, a colour for each series, named in a legend or not."""

    title: str
    unit: str
    bars: Sequence[Bar]
    has_legend: bool = True


@dataclass(frozen=True, slots=True)
class Point:
    """One point; points of one series have one colour, and may be joined."""

    x: float
    y: float
    label: str
    series: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PointChart:
    """Points in a plane, joined by series or not."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    is_joined: bool = False
    is_log_x: bool = False
    is_log_y: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How many things lie between one edge and the next; there is one edge more than counts.

    With ``is_log``, equal ways along the axis are equal ratios.
    """

    title: str
    x_label: str
    y_label: str
    edges: Sequence[float]
    counts: Sequence[int]
    is_log: bool = False


Chart: TypeAlias = BarChart | PointChart | Histogram


def lay_out(chart: Chart) -> Drawing:
    """What the chart looks like."""
    if isinstance(chart, BarChart):
        return _bars(chart)
    return _points(chart) if isinstance(chart, PointChart) else _histogram(chart)


def draw(chart: Chart) -> str:
    """The chart as an SVG element.

    Colours are those of the page (``--s0`` to ``--s7``, ``--ink``, ``--grid``), so that it is right in light and dark.
    """
    return to_svg(lay_out(chart))


def _series_of(names: Sequence[str]) -> dict[str, int]:
    return {name: number % _COLORS for number, name in enumerate(dict.fromkeys(names))}


def _drawing(title: str, height: float, shapes: Sequence[Shape]) -> Drawing:
    return Drawing(title, _WIDTH, round(height), shapes)


def _legend(series: dict[str, int]) -> tuple[list[Shape], float]:
    """What each colour means, in as many lines as it takes, and where they end; nothing for one colour."""
    parts: list[Shape] = []
    if len(series) < 2:
        return parts, 8.0
    x, y = float(_LEFT), 14.0
    for name, color in series.items():
        width = 34 + 6.6 * len(name)
        if x + width > _WIDTH and x > _LEFT:
            x, y = float(_LEFT), y + _LINE + 3
        parts.append(Rectangle(x, y - 9, 10, 10, color))
        parts.append(Words(x + 15, y, name, "small"))
        x += width
    return parts, y + 16


# Bars


def _bars(chart: BarChart) -> Drawing:
    series = _series_of([bar.series for bar in chart.bars])
    longest = max((bar.high for bar in chart.bars), default=0) or 1.0
    parts, top = _legend(series if chart.has_legend else {})
    y = top
    scale = (_WIDTH - _LABEL - _RIGHT) / longest
    last = None
    for bar in chart.bars:
        if bar.label != last:
            y += _GAP if last is not None else 0
            parts.append(Words(_LABEL - 10, y + _BAR - 3, bar.label, anchor="end"))
            last = bar.label
        parts += _one_bar(bar, chart.unit, y, scale, series[bar.series])
        y += _BAR + 2
    parts.append(Line(_LABEL, top - 4, _LABEL, y + 2, "axis"))
    return _drawing(chart.title, y + 10, parts)


def _one_bar(bar: Bar, unit: str, y: float, scale: float, color: int) -> list[Shape]:
    value = format_value(bar.value, unit)
    told = f"{bar.label}{', ' if bar.series else ''}{bar.series}: {value}"
    length, end = max(bar.value * scale, 1.0), max(bar.high, bar.value) * scale
    middle = y + _BAR / 2
    parts: list[Shape] = [Rectangle(_LABEL, y, length, _BAR, color, told)]
    if bar.high > bar.low:
        parts.append(Line(_LABEL + bar.low * scale, middle, _LABEL + bar.high * scale, middle, "spread"))
    return [*parts, Words(_LABEL + end + 6, y + _BAR - 3, value, "small")]


# Points


class _Axis:
    """Values of one direction to places on the page."""

    def __init__(
        self, values: Sequence[float], start: float, end: float, *, is_log: bool, is_tight: bool = False
    ) -> None:
        usable = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
        low, high = (min(usable), max(usable)) if usable else (1.0, 10.0)
        self._is_log, self._start, self._end = is_log, start, end
        if is_log:
            self.ticks = _log_ticks(low, high)
        else:
            self.ticks = _round_ticks(min(low, 0.0), high if high > min(low, 0.0) else low + 1.0)
        self._low, self._high = self._scaled(self.ticks[0]), self._scaled(self.ticks[-1])
        if is_tight and high > low:  # it ends where the values do, not at round numbers
            self._low, self._high = self._scaled(low), self._scaled(high)
            near = _log_ticks(low, high) if is_log else _round_ticks(low, high)
            self.ticks = [tick for tick in near if low <= tick <= high]

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._is_log else value

    def place(self, value: float) -> float:
        if self._is_log and value <= 0:
            return self._start
        share = (self._scaled(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def _round_ticks(low: float, high: float) -> list[float]:
    """About five round numbers that cover a range."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that cover a range; also twice and five times these where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [factor * 10.0**power for power in powers for factor in steps]
    first = max((tick for tick in ticks if tick <= low), default=ticks[0])
    last = min((tick for tick in ticks if tick >= high), default=ticks[-1])
    return [tick for tick in ticks if first <= tick <= max(last, first * 1.5)] if last > first else [first, first * 10]


def _short(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:.4g}"


def _points(chart: PointChart) -> Drawing:
    series = _series_of([point.series for point in chart.points])
    parts, top = _legend(series)
    left, right, bottom = float(_LEFT), _WIDTH - _RIGHT, top + _PLOT_HEIGHT
    across = _Axis([point.x for point in chart.points], left, right, is_log=chart.is_log_x)
    up = _Axis([point.y for point in chart.points], bottom, top, is_log=chart.is_log_y)
    for tick in up.ticks:
        parts.append(Line(left, up.place(tick), right, up.place(tick), "grid"))
        parts.append(Words(left - 8, up.place(tick) + 4, _short(tick), "small", "end"))
    parts += [Words(across.place(tick), bottom + 18, _short(tick), "small", "middle") for tick in across.ticks]
    parts.append(Line(left, bottom, right, bottom, "axis"))
    parts.append(Words((left + right) / 2, bottom + 40, chart.x_label, "small", "middle"))
    parts.append(Words(16, (top + bottom) / 2, chart.y_label, "small", "middle", is_turned=True))
    placed = [(point, across.place(point.x), up.place(point.y)) for point in chart.points]
    if chart.is_joined:
        parts += _joins(placed, series)
    parts += [_dot(point, x, y, series[point.series]) for point, x, y in placed]
    return _drawing(chart.title, bottom + _BOTTOM, [*parts, *_labels(placed)])


def _joins(placed: Sequence[tuple[Point, float, float]], series: dict[str, int]) -> list[Shape]:
    return [Curve([(x, y) for point, x, y in placed if point.series == name], color) for name, color in series.items()]


def _dot(point: Point, x: float, y: float, color: int) -> Dot:
    return Dot(x, y, color, f"{point.label or point.series}: {_short(point.x)}, {_short(point.y)}")


def _labels(placed: Sequence[tuple[Point, float, float]]) -> list[Words]:
    """Names beside points; one that would lie on another, or on a point, moves down."""
    parts: list[Words] = []
    taken = [(x - 6, x + 6, y + 4, 9.0) for _, x, y in placed]  # from, to, middle, and how close is too close
    for point, x, y in sorted(placed, key=lambda one: (one[2], one[1])):
        if not point.label:
            continue
        start, end, at = x + 9, x + 13 + 6.6 * len(point.label), y + 4
        while any(start < right and left < end and abs(at - line) < near for left, right, line, near in taken):
            at += _LINE / 5
        taken.append((start, end, at, _LINE))
        parts.append(Words(start, at, point.label, "small"))
    return parts


# Histograms


def _histogram(chart: Histogram) -> Drawing:
    left, right, top, bottom = float(_LEFT), float(_WIDTH - 40), 8.0, 8.0 + _HISTOGRAM_HEIGHT
    across = _Axis(chart.edges, left, right, is_log=chart.is_log, is_tight=True)
    up = _Axis([0, *chart.counts], bottom, top, is_log=False)
    parts: list[Shape] = []
    for tick in up.ticks:
        if tick != round(tick):  # nothing is counted in parts
            continue
        parts.append(Line(left, up.place(tick), right, up.place(tick), "grid"))
        parts.append(Words(left - 8, up.place(tick) + 4, _short(tick), "small", "end"))
    for low, high, count in zip(chart.edges, chart.edges[1:], chart.counts, strict=False):
        x, end, y = across.place(low), across.place(high), up.place(count)
        told = f"{_short(low)} to {_short(high)}: {count:,}"
        if count:
            parts.append(Rectangle(x + 0.5, y, max(end - x - 1, 1.0), bottom - y, 0, told))
    parts += [Words(across.place(tick), bottom + 18, _short(tick), "small", "middle") for tick in across.ticks]
    parts.append(Line(left, bottom, right, bottom, "axis"))
    parts.append(Words((left + right) / 2, bottom + 40, chart.x_label, "small", "middle"))
    parts.append(Words(16, (top + bottom) / 2, chart.y_label, "small", "middle", is_turned=True))
    return _drawing(chart.title, bottom + _BOTTOM, parts)
